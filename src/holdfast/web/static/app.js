// Starts the scripts of a page. Each works on the current document, and again on content that is loaded later.
import { mountCharts } from "./js/charts.js";
import { watchConfirms } from "./js/confirm.js";
import { watchCopies } from "./js/copy.js";
import { fillForms } from "./js/field.js";
import { watchKeys } from "./js/keys.js";
import { followPage } from "./js/live.js";
import { watchMenus } from "./js/menus.js";
import { watchSelections } from "./js/selection.js";
import { watchTheme } from "./js/theme.js";
import { keepTimes, writeTimes } from "./js/times.js";
import { settleToasts } from "./js/toast.js";

function mount(root) {
  writeTimes(root);
  mountCharts(root);
  watchSelections(root);
}

watchTheme();
watchMenus();
watchCopies();
fillForms();
watchConfirms();
watchKeys();
keepTimes();
settleToasts();
mount(document);
followPage(mount);
