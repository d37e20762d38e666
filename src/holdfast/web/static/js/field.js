// Adds the host application's field to forms of live content, which is rendered once for all viewers and so without it.
export function fillForms() {
  const field = document.querySelector('meta[name="form-field"]');
  if (field) document.addEventListener("submit", (event) => fill(event.target, field), { capture: true });
}

function fill(form, field) {
  if (form.method !== "post" || form.elements[field.dataset.name]) return;
  const input = document.createElement("input");
  Object.assign(input, { type: "hidden", name: field.dataset.name, value: field.content });
  form.append(input);
}
