// Follows a job's output: frames are appended as text. Closed while the page is hidden, then resumed.
const MOST = 5000;
const WORDS = { wait: "Connecting", on: "Live", off: "Reconnecting", end: "Ended" };

const box = document.querySelector("[data-stream]");
const line = { source: null, brief: false, cursor: box?.dataset.cursor ?? "" };

if (box && box.dataset.closed === undefined) {
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  if (!document.hidden) open();
} else if (box) {
  tell("end");
}

function open() {
  if (line.source || box.dataset.closed !== undefined) return;
  tell("wait");
  const address = new URL(box.dataset.stream, location.href);
  if (line.cursor) address.searchParams.set("after", line.cursor);
  const source = new EventSource(address);
  line.source = source;
  source.addEventListener("open", () => tell("on"));
  source.addEventListener("frame", (event) => add(JSON.parse(event.data)));
  source.addEventListener("end", end);
  source.addEventListener("later", () => (line.brief = true));
  source.addEventListener("error", () => {
    tell(source.readyState === EventSource.CLOSED ? "end" : line.brief ? "on" : "off");
    line.brief = false;
  });
}

function close() {
  line.source?.close();
  line.source = null;
}

function end() {
  box.dataset.closed = "";
  close();
  tell("end");
}

function add(frame) {
  line.cursor = frame.cursor;
  const text = box.querySelector("[data-stream-text]");
  const piece = document.createElement("span");
  piece.className = frame.control ? "stream-control" : `stream-${["stderr", "log"].includes(frame.kind) ? frame.kind : "out"}`;
  piece.textContent = words(frame);
  text.append(piece);
  while (text.childElementCount > MOST) text.firstElementChild.remove();
  box.querySelector("[data-stream-none]").hidden = true;
  if (box.querySelector("[data-stream-follow]").checked) text.scrollTop = text.scrollHeight;
}

function words(frame) {
  if (frame.control) return frame.kind === "superseded" ? "\n— a new attempt started; the output above is superseded —\n" : "\n— some output was lost —\n";
  if (frame.base64 !== undefined) return `[${Math.floor((frame.base64.length * 3) / 4)} bytes]`;
  return typeof frame.data === "string" ? frame.data : `${JSON.stringify(frame.data)}\n`;
}

function tell(state) {
  const shown = box.querySelector("[data-stream-state]");
  shown.dataset.state = state;
  shown.textContent = WORDS[state];
}
