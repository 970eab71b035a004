// The scatter of two channels at a step: random clouds that draw together into the shape of the eigenvectors.

import { colorTable, css, show, theme } from "./colors.js";
import { Picker } from "./picking.js";
import { Scene } from "./scene.js";

export class ScatterView {
  constructor(card, { onSecond, onSelect }) {
    card.innerHTML = `<header><h3>Two channels</h3><label class="note">across <b id="scatter-first"></b>, up
      <select id="scatter-second" aria-label="Channel drawn upwards"></select></label><span class="fact" id="scatter-limit"></span></header>
      <div class="plot"><canvas aria-label="Scatter of two channels" role="img"></canvas><div class="axis-x"></div><div class="axis-y"></div></div>`;
    this.card = card;
    this.canvas = card.querySelector("canvas");
    this.scene = new Scene(this.canvas);
    this.scene.restore = () => { this.recolor(); if (this.last) this.setValues(...this.last); };
    this.picked = card.querySelector("#scatter-second");
    this.picked.addEventListener("change", () => onSecond(Number(this.picked.value)));
    this.canvas.addEventListener("click", (event) => {
      if (!this.scene.x) return;
      const box = this.canvas.getBoundingClientRect();
      const x = (((event.clientX - box.left) / box.width) * 2 - 1) / this.scene.camera.scale[0];
      const y = (1 - ((event.clientY - box.top) / box.height) * 2) / this.scene.camera.scale[1];
      const reach = 9 / box.width / this.scene.camera.scale[0];
      const node = new Picker(this.scene.x, this.scene.y).nearest(x, y, 2 * reach);
      if (node >= 0) onSelect(node, event);
    });
    new ResizeObserver(() => this.scene.request()).observe(this.canvas);
    this.recolor();
  }

  setChannels(channel, second, count) {
    this.card.querySelector("#scatter-first").textContent = `channel ${channel}`;
    if (this.picked.options.length !== count) {
      this.picked.replaceChildren(...Array.from({ length: count }, (_, c) => new Option(`channel ${c}`, c)));
    }
    this.picked.value = second;
    this.card.querySelector(".axis-x").textContent = `channel ${channel}`;
    this.card.querySelector(".axis-y").textContent = `channel ${second}`;
  }

  setValues(x, y, limit) {
    this.last = [x, y, limit];
    let reach = 0;
    for (let i = 0; i < x.length; i++) {
      for (const size of [Math.abs(x[i]), Math.abs(y[i])]) if (size > reach && Number.isFinite(size)) reach = size;
    }
    reach = (reach || 1) * 1.08;
    // Both axes in units of this step's largest value: the cloud keeps its size while it changes its shape.
    const scaled = (values) => values.map((value) => (Number.isFinite(value) ? value / reach : 0));
    this.scene.camera = { scale: [1, 1], shift: [0, 0] };
    this.scene.size = Math.max(2, Math.min(9, 90 / Math.sqrt(x.length)));
    this.scene.setPlaces(scaled(x), scaled(y));
    this.scene.setValues(x, limit);
    this.card.querySelector("#scatter-limit").textContent = `± ${show(reach / 1.08)}`;
  }

  recolor() { this.scene.setColors(colorTable(theme()), theme() === "dark" ? "#000000" : "#1b1f24", css("--edge")); }
}
