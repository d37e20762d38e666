// Asks for confirmation before a form acts, with a reason if needed. Without this script the server shows a confirmation
// page, but only for actions that are hard to undo.
import { chosen } from "./selection.js";

export function watchConfirms() {
  document.addEventListener("submit", ask, { capture: true });
}

function ask(event) {
  const form = event.target;
  const submitter = event.submitter;
  const asker = [submitter, form].find((element) => element?.dataset.confirm !== undefined);
  const dialog = document.getElementById("confirm");
  if (!asker || !dialog) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  fill(dialog, asker.dataset, "bulk" in form.dataset ? chosen(form) : "");
  const meant = copy(form, submitter);
  // The close event of an earlier question may still be queued; the dialog is open again when it arrives.
  dialog.onclose = () => !dialog.open && dialog.returnValue === "yes" && go(meant, dialog);
  dialog.returnValue = "no";
  dialog.showModal();
}

// A copy of the form is sent: the page and its forms may change while the dialog is open.
function copy(form, submitter) {
  const meant = document.createElement("form");
  meant.method = form.method;
  meant.action = submitter?.getAttribute("formaction") ?? form.getAttribute("action");
  meant.hidden = true;
  for (const [name, value] of new FormData(form, submitter)) hidden(meant, name, value);
  return meant;
}

function fill(dialog, asked, count) {
  const counted = (text) => (text ?? "").replaceAll("{n}", count);
  const into = (name) => dialog.querySelector(`[data-confirm-into="${name}"]`);
  dialog.querySelector("h2").textContent = counted(asked.confirm);
  into("text").textContent = counted(asked.confirmText);
  into("text").hidden = !asked.confirmText;
  const area = into("reason").querySelector("textarea");
  area.value = "";
  area.required = asked.confirmReason === "required";
  into("reason").hidden = !asked.confirmReason;
  const button = into("go");
  button.textContent = asked.confirmGo || "Continue";
  button.className = `button ${asked.confirmDanger === undefined ? "button-main" : "button-danger"}`;
}

function go(meant, dialog) {
  const area = dialog.querySelector("textarea");
  hidden(meant, "confirmed", "yes");
  if (!area.parentElement.hidden) hidden(meant, "reason", area.value.trim());
  document.body.append(meant);
  meant.submit();
}

function hidden(form, name, value) {
  form.append(Object.assign(document.createElement("input"), { type: "hidden", name, value }));
}
