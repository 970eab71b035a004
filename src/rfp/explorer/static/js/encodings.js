// Encodings of the two sides: asked for, watched while they are computed, called off when a control moves on.

import { getFloats, getJson, leave, pause, postJson } from "./api.js";

const tab = Array.from(crypto.getRandomValues(new Uint32Array(3)), (word) => word.toString(36)).join("");
const owners = new Set();
addEventListener("pagehide", () => { if (owners.size) leave([...owners]); });

// Values of a step, kept as long as they fit.
const KEPT_BYTES = 256e6;
const kept = new Map();
let keptBytes = 0;

function keep(name, values) {
  kept.set(name, values);
  keptBytes += values.byteLength;
  for (const [old, some] of kept) {
    if (keptBytes <= KEPT_BYTES || old === name) break;
    kept.delete(old);
    keptBytes -= some.byteLength;
  }
}

/** One side: `current` is the finished encoding on the screen, `pending` what is being computed. */
export class Encoder {
  constructor(slot, report) {
    this.owner = `${tab}-${slot}`;
    this.report = report; // called with {status, ...} while it works
    this.current = null;
    this.round = 0;
  }

  /** Ask for an encoding; resolves with it, or with null if another one was asked for meanwhile. */
  async ask(graph, settings) {
    const round = ++this.round;
    const stale = () => round !== this.round;
    owners.add(this.owner);
    this.report({ status: "waiting", done: 0, total: settings.num_steps * settings.operators.length });
    let about = await postJson("encodings", { graph, settings, owner: this.owner });
    for (let wait = 15; !stale() && ["waiting", "running"].includes(about.status); wait = Math.min(200, wait * 1.5)) {
      this.report(about);
      await pause(wait);
      if (!stale()) about = await getJson(`encodings/${about.key}`);
    }
    if (stale()) return null;
    if (about.status === "cancelled") return this.ask(graph, settings);
    if (about.status === "failed") throw new Error(about.error);
    this.current = { ...about, settings, graph };
    return this.current;
  }

  close() {
    this.round++;
    this.current = null;
    owners.delete(this.owner);
    leave([this.owner]);
  }
}

/** One float a node: a channel of a step. */
export async function values(encoding, { trajectory, operator, step, channel }) {
  const name = `encodings/${encoding.key}/values?trajectory=${trajectory}&operator=${operator}&step=${step}&channel=${channel}`;
  if (!kept.has(name)) keep(name, await getFloats(name));
  return kept.get(name);
}

/** Indices held to what the encoding has: a side may have fewer steps or channels than the other. */
export function within({ shape }, view) {
  const clip = (value, size) => Math.max(0, Math.min(value, size - 1));
  return {
    trajectory: clip(view.trajectory, shape.trajectories), operator: clip(view.operator, shape.operators),
    step: clip(view.step, shape.steps), channel: clip(view.channel, shape.channels),
  };
}

/** Angles, Ritz values and spectrum of an encoding, computed once and kept by the server. */
export async function analysis(encoding, view, stale) {
  const { trajectory, operator } = within(encoding, view);
  const path = `encodings/${encoding.key}/analysis?trajectory=${trajectory}&operator=${operator}`;
  let found = await getJson(path);
  for (let wait = 30; ["waiting", "running"].includes(found.status); wait = Math.min(400, wait * 1.6)) {
    await pause(wait);
    if (stale()) return null;
    found = await getJson(path);
  }
  if (found.status === "failed") throw new Error(found.error);
  return found;
}
