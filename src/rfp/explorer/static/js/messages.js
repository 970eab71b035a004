// Words to the person: short notes in the corner, and pages for when nothing can go on.

export function toast(text, kind = "") {
  const box = Object.assign(document.createElement("div"), { className: `toast ${kind}` });
  box.setAttribute("role", kind === "bad" ? "alert" : "status");
  const close = Object.assign(document.createElement("button"), { type: "button", textContent: "✕", ariaLabel: "Dismiss" });
  close.addEventListener("click", () => box.remove());
  box.append(Object.assign(document.createElement("span"), { textContent: text }), close);
  document.querySelector("#toasts").append(box);
  if (kind !== "bad") setTimeout(() => box.remove(), 5000);
}

export function fatal(title, text) {
  document.querySelector(".fatal")?.remove();
  const box = Object.assign(document.createElement("div"), { className: "fatal" });
  box.setAttribute("role", "alert");
  box.append(Object.assign(document.createElement("h2"), { textContent: title }), Object.assign(document.createElement("p"), { textContent: text }));
  document.body.append(box);
}

export function banner(text) {
  const line = document.querySelector("#banner");
  line.textContent = text ?? "";
  line.hidden = !text;
}
