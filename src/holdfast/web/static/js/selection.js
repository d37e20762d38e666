// Selecting rows: one by one, a range with Shift, the page, or all that match the filter.

export function watchSelections(root) {
  for (const form of root.querySelectorAll("[data-bulk]")) {
    if (form.dataset.mounted === undefined) mount(form);
    show(form);
  }
  const around = root.closest?.("[data-bulk]");
  if (around) show(around);
}

function mount(form) {
  form.dataset.mounted = "";
  let last = null;
  form.addEventListener("click", (event) => {
    const box = event.target.closest("[data-pick]");
    if (!box) return;
    if (event.shiftKey && last?.isConnected) range(form, last, box);
    last = box;
  });
  form.addEventListener("change", (event) => {
    if (event.target.matches("[data-pick-all]")) tick(form, event.target.checked);
    if (event.target.matches("[data-pick], [data-pick-all]")) choose(form, "chosen");
  });
  form.querySelector("[data-bulk-all]").addEventListener("click", () => {
    tick(form, true);
    choose(form, "matching");
  });
  form.querySelector("[data-bulk-none]").addEventListener("click", () => clear(form));
  // A browser restores checked boxes after "back".
  window.addEventListener("pageshow", () => show(form));
}

export function clear(form) {
  tick(form, false);
  choose(form, "chosen");
}

// The count as text: "3", or "~12 400".
export function chosen(form) {
  return form.elements.scope.value === "matching" ? matching(form) : String(picks(form).filter((box) => box.checked).length);
}

function matching(form) {
  const { total, about } = form.dataset;
  if (total === undefined) return "all";
  return (about === undefined ? "" : "~") + Number(total).toLocaleString("en").replaceAll(",", "\u202f");
}

function choose(form, scope) {
  form.elements.scope.value = scope;
  show(form);
}

function tick(form, on) {
  for (const box of picks(form)) box.checked = on;
}

function range(form, from, to) {
  const boxes = picks(form);
  const [first, last] = [boxes.indexOf(from), boxes.indexOf(to)].sort((a, b) => a - b);
  for (const box of boxes.slice(first, last + 1)) box.checked = to.checked;
}

function picks(form) {
  return [...form.querySelectorAll("[data-pick]")];
}

function show(form) {
  const boxes = picks(form);
  const some = boxes.filter((box) => box.checked).length;
  const all = form.elements.scope.value === "matching";
  for (const box of boxes) box.closest("tr")?.toggleAttribute("data-chosen", box.checked);
  const top = form.querySelector("[data-pick-all]");
  if (top) [top.checked, top.indeterminate] = [some > 0 && some === boxes.length, some > 0 && some < boxes.length];
  tell(form, some, all, boxes.length);
}

function tell(form, some, all, here) {
  const { total, noun } = form.dataset;
  const number = total === undefined ? "all" : `all ${matching(form)}`;
  const count = form.querySelector("[data-bulk-count]");
  const text = all ? `${number} matching ${noun} selected` : `${some} selected`;
  if (count.textContent !== text) count.textContent = text;
  const every = form.querySelector("[data-bulk-all]");
  every.hidden = all || some === 0 || some < here || (total !== undefined && Number(total) <= here);
  every.textContent = `Select ${number} matching`;
  form.querySelector("[data-bulk-none]").hidden = some === 0;
  for (const act of form.querySelectorAll("[data-bulk-act]")) act.disabled = some === 0;
  form.querySelector(".toolbar").toggleAttribute("data-some", some > 0);
  // Rows that move under the pointer cannot be selected: while rows are selected, the list is not updated.
  const table = form.querySelector(".table-wrap");
  const was = table?.hasAttribute("data-live-keep");
  table?.toggleAttribute("data-live-keep", some > 0);
  if (was && some === 0) table.dispatchEvent(new CustomEvent("holdfast:let-go", { bubbles: true }));
}
