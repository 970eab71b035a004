// Talking to the server: every request carries the token of the address this page was opened with.

const token = new URLSearchParams(location.search).get("token") ?? "";

/** What the server refused, in its own words; status 0: no answer at all. */
export class ApiError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const lostListeners = new Set();
/** Call back with true when the server stops answering, and with false when it answers again. */
export const onLost = (listener) => lostListeners.add(listener);
let lost = false;
function tell(now) {
  if (now === lost) return;
  lost = now;
  for (const listener of lostListeners) listener(now);
}

async function request(path, options = {}) {
  let answer;
  try {
    answer = await fetch(`/api/${path}`, {
      ...options,
      cache: "no-store",
      headers: { "X-Rfp-Token": token, ...options.headers },
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    tell(true);
    throw new ApiError("the server does not answer", 0);
  }
  tell(false);
  if (answer.ok) return answer;
  let message = `the server answered ${answer.status}`;
  try { message = (await answer.json()).error ?? message; } catch { /* not JSON: keep the plain message */ }
  throw new ApiError(message, answer.status);
}

export const getJson = async (path, options) => (await request(path, options)).json();
export const getBlob = async (path) => (await request(path)).blob();
export const postJson = async (path, content, options = {}) =>
  (await request(path, { ...options, method: "POST", body: JSON.stringify(content), headers: { "Content-Type": "application/json" } })).json();
export const postFile = async (file) =>
  (await request(`graphs?name=${encodeURIComponent(file.name)}`, { method: "POST", body: file, headers: { "Content-Type": "application/octet-stream" } })).json();

async function getBytes(path, options) {
  const answer = await request(path, options);
  const bytes = await answer.arrayBuffer();
  return { bytes, version: Number(answer.headers.get("X-Version") ?? 0) };
}
export const getFloats = async (path, options) => new Float32Array((await getBytes(path, options)).bytes);
export const getIndices = async (path) => new Uint32Array((await getBytes(path)).bytes);
export async function getPositions(path) {
  const { bytes, version } = await getBytes(path);
  return { positions: new Float32Array(bytes), version };
}

/** Tell the server that this page goes away; sent even while the page closes. */
export function leave(owners) {
  const query = owners.map((owner) => `owner=${encodeURIComponent(owner)}`).join("&");
  navigator.sendBeacon(`/api/leave?token=${encodeURIComponent(token)}&${query}`);
}

export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));
