// Runs before anything is drawn: the reader's theme, and the one policy under which HTML may enter the page.
"use strict";

document.documentElement.dataset.script = "";

try {
  const theme = localStorage.getItem("holdfast-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // A browser that keeps nothing for us follows the system.
}

// HTML comes from our own server, escaped there, and scripts in it do not run; code made from text is refused.
if (window.trustedTypes) {
  const refuse = (kind) => () => {
    throw new TypeError(`${kind} made from text is refused`);
  };
  window.trustedTypes.createPolicy("default", {
    createHTML: (html) => html,
    createScript: refuse("script"),
    createScriptURL: refuse("the address of a script"),
  });
}
