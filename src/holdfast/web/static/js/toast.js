// Short messages in a corner, read out by screen readers. They disappear after a while, but not under the pointer.
const STAY = 6000;

export function toast(text, tone = "info") {
  const box = document.createElement("div");
  box.className = `toast is-${tone}`;
  const words = document.createElement("span");
  words.className = "toast-text";
  words.textContent = text;
  box.append(words);
  document.querySelector("[data-toasts]")?.append(box);
  settle(box);
}

export function settleToasts() {
  for (const box of document.querySelectorAll("[data-toasts] > .toast")) settle(box);
}

function settle(box) {
  box.append(closer(box));
  // Errors stay until they are dismissed.
  if (box.classList.contains("is-bad")) return;
  let timer = setTimeout(() => box.remove(), STAY);
  box.addEventListener("pointerenter", () => clearTimeout(timer));
  box.addEventListener("pointerleave", () => (timer = setTimeout(() => box.remove(), STAY)));
}

function closer(box) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "link";
  button.textContent = "Close";
  button.addEventListener("click", () => box.remove());
  return button;
}
