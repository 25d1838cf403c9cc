// A line chart in SVG: time along the bottom, one scale on the left. Pointing, or the arrow keys, shows values.

import { element } from "./dom.js";
import { clock, compact, day, power, stamp, wholeBytes } from "./format.js";

const MARGIN = { left: 3.6, right: 0.6, top: 0.5, bottom: 1.3 }; // in the root's font size
const LOG_LEFT = 5.4; // the same for "≤ 1 in 100k"
const DECADES = 6; // at most so many are shown on a logarithmic scale, below the highest
const FLOOR = 1e-7; // chances below one in a million are all the same to people

// The smallest of 1, 2, 5 times a power of ten that is not below `value`.
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((step) => step * power >= value * 0.999) * power;
}

// The smallest power of two that is not below `value`, for bytes.
const nicePower = (value) => 2 ** Math.ceil(Math.log2(value) - 1e-9);

function linearScale(values, { counted, bytes }, lines) {
  const least = counted || bytes ? 1 : 0.1; // half a URL does not exist
  const step = Math.max((bytes ? nicePower : nice)(Math.max(...values, least) / lines), least);
  const top = step * Math.max(1, Math.ceil(Math.max(...values, 0) / step));
  const ticks = [];
  for (let index = 0; index * step <= top * 1.001; index += 1) ticks.push(index * step);
  return { ticks, place: (value) => value / top, label: (value, format) => (bytes ? wholeBytes : Number.isInteger(value) ? compact : format)(value) };
}

// Values below the lowest decade shown, including zero, lie on the bottom line, whose label says so. It lies a decade
// below the values that can be distinguished.
function logScale(values) {
  const positive = values.filter((value) => value > 0);
  const high = Math.ceil(Math.log10(Math.max(...positive, 10 * FLOOR)) + 1e-9);
  const lowest = Math.floor(Math.log10(Math.min(...positive, 10 ** (high - 1))));
  const clipped = lowest < high - DECADES || 10 ** lowest < FLOOR || positive.length < values.length;
  const low = Math.max(clipped ? Math.max(high - DECADES, lowest - 1) : lowest, Math.log10(FLOOR));
  const step = Math.ceil((high - low) / 4);
  const ticks = [];
  for (let power = high; power > low; power -= step) ticks.unshift(10 ** power);
  ticks.unshift(10 ** low);
  const place = (value) => Math.max(0, (Math.log10(Math.max(value, 1e-300)) - low) / (high - low));
  return { ticks, place, label: (value) => (clipped && value === ticks[0] ? "≤ " : "") + power(value) };
}

const TIME_STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

// Ticks at round times in the reader's time zone. Midnight shows the day, since a crawl may take many.
function timeTicks(start, end, most) {
  const wanted = (end - start) / most;
  const step = TIME_STEPS.find((candidate) => candidate >= wanted) ?? 86400 * Math.ceil(wanted / 86400);
  const zone = 60 * new Date(1000 * end).getTimezoneOffset();
  const ticks = [];
  for (let time = Math.ceil((start - zone) / step) * step + zone; time <= end; time += step) ticks.push(time);
  const midnight = (time) => (time - zone) % 86400 === 0;
  return { ticks, label: (time) => (step >= 3600 && midnight(time) ? day(time) : clock(time, step < 60)) };
}

export class Chart {
  // lines: [{ key, label, colour }]; keys name series of the data passed to `draw`.
  // `band`: the keys of the lower and upper end of an interval, drawn behind the lines.
  constructor(figure, { lines, format, log = false, counted = false, bytes = false, band = null }) {
    this.lines = lines;
    this.format = format;
    this.log = log;
    this.kind = { counted, bytes };
    this.band = band;
    this.name = figure.querySelector("figcaption").textContent;
    this.readings = new Map();
    const legend = document.createElement("ul");
    legend.className = "legend";
    for (const line of lines) {
      const sample = element("svg", { viewBox: "0 0 28 10", "aria-hidden": "true" });
      sample.append(element("path", { d: "M0 5H28", class: `line ${line.colour}` }));
      const reading = document.createElement("b");
      const entry = document.createElement("li");
      entry.append(sample, `${line.label} `, reading);
      legend.append(entry);
      this.readings.set(line.key, reading);
    }
    this.svg = element("svg", { role: "img", tabindex: "0", "aria-label": this.name });
    figure.append(legend, this.svg);
    this.data = null;
    this.pointed = null;
    this.seen = false; // nothing is drawn out of sight
    new ResizeObserver(() => this.redraw()).observe(this.svg);
    new IntersectionObserver((entries) => {
      this.seen = entries.at(-1).isIntersecting;
      this.redraw();
    }).observe(this.svg);
    this.svg.addEventListener("pointermove", (event) => this.point(event));
    this.svg.addEventListener("pointerleave", () => this.point(null));
    this.svg.addEventListener("blur", () => this.point(null));
    this.svg.addEventListener("keydown", (event) => this.step(event));
  }

  draw(data) {
    this.data = data;
    this.redraw();
  }

