// Pictures and arrays to keep.

import { getBlob } from "./api.js";
import { css } from "./colors.js";
import { toast } from "./messages.js";

function save(blob, name) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// Beyond this an SVG is too large for anything that opens one.
const MAX_SVG_MARKS = 60_000;

/** `present()` gives {views, encoding, step, name}: the graph views from left to right and the active encoding. */
export function exporting(present) {
  const button = document.querySelector("#export");
  const menu = document.querySelector("#export-menu");
  const items = [...menu.querySelectorAll("button")];
  const toggle = (open) => {
    menu.hidden = !open;
    button.setAttribute("aria-expanded", String(open));
    if (open) items[0].focus();
  };
  button.addEventListener("click", () => toggle(menu.hidden));
  document.addEventListener("pointerdown", (event) => { if (!event.target.closest(".menu")) toggle(false); });
  menu.addEventListener("keydown", (event) => {
    const at = items.indexOf(document.activeElement);
    if (event.key === "Escape") { toggle(false); button.focus(); }
    if (event.key === "ArrowDown") items[(at + 1) % items.length].focus();
    if (event.key === "ArrowUp") items[(at + items.length - 1) % items.length].focus();
  });
  for (const item of items) {
    item.addEventListener("click", async () => {
      toggle(false);
      const shown = present();
      if (!shown) { toast("There is nothing to export yet.", "bad"); return; }
      try { await exports[item.dataset.export](shown); } catch (error) { toast(error.message, "bad"); }
    });
  }
}

const exports = {
  async png({ views, name, step }) {
    const pictures = await Promise.all(views.map((view) => view.scene.picture(css("--ground"))));
    const width = pictures.reduce((sum, { width: one }) => sum + one, 0);
    const whole = new OffscreenCanvas(width, pictures[0].height);
    const pen = whole.getContext("2d");
    let left = 0;
    for (const picture of pictures) {
      pen.drawImage(picture, left, 0);
      left += picture.width;
    }
    save(await whole.convertToBlob({ type: "image/png" }), `${name}-p${step}.png`);
  },

  async svg({ views, name, step }) {
    const marks = views.reduce((sum, view) => sum + view.numNodes + view.edgePairs.length / 2, 0);
    if (marks > MAX_SVG_MARKS) throw new Error(`An SVG of ${marks.toLocaleString("en")} marks is more than programs open; export a PNG.`);
    let left = 0;
    const parts = views.map((view) => {
      const part = view.svg().replace("<svg ", `<svg x="${left}" `);
      left += view.canvas.clientWidth;
      return part;
    });
    const whole = `<svg xmlns="http://www.w3.org/2000/svg" width="${left}" height="${views[0].canvas.clientHeight}">${parts.join("")}</svg>`;
    save(new Blob([whole], { type: "image/svg+xml" }), `${name}-p${step}.svg`);
  },

  async npy({ encoding, name }) {
    save(await getBlob(`encodings/${encoding.key}/encoding.npy`), `${name}.npy`);
  },
};
