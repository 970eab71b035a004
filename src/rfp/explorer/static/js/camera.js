// One camera for both sides: drag, wheel, pinch and keys move it; places are in the units of the layout, about -1 to 1.

export class Camera {
  constructor() {
    this.center = [0, 0];
    this.zoom = 1;
    this.half = [1, 1]; // half the width and height of what is to fit
    this.listeners = new Set();
  }

  changed() { for (const listener of this.listeners) listener(); }

  fit() {
    this.center = [0, 0];
    this.zoom = 1;
    this.changed();
  }

  /** What has to fit when nothing is zoomed. */
  setExtent(width, height) {
    this.half = [Math.max(width / 2, 1e-3), Math.max(height / 2, 1e-3)];
    this.changed();
  }

  /** Look at a place. */
  lookAt(x, y, zoom = this.zoom) {
    this.center = [x, y];
    this.zoom = zoom;
    this.changed();
  }

  /** Pixels a unit of the layout takes. */
  unit({ clientWidth: width, clientHeight: height }) {
    return this.zoom * Math.min((0.44 * width) / this.half[0], (0.5 * height - Math.min(70, 0.12 * height)) / this.half[1]);
  }

  /** What the shaders multiply and add. */
  uniforms(canvas) {
    const unit = this.unit(canvas);
    const scale = [(2 * unit) / canvas.clientWidth, (2 * unit) / canvas.clientHeight];
    return { scale, shift: [-this.center[0] * scale[0], -this.center[1] * scale[1]] };
  }

  toScreen(x, y, canvas) {
    const unit = this.unit(canvas);
    return [canvas.clientWidth / 2 + (x - this.center[0]) * unit, canvas.clientHeight / 2 - (y - this.center[1]) * unit];
  }

  fromScreen(px, py, canvas) {
    const unit = this.unit(canvas);
    return [this.center[0] + (px - canvas.clientWidth / 2) / unit, this.center[1] - (py - canvas.clientHeight / 2) / unit];
  }

  pan(dx, dy, canvas) {
    const unit = this.unit(canvas);
    this.center = [this.center[0] - dx / unit, this.center[1] + dy / unit];
    this.changed();
  }

  /** Zoom so that what is under (px, py) stays there. */
  zoomAt(factor, px, py, canvas) {
    const before = this.fromScreen(px, py, canvas);
    this.zoom = Math.min(400, Math.max(0.4, this.zoom * factor));
    const after = this.fromScreen(px, py, canvas);
    this.center = [this.center[0] + before[0] - after[0], this.center[1] + before[1] - after[1]];
    this.changed();
  }
}

/** Let pointers, the wheel and keys on a canvas move a camera; `onTap` gets what was a click and not a drag. */
export function steer(canvas, camera, { onTap, onHover, onLeave }) {
  const pointers = new Map();
  let travelled = 0;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, at(event));
    travelled = pointers.size > 1 ? 99 : 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = at(event);
    const before = pointers.get(event.pointerId);
    if (!before) { onHover(...now); return; }
    const others = [...pointers].filter(([id]) => id !== event.pointerId);
    if (others.length) {
      const [ox, oy] = others[0][1];
      const gap = ([x, y]) => Math.hypot(x - ox, y - oy) || 1;
      camera.zoomAt(gap(now) / gap(before), (now[0] + ox) / 2, (now[1] + oy) / 2, canvas);
    } else {
      travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
      if (travelled > 4) camera.pan(now[0] - before[0], now[1] - before[1], canvas);
    }
    pointers.set(event.pointerId, now);
  });
  for (const kind of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(kind, (event) => {
      if (pointers.delete(event.pointerId) && kind === "pointerup" && travelled <= 4) onTap(...at(event), event);
    });
  }
  canvas.addEventListener("pointerleave", onLeave);
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    camera.zoomAt(Math.exp(-event.deltaY * (event.deltaMode ? 0.04 : 0.0015)), ...at(event), canvas);
  }, { passive: false });
  const middle = () => [canvas.clientWidth / 2, canvas.clientHeight / 2];
  const keys = {
    ArrowLeft: () => camera.pan(40, 0, canvas), ArrowRight: () => camera.pan(-40, 0, canvas),
    ArrowUp: () => camera.pan(0, 40, canvas), ArrowDown: () => camera.pan(0, -40, canvas),
    "+": () => camera.zoomAt(1.3, ...middle(), canvas), "=": () => camera.zoomAt(1.3, ...middle(), canvas),
    "-": () => camera.zoomAt(1 / 1.3, ...middle(), canvas), 0: () => camera.fit(),
  };
  canvas.addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    keys[event.key]();
  });
}
