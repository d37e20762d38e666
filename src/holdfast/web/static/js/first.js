// Runs before anything is drawn: sets the theme, and the only policy by which HTML may enter the page.
"use strict";

document.documentElement.dataset.script = "";

try {
  const theme = localStorage.getItem("holdfast-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Without storage the system's theme is used.
}

// HTML comes from our own server, escaped there, and scripts in it do not run; code created from text is rejected.
if (window.trustedTypes) {
  const refuse = (kind) => () => {
    throw new TypeError(`${kind} created from text is rejected`);
  };
  window.trustedTypes.createPolicy("default", {
    createHTML: (html) => html,
    createScript: refuse("script"),
    createScriptURL: refuse("a script URL"),
  });
}
