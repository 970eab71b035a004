// The graph: nodes coloured by a channel at a step, edges, hover, selection, the legend of the colours.

import { colorLimit, colorOf, colorTable, css, show, theme } from "./colors.js";
import { steer } from "./camera.js";
import { Picker } from "./picking.js";
import { Scene } from "./scene.js";

const element = (tag, className = "", text = "") => Object.assign(document.createElement(tag), { className, textContent: text });

export class GraphView {
  /** `events`: onSelect(node, event), onHover(node) . */
  constructor(camera, index, events) {
    this.camera = camera;
    this.events = events;
    this.index = index;
    this.root = element("div", index ? "pane second" : "pane");
    this.canvas = element("canvas");
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", "The graph. Arrow keys move, plus and minus zoom, 0 fits.");
    this.caption = element("div", "caption");
    this.title = this.caption.appendChild(element("h2"));
    this.subtitle = this.caption.appendChild(element("p"));
    this.legend = element("div", "legend");
    this.ramp = this.legend.appendChild(element("canvas"));
    this.ends = this.legend.appendChild(element("div"));
    this.tip = element("div", "tip");
    this.tip.hidden = true;
    this.pill = element("div", "pill");
    this.pill.hidden = true;
    this.message = element("div", "state");
    this.marks = element("div");
    this.root.append(this.canvas, this.marks, this.caption, this.legend, this.#zoomButtons(), this.pill, this.tip, this.message);
    this.scene = new Scene(this.canvas);
    this.scene.restore = () => this.redrawAll();
    this.look = () => this.#look();
    camera.listeners.add(this.look);
    steer(this.canvas, camera, {
      onHover: (x, y) => this.#hover(x, y),
      onLeave: () => this.#unhover(),
      onTap: (x, y, event) => events.onSelect(this.#under(x, y, event.pointerType === "touch" ? 18 : 9), event),
    });
    this.observer = new ResizeObserver(() => this.#look());
    this.observer.observe(this.root);
    this.recolor();
    this.busy("Loading the graph");
  }

  #zoomButtons() {
    const box = element("div", "zoom");
    const middle = () => [this.canvas.clientWidth / 2, this.canvas.clientHeight / 2];
    const actions = [
      ["+", "Zoom in", () => this.camera.zoomAt(1.4, ...middle(), this.canvas)],
      ["−", "Zoom out", () => this.camera.zoomAt(1 / 1.4, ...middle(), this.canvas)],
      ["⤢", "Fit the whole graph", () => this.camera.fit()],
    ];
    for (const [text, label, act] of actions) {
      const button = element("button", "", text);
      button.type = "button";
      button.ariaLabel = label;
      button.title = label;
      button.addEventListener("click", act);
      box.append(button);
    }
    return box;
  }

  setGraph({ ids, degrees, edges, numNodes }) {
    [this.ids, this.degrees, this.edgePairs, this.numNodes] = [ids, degrees, edges, numNodes];
    this.scene.setEdges(edges);
    this.values = null;
  }

  setPositions(positions) {
    const n = positions.length / 2;
    const [x, y] = [new Float32Array(n), new Float32Array(n)];
    for (let i = 0; i < n; i++) [x[i], y[i]] = [positions[2 * i], positions[2 * i + 1]];
    this.scene.setPlaces(x, y);
    [this.x, this.y, this.picker] = [x, y, null];
    if (this.values) this.scene.setValues(this.values, this.limit);
    this.#look();
  }

  /** Colour the nodes; `details` are further values that hovering shows: [[name, array], ...]. */
  setValues(values, details) {
    const { limit, clipped } = colorLimit(values);
    [this.values, this.limit, this.clipped, this.details] = [values, limit, clipped, details];
    if (this.x) this.scene.setValues(values, limit);
    this.#drawLegend();
    this.message.hidden = true;
    if (this.hovered >= 0) this.#showTip(this.hovered);
  }

  setTitle(title, subtitle) {
    this.title.textContent = title;
    this.subtitle.textContent = subtitle;
  }

  /** A pill with progress in the corner: [text, done, total] or null. */
  progress(about) {
    this.pill.hidden = !about;
    if (!about) return;
    const [text, done, total] = about;
    const bar = element("progress");
    bar.ariaLabel = text;
    if (total) [bar.max, bar.value] = [total, done];
    this.pill.replaceChildren(text, bar);
  }

  busy(text) {
    const dots = element("div", "dots");
    dots.append(element("i"), element("i"), element("i"));
    this.message.hidden = false;
    this.message.replaceChildren(dots, element("p", "", text));
  }

  /** An error in place of the graph, with something to do about it. */
  fail(title, text, action, act) {
    const button = element("button", "primary", action);
    button.type = "button";
    button.addEventListener("click", act);
    this.message.hidden = false;
    this.message.setAttribute("role", "alert");
    this.message.replaceChildren(element("h3", "", title), element("p", "", text), button);
  }

  select(nodes) {
    this.selected = nodes;
    this.marks.replaceChildren(...nodes.map((node) => {
      const mark = element("div", "mark");
      mark.append(element("span", "", this.name(node)));
      return mark;
    }));
    this.#placeMarks();
  }

  name(node) { return this.ids ? this.ids[node] : String(node); }

  recolor() {
    this.table = colorTable(theme());
    this.scene.setColors(this.table, theme() === "dark" ? "#000000" : "#1b1f24", css("--edge"));
    this.#drawLegend();
  }

  redrawAll() {
    this.recolor();
    if (this.edgePairs) this.scene.setEdges(this.edgePairs);
    if (this.x) this.scene.setPlaces(this.x, this.y);
    if (this.values) this.scene.setValues(this.values, this.limit);
  }

  close() {
    this.camera.listeners.delete(this.look);
    this.observer.disconnect();
    this.scene.gl.getExtension("WEBGL_lose_context")?.loseContext();
    this.root.remove();
  }

  #look() {
    if (!this.canvas.clientWidth) return;
    this.scene.camera = this.camera.uniforms(this.canvas);
    const area = this.canvas.clientWidth * this.canvas.clientHeight;
    const natural = 0.34 * Math.sqrt(area / Math.max(1, this.numNodes ?? 1));
    this.scene.size = Math.min(26, Math.max(2.2, Math.min(15, natural)) * Math.sqrt(Math.max(1, this.camera.zoom)));
    this.scene.request();
    this.#placeMarks();
    this.#unhover();
  }

  #under(px, py, reach = 9) {
    if (!this.x) return -1;
    this.picker ??= new Picker(this.x, this.y);
    const radius = Math.max(reach, this.scene.size / 2 + 2) / this.camera.unit(this.canvas);
    return this.picker.nearest(...this.camera.fromScreen(px, py, this.canvas), radius);
  }