  redraw() {
    if (!this.seen || document.hidden) return;
    const { width, height } = this.svg.getBoundingClientRect();
    const times = this.data?.t ?? [];
    if (!width || !times.length) return;
    const keys = [...this.lines.map(({ key }) => key), ...(this.band ? [this.band.high] : [])];
    const values = keys.flatMap((key) => this.data[key].filter((value) => value !== null));
    const [start, end] = [times[0], Math.max(times.at(-1), times[0] + 10)];
    const size = parseFloat(getComputedStyle(document.documentElement).fontSize);
    const [left, right, top, bottom] = ["left", "right", "top", "bottom"].map((side) => (this.log && side === "left" ? LOG_LEFT : MARGIN[side]) * size);
    const inner = { left, top, width: width - left - right, height: height - top - bottom };
    const scale = this.log ? logScale(values) : linearScale(values, this.kind, Math.min(4, Math.max(1, Math.floor(inner.height / (1.8 * size)))));
    const x = (time) => left + ((time - start) / (end - start)) * inner.width;
    const y = (value) => top + (1 - scale.place(value)) * inner.height;
    const parts = [];
    for (const tick of scale.ticks) {
      const height = y(tick).toFixed(1);
      parts.push(element("path", { class: "grid", d: `M${left} ${height}H${width - right}` }));
      const place = { x: left - 6, y: height, "text-anchor": "end", "dominant-baseline": "central" };
      parts.push(element("text", place, scale.label(tick, this.format)));
    }
    const { ticks, label } = timeTicks(start, end, inner.width / (4.5 * size));
    for (const time of ticks) {
      if (x(time) > width - 2 * size) continue;
      const place = { x: x(time).toFixed(1), y: height - 0.25 * size, "text-anchor": "middle" };
      parts.push(element("text", place, label(time)));
    }
    if (this.band) parts.push(...this.bands(x, y));
    for (const { key, colour } of this.lines) {
      let path = "";
      let drawing = false;
      this.data[key].forEach((value, index) => {
        if (value !== null) path += `${drawing ? "L" : "M"}${x(times[index]).toFixed(1)} ${y(value).toFixed(1)}`;
        drawing = value !== null;
      });
      parts.push(element("path", { class: `line ${colour}`, d: path, "data-line": key }));
    }
    this.hair = element("path", { class: "hair" });
    this.when = element("text", { class: "when", y: top + 0.75 * size });
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren(...parts, this.hair, this.when);
    this.where = { x, start, end, inner };
    this.read();
  }

  // The interval: one area for each stretch of time that has one.
  bands(x, y) {
    const [low, high] = [this.data[this.band.low], this.data[this.band.high]];
    const areas = [];
    let stretch = [];
    this.data.t.forEach((time, index) => {
      const inside = low[index] !== null && high[index] !== null;
      if (inside) stretch.push(index);
      if (stretch.length > 1 && (!inside || index === this.data.t.length - 1)) {
        const edge = (values) => stretch.map((place) => `${x(this.data.t[place]).toFixed(1)} ${y(values[place]).toFixed(1)}`);
        areas.push(element("path", { class: "band", d: `M${edge(high).join("L")}L${edge(low).reverse().join("L")}Z` }));
      }
      if (!inside) stretch = [];
    });
    return areas;
  }

  point(event) {
    this.pointed = null;
    if (event && this.where) {
      const { start, end, inner } = this.where;
      const offset = event.clientX - this.svg.getBoundingClientRect().left - inner.left;
      this.pointed = start + (offset / inner.width) * (end - start);
    }
    this.read();
  }

  // The arrow keys move by one point, with Shift by ten; Home and End move to the first and the last; Escape returns to the present.
  step(event) {
    const times = this.data?.t ?? [];
    const way = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity, Escape: 0 }[event.key];
    if (way === undefined || !times.length) return;
    event.preventDefault();
    const index = this.pointed === null ? times.length - 1 : this.nearest(this.pointed);
    this.pointed = way ? times[Math.min(Math.max(index + way * (event.shiftKey ? 10 : 1), 0), times.length - 1)] : null;
    this.read();
  }

  nearest(time) {
    const times = this.data.t;
    let index = times.length - 1;
    const distance = (at) => Math.abs(times[at] - time);
    for (let at = 0; at < times.length; at += 1) if (distance(at) < distance(index)) index = at;
    return index;
  }

  // The legend shows the values at the pointer, or the last ones.
  read() {
    const times = this.data?.t ?? [];
    if (!times.length || !this.where) return;
    const index = this.pointed === null ? times.length - 1 : this.nearest(this.pointed);
    if (this.pointed !== null) {
      const { x, inner } = this.where;
      const place = x(times[index]);
      this.hair.setAttribute("d", `M${place.toFixed(1)} ${inner.top}v${inner.height}`);
      const before = place > inner.left + inner.width / 2;
      this.when.setAttribute("x", (place + (before ? -4 : 4)).toFixed(1));
      this.when.setAttribute("text-anchor", before ? "end" : "start");
      this.when.textContent = stamp(times[index]);
    }
    for (const mark of [this.hair, this.when]) mark.style.visibility = this.pointed === null ? "hidden" : "visible";
    const words = this.lines.map(({ key, label }) => {
      const value = this.format(this.data[key][index]);
      const reading = this.readings.get(key);
      if (reading.textContent !== value) reading.textContent = value;
      reading.parentElement.hidden = this.data[key].every((other) => other === null);
      return `${label} ${value}`;
    });
    this.svg.setAttribute("aria-label", `${this.name} at ${stamp(times[index])}: ${words.join(", ")}`);
  }
}
