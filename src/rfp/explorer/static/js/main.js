// Starts the page and carries changes of the state to the views.

import { ApiError, getFloats, getIndices, getJson, getPositions, onLost, pause } from "./api.js";
import { Camera } from "./camera.js";
import { redrawCharts } from "./chart.js";
import { Controls, shortName, symbol } from "./controls.js";
import { AnglesView, RitzView, SpectrumView } from "./convergence-view.js";
import { copying } from "./copy.js";
import { DependentView } from "./dependent-view.js";
import { Encoder, analysis, values, within } from "./encodings.js";
import { exporting } from "./export.js";
import { GraphView } from "./graph-view.js";
import { banner, fatal, toast } from "./messages.js";
import { NearestView, ProductsView } from "./products-view.js";
import { ScatterView } from "./scatter-view.js";
import { Search } from "./search.js";
import { onChange, readAddress, setSettings, state, update } from "./state.js";
import { tabs } from "./tabs.js";
import { Timeline } from "./timeline.js";
import { uploading } from "./upload.js";
import { colorLimit } from "./colors.js";

const $ = (selector) => document.querySelector(selector);
const camera = new Camera();
let hello;
let graph; // facts of the graph, with its ids, degrees and edges
let sides = []; // [{view, encoder, study}]
let views;

const name = (node) => (graph?.ids ? graph.ids[node] : String(node));
const activeSide = () => sides[state.active];

async function start() {
  hello = await getJson("hello");
  const asked = readAddress(hello.initial);
  const controls = new Controls($("#settings"), hello.choices);
  views = {
    controls,
    timeline: new Timeline((step) => goTo(step)),
    search: new Search((node) => { select(node); showNode(node); }),
    scatter: new ScatterView($("#scatter-card"), { onSecond: (second) => update({ second }), onSelect: select }),
    angles: new AnglesView($("#angles-card"), goTo),
    ritz: new RitzView($("#ritz-card"), goTo),
    spectrum: new SpectrumView($("#spectrum-card")),
    dependent: new DependentView($("#dependent-card")),
    products: new ProductsView($("#products-card")),
    nearest: new NearestView($("#nearest-card"), select),
    showTab: tabs($(".views .tabs"), () => {}),
  };
  if (matchMedia("(max-width: 860px)").matches) $("#controls-fold").open = false;
  connectActions();
  onChange(changed);
  update({ ...asked, graph: null });
  await openGraph(asked.graph ?? hello.graph, { keepSelection: true });
  if (state.selected.length) views.showTab("tab-nodes");
}

function connectActions() {
  const present = () => (activeSide()?.encoder.current ? { encoding: activeSide().encoder.current, view: state, views: sides.map(({ view }) => view), step: state.step, name: fileName() } : null);
  copying(present);
  exporting(present);
  uploading(hello, openGraph);
  $("#compare").addEventListener("click", () => {
    if (state.panes.length > 1) { update({ panes: [state.panes[state.active]], active: 0 }); return; }
    const [settings] = state.panes;
    update({ panes: [settings, { ...settings, normalization: settings.normalization === "qr" ? "l2" : "qr" }], active: 1 });
  });
  for (const button of $("#pane-switch").children) button.addEventListener("click", () => update({ active: Number(button.dataset.pane) }));
  $("#theme").addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("rfp-theme", theme); } catch { /* storage may be switched off */ }
    for (const { view } of sides) view.recolor();
    views.scatter.recolor();
    redrawCharts();
    views.dependent.draw();
  });
}

const fileName = () => (graph.name.replace(/\.[a-z]+(\.gz)?$/i, "").replace(/[^\w-]+/g, "-") || "graph").toLowerCase();

// The graph: facts at once, places as they form.

async function openGraph(key, { keepSelection = false } = {}) {
  let facts;
  try {
    facts = await getJson(`graphs/${encodeURIComponent(key)}`);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 404 || key === hello.graph) throw error;
    toast("The graph of this address is not open any more; drop its file again. Here is the one the explorer was started with.", "bad");
    openGraph(hello.graph);
    return;
  }
  const [ids, degrees, edges] = await Promise.all([getJson(`graphs/${key}/ids`), getFloats(`graphs/${key}/degrees`), getIndices(`graphs/${key}/edges`)]);
  graph = { ...facts, ids, degrees, edges };
  views.search.setGraph(ids, facts.num_nodes);
  camera.fit();
  const selected = keepSelection ? state.selected.filter((node) => node < facts.num_nodes) : [];
  const line = $("#graph-name");
  const count = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
  line.replaceChildren(Object.assign(document.createElement("b"), { textContent: facts.name }), `  ${count(facts.num_nodes, "node", "nodes")}, ${count(facts.num_edges, "edge", "edges")}${facts.directed ? ", directed" : ""}${facts.weighted ? ", weighted" : ""}`);
  document.title = `${facts.name} · rfp explorer`;
  for (const { view } of sides) view.setGraph({ ids, degrees, edges, numNodes: facts.num_nodes });
  update({ graph: key, selected });
  followLayout(key);
}

