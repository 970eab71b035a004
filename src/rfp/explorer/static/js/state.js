// The state of the page: which graph, which settings on each side, what is shown. All of it is in the address.

export const state = {
  graph: null, // key of the graph
  panes: [], // settings of the left side, and of the right one when comparing
  active: 0, // the side that the settings are for
  trajectory: 0,
  operator: 0,
  channel: 0,
  second: 1, // the other channel of the scatter
  step: 0,
  selected: [], // at most two nodes
};

const listeners = new Set();
/** Call back with the set of changed names after every change. */
export const onChange = (listener) => listeners.add(listener);

export function update(patch) {
  const changed = new Set(Object.keys(patch).filter((name) => state[name] !== patch[name]));
  if (!changed.size) return;
  Object.assign(state, patch);
  for (const listener of listeners) listener(changed);
  writeAddress();
}

/** Change settings of one side. */
export function setSettings(pane, patch) {
  update({ panes: state.panes.map((settings, i) => (i === pane ? { ...settings, ...patch } : settings)) });
}

// Setting -> its letter in the address.
const LETTERS = {
  num_channels: "k", num_steps: "P", normalize_every: "w", num_trajectories: "B",
  operators: "S", normalization: "N", start: "start", distribution: "D", seed: "seed",
};
const VIEW = { trajectory: "b", operator: "o", channel: "c", second: "y", step: "p" };
const NUMBERS = ["num_channels", "num_steps", "normalize_every", "num_trajectories", "seed"];

let timer = 0;
function writeAddress() {
  clearTimeout(timer);
  // Not while a graph is being opened: the address would forget which.
  timer = setTimeout(() => { if (state.graph) history.replaceState(null, "", address()); }, 120);
}

export function address() {
  const query = new URLSearchParams();
  if (state.graph) query.set("g", state.graph);
  state.panes.forEach((settings, i) => {
    for (const [name, letter] of Object.entries(LETTERS)) {
      const value = settings[name];
      query.set((i ? "2." : "") + letter, Array.isArray(value) ? value.join(",") : value);
    }
  });
  for (const [name, letter] of Object.entries(VIEW)) query.set(letter, state[name]);
  if (state.active) query.set("side", state.active);
  if (state.selected.length) query.set("node", state.selected.join(","));
  return `${location.pathname}${location.search}#${query}`;
}

/** Read the address; what it does not say keeps its default. Nonsense is left for the server to refuse. */
export function readAddress(defaults) {
  const query = new URLSearchParams(location.hash.slice(1));
  const settings = (prefix) => {
    const read = { ...defaults };
    for (const [name, letter] of Object.entries(LETTERS)) {
      const text = query.get(prefix + letter);
      if (text === null) continue;
      read[name] = name === "operators" ? text.split(",") : NUMBERS.includes(name) ? Number(text) : text;
    }
    return read;
  };
  const second = [...query.keys()].some((key) => key.startsWith("2."));
  const whole = (letter, fallback) => {
    const value = Number(query.get(letter) ?? fallback);
    return Number.isInteger(value) && value >= 0 ? value : fallback;
  };
  return {
    graph: query.get("g"),
    panes: second ? [settings(""), settings("2.")] : [settings("")],
    active: second && query.get("side") === "1" ? 1 : 0,
    trajectory: whole("b", 0), operator: whole("o", 0), step: whole("p", 0),
    channel: whole("c", Math.min(1, defaults.num_channels - 1)), second: whole("y", whole("c", 1) === 2 ? 1 : Math.min(2, defaults.num_channels - 1)),
    selected: (query.get("node") ?? "").split(",").filter(Boolean).map(Number).filter(Number.isInteger).slice(0, 2),
  };
}
