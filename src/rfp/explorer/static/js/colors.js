// Diverging maps, blue through grey to orange: told apart with every common kind of colour blindness, zero in the middle.

const MAPS = {
  light: ["#08306b", "#2171b5", "#79b4e3", "#e6e6e3", "#f6ad6a", "#d9651b", "#7f2704"],
  dark: ["#b9dcff", "#5aa5f2", "#2f6299", "#3a4047", "#9c5a28", "#f58a3c", "#ffd9b0"],
};

const parse = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

/** 256 RGBA colours from the most negative to the most positive. */
export function colorTable(theme) {
  const stops = MAPS[theme].map(parse);
  const table = new Uint8Array(256 * 4);
  for (let i = 0; i < 256; i++) {
    const place = (i / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(place), stops.length - 2);
    for (let j = 0; j < 3; j++) table[4 * i + j] = stops[low][j] + (place - low) * (stops[low + 1][j] - stops[low][j]);
    table[4 * i + 3] = 255;
  }
  return table;
}

export function colorOf(value, limit, table) {
  if (!Number.isFinite(value)) return "rgb(128,128,128)";
  const at = 4 * Math.round(Math.min(1, Math.max(0, 0.5 + (0.5 * value) / limit)) * 255);
  return `rgb(${table[at]},${table[at + 1]},${table[at + 2]})`;
}

/** The symmetric limit of the colours: the largest magnitude, or on larger graphs that of 99 % of the nodes. */
const limits = new WeakMap();
export function colorLimit(values) {
  if (!limits.has(values)) limits.set(values, findLimit(values));
  return limits.get(values);
}

function findLimit(values) {
  const sizes = values.map(Math.abs).filter(Number.isFinite);
  if (!sizes.length) return { limit: 1, clipped: false };
  let largest = 0;
  for (const size of sizes) if (size > largest) largest = size;
  if (sizes.length <= 500) return { limit: largest || 1, clipped: false };
  sizes.sort();
  const most = sizes[Math.floor(0.99 * (sizes.length - 1))];
  return most > 0 ? { limit: most, clipped: most < largest } : { limit: largest || 1, clipped: false };
}

export const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
export const theme = () => document.documentElement.dataset.theme;

/** Numbers for people: four digits, and a true minus. */
export function show(value) {
  if (!Number.isFinite(value)) return "not finite";
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e4) ? value.toExponential(2) : value.toPrecision(4).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
  return text.replace("-", "\u2212").replace("e+", "e");
}
