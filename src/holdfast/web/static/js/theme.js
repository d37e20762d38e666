// The theme: system, light or dark; stored in this browser.
const KEY = "holdfast-theme";

export function watchTheme() {
  show();
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-theme-set]");
    if (button) choose(button.dataset.themeSet);
  });
  // Another tab may have changed it.
  window.addEventListener("storage", (event) => {
    if (event.key === KEY) apply(event.newValue);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", tell);
}

function choose(theme) {
  try {
    if (theme === "system") localStorage.removeItem(KEY);
    else localStorage.setItem(KEY, theme);
  } catch {
    // Without storage it applies to this page only.
  }
  apply(theme);
}

function apply(theme) {
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  show();
  tell();
}

function show() {
  const now = document.documentElement.dataset.theme ?? "system";
  for (const button of document.querySelectorAll("[data-theme-set]")) {
    button.setAttribute("aria-pressed", String(button.dataset.themeSet === now));
  }
}

// Charts draw on a canvas, which ignores style sheets.
function tell() {
  document.dispatchEvent(new Event("holdfast:theme"));
}
