// Asks before a form acts, with a reason where one is wanted. Without this script the server asks on a page of its own.
import { chosen } from "./selection.js";

export function watchConfirms() {
  document.addEventListener("submit", ask, { capture: true });
}

function ask(event) {
  const form = event.target;
  const submitter = event.submitter;
  const asker = [submitter, form].find((element) => element?.dataset.confirm !== undefined);
  const dialog = document.getElementById("confirm");
  if (!asker || !dialog || form.dataset.confirmed !== undefined) {
    delete form.dataset.confirmed;
    return;
  }
  event.preventDefault();
  event.stopImmediatePropagation();
  fill(dialog, asker.dataset, "bulk" in form.dataset ? chosen(form) : "");
  dialog.addEventListener("close", () => dialog.returnValue === "yes" && go(form, submitter, dialog), { once: true });
  dialog.returnValue = "no";
  dialog.showModal();
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
  button.textContent = asked.confirmGo || "Go on";
  button.className = `button ${asked.confirmDanger === undefined ? "button-main" : "button-danger"}`;
}

function go(form, submitter, dialog) {
  const area = dialog.querySelector("textarea");
  hidden(form, "confirmed", "yes");
  if (!area.parentElement.hidden) hidden(form, "reason", area.value.trim());
  form.dataset.confirmed = "";
  form.requestSubmit(submitter);
}

function hidden(form, name, value) {
  const field = form.querySelector(`input[type=hidden][name="${name}"]`) ?? document.createElement("input");
  Object.assign(field, { type: "hidden", name, value });
  form.append(field);
}
