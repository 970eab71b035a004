// Which columns are zero because they depend on earlier ones: a cell for each step and channel.

import { css } from "./colors.js";

export class DependentView {
  constructor(root) {
    root.innerHTML = `<header><h3>Dependent columns</h3><span class="fact"></span></header><div class="plot low columns"><canvas role="img"></canvas></div><p class="note"></p>`;
    this.root = root;
    this.canvas = root.querySelector("canvas");
    new ResizeObserver(() => this.draw()).observe(root.querySelector(".plot"));
  }

  set(encoding, view) {
    [this.encoding, this.view] = [encoding, view];
    this.draw();
  }

  draw() {
    const { canvas, encoding } = this;
    if (!encoding || !canvas.clientWidth) return;
    const zero = encoding.zero_columns[this.view.operator];
    const [steps, channels] = [zero.length, zero[0].length];
    const ratio = Math.min(devicePixelRatio || 1, 2);
    [canvas.width, canvas.height] = [canvas.clientWidth * ratio, canvas.clientHeight * ratio];
    const pen = canvas.getContext("2d");
    const [w, h] = [canvas.width / steps, canvas.height / channels];
    const gap = Math.min(w, h) > 5 * ratio ? ratio : 0;
    const [live, dead, now] = [css("--accent"), css("--bad-soft"), css("--ink")];
    let count = 0;
    for (let p = 0; p < steps; p++) {
      for (let c = 0; c < channels; c++) {
        const part = zero[p][c] / encoding.shape.trajectories;
        if (part) count++;
        pen.globalAlpha = part ? 1 : 0.28;
        pen.fillStyle = part ? dead : live;
        pen.fillRect(p * w + gap / 2, c * h + gap / 2, Math.max(1, w - gap), Math.max(1, h - gap));
        if (part) {
          pen.strokeStyle = css("--bad");
          pen.lineWidth = ratio;
          pen.strokeRect(p * w + gap, c * h + gap, Math.max(1, w - 2 * gap), Math.max(1, h - 2 * gap));
        }
      }
    }
    pen.globalAlpha = 1;
    pen.strokeStyle = now;
    pen.lineWidth = 1.5 * ratio;
    pen.strokeRect(this.view.step * w, 0, w, canvas.height);
    this.root.querySelector(".fact").textContent = `${count} of ${steps * channels}`;
    const told = `Across: steps. Down: channels. ${count ? "Outlined columns depend on earlier ones and are zero." : "Every column brings a direction of its own."}`;
    this.root.querySelector(".note").textContent = told;
    canvas.setAttribute("aria-label", `${count} of ${steps * channels} columns are dependent`);
  }
}
