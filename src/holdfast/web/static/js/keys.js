// Keyboard shortcuts: g and a letter opens a page, / searches, ? shows help, j and k move between rows, x selects, Enter opens.
import { clear } from "./selection.js";

const PATIENCE = 1200;
const prefix = { at: -Infinity };

export function watchKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return leave(event);
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const act = event.timeStamp - prefix.at < PATIENCE ? gone(event.key) : ACTS[event.key];
    prefix.at = -Infinity;
    if (act?.(event) !== undefined) event.preventDefault();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-keys-help]")) help();
    if (event.target.closest("[data-back]")) history.back();
  });
}

// An action returns a value if it did something.
const ACTS = {
  g: (event) => (prefix.at = event.timeStamp),
  "/": () => focus(document.querySelector("[data-search]") ?? document.querySelector("[data-find]")),
  "?": help,
  j: () => walk(1),
  k: () => walk(-1),
  x: () => here()?.querySelector("[data-pick]")?.click() ?? null,
  Enter: (event) => (isControl(event.target) ? undefined : openRow(here())),
};

function gone(key) {
  const link = document.querySelector(`[data-go="${CSS.escape(key)}"]`);
  return link ? () => location.assign(link.href) ?? true : undefined;
}

function help() {
  document.getElementById("keys")?.showModal();
  return true;
}

function focus(field) {
  field?.focus();
  field?.select();
  return field;
}

function rows() {
  return [...document.querySelectorAll("[data-rows] tbody > tr")];
}

function here() {
  return document.querySelector("[data-rows] tbody > tr.at");
}

function walk(step) {
  const all = rows();
  if (!all.length) return undefined;
  const at = all.indexOf(here());
  const next = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1)];
  here()?.classList.remove("at");
  next.classList.add("at");
  next.scrollIntoView({ block: "nearest" });
  // Screen readers follow the focus, not our highlight.
  next.tabIndex = -1;
  next.focus({ preventScroll: true });
  return true;
}

function openRow(row) {
  const to = row?.dataset.href ?? row?.querySelector("a[href]")?.href;
  return to ? (location.assign(to), true) : undefined;
}

function leave(event) {
  if (document.querySelector("dialog[open]")) return;
  const menu = document.querySelector("details[data-menu][open]");
  if (menu) {
    menu.open = false;
    menu.querySelector("summary").focus();
  } else if (isTyping(event.target)) event.target.blur();
  else document.querySelectorAll("[data-bulk]").forEach(clear);
}

function isTyping(target) {
  return target.matches?.("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable]");
}

function isControl(target) {
  return target.matches?.("a, button, summary, input, select, textarea");
}