async function followLayout(key) {
  let [shown, wait] = [-1, 60];
  while (state.graph === key) {
    let facts;
    try {
      facts = await getJson(`graphs/${key}`);
      if (facts.layout.version !== shown) {
        const { positions, version } = await getPositions(`graphs/${key}/positions`);
        if (state.graph !== key) return;
        shown = version;
        graph.positions = positions;
        camera.setExtent(...extent(positions));
        for (const { view } of sides) view.setPositions(positions);
      }
    } catch {
      await pause(1000);
      continue;
    }
    const { status, done, total, version } = facts.layout;
    const over = !["waiting", "running"].includes(status);
    graph.layout = facts.layout;
    for (const { view } of sides) view.progress(over ? null : ["Laying out", done, total]);
    if (over && version === shown) { graph.placed = true; break; }
    await pause(wait);
    wait = Math.min(400, wait * 1.3);
  }
  tellStatus();
}

function extent(positions) {
  const range = [[Infinity, -Infinity], [Infinity, -Infinity]];
  positions.forEach((place, i) => { const ends = range[i % 2]; ends[0] = Math.min(ends[0], place); ends[1] = Math.max(ends[1], place); });
  return range.map(([low, high]) => (high > low ? high - low : 0.5));
}

// Changes of the state.

function changed(what) {
  if (what.has("panes")) matchSides();
  if (what.has("panes") || what.has("active")) showActive();
  if (!state.graph) return;
  if (what.has("graph") || what.has("panes")) sides.forEach((side, i) => encodeSide(side, i, what.has("graph")));
  const view = ["trajectory", "operator", "channel", "second", "step"].some((part) => what.has(part));
  if (view || what.has("active")) showValues();
  if (what.has("trajectory") || what.has("operator")) for (const side of sides) examine(side);
  if (what.has("active") || what.has("step")) showStudies(what.has("active"));
  if (what.has("selected") || what.has("graph") || what.has("operator") || what.has("active")) showSelection();
}

function matchSides() {
  while (sides.length > state.panes.length) {
    const { view, encoder } = sides.pop();
    encoder.close();
    view.close();
  }
  while (sides.length < state.panes.length) {
    const index = sides.length;
    const view = new GraphView(camera, index, { onSelect: select, onHover: () => {} });
    $("#panes").append(view.root);
    const side = { view, study: null, asked: "" };
    side.encoder = new Encoder(index, (about) => { if (about.total && about.done < about.total) view.progress([about.status === "waiting" ? "Waiting" : "Encoding", about.done, about.total]); });
    view.canvas.addEventListener("pointerdown", () => update({ active: index }), true);
    if (graph) view.setGraph({ ids: graph.ids, degrees: graph.degrees, edges: graph.edges, numNodes: graph.num_nodes });
    if (graph?.positions) view.setPositions(graph.positions);
    sides.push(side);
  }
  $("#panes").classList.toggle("two", sides.length > 1);
  $("#compare").setAttribute("aria-pressed", String(sides.length > 1));
  $("#pane-switch").hidden = sides.length < 2;
}

function showActive() {
  sides.forEach(({ view }, i) => view.root.classList.toggle("active", i === state.active));
  for (const button of $("#pane-switch").children) button.setAttribute("aria-pressed", String(Number(button.dataset.pane) === state.active));
  views.controls.show(state.panes[state.active]);
}

async function encodeSide(side, index, force) {
  const settings = state.panes[index];
  const asked = JSON.stringify([state.graph, settings]);
  if (asked === side.asked && !force) return;
  side.asked = asked;
  let encoding;
  try {
    encoding = await side.encoder.ask(state.graph, settings);
  } catch (error) {
    if (side.asked !== asked) return;
    side.asked = "";
    refuse(side, index, error);
    return;
  }
  if (!encoding || sides[index] !== side) return;
  side.view.progress(null);
  side.problem = "";
  side.study = null;
  if (!encoding.finite) toast("Some values overflow to infinity: normalise, or take fewer steps. Those nodes are grey.", "bad");
  await showValues();
  showShown();
  showStudies(true);
  examine(side);
  showSelection();
  tellStatus();
  side.finished = encoding.key;
}

