// Menus are <details>. One is open at a time, and a click outside closes it.
export function watchMenus() {
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details[data-menu][open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
}
