// One connection for the whole page. It is closed while the page is hidden, and reconnects with growing delays.
import { become } from "./morph.js";

const FIRST_WAIT = 1000;
const LONGEST_WAIT = 30000;
const WORDS = { on: "Live", wait: "Connecting", off: "Disconnected", none: "" };

const line = { source: null, wait: FIRST_WAIT, timer: 0, brief: false, mount: () => {} };
const newest = new Map();

export function followPage(mount) {
  line.mount = mount;
  if (!document.body.dataset.live || !document.querySelector("[data-live-id]")) return;
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  // A page kept for "back" must not hold a connection.
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => event.persisted && open());
  // Updates held back while the user was editing; only changes are sent, so they would not come again.
  document.addEventListener("holdfast:let-go", (event) => {
    const id = event.target.closest("[data-live-id]")?.dataset.liveId;
    if (newest.has(id)) receive({ id, html: newest.get(id) });
  });
  if (!document.hidden) open();
}

function open() {
  clearTimeout(line.timer);
  if (line.source) return;
  if (!line.brief) show("wait");
  const source = new EventSource(document.body.dataset.live);
  line.source = source;
  source.addEventListener("open", () => {
    line.wait = FIRST_WAIT;
    show("on");
  });
  source.addEventListener("part", (event) => receive(JSON.parse(event.data)));
  // The server cannot hold connections open: it sends what is new and says when to ask again.
  source.addEventListener("later", (event) => {
    line.brief = true;
    close();
    if (!document.hidden) line.timer = setTimeout(open, Number(event.data));
  });
  source.addEventListener("error", again);
}

function again() {
  line.brief = false;
  close();
  show("off");
  if (document.hidden) return;
  // With jitter, so that all pages do not reconnect to a restarted server at once.
  line.timer = setTimeout(open, line.wait * (0.75 + Math.random() / 2));
  line.wait = Math.min(line.wait * 2, LONGEST_WAIT);
}

function close() {
  clearTimeout(line.timer);
  line.source?.close();
  line.source = null;
}

function receive({ id, html }) {
  newest.set(id, html);
  for (const element of document.querySelectorAll(`[data-live-id="${CSS.escape(id)}"]`)) {
    become(element, html);
    line.mount(element);
    element.dispatchEvent(new CustomEvent("holdfast:live", { bubbles: true }));
  }
}

function show(state) {
  const pulse = document.querySelector("[data-pulse]");
  if (!pulse) return;
  pulse.hidden = false;
  if (pulse.dataset.state === state) return;
  pulse.dataset.state = state;
  pulse.title = WORDS[state];
  pulse.querySelector(".pulse-text").textContent = WORDS[state];
}
