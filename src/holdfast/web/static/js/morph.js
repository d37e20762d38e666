// Updates an element to match given HTML by changing only the differences. The user's state is kept: the focus,
// an open <details>, a checked box, a half-written field, a scrolled table.

export function become(element, html) {
  const focused = document.activeElement;
  const template = document.createElement("template");
  template.innerHTML = html;
  // Some servers' parts are the element itself, others its content.
  const only = template.content.children.length === 1 ? template.content.firstElementChild : null;
  const isSelf = only?.dataset?.liveId !== undefined && only.dataset.liveId === element.dataset.liveId;
  mergeChildren(element, isSelf ? only : template.content);
  // A moved row has lost the focus.
  if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
}

function mergeChildren(now, wanted) {
  const kept = keyed(now);
  dropGone(kept, keyed(wanted));
  let at = now.firstChild;
  for (const node of [...wanted.childNodes]) {
    const match = find(kept, at, node);
    if (match === null) {
      now.insertBefore(node, at);
      mark(node);
    } else {
      if (match === at) at = at.nextSibling;
      else now.insertBefore(match, at);
      merge(match, node);
    }
  }
  while (at) {
    const next = at.nextSibling;
    if (!isHeld(at)) at.remove();
    at = next;
  }
}

// Removed first, so that the other nodes need not move.
function dropGone(kept, wanted) {
  for (const [key, child] of kept) {
    if (wanted.has(key) || isHeld(child)) continue;
    child.remove();
    kept.delete(key);
  }
}

function find(kept, at, node) {
  const key = keyOf(node);
  if (key !== null) return kept.get(key) ?? null;
  return at && alike(at, node) ? at : null;
}

function keyed(element) {
  const found = new Map();
  for (const child of element.children) {
    const key = keyOf(child);
    if (key !== null) found.set(key, child);
  }
  return found;
}

function keyOf(node) {
  if (node.nodeType !== Node.ELEMENT_NODE) return null;
  return node.dataset?.key ?? node.dataset?.liveId ?? (node.id || null);
}

function alike(one, other) {
  return one.nodeType === other.nodeType && one.nodeName === other.nodeName && keyOf(one) === null;
}

function merge(now, wanted) {
  if (now.nodeType !== Node.ELEMENT_NODE) {
    if (now.nodeValue !== wanted.nodeValue) now.nodeValue = wanted.nodeValue;
    return;
  }
  if (now.hasAttribute("data-live-keep") || now === document.activeElement && "value" in now && now.type !== "submit") return;
  // The script keeps the text current while the time is the same.
  if (now.nodeName === "TIME" && now.dateTime === wanted.dateTime) return;
  mergeAttributes(now, wanted);
  if (now.classList.contains("chart")) return;
  mergeChildren(now, wanted);
}

// Set by the user or by our scripts, not by the server.
const OURS = new Set(["open", "tabindex", "data-chosen", "data-mounted", "data-exact", "data-some", "data-done"]);

function mergeAttributes(now, wanted) {
  if (now.classList.contains("at")) wanted.classList.add("at");
  for (const { name } of [...now.attributes]) {
    if (!wanted.hasAttribute(name) && !OURS.has(name)) now.removeAttribute(name);
  }
  for (const { name, value } of wanted.attributes) {
    if (!OURS.has(name) && now.getAttribute(name) !== value) now.setAttribute(name, value);
  }
}

function isHeld(node) {
  return node.contains?.(document.activeElement) && document.activeElement?.matches("input:not([type=checkbox]), textarea, select");
}

function mark(node) {
  if (node.nodeName === "TR") node.classList.add("fresh");
}
