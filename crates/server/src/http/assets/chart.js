// Stacked areas over the last ten minutes.

import { clock, element, setText, svg } from "./format.js";

const WINDOW_MS = 600_000;
/** A longer time between two samples is a gap. */
const GAP_MS = 3500;
const [LEFT, RIGHT, TOP, BOTTOM] = [58, 4, 8, 20];
const HEIGHT = 170;

/**
 * The step between lines of a grid: a power of two, so that labels of bytes are round, and at most
 * five lines.
 */
function gridStep(most) {
  return 2 ** Math.ceil(Math.log2(Math.max(most, 1) / 5));
}

export class Chart {
  /** A chart with a title and a format for its values. */
  constructor(title, format) {
    this.format = format;
    this.heading = element("span");
    this.picture = svg("svg", { role: "img", "aria-label": title, height: HEIGHT });
    this.legend = element("ul", { class: "legend" });
    this.node = element(
      "div", { class: "chart" },
      element("h3", {}, element("b", { title }, title), this.heading), this.picture, this.legend,
    );
    this.entries = new Map();
    this.hovered = null;
    this.data = null;
    this.picture.addEventListener("pointermove", (event) => this.hover(event));
    this.picture.addEventListener("pointerleave", () => this.leave());
    new ResizeObserver(() => this.draw()).observe(this.node);
  }

  /**
   * Shows series: `times` in milliseconds, `series` of `{ name, color, values }`, and the heading.
   * A `limit` is a dashed line.
   */
  show(times, series, { limit = null, heading = "" } = {}) {
    this.data = { times, series, limit, heading };
    this.draw();
  }

  hover(event) {
    if (!this.data) return;
    const box = this.picture.getBoundingClientRect();
    const { times } = this.data;
    const at = this.start + ((event.clientX - box.left - LEFT) / this.width) * WINDOW_MS;
    let nearest = null;
    times.forEach((time, index) => {
      const distance = Math.abs(time - at);
      if (nearest === null || distance < Math.abs(times[nearest] - at)) nearest = index;
    });
    this.hovered = nearest === null ? null : times[nearest];
    this.draw();
  }

  leave() {
    this.hovered = null;
    this.draw();
  }

  draw() {
    const outer = this.picture.clientWidth;
    if (!this.data || outer === 0) return;
    const { times, series, limit, heading } = this.data;
    const last = times.length - 1;
    this.width = Math.max(outer - LEFT - RIGHT, 1);
    this.start = (times[last] ?? Date.now()) - WINDOW_MS;
    const sums = times.map((_, index) => series.reduce((sum, it) => sum + it.values[index], 0));
    const most = Math.max(1, limit ?? 0, ...sums) * 1.02;
    const plot = HEIGHT - TOP - BOTTOM;
    const x = (time) => LEFT + ((time - this.start) / WINDOW_MS) * this.width;
    const y = (value) => TOP + plot * (1 - value / most);
    const parts = [];
    const step = gridStep(most);
    for (let value = 0; value <= most; value += step) {
      parts.push(line("grid", LEFT, outer - RIGHT, y(value), y(value)));
      parts.push(label(LEFT - 6, y(value) + 4, "end", this.format(value)));
    }
    for (const [minutes, anchor] of [[10, "start"], [5, "middle"], [0, "end"]]) {
      const text = minutes === 0 ? "now" : `${minutes} min ago`;
      parts.push(label(LEFT + (1 - minutes / 10) * this.width, HEIGHT - 5, anchor, text));
    }
    const base = times.map(() => 0);
    for (const { color, values } of series) {
      const path = areas(times, base, values, x, y);
      if (path !== "") parts.push(svg("path", { class: `f${color}`, d: path }));
      values.forEach((value, index) => { base[index] += value; });
    }
    if (limit !== null) parts.push(line("limit", LEFT, outer - RIGHT, y(limit), y(limit)));
    const shown = this.hovered === null ? last : times.indexOf(this.hovered);
    if (this.hovered !== null && shown >= 0) {
      parts.push(line("cursor", x(this.hovered), x(this.hovered), TOP, HEIGHT - BOTTOM));
    }
    setText(this.heading, this.hovered === null ? heading : `at ${clock(this.hovered)}`);
    this.picture.setAttribute("viewBox", `0 0 ${outer} ${HEIGHT}`);
    this.picture.replaceChildren(...parts);
    this.name(series, shown >= 0 ? shown : last);
  }

  /** The legend, with the values of one sample. */
  name(series, index) {
    const items = series.map(({ name, color, values }) => {
      if (!this.entries.has(name)) {
        const swatch = svg("rect", { width: 10, height: 10 });
        const value = element("b");
        const item = element("li", {}, svg("svg", {}, swatch), element("span", {}, name), value);
        this.entries.set(name, { item, swatch, value });
      }
      const { item, swatch, value } = this.entries.get(name);
      swatch.setAttribute("class", `f${color}`);
      setText(value, index >= 0 ? this.format(values[index]) : "-");
      return item;
    });
    const names = new Set(series.map(({ name }) => name));
    for (const name of this.entries.keys()) if (!names.has(name)) this.entries.delete(name);
    const isSame = items.length === this.legend.children.length
      && items.every((item, place) => this.legend.children[place] === item);
    if (!isSame) this.legend.replaceChildren(...items);
  }
}

function line(kind, x1, x2, y1, y2) {
  return svg("line", { class: kind, x1, x2, y1, y2 });
}

function label(x, y, anchor, text) {
  return svg("text", { x, y, "text-anchor": anchor }, text);
}

/** The path of an area on top of `base`, in pieces between gaps. */
function areas(times, base, values, x, y) {
  const pieces = [];
  let from = 0;
  for (let index = 1; index <= times.length; index += 1) {
    const ends = index === times.length || times[index] - times[index - 1] > GAP_MS;
    if (!ends) continue;
    const range = Array.from({ length: index - from }, (_, offset) => from + offset);
    from = index;
    if (range.every((at) => values[at] === 0)) continue;
    const point = (at, value) => `${x(times[at]).toFixed(1)},${y(value).toFixed(1)}`;
    const upper = range.map((at) => point(at, base[at] + values[at]));
    const lower = range.map((at) => point(at, base[at])).reverse();
    pieces.push(`M${upper.join("L")}L${lower.join("L")}Z`);
  }
  return pieces.join("");
}

/** Colors for names that come and go: a name keeps its color for as long as it is shown. */
export class Colors {
  constructor(number) {
    this.number = number;
    this.known = new Map();
  }

  of(names) {
    for (const name of this.known.keys()) if (!names.includes(name)) this.known.delete(name);
    for (const name of names.filter((it) => !this.known.has(it))) {
      const taken = new Set(this.known.values());
      const free = Array.from({ length: this.number }, (_, color) => color)
        .find((color) => !taken.has(color));
      this.known.set(name, free ?? 0);
    }
    return names.map((name) => this.known.get(name));
  }
}
