// WebGL2: points coloured by one float each, and the edges between them. Places and colours glide from the last to the next.

const MOVE = `#version 300 es
in float x0; in float y0; in float x1; in float y1;
uniform vec2 scale; uniform vec2 shift; uniform float moved;
vec4 place() { return vec4(mix(vec2(x0, y0), vec2(x1, y1), moved) * scale + shift, 0.0, 1.0); }
`;
const POINT_VERTEX = `${MOVE}
in float v0; in float v1;
uniform float limit0; uniform float limit1; uniform float size; uniform float coloured;
out float value; flat out float known;
void main() {
  gl_Position = place();
  gl_PointSize = size;
  float a = v0 / limit0, b = v1 / limit1;
  known = (isnan(b) || isinf(b)) ? 0.0 : 1.0;
  value = known > 0.0 ? mix((isnan(a) || isinf(a)) ? 0.0 : a, b, coloured) : 0.0;
}`;
const POINT_FRAGMENT = `#version 300 es
precision highp float;
in float value; flat in float known;
uniform sampler2D table; uniform float size; uniform vec3 rim;
out vec4 color;
void main() {
  float r = length(gl_PointCoord - 0.5) * size;
  float edge = 0.5 * size;
  float inside = 1.0 - smoothstep(edge - 1.2, edge, r);
  if (inside <= 0.0) discard;
  float u = (0.5 + 0.5 * clamp(value, -1.0, 1.0)) * 255.0 / 256.0 + 0.5 / 256.0;
  vec3 fill = known > 0.0 ? texture(table, vec2(u, 0.5)).rgb : vec3(0.5);
  float ring = size > 5.0 ? smoothstep(edge - 2.6, edge - 1.4, r) : 0.0;
  color = vec4(mix(fill, rim, 0.55 * ring), 1.0) * inside;
}`;
const EDGE_VERTEX = `${MOVE}
void main() { gl_Position = place(); }`;
const EDGE_FRAGMENT = `#version 300 es
precision mediump float;
uniform vec4 ink; out vec4 color;
void main() { color = vec4(ink.rgb * ink.a, ink.a); }`;

const FLOATS = ["x0", "y0", "x1", "y1", "v0", "v1"];
// While something moves, a machine that needs longer for a frame than this (in ms) draws a part of the edges, but never
// fewer than this many; when nothing has moved for REST ms, all of them.
const FRAME = 30;
const REST = 160;
const FEWEST_EDGES = 4000;

function program(gl, vertex, fragment) {
  const made = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(made, shader);
  }
  FLOATS.forEach((name, i) => gl.bindAttribLocation(made, i, name));
  gl.linkProgram(made);
  if (!gl.getProgramParameter(made, gl.LINK_STATUS)) throw new Error(`WebGL2: ${gl.getProgramInfoLog(made)}`);
  const at = {};
  const count = gl.getProgramParameter(made, gl.ACTIVE_UNIFORMS);
  for (let i = 0; i < count; i++) {
    const { name } = gl.getActiveUniform(made, i);
    at[name] = gl.getUniformLocation(made, name);
  }
  return { made, at };
}

const rgb = (css) => {
  const probe = new OffscreenCanvas(1, 1).getContext("2d");
  probe.fillStyle = css;
  probe.fillRect(0, 0, 1, 1);
  return [...probe.getImageData(0, 0, 1, 1).data].slice(0, 3).map((part) => part / 255);
};

/** The pairs in an order without meaning, so that the first ones are a fair sample; the same at every visit. */
function shuffled(pairs) {
  const mixed = Uint32Array.from(pairs);
  let state = 1;
  for (let i = mixed.length / 2 - 1; i > 0; i--) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    const j = Math.floor((state / 2 ** 32) * (i + 1));
    [mixed[2 * i], mixed[2 * j]] = [mixed[2 * j], mixed[2 * i]];
    [mixed[2 * i + 1], mixed[2 * j + 1]] = [mixed[2 * j + 1], mixed[2 * i + 1]];
  }
  return mixed;
}

