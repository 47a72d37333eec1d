// Numbers as texts, and elements.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** Three digits of a number, without zeros at its end. */
function digits(value) {
  const places = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return String(Number(value.toFixed(places)));
}

/** Bytes with a unit of 1024. */
export function bytes(value) {
  if (value === null || value === undefined) return "-";
  let unit = 0;
  while (value >= 1000 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? Math.round(value) : digits(value)} ${UNITS[unit]}`;
}

/** Bytes a second. */
export const rate = (value) => `${bytes(value)}/s`;

/** A duration in seconds. */
export function seconds(value) {
  if (value === null || value === undefined) return "-";
  if (value < 0.001) return `${digits(value * 1e6)} us`;
  if (value < 1) return `${digits(value * 1e3)} ms`;
  if (value < 100) return `${digits(value)} s`;
  const whole = Math.round(value);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min ${whole % 60} s`;
}

/** A count with spaces between thousands. */
export const count = (value) => String(value).replace(/\B(?=(\d{3})+$)/g, " ");

/** A part of 1. */
export const percent = (value) =>
  `${value > 0.99 && value < 1 ? Math.min(99.9, digits(value * 100)) : Math.round(value * 100)} %`;

/** An amount of money or penalty. */
export const amount = (value) =>
  value === null || value === undefined ? "-" : value !== 0 && Math.abs(value) < 0.01
    ? value.toExponential(1)
    : count(digits(value));

/** The time of day of milliseconds since 1970. */
export const clock = (millis) => new Date(millis).toTimeString().slice(0, 8);

/** An element with attributes and children, which are texts or elements. */
export function element(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** An element of SVG. */
export function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function filled(node, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

/** Sets a text where it is another one. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** A bar of parts: `[[value, class], ...]` out of `whole`, with a mark at `mark`. */
export function bar(parts, whole, mark = null) {
  const picture = svg("svg", { class: "bar", viewBox: "0 0 100 8", preserveAspectRatio: "none" });
  picture.append(svg("rect", { class: "track", width: 100, height: 8 }));
  let x = 0;
  for (const [value, kind] of parts) {
    const width = whole > 0 ? Math.min((value / whole) * 100, 100 - x) : 0;
    picture.append(svg("rect", { class: kind, x, width, height: 8 }));
    x += width;
  }
  if (mark !== null && whole > 0) {
    const at = Math.min((mark / whole) * 100, 99.5);
    picture.append(svg("line", {
      class: "mark", x1: at, x2: at, y1: 0, y2: 8, "vector-effect": "non-scaling-stroke",
    }));
  }
  return picture;
}
