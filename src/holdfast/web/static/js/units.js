// Formats the figures of a chart by their unit.
import { length } from "./times.js";

const THIN = "\u202f";

export function writer(unit, named = true) {
  const known = { duration, share, bytes }[unit];
  return known ?? ((value) => plain(value) + (unit && named ? `${THIN}${unit}` : ""));
}

// Round steps on the axis: of ten for numbers, of sixty for times, of 1024 for sizes.
export function steps(unit) {
  if (unit === "duration") return [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7, 1.5e7, 3e7, 6e7, 1.2e8, 3e8, 6e8, 1.8e9, 3.6e9, 7.2e9, 2.16e10, 4.32e10, 8.64e10, 1.728e11, 4.32e11, 8.64e11];
  if (unit === "bytes") return Array.from({ length: 45 }, (_, power) => 2 ** power);
  return undefined;
}

function plain(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return `${trim(value / 1e9)}G`;
  if (size >= 1e6) return `${trim(value / 1e6)}M`;
  if (size >= 1e4) return `${trim(value / 1e3)}k`;
  return trim(value);
}

function duration(micros) {
  if (micros === 0) return "0";
  if (micros < 1e3) return `${trim(micros)} µs`;
  if (micros < 1e6) return `${trim(micros / 1e3)} ms`;
  if (micros < 6e7) return `${trim(micros / 1e6)} s`;
  return length(micros / 1e6);
}

function share(value) {
  return `${trim(value * 100)} %`;
}

function bytes(value) {
  const names = ["B", "KiB", "MiB", "GiB", "TiB"];
  const power = value > 0 ? Math.min(Math.floor(Math.log2(value) / 10), names.length - 1) : 0;
  return `${trim(value / 1024 ** power)} ${names[Math.max(power, 0)]}`;
}

function trim(value) {
  return String(Number(Math.abs(value) >= 100 ? value.toFixed(0) : value.toPrecision(3)));
}
