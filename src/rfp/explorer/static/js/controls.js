// The settings of a side: one field for each argument of rfp.encode.

import { setSettings, state } from "./state.js";

const SYMBOLS = {
  adjacency: ["A", "adjacency"],
  normalized_adjacency: ["Â", "normalised adjacency"],
  normalized_laplacian: ["L̂", "normalised Laplacian"],
  random_walk: ["D⁻¹A", "random walk"],
};
const NUMBERS = [
  ["num_channels", "k", "channels", 1, 64],
  ["num_steps", "P", "steps", 0, 128],
  ["normalize_every", "w", "normalise every", 1, 16],
  ["num_trajectories", "B", "trajectories", 1, 16],
];
const NAMES = { qr: "QR", l2: "ℓ2", none: "none", inverse_gram: "inverse Gram", drawn: "as drawn", unit: "unit columns", orthonormal: "orthonormal", normal: "normal", rademacher: "Rademacher ±1", uniform: "uniform" };
const CHOICES = [["normalization", "N", "normalisation"], ["start", "r", "start"], ["distribution", "𝒟", "distribution"]];

// Typing and dragging ask once they pause.
const PAUSE = 140;

export class Controls {
  constructor(form, choices) {
    this.form = form;
    this.known = choices.operators;
    this.touched = new Map(); // fields changed since the last question, by the setting they belong to
    form.innerHTML = `<p class="problem" id="problem" role="alert" hidden></p>` + NUMBERS.map(([name, letter, words, low, high]) => `
      <div class="field"><span><label for="in-${name}">${letter} <small>${words}</small></label></span>
        <input type="number" id="in-${name}" data-name="${name}" min="${low}" step="1" inputmode="numeric">
        <input type="range" data-name="${name}" min="${low}" max="${high}" step="1" aria-label="${letter}, ${words}"></div>`).join("") + `
      <fieldset><legend>S <small class="note">operators</small></legend>
        ${choices.operators.map((name) => `<label class="check"><input type="checkbox" data-operator="${name}"><i>${SYMBOLS[name]?.[0] ?? ""}</i><span>${SYMBOLS[name]?.[1] ?? name}</span></label>`).join("")}
        <input type="text" class="custom" id="in-custom" placeholder="more, e.g. adjacency^2" aria-label="Further operators by name, separated by commas" spellcheck="false">
      </fieldset>` + CHOICES.map(([name, letter, words]) => `
      <div class="field"><span><label for="in-${name}">${letter} <small>${words}</small></label></span>
        <select id="in-${name}" data-name="${name}">${choices[name].map((choice) => `<option value="${choice}">${NAMES[choice] ?? choice}</option>`).join("")}</select></div>`).join("") + `
      <div class="field"><span><label for="in-seed">seed</label></span>
        <div class="seed"><input type="number" id="in-seed" data-name="seed" step="1"><button type="button" id="reseed" class="icon" title="Another seed" aria-label="Another seed"><svg viewBox="0 0 24 24"><path d="M5 3h14a2 2 0 0 1 2 2v14a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2V5a2 2 0 0 1 2-2zm3 3a2 2 0 1 0 0 4 2 2 0 0 0 0-4zm8 8a2 2 0 1 0 0 4 2 2 0 0 0 0-4zm-4-4a2 2 0 1 0 0 4 2 2 0 0 0 0-4z"/></svg></button></div></div>
      <button type="button" id="reset">Reset settings</button>`;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", (event) => this.#changed(event.target));
    form.querySelector("#reseed").addEventListener("click", () => setSettings(state.active, { seed: Math.floor(Math.random() * 1e6) }));
    form.querySelector("#reset").addEventListener("click", () => setSettings(state.active, choices.defaults));
  }

  #changed(field) {
    const { name } = field.dataset;
    for (const twin of this.form.querySelectorAll(`[data-name="${name}"]`)) if (twin !== field) twin.value = field.value;
    // Two fields may change before one pause is over: none of them is forgotten.
    this.touched.set(name ?? "operators", field);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#ask(), PAUSE);
  }

  #ask() {
    const settings = {};
    for (const [name, field] of this.touched) {
      const value = name === "operators" ? this.#operators() : this.#value(name, field);
      if (value === undefined) return; // its problem is told; the others wait for it
      settings[name] = value;
    }
    this.touched.clear();
    setSettings(state.active, settings);
  }

  #value(name, field) {
    const value = field.type === "number" || field.type === "range" ? Number(field.value) : field.value;
    if (field.value !== "" && (typeof value !== "number" || Number.isInteger(value))) return value;
    this.problem(`${name} must be an integer`);
    return undefined;
  }

  #operators() {
    const chosen = [...this.form.querySelectorAll("[data-operator]:checked")].map((box) => box.dataset.operator);
    const further = this.form.querySelector("#in-custom").value.split(",").map((text) => text.trim()).filter(Boolean);
    const operators = [...chosen, ...further];
    if (operators.length) return operators;
    this.problem("choose at least one operator");
    return undefined;
  }

  /** Show the settings of the active side; the field being typed in is left alone. */
  show(settings) {
    this.touched.clear(); // the fields show the state again
    clearTimeout(this.timer);
    for (const field of this.form.querySelectorAll("[data-name]")) {
      if (field === document.activeElement && String(settings[field.dataset.name]) === field.value) continue;
      field.value = settings[field.dataset.name];
    }
    for (const box of this.form.querySelectorAll("[data-operator]")) box.checked = settings.operators.includes(box.dataset.operator);
    const custom = this.form.querySelector("#in-custom");
    const further = settings.operators.filter((name) => !this.known.includes(name)).join(", ");
    if (custom !== document.activeElement) custom.value = further;
    this.problem("");
  }

  problem(text) {
    const line = this.form.querySelector("#problem");
    line.textContent = text;
    line.hidden = !text;
  }
}

/** An operator in a few characters: Â, L̂, … */
export function symbol(operator) {
  const [, base, rest] = /^([a-z_]+)(.*)$/.exec(operator) ?? [null, operator, ""];
  return (SYMBOLS[base]?.[0] ?? base) + rest.replace(".sym", " sym").replace(".T", "ᵀ");
}

export const shortName = (value) => NAMES[value] ?? value;
