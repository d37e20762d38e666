// The key of a chart: its series by colour and name, the value under the pointer or the newest one. A click hides a series.
import { writer } from "./units.js";

export function legend(box, chart, data) {
  const write = writer(data.unit);
  const keys = data.series.map((series, i) => key(series, i, chart));
  box.replaceChildren(...keys.map(({ button }) => button));
  const shown = { data };

  function at(index) {
    keys.forEach(({ value }, i) => {
      const values = shown.data.series[i].values;
      const figure = values[index ?? values.length - 1];
      value.textContent = figure === null || figure === undefined ? "–" : write(figure);
    });
  }

  function renew(newer) {
    shown.data = newer;
    at(chart.cursor.idx);
  }

  at(null);
  return { at, renew };
}

function key(series, i, chart) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = `chart-key ${series.tone ? `is-${series.tone}` : `series-${(i % 6) + 1}`}`;
  button.setAttribute("aria-pressed", "true");
  const name = document.createElement("span");
  name.textContent = series.label;
  const value = Object.assign(document.createElement("span"), { className: "chart-value" });
  button.append(swatch(chart.series[i + 1].dash), name, value);
  button.addEventListener("click", () => {
    const show = !chart.series[i + 1].show;
    chart.setSeries(i + 1, { show });
    button.setAttribute("aria-pressed", String(show));
  });
  return { button, value };
}

// A sample of the line: its dashes distinguish it where its colour does not.
function swatch(dash) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 14 8");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("d", "M0 4h14");
  line.setAttribute("stroke", "currentColor");
  line.setAttribute("stroke-width", "2.5");
  if (dash) line.setAttribute("stroke-dasharray", dash.map((part) => part / 1.5).join(" "));
  svg.append(line);
  return svg;
}
