// Saved searches for jobs, stored in this browser, under Views.
const KEY = "holdfast-views";
const MOST = 50;

const box = document.querySelector("[data-views]");
if (box) {
  draw();
  box.querySelector("[data-views-save]").addEventListener("submit", (event) => {
    event.preventDefault();
    save(event.target);
  });
  // Another tab may have saved one.
  window.addEventListener("storage", (event) => event.key === KEY && draw());
}

function save(form) {
  const name = form.elements.name.value.trim();
  const line = document.querySelector("[data-views-line]").value.trim();
  if (!name) return;
  keep([{ name, line }, ...views().filter((view) => view.name !== name)].slice(0, MOST));
  form.reset();
  draw();
}

function draw() {
  const list = box.querySelector("[data-views-list]");
  const found = views();
  list.replaceChildren(...(found.length ? found.map(entry) : [note("None yet: run a search, then save it here.")]));
}

function entry(view) {
  const row = make("div", "views-row");
  const link = make("a", "popup-item", view.name);
  link.href = `${box.dataset.views}?${new URLSearchParams({ q: view.line })}`;
  link.title = view.line || "all jobs";
  const drop = make("button", "link", "Remove");
  drop.type = "button";
  drop.setAttribute("aria-label", `Remove the view ${view.name}`);
  drop.addEventListener("click", () => {
    keep(views().filter((one) => one.name !== view.name));
    draw();
  });
  row.append(link, drop);
  return row;
}

function note(text) {
  return make("p", "popup-note", text);
}

function make(name, className, text = "") {
  return Object.assign(document.createElement(name), { className, textContent: text });
}

function views() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found) ? found.filter((view) => typeof view?.name === "string" && typeof view?.line === "string") : [];
  } catch {
    return [];
  }
}

function keep(found) {
  try {
    localStorage.setItem(KEY, JSON.stringify(found));
  } catch {
    // Without storage there are no saved views.
  }
}