/** Points and edges on one canvas. */
export class Scene {
  constructor(canvas, glide = 220) {
    const gl = canvas.getContext("webgl2", { antialias: true, premultipliedAlpha: true, alpha: true });
    if (!gl) throw new Error("this browser has no WebGL2, which the explorer draws with");
    this.canvas = canvas;
    this.gl = gl;
    this.glide = matchMedia("(prefers-reduced-motion: reduce)").matches ? 0 : glide;
    this.count = 0;
    this.numEdges = 0;
    this.share = 1; // of the edges, while something moves
    this.shown = 0; // edges in the last frame
    this.limits = [1, 1];
    this.started = { place: -1e9, color: -1e9 };
    this.camera = { scale: [1, 1], shift: [0, 0] };
    this.size = 6;
    this.build();
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => { this.build(); this.restore?.(); });
  }

  build() {
    const { gl } = this;
    this.points = program(gl, POINT_VERTEX, POINT_FRAGMENT);
    this.edges = program(gl, EDGE_VERTEX, EDGE_FRAGMENT);
    this.buffers = Object.fromEntries(FLOATS.map((name) => [name, gl.createBuffer()]));
    this.indices = gl.createBuffer();
    this.table = gl.createTexture();
    gl.enable(gl.BLEND);
    gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
    this.wanted = false;
  }

  setColors(table, rim, ink) {
    const { gl } = this;
    gl.bindTexture(gl.TEXTURE_2D, this.table);
    gl.texImage2D(gl.TEXTURE_2D, 0, gl.RGBA, 256, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, table);
    for (const [name, value] of [[gl.TEXTURE_MIN_FILTER, gl.LINEAR], [gl.TEXTURE_MAG_FILTER, gl.LINEAR], [gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE], [gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE]]) gl.texParameteri(gl.TEXTURE_2D, name, value);
    this.rim = rgb(rim);
    this.ink = rgb(ink);
    this.request();
  }

  #fill(name, values) {
    this.gl.bindBuffer(this.gl.ARRAY_BUFFER, this.buffers[name]);
    this.gl.bufferData(this.gl.ARRAY_BUFFER, values, this.gl.DYNAMIC_DRAW);
  }

  /** New places; the points glide there if their number is the same. */
  setPlaces(x, y) {
    const glides = this.x?.length === x.length;
    this.#fill("x0", glides ? this.x : x);
    this.#fill("y0", glides ? this.y : y);
    this.#fill("x1", x);
    this.#fill("y1", y);
    if (!glides) this.values = null;
    [this.x, this.y, this.count] = [x, y, x.length];
    this.started.place = glides ? performance.now() : -1e9;
    this.request();
  }

  setValues(values, limit) {
    const glides = this.values?.length === values.length;
    this.#fill("v0", glides ? this.values : values);
    this.#fill("v1", values);
    this.limits = [glides ? this.limits[1] : limit, limit];
    this.values = values;
    this.started.color = glides ? performance.now() : -1e9;
    this.request();
  }

  setEdges(pairs) {
    this.gl.bindBuffer(this.gl.ELEMENT_ARRAY_BUFFER, this.indices);
    this.gl.bufferData(this.gl.ELEMENT_ARRAY_BUFFER, shuffled(pairs), this.gl.STATIC_DRAW);
    this.numEdges = pairs.length / 2;
    this.share = 1;
    this.request();
  }

  request() {
    clearTimeout(this.rest);
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => {
      this.wanted = false;
      this.draw(this.share);
      if (this.shown < this.numEdges) this.rest = setTimeout(() => this.draw(), REST);
    });
  }

  /** Learn from how long the GPU took for a frame what part of the edges the next ones can have. */
  #learn(began) {
    const { gl } = this;
    const fence = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
    gl.flush();
    const look = (pause) => {
      if (gl.isContextLost()) return;
      if (gl.clientWaitSync(fence, 0, 0) === gl.TIMEOUT_EXPIRED) { setTimeout(look, pause, 2 * pause); return; }
      gl.deleteSync(fence);
      const faster = FRAME / Math.max(1, performance.now() - began);
      // Up only slowly and with room to spare, so that it does not swing.
      if (faster < 1) this.share = Math.max(this.share * Math.max(faster, 0.1), Math.min(1, FEWEST_EDGES / this.numEdges));
      else if (faster > 2) this.share = Math.min(1, this.share * 1.25);
    };
    setTimeout(look, 0, 4);
  }

  #part(since) {
    const passed = this.glide ? Math.min(1, (performance.now() - since) / this.glide) : 1;
    return passed * passed * (3 - 2 * passed);
  }

  draw(share = 1) {
    const { gl, canvas } = this;
    const began = performance.now();
    const ratio = Math.min(devicePixelRatio || 1, 2);
    const [width, height] = [Math.round(canvas.clientWidth * ratio), Math.round(canvas.clientHeight * ratio)];
    if (!width || !height || gl.isContextLost()) return;
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
    gl.viewport(0, 0, width, height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    if (!this.count || !this.values || !this.rim) return;
    const [moved, coloured] = [this.#part(this.started.place), this.#part(this.started.color)];
    FLOATS.forEach((name, i) => {
      gl.bindBuffer(gl.ARRAY_BUFFER, this.buffers[name]);
      gl.enableVertexAttribArray(i);
      gl.vertexAttribPointer(i, 1, gl.FLOAT, false, 0, 0);
    });
    const place = ({ at }) => {
      gl.uniform2f(at.scale, ...this.camera.scale);
      gl.uniform2f(at.shift, ...this.camera.shift);
      gl.uniform1f(at.moved, moved);
    };
    this.shown = Math.ceil(share * this.numEdges);
    if (this.shown) {
      gl.useProgram(this.edges.made);
      place(this.edges);
      gl.uniform4f(this.edges.at.ink, ...this.ink, Math.max(0.035, Math.min(0.34, 9 / Math.sqrt(this.shown + 1))));
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, this.indices);
      gl.drawElements(gl.LINES, 2 * this.shown, gl.UNSIGNED_INT, 0);
    }
    gl.useProgram(this.points.made);
    place(this.points);
    const { at } = this.points;
    gl.uniform1f(at.limit0, this.limits[0]);
    gl.uniform1f(at.limit1, this.limits[1]);
    gl.uniform1f(at.coloured, coloured);
    gl.uniform1f(at.size, this.size * ratio);
    gl.uniform3f(at.rim, ...this.rim);
    gl.activeTexture(gl.TEXTURE0);
    gl.bindTexture(gl.TEXTURE_2D, this.table);
    gl.uniform1i(at.table, 0);
    gl.drawArrays(gl.POINTS, 0, this.count);
    if (this.numEdges > FEWEST_EDGES) this.#learn(began);
    if (moved < 1 || coloured < 1) this.request();
  }

  /** What is on the canvas as a picture, on a ground of the given colour. */
  async picture(ground) {
    this.started = { place: -1e9, color: -1e9 };
    this.draw();
    const flat = new OffscreenCanvas(this.canvas.width, this.canvas.height);
    const pen = flat.getContext("2d");
    pen.fillStyle = ground;
    pen.fillRect(0, 0, flat.width, flat.height);
    pen.drawImage(this.canvas, 0, 0);
    return flat;
  }
}