function refuse(side, index, error) {
  side.view.progress(null);
  if (error.status === 0) return; // the banner tells that the server is away, and asks again when it is back
  if (error.status === 401) { askForToken(); return; }
  if (index === state.active) views.controls.problem(error.message);
  if (!side.encoder.current) side.view.fail("This cannot be encoded", error.message, "Reset settings", () => setSettings(index, hello.choices.defaults));
}

let drawing = 0;
async function showValues() {
  const round = ++drawing;
  const active = activeSide()?.encoder.current;
  if (!active) return;
  views.timeline.show(Math.min(state.step, maxStep()), maxStep());
  try {
    await Promise.all(sides.map(async (side, i) => {
      const encoding = side.encoder.current;
      if (!encoding || encoding.graph !== state.graph) return;
      const view = within(encoding, state);
      const second = within(encoding, { ...state, channel: state.second }).channel;
      const [first, other] = await Promise.all([values(encoding, view), values(encoding, { ...view, channel: second })]);
      if (round !== drawing) return;
      const settings = encoding.settings;
      side.view.setTitle(`Step ${view.step}, channel ${view.channel}`, `${symbol(settings.operators[view.operator])}, ${shortName(settings.normalization)}${settings.normalize_every > 1 ? ` every ${settings.normalize_every}` : ""}${encoding.shape.trajectories > 1 ? `, trajectory ${view.trajectory}` : ""}`);
      side.view.setValues(first, second === view.channel ? [] : [[`channel ${second}`, other]]);
      side.shown = { key: encoding.key, ...view, second };
      if (i !== state.active) return;
      views.scatter.setChannels(view.channel, second, encoding.shape.channels);
      views.scatter.setValues(first, other, colorLimit(first).limit);
      views.dependent.set(encoding, view);
      if (view.step + 1 < encoding.shape.steps) values(encoding, { ...view, step: view.step + 1 }).catch(() => {}); // for when it plays on
    }));
  } catch (error) {
    if (error.status === 404) for (const [i, side] of sides.entries()) encodeSide(side, i, true);
    else if (error.status) toast(error.message, "bad");
  }
}

const maxStep = () => Math.max(0, ...sides.map(({ encoder }) => (encoder.current?.shape.steps ?? 1) - 1));
async function goTo(step) {
  update({ step: Math.max(0, Math.min(Math.round(step), maxStep())) });
  await pause(0);
}

// What is shown: operator, trajectory, channel.

function showShown() {
  const encoding = activeSide()?.encoder.current;
  if (!encoding) return;
  const { shape, settings } = encoding;
  const now = within(encoding, state);
  const choice = (label, field, count, text) => {
    const select = document.createElement("select");
    select.replaceChildren(...Array.from({ length: count }, (_, i) => new Option(text(i), i)));
    select.value = now[field];
    select.id = `shown-${field}`;
    select.addEventListener("change", () => {
      const value = Number(select.value);
      // A channel against itself shows nothing: the two change places.
      update({ [field]: value, ...(field === "channel" && value === state.second ? { second: state.channel } : {}) });
    });
    const line = document.createElement("label");
    line.append(label, select);
    return line;
  };
  const parts = [choice("Colour by channel", "channel", shape.channels, String)];
  if (shape.operators > 1) parts.push(choice("of", "operator", shape.operators, (i) => symbol(settings.operators[i])));
  if (shape.trajectories > 1) parts.push(choice("trajectory", "trajectory", shape.trajectories, String));
  $("#shown").replaceChildren(...parts);
}

// What the steps have found.

async function examine(side) {
  const encoding = side.encoder.current;
  if (!encoding) return;
  const round = (side.examined = (side.examined ?? 0) + 1);
  try {
    const study = await analysis(encoding, state, () => round !== side.examined || side.encoder.current !== encoding);
    if (!study || round !== side.examined || side.encoder.current !== encoding) return;
    side.study = study;
  } catch (error) {
    if (error.status === 0 || round !== side.examined) return;
    side.study = { note: error.message, steps: [] };
  }
  showStudies(true);
}

