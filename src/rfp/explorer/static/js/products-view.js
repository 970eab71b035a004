// Products of unnormalised states: a node's return probabilities, or those between two nodes; and who is nearest.

import { getJson } from "./api.js";
import { card } from "./chart.js";
import { css, show } from "./colors.js";

export class ProductsView {
  constructor(root) {
    this.card = card(root, "Return probabilities");
    this.heading = root.querySelector("h3");
    this.say();
  }

  say(text = "Click a node: how likely a walk is to come back to it. Click a second one with Shift: how likely to get from one to the other.") {
    this.heading.textContent = "Return probabilities";
    this.card.chart.say(text);
    this.card.legend([]);
    this.card.fact("");
    this.card.note("");
  }

  /** Estimate for the selected nodes; `name` gives a node's id. */
  async set(encoding, operator, selected, step, name) {
    const [node, other = node] = selected;
    const round = (this.round = (this.round ?? 0) + 1);
    const at = Math.min(operator, encoding.shape.operators - 1);
    const products = await getJson(`encodings/${encoding.key}/products?operator=${at}&node=${node}&other=${other}`);
    if (round !== this.round) return;
    const pair = selected.length > 1;
    const S = products.operator;
    this.heading.textContent = pair ? `From ${name(node)} to ${name(other)}` : `Back to ${name(node)}`;
    this.card.fact(`${products.samples} samples`);
    const steps = products.estimate.map((_, p) => p);
    const errors = products.standard_error;
    const bars = (plot) => {
      const { ctx } = plot;
      ctx.save();
      ctx.strokeStyle = css("--a");
      ctx.lineWidth = 1.5 * (devicePixelRatio || 1);
      ctx.beginPath();
      steps.forEach((p) => {
        if (products.estimate[p] === null || errors[p] === null) return;
        const x = plot.valToPos(p, "x", true);
        const ends = [-1, 1].map((sign) => plot.valToPos(products.estimate[p] + sign * errors[p], "y", true));
        ctx.moveTo(x, ends[0]);
        ctx.lineTo(x, ends[1]);
        for (const y of ends) { ctx.moveTo(x - 4, y); ctx.lineTo(x + 4, y); }
      });
      ctx.stroke();
      ctx.restore();
    };
    const reach = steps.flatMap((p) => [products.exact[p], products.estimate[p] - (errors[p] ?? 0), products.estimate[p] + (errors[p] ?? 0)]).filter(Number.isFinite);
    const [low, high] = [Math.min(0, ...reach), Math.max(0, ...reach)];
    this.card.chart.set([steps, products.exact, products.estimate], [
      { stroke: "--warm", width: 2 }, { stroke: "--a", points: true, size: 7 },
    ], { xLabel: "steps p", after: bars, xRange: () => [-0.4, steps.length - 0.6], yRange: () => [low - 0.06 * (high - low || 1), high + 0.06 * (high - low || 1)] });
    this.card.chart.setStep(step);
    this.card.legend([["estimate ± standard error", "dot c-a"], ["exact", "c-warm"]]);
    this.card.note(`${pair ? "(Sᵖ)ᵤᵥ" : "(Sᵖ)ᵥᵥ"} of ${S}: products of these features, propagated without normalisation. More channels or an orthonormal start: smaller errors.`);
  }
}

export class NearestView {
  constructor(root, onSelect) {
    root.innerHTML = `<header><h3>Nearest by trajectory</h3></header><div class="nodes-list"></div><p class="note"></p>`;
    this.list = root.querySelector(".nodes-list");
    this.note = root.querySelector(".note");
    this.onSelect = onSelect;
    this.clear();
  }

  clear() {
    this.list.replaceChildren();
    this.note.textContent = "Click a node to see whose whole encoding is closest to its own.";
  }

  async set(encoding, node, name) {
    const round = (this.round = (this.round ?? 0) + 1);
    const found = await getJson(`encodings/${encoding.key}/nearest?node=${node}`);
    if (round !== this.round) return;
    const farthest = Math.max(...found.map(({ distance }) => distance), 1e-12);
    this.list.replaceChildren(...found.map(({ node: other, distance }) => {
      const button = document.createElement("button");
      button.type = "button";
      const bar = Object.assign(document.createElement("span"), { className: "bar-fill" });
      bar.style.width = `${8 + 92 * (distance / farthest)}px`;
      button.append(Object.assign(document.createElement("b"), { textContent: name(other) }), Object.assign(document.createElement("span"), { className: "distance", textContent: show(distance) }), bar);
      button.addEventListener("click", (event) => this.onSelect(other, event));
      return button;
    }));
    this.note.textContent = found.length ? `Euclidean distance to ${name(node)} over all steps, channels, operators and trajectories.` : "There is no other node.";
  }
}
