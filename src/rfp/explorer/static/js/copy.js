// "Copy as Python" and "copy as command": the server writes the lines, they are shown, and copied as shown.

import { getJson } from "./api.js";
import { within } from "./encodings.js";
import { toast } from "./messages.js";

/** `present()` gives {encoding, view} of the active side, or null. */
export function copying(present) {
  const dialog = document.querySelector("#copy-dialog");
  const text = document.querySelector("#copy-text");
  const now = document.querySelector("#copy-now");
  const tabs = { python: document.querySelector("#copy-python"), command: document.querySelector("#copy-command") };
  let lines = {};
  let kind = "python";

  function show(chosen) {
    kind = chosen;
    for (const [name, tab] of Object.entries(tabs)) {
      tab.setAttribute("aria-selected", String(name === kind));
      tab.tabIndex = name === kind ? 0 : -1;
    }
    text.textContent = lines[kind] ?? "";
    now.textContent = kind === "python" ? "Copy as Python" : "Copy as command";
  }

  document.querySelector("#copy").addEventListener("click", async () => {
    const shown = present();
    if (!shown) { toast("There is no encoding to copy yet.", "bad"); return; }
    try {
      const query = new URLSearchParams(within(shown.encoding, shown.view));
      lines = await getJson(`encodings/${shown.encoding.key}/snippet?${query}`);
    } catch (error) {
      toast(error.message, "bad");
      return;
    }
    show(kind);
    dialog.showModal();
  });
  for (const [name, tab] of Object.entries(tabs)) {
    tab.addEventListener("click", () => show(name));
    tab.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      show(kind === "python" ? "command" : "python");
      tabs[kind].focus();
    });
  }
  now.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(lines[kind]);
      dialog.close();
      toast(kind === "python" ? "Copied as Python." : "Copied as commands.");
    } catch {
      getSelection().selectAllChildren(text);
      toast("The browser did not allow copying; the text is selected, press Ctrl-C.", "bad");
    }
  });
  document.querySelector("#copy-close").addEventListener("click", () => dialog.close());
}