  #hover(px, py) {
    const node = this.#under(px, py);
    this.canvas.classList.toggle("on-node", node >= 0);
    if (node !== this.hovered) this.events.onHover(node);
    if (node < 0) this.#unhover();
    else this.#showTip(node);
  }

  #unhover() {
    this.hovered = -1;
    this.tip.hidden = true;
  }

  #showTip(node) {
    if (!this.values) return;
    this.hovered = node;
    const facts = [["value", this.values[node]], ...(this.details ?? []).map(([name, array]) => [name, array[node]])];
    const list = element("dl");
    for (const [name, value] of facts) list.append(element("dt", "", name), element("dd", "", show(value)));
    if (this.degrees) list.append(element("dt", "", "degree"), element("dd", "", String(this.degrees[node])));
    this.tip.replaceChildren(element("b", "", this.name(node)), list);
    this.tip.hidden = false;
    const [x, y] = this.camera.toScreen(this.x[node], this.y[node], this.canvas);
    const [width, height] = [this.tip.offsetWidth, this.tip.offsetHeight];
    this.tip.style.left = `${x + width + 20 > this.canvas.clientWidth ? Math.max(4, x - width - 14) : x + 14}px`;
    this.tip.style.top = `${Math.min(Math.max(4, y - height / 2), this.canvas.clientHeight - height - 4)}px`;
  }

  #placeMarks() {
    [...this.marks.children].forEach((mark, i) => {
      const node = this.selected[i];
      mark.hidden = !this.x || node >= this.x.length;
      if (mark.hidden) return;
      const [x, y] = this.camera.toScreen(this.x[node], this.y[node], this.canvas);
      mark.style.left = `${x}px`;
      mark.style.top = `${y}px`;
    });
  }

  #drawLegend() {
    this.legend.hidden = !this.values;
    if (!this.values) return;
    const pen = this.ramp.getContext("2d");
    [this.ramp.width, this.ramp.height] = [256, 1];
    pen.putImageData(new ImageData(new Uint8ClampedArray(this.table), 256, 1), 0, 0);
    const more = this.clipped ? ["≤ ", "≥ "] : ["", ""];
    this.ends.replaceChildren(element("span", "", more[0] + show(-this.limit)), element("span", "", "0"), element("span", "", more[1] + show(this.limit)));
  }

  /** The picture as SVG: the same places, edges and colours. */
  svg() {
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    const at = (node) => this.camera.toScreen(this.x[node], this.y[node], this.canvas).map((part) => part.toFixed(2));
    const lines = [];
    for (let e = 0; e < this.edgePairs.length; e += 2) {
      const [[x1, y1], [x2, y2]] = [at(this.edgePairs[e]), at(this.edgePairs[e + 1])];
      lines.push(`M${x1} ${y1}L${x2} ${y2}`);
    }
    const radius = (this.scene.size / 2).toFixed(2);
    const dots = Array.from(this.values, (value, node) => {
      const [x, y] = at(node);
      return `<circle cx="${x}" cy="${y}" r="${radius}" fill="${colorOf(value, this.limit, this.table)}"/>`;
    });
    const opacity = Math.max(0.035, Math.min(0.34, 9 / Math.sqrt(lines.length + 1))).toFixed(3);
    return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`
      + `<rect width="100%" height="100%" fill="${css("--ground")}"/><path d="${lines.join("")}" stroke="${css("--edge")}" stroke-opacity="${opacity}" fill="none"/>`
      + `<g stroke="#1b1f24" stroke-opacity="0.55" stroke-width="1">${dots.join("")}</g></svg>`;
  }
}
