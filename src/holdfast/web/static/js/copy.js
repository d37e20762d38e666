// Copy buttons: the text is in data-copy.
import { toast } from "./toast.js";

export function watchCopies() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      done(button);
    } catch {
      toast("Copying failed; select the text instead.", "bad");
    }
  });
}

function done(button) {
  const label = button.getAttribute("aria-label");
  button.dataset.done = "";
  button.setAttribute("aria-label", "Copied");
  setTimeout(() => {
    delete button.dataset.done;
    button.setAttribute("aria-label", label);
  }, 1500);
}
