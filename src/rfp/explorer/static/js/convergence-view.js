// Principal angles with the predicted rate, Ritz values against eigenvalues, the spectrum: what the steps have found.

import { card } from "./chart.js";
import { show } from "./colors.js";

// Angles in float32 states are rounding below this.
const FLOOR = 1e-9;
const SIDES = [["--a", "c-a"], ["--b", "c-b"]];

/** Several curves over steps that may differ: one x axis, gaps where a side has no value. */
function joined(curves) {
  const steps = [...new Set(curves.flatMap(({ steps }) => steps))].sort((a, b) => a - b);
  const place = new Map(steps.map((step, i) => [step, i]));
  const columns = curves.map(({ steps: own, values }) => {
    const column = new Array(steps.length).fill(null);
    own.forEach((step, i) => { column[place.get(step)] = values[i] ?? null; });
    return column;
  });
  return [steps, ...columns];
}

export class AnglesView {
  constructor(root, onStep) { this.card = card(root, "Principal angles", { onStep }); }

  set(studies) {
    const known = studies.filter(({ study }) => study.angles || study.step_angles?.length);
    this.card.note(studies.map(({ study }) => study.note).filter(Boolean)[0] ?? "");
    if (!known.length) {
      this.card.chart.say(studies.length ? "No angles here: see the note below." : "Measuring the angles…");
      this.card.legend([]);
      this.card.fact("");
      return;
    }
    const [curves, series, legend] = [[], [], []];
    const several = studies.length > 1;
    for (const { study, side } of known) {
      const [stroke, className] = SIDES[side];
      const name = several ? ` ${"AB"[side]}` : "";
      const add = (steps, values, look) => { curves.push({ steps, values: values.map((v) => (v === null ? null : Math.max(v, FLOOR))) }); series.push({ stroke, ...look }); };
      if (study.angles) {
        const k = study.angles[0].length;
        if (!several) for (let j = 0; j < k - 1; j++) add(study.steps, study.angles.map((row) => row[j]), { width: 1, alpha: 0.3 });
        add(study.steps, study.angles.map((row) => row[k - 1]), { width: 2.5 });
        legend.push([`largest${name}`, className]);
        if (!several && k > 1) legend.push(["the others", `thin ${className}`]);
        if (study.predicted) {
          add(...study.predicted, { width: 1.5, dash: [6, 4], ...(several ? {} : { stroke: "--warm" }) });
          legend.push([`predicted ${study.rate.toFixed(3)}ᵖ${name}`, `dash ${several ? className : "c-warm"}`]);
        }
      } else {
        add(study.steps.slice(1), study.step_angles, { width: 2.5 });
        legend.push([`from step to step${name}`, className]);
      }
    }
    this.card.chart.set(joined(curves), series, { log: true, xLabel: "step", yRange: (_, low) => [Math.min(0.1, 10 ** Math.floor(Math.log10(Math.max(low, FLOOR)))), 3] });
    this.card.legend(legend);
    const first = known[0].study;
    this.card.fact(first.tie ? `tie: K = ${first.dominant_dimension}` : first.rate ? `rate ${show(first.rate)}` : "");
  }
}

export class RitzView {
  constructor(root, onStep) { this.card = card(root, "Ritz values and eigenvalues", { onStep, low: true }); }

  set({ study, side } = {}) {
    if (!study?.ritz) {
      this.card.chart.say(study ? study.note : "Computing the Ritz values…");
      this.card.legend([]);
      return;
    }
    const k = study.ritz[0].length;
    const [stroke, className] = SIDES[side];
    const curves = study.eigenvalues.map((value) => ({ steps: study.steps, values: study.steps.map(() => value) }));
    const series = curves.map(() => ({ stroke: "--faint", width: 1, alpha: 0.7 }));
    for (let j = 0; j < k; j++) {
      curves.push({ steps: study.steps, values: study.ritz.map((row) => row[j]) });
      series.push({ stroke, width: 1.5 });
    }
    this.card.chart.set(joined(curves), series, { xLabel: "step" });
    this.card.legend([["Ritz values of the step", className], ["exact eigenvalues", "thin c-muted"]]);
  }
}

export class SpectrumView {
  constructor(root) { this.card = card(root, "Spectrum of the operator", { low: true, marksStep: false }); }

  set({ study, side } = {}, step = 0) {
    if (!study?.spectrum) {
      this.card.chart.say(study ? study.note : "Computing the spectrum…");
      this.card.legend([]);
      this.card.fact("");
      return;
    }
    const [stroke, className] = SIDES[side];
    const places = study.spectrum.map((_, i) => i + 1);
    const ritz = new Array(places.length).fill(null);
    const at = study.steps.reduce((best, p, i) => (Math.abs(p - step) < Math.abs(study.steps[best] - step) ? i : best), 0);
    // Each Ritz value above the eigenvalue it is nearest to in order of magnitude.
    const order = places.map((_, i) => i).sort((a, b) => Math.abs(study.spectrum[b]) - Math.abs(study.spectrum[a]));
    study.ritz[at].forEach((value, j) => { if (j < order.length) ritz[order[j]] = value; });
    this.card.chart.set([places, study.spectrum, ritz], [
      { stroke: "--faint", points: true, size: places.length > 300 ? 3 : 5 },
      { stroke, points: true, hollow: true, size: 8 },
    ], { xLabel: "number", xRange: (_, low, high) => [0, high + 1] });
    this.card.legend([["exact", "dot c-muted"], [`Ritz values at p = ${study.steps[at]}`, `dot ${className}`]]);
    this.card.fact(study.whole_spectrum ? `${places.length} eigenvalues` : `the ${places.length} largest in magnitude`);
  }
}
