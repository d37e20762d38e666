// Charts over time. The data is in data-chart; the colours come from the style sheets.
import { legend } from "./legend.js";
import { steps, writer } from "./units.js";

const charts = new Map();

export function mountCharts(root) {
  const figures = root.matches?.(".chart") ? [root] : root.querySelectorAll(".chart");
  for (const figure of figures) refresh(figure);
  for (const figure of charts.keys()) if (!figure.isConnected) drop(figure);
}

document.addEventListener("holdfast:theme", () => {
  for (const figure of [...charts.keys()]) {
    drop(figure);
    refresh(figure);
  }
});

async function refresh(figure) {
  const text = figure.dataset.source && !figure.dataset.chart ? await fetched(figure.dataset.source) : figure.dataset.chart;
  const known = charts.get(figure);
  if (!text || known?.text === text) return;
  const data = JSON.parse(text);
  const shape = JSON.stringify([data.unit, data.kind, data.series.map((series) => [series.label, series.tone])]);
  if (known && known.shape === shape && data.x.length > 1) {
    known.text = text;
    known.plot.setData(columns(data));
    known.legend.renew(data);
  } else {
    drop(figure);
    draw(figure, data, text, shape);
  }
}

async function fetched(address) {
  const answer = await fetch(address, { headers: { accept: "application/json" } });
  return answer.ok ? answer.text() : "";
}

function drop(figure) {
  const known = charts.get(figure);
  known?.resized.disconnect();
  known?.plot.destroy();
  charts.delete(figure);
}

function draw(figure, data, text, shape) {
  const plot = figure.querySelector(".chart-plot");
  plot.replaceChildren();
  if (data.x.length < 2) {
    plot.append(Object.assign(document.createElement("p"), { className: "chart-none", textContent: figure.dataset.empty }));
    return;
  }
  const chart = new uPlot(options(figure, plot, data), columns(data), plot);
  const resized = new ResizeObserver(() => chart.setSize(sizeOf(plot)));
  resized.observe(plot);
  const keys = legend(figure.querySelector(".chart-legend"), chart, data);
  chart.hooks.setCursor = [() => keys.at(chart.cursor.idx)];
  charts.set(figure, { plot: chart, legend: keys, resized, text, shape });
}

function options(figure, plot, data) {
  const style = getComputedStyle(figure);
  const axis = { stroke: style.getPropertyValue("--faint"), font: `11px ${style.fontFamily}`, ticks: { show: false } };
  const grid = { stroke: style.getPropertyValue("--chart-grid"), width: 1 };
  const write = writer(data.unit, false);
  return {
    ...sizeOf(plot),
    // Half of the last time fits on the right.
    padding: [6, 18, 0, 0],
    legend: { show: false },
    cursor: { drag: { x: Boolean(data.window), y: false, setScale: false }, points: { size: 6 }, y: false },
    scales: { x: { range: (_, first, last) => around(data, first, last) }, y: { range: (_, low, high) => [Math.min(0, low ?? 0), high > 0 ? high * 1.08 : 1] } },
    axes: [
      { ...axis, grid: { show: false }, size: 20, gap: 4, space: 70, values: times },
      { ...axis, grid, size: room, gap: 6, space: 32, incrs: steps(data.unit), values: (_, splits) => splits.map(write) },
    ],
    series: [{}, ...data.series.map((series, i) => line(figure, series, i, data.kind))],
    bands: data.kind === "stack" ? data.series.slice(1).map((_, i) => ({ series: [i + 2, i + 1] })) : [],
    hooks: { setSelect: [chooseWindow] },
  };
}

function line(figure, series, i, kind) {
  const colour = colourOf(figure, series.tone ? `is-${series.tone}` : `series-${(i % 6) + 1}`);
  const isBars = kind === "bars";
  const fill = kind === "line" || !kind ? undefined : colour + (isBars ? "" : kind === "stack" ? "66" : "22");
  return {
    label: series.label,
    stroke: colour,
    width: isBars ? 0 : 1.5,
    fill,
    dash: !isBars && kind !== "stack" && i > 0 ? [[6, 3], [2, 3], [8, 3, 2, 3]][(i - 1) % 3] : undefined,
    points: { show: false },
    paths: isBars ? uPlot.paths.bars({ size: [0.7, 24], radius: 0.15 }) : undefined,
  };
}

// As wide as the longest label.
function room(_, labels) {
  return 12 + 6.5 * Math.max(1, ...(labels ?? []).map((label) => label.length));
}

// Half a bar extends beyond each side.
function around(data, first, last) {
  const half = data.kind === "bars" ? (data.x[1] - data.x[0]) / 2 : 0;
  return [first - half, last + half];
}

// The same class that colours a badge colours its line.
function colourOf(figure, name) {
  const probe = figure.appendChild(Object.assign(document.createElement("i"), { className: name }));
  const colour = getComputedStyle(probe).getPropertyValue("--c").trim();
  probe.remove();
  return colour;
}

// Stacked series are drawn on top of each other; the labels show the original values.
function columns(data) {
  if (data.kind !== "stack") return [data.x, ...data.series.map((series) => series.values)];
  const sums = data.x.map(() => 0);
  return [data.x, ...data.series.map((series) => series.values.map((value, i) => (sums[i] += value ?? 0)))];
}

function sizeOf(plot) {
  return { width: Math.max(plot.clientWidth, 80), height: Math.max(plot.clientHeight, 60) };
}

const MINUTE = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
const SECOND = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const DAY = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

function times(_, splits, __, ___, step) {
  const format = step >= 86400 ? DAY : step >= 60 ? MINUTE : SECOND;
  return splits.map((at) => format.format(at * 1000));
}

// The selected window goes into the URL, where it can be shared and undone with "back".
function chooseWindow(chart) {
  if (chart.select.width < 8) return;
  const at = (pixels) => String(Math.round(chart.posToVal(pixels, "x") * 1e6));
  const address = new URL(location.href);
  address.searchParams.set("from", at(chart.select.left));
  address.searchParams.set("to", at(chart.select.left + chart.select.width));
  address.searchParams.delete("cursor");
  location.assign(address);
}