function showStudies(whole) {
  const known = sides.map(({ study }, side) => ({ study, side })).filter(({ study }) => study);
  const active = known.find(({ side }) => side === state.active);
  if (whole) {
    views.angles.set(known);
    views.ritz.set(active);
  }
  views.spectrum.set(active, state.step);
  for (const view of [views.angles, views.ritz]) view.card.chart.setStep(state.step);
  views.products.card.chart.setStep(state.step);
}

// Nodes.

function select(node, event) {
  if (node < 0) { update({ selected: [] }); return; }
  const [first] = state.selected;
  const pair = event?.shiftKey && first !== undefined && first !== node;
  update({ selected: pair ? [first, node] : [node] });
  views.showTab("tab-nodes");
}

function showNode(node) {
  const { x, y } = activeSide().view;
  if (x) camera.lookAt(x[node], y[node], Math.max(camera.zoom, Math.min(20, Math.sqrt(graph.num_nodes) / 12)));
}

function showSelection() {
  for (const { view } of sides) view.select(state.selected);
  const side = activeSide();
  const encoding = side?.encoder.current;
  if (!state.selected.length || !encoding || encoding.graph !== state.graph) { views.products.say(); views.nearest.clear(); return; }
  const shown = (error) => { if (error.status !== 0 && error.status !== 404) views.products.say(error.message); };
  views.products.set(encoding, state.operator, state.selected, state.step, name).catch(shown);
  views.nearest.set(encoding, state.selected[0], name).catch(shown);
}

// The line at the bottom, and the server going away.

function tellStatus() {
  const parts = sides.map(({ encoder }, i) => {
    const encoding = encoder.current;
    if (!encoding) return "";
    const time = encoding.seconds < 1 ? `${(1000 * encoding.seconds).toFixed(encoding.seconds < 0.01 ? 1 : 0)} ms` : `${encoding.seconds.toFixed(1)} s`;
    return `${sides.length > 1 ? `${"AB"[i]}: ` : ""}${encoding.backend} backend, ${time}`;
  }).filter(Boolean);
  if (graph?.layout) parts.push(graph.layout.method === "spring" ? "spring layout" : "layout from RFP coordinates");
  const drawn = graph ? graph.edges.length / 2 : 0;
  if (graph && drawn < graph.num_edges) parts.push(`${drawn.toLocaleString("en")} of ${graph.num_edges.toLocaleString("en")} edges drawn`);
  parts.push("click a node, Shift-click a second one");
  const line = $("#status");
  line.textContent = parts.join("  ·  ");
  line.title = sides.map(({ encoder }) => encoder.current?.reason).filter(Boolean).join("; ");
}

const askForToken = () => fatal("This address has the wrong key", "The explorer was started again, or the address is not complete. Open the address that rfp explore printed in its terminal.");

onLost(async (lost) => {
  if (!lost) return;
  banner("The server does not answer. Is rfp explore still running? Trying again…");
  for (;;) {
    await pause(1000);
    try {
      const now = await getJson("hello");
      banner(null);
      toast("The server is back.");
      hello = now;
      if (!graph) { location.reload(); return; }
      try { await getJson(`graphs/${state.graph}`); } catch { update({ graph: null }); await openGraph(hello.graph); return; }
      sides.forEach((side, i) => encodeSide(side, i, true));
      return;
    } catch (error) {
      if (error.status === 401) { banner(null); askForToken(); return; }
    }
  }
});
// A page that is only looked at notices too.
setInterval(() => { if (!document.hidden) getJson("hello").catch((error) => { if (error.status === 401) askForToken(); }); }, 5000);

// For the console of the browser, and for tests: what is on the screen, as numbers.
globalThis.explorer = {
  state,
  camera,
  values: (side = 0) => sides[side].view.values,
  shown: (side = 0) => sides[side].shown,
  scene: (side = 0) => sides[side].view.scene,
  place: (node, side = 0) => camera.toScreen(sides[side].view.x[node], sides[side].view.y[node], sides[side].view.canvas),
  settled: () => Boolean(graph?.placed) && sides.length === state.panes.length && sides.every(({ encoder, shown, finished }, i) => {
    const { current } = encoder;
    if (!current || !shown || current.graph !== state.graph || shown.key !== current.key || finished !== current.key) return false;
    const { trajectory, operator, step, channel } = within(current, state);
    return shown.step === step && shown.channel === channel && shown.operator === operator && shown.trajectory === trajectory
      && JSON.stringify(current.settings) === JSON.stringify(state.panes[i]);
  }),
};

start().catch((error) => {
  if (error.status === 401) askForToken();
  else if (error.status !== 0) fatal("The explorer cannot start", error.message);
});
