// Which point is under the pointer: a grid over the points, made when they have moved and somebody asks.

export class Picker {
  /** `x` and `y` are arrays of the same length, in units in which a radius is given later. */
  constructor(x, y) {
    [this.x, this.y] = [x, y];
    const n = x.length;
    let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < n; i++) {
      if (x[i] < left) left = x[i];
      if (x[i] > right) right = x[i];
      if (y[i] < low) low = y[i];
      if (y[i] > high) high = y[i];
    }
    this.side = Math.max(1, Math.ceil(Math.sqrt(n / 2)));
    this.origin = [left, low];
    this.cell = [Math.max(right - left, 1e-9) / this.side, Math.max(high - low, 1e-9) / this.side];
    const owner = new Int32Array(n);
    this.first = new Int32Array(this.side * this.side + 1);
    for (let i = 0; i < n; i++) {
      owner[i] = this.#column(x[i], 0) * this.side + this.#column(y[i], 1);
      this.first[owner[i] + 1]++;
    }
    for (let c = 0; c < this.side * this.side; c++) this.first[c + 1] += this.first[c];
    const next = this.first.slice(0, -1);
    this.members = new Int32Array(n);
    for (let i = 0; i < n; i++) this.members[next[owner[i]]++] = i;
  }

  #column(value, axis) {
    const place = Math.floor((value - this.origin[axis]) / this.cell[axis]);
    return Number.isFinite(place) ? Math.min(this.side - 1, Math.max(0, place)) : 0;
  }

  /** The nearest point within a radius along each axis, or -1. */
  nearest(px, py, radiusX, radiusY = radiusX) {
    let [best, found] = [1, -1];
    for (let i = this.#column(px - radiusX, 0); i <= this.#column(px + radiusX, 0); i++) {
      for (let j = this.#column(py - radiusY, 1); j <= this.#column(py + radiusY, 1); j++) {
        const c = i * this.side + j;
        for (let m = this.first[c]; m < this.first[c + 1]; m++) {
          const node = this.members[m];
          const distance = ((this.x[node] - px) / radiusX) ** 2 + ((this.y[node] - py) / radiusY) ** 2;
          if (distance <= best) [best, found] = [distance, node];
        }
      }
    }
    return found;
  }
}
