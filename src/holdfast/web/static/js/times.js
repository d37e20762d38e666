// Times relative to now, in the user's zone; the exact time is in the title. They are kept current.
const DAY_AND_TIME = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const DATE = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const STEPS = [[86400, "d"], [3600, "h"], [60, "m"], [1, "s"]];

// Based on the server's clock: a laptop that is a minute late must not show jobs that start in the future.
const skew = { ms: 0 };

export function writeTimes(root) {
  for (const time of root.querySelectorAll("time[data-time]")) write(time);
}

export function keepTimes() {
  const served = Date.parse(document.body.dataset.now ?? "");
  if (!Number.isNaN(served)) skew.ms = served - Date.now();
  setInterval(() => {
    if (!document.hidden) writeTimes(document);
  }, 1000);
}

function write(time) {
  const at = new Date(time.dateTime);
  if (Number.isNaN(at.getTime())) return;
  if (time.dataset.exact !== time.dateTime) {
    time.title = `${DAY_AND_TIME.format(at)} · ${time.dateTime}`;
    time.dataset.exact = time.dateTime;
  }
  const text = say(at, time.dataset.time);
  if (time.textContent !== text) time.textContent = text;
}

function say(at, style) {
  if (style === "clock") return CLOCK.format(at);
  if (style === "date") return DATE.format(at);
  if (style === "full") return DAY_AND_TIME.format(at);
  const seconds = (at.getTime() - Date.now() - skew.ms) / 1000;
  return style === "since" ? length(Math.max(0, -seconds)) : ago(seconds);
}

function ago(seconds) {
  if (Math.abs(seconds) < 1) return "now";
  const [size, unit] = STEPS.find(([size]) => Math.abs(seconds) >= size);
  const text = `${Math.floor(Math.abs(seconds) / size)} ${unit}`;
  return seconds < 0 ? `${text} ago` : `in ${text}`;
}

export function length(seconds) {
  const whole = Math.floor(seconds);
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return pair(whole, 60, "m", 1, "s");
  if (whole < 86400) return pair(whole, 3600, "h", 60, "m");
  return pair(whole, 86400, "d", 3600, "h");
}

function pair(seconds, size, unit, below, small) {
  const rest = Math.floor((seconds % size) / below);
  return `${Math.floor(seconds / size)} ${unit}${rest ? ` ${rest} ${small}` : ""}`;
}
