// uPlot in the page's clothes: fits its box, takes the colours of the theme, marks the present step.

import { css } from "./colors.js";

const { uPlot } = globalThis;
const charts = new Set();

/** Draw all charts again, in the colours of the present theme. */
export const redrawCharts = () => { for (const chart of charts) chart.draw(); };

export class Chart {
  /** A chart in `box`; `onStep` is called with the x under a click. */
  constructor(box, { onStep, marksStep = true } = {}) {
    this.box = box;
    this.onStep = onStep;
    this.marksStep = marksStep;
    this.step = 0;
    charts.add(this);
    new ResizeObserver(() => this.#fit()).observe(box);
    this.empty = Object.assign(document.createElement("div"), { className: "empty", hidden: true });
    box.append(this.empty);
  }

  /**
   * data: [x, y1, y2, ...]; series: [{label, stroke, width, dash, points, bars}]; stroke is a CSS variable.
   * options: {log, yRange, xLabel, integers}
   */
  set(data, series, options = {}) {
    this.content = { data, series, options };
    this.empty.hidden = true;
    this.draw();
  }

  /** Words in place of the chart. */
  say(text) {
    this.content = null;
    this.plot?.destroy();
    this.plot = null;
    this.empty.textContent = text;
    this.empty.hidden = false;
  }

  setStep(step) {
    this.step = step;
    this.plot?.redraw(false);
  }

  draw() {
    this.plot?.destroy();
    this.plot = null;
    const { clientWidth: width, clientHeight: height } = this.box;
    if (!this.content || !width) return;
    const { data, series, options } = this.content;
    const axis = { stroke: css("--muted"), font: "11px system-ui, sans-serif", ticks: { show: false }, grid: { stroke: css("--line"), width: 1 } };
    this.plot = new uPlot({
      width, height,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
      scales: {
        x: { time: false, range: options.xRange ?? ((_, low, high) => [low, high > low ? high : low + 1]) },
        y: { distr: options.log ? 3 : 1, range: options.yRange },
      },
      axes: [
        { ...axis, size: 30, gap: 2, label: options.xLabel, labelSize: 13, labelGap: -4, labelFont: axis.font, incrs: options.integers === false ? undefined : [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] },
        { ...axis, size: 50, gap: 4, ...(options.log ? { filter: decades, grid: { ...axis.grid, filter: decades }, values: (_, ticks) => ticks.map(power) } : {}) },
      ],
      series: [{}, ...series.map((one) => ({
        label: one.label, stroke: css(one.stroke), width: one.width ?? 2, dash: one.dash, alpha: one.alpha ?? 1, pxAlign: 0, spanGaps: false,
        paths: one.points ? () => null : undefined,
        points: { show: Boolean(one.points), size: one.size ?? 6, width: 1.5, fill: one.hollow ? css("--panel") : css(one.stroke) },
      }))],
      hooks: {
        draw: [(plot) => { options.after?.(plot); if (this.marksStep) this.#markStep(plot); }],
        ready: [(plot) => plot.over.addEventListener("click", () => {
          if (this.onStep && plot.cursor.idx != null) this.onStep(plot.data[0][plot.cursor.idx]);
        })],
      },
    }, data, this.box);
  }

  #markStep(plot) {
    const x = Math.round(plot.valToPos(this.step, "x", true));
    const { left, top, width, height } = plot.bbox;
    if (x < left - 1 || x > left + width + 1) return;
    plot.ctx.save();
    plot.ctx.strokeStyle = css("--faint");
    plot.ctx.setLineDash([3, 3]);
    plot.ctx.beginPath();
    plot.ctx.moveTo(x, top);
    plot.ctx.lineTo(x, top + height);
    plot.ctx.stroke();
    plot.ctx.restore();
  }

  #fit() {
    const { clientWidth: width, clientHeight: height } = this.box;
    if (!width || !this.content) return;
    if (this.plot) this.plot.setSize({ width, height });
    else this.draw();
  }
}

const decades = (_, ticks) => ticks.map((tick) => (power(tick) ? tick : null));
const power = (value) => {
  if (!value) return "";
  const exponent = Math.log10(value);
  if (Math.abs(exponent - Math.round(exponent)) > 1e-9) return "";
  return exponent >= -2 && exponent <= 2 ? String(+value.toPrecision(2)) : `1e${Math.round(exponent)}`.replace("-", "−");
};

/** A card: heading, fact at the right, a chart, a line of legend. */
export function card(root, title, { low = false, ...options } = {}) {
  root.innerHTML = `<header><h3></h3><span class="fact"></span></header><div class="plot${low ? " low" : ""}"></div><div class="legend-row"></div><p class="note" hidden></p>`;
  root.querySelector("h3").textContent = title;
  const chart = new Chart(root.querySelector(".plot"), options);
  const note = root.querySelector(".note");
  return {
    chart,
    fact: (text) => { root.querySelector(".fact").textContent = text; },
    note: (text) => { note.textContent = text; note.hidden = !text; },
    legend: (entries) => root.querySelector(".legend-row").replaceChildren(...entries.map(([text, className]) => Object.assign(document.createElement("span"), { textContent: text, className }))),
  };
}
