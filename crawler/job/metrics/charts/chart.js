// Time charts of a history with uPlot, on the dashboard and in the report: one scale, on the left.

import { bytes, clock, compact, count, day, power, rate, stamp, wholeBytes } from "./format.js";

const FLOOR = 1e-7; // smaller chances are drawn at this value
const DASHES = { blue: [], red: [8, 4], green: [2, 3], purple: [10, 3, 2, 3], quiet: [4, 4] }; // for colour-blind readers
const MARKED = { retired: "bad", error: "bad", slice: "purple", control: "blue", run: "good" }; // kinds of events
const NARROW = 0.285; // minimum ratio of an interval's lower to its upper end; reached with ten events
const NEAR = 6; // maximum distance in pixels between the pointer and an event

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const font = () => parseFloat(getComputedStyle(document.documentElement).fontSize);
const times = (ticks, step) => ticks.map((time) => (time % 1 ? "" : step >= 3600 && new Date(1000 * time).getHours() === 0 ? day(time) : clock(time, step < 60)));

// Returns whole powers of ten around the smallest and the largest value; zero is drawn on the bottom line.
function decades(values) {
  const there = values.filter((value) => value > 0).map((value) => Math.log10(Math.max(value, FLOOR)));
  const [low, high] = there.length ? [Math.floor(Math.min(...there) - 0.01), Math.ceil(Math.max(...there) + 0.01)] : [-6, -3];
  return [10 ** low, 10 ** Math.max(high, low + 1)];
}

export class Chart {
  // lines: [{ key, label, colour }]; the keys are columns of the data. `measured` is the prefix of the keys of a rate and
  // its interval (`band`), which are drawn only where the interval is narrow.
  // `spark`: only the line. `say(event)` is called with the event under the pointer, or undefined.
  constructor(figure, { lines, format, log = false, inBytes = false, band = [], measured = null, spark = false, say = null }) {
    Object.assign(this, { figure, lines, format, log, inBytes, band, measured, spark, say, plot: null, data: null, events: [] });
    this.name = figure.querySelector("figcaption")?.textContent;
    this.box = document.createElement("div");
    this.box.className = "plot";
    figure.append(this.box);
    new ResizeObserver(() => this.redraw()).observe(this.box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.again());
  }

  draw(data, events = []) {
    [this.data, this.events] = [data, this.say ? events : []];
    this.redraw();
  }

  // Redraws in the colours of the new scheme.
  again() {
    this.plot?.destroy();
    this.plot = null;
    this.redraw();
  }

  // Draws nothing in a hidden tab, nor a single point, which has no time axis.
  redraw() {
    const [width, height] = [this.box.clientWidth, this.box.clientHeight];
    if (!(this.data?.t?.length > 1) || document.hidden || !width) return;
    const [low, high] = this.band.map((key) => this.data[key] ?? []);
    const known = (value) => (this.log && value !== null ? Math.max(value, FLOOR) : value);
    const column = (key) => (this.data[key] ?? this.data.t.map(() => null)).map((value, index) => (key.startsWith(this.measured) && !(low[index] > NARROW * high[index]) ? null : known(value)));
    const columns = [...this.lines.map(({ key }) => key), ...this.band].map(column);
    this.plot ??= new uPlot(this.options(width, height), [[], ...columns.map(() => [])], this.box);
    if (this.plot.width !== width || this.plot.height !== height) this.plot.setSize({ width, height });
    this.plot.setData([this.data.t, ...columns]);
    if (this.spark) return;
    columns.forEach((column, index) => this.table.rows[index + 1].classList.toggle("none", column.every((value) => value === null)));
    if (this.plot.cursor.idx === null || this.plot.cursor.idx === undefined) this.plot.setLegend({ idx: null });
    this.read();
  }

  options(width, height) {
    const quiet = () => colour("quiet");
    const axis = { stroke: quiet, font: `${0.75 * font()}px system-ui`, grid: { stroke: () => colour("grid"), width: 1 }, ticks: { show: false }, show: !this.spark };
    const value = (plot, _, series, index) => {
      const drawn = plot.data[series].at(index ?? -1);
      return this.format((drawn === FLOOR ? this.data[this.lines[series - 1].key].at(index ?? -1) : drawn) ?? null);
    };
    const line = ({ label, colour: name }) => ({ label, value, stroke: () => colour(name), width: 1.6, dash: this.spark ? [] : DASHES[name], fill: this.spark ? () => `${colour(name)}22` : undefined, points: { show: false } });
    const edge = { class: "edge", stroke: "transparent", points: { show: false } };
    const ends = (_, low, high) => (this.log ? decades(this.plot.data.slice(1).flat()) : [0, Math.max(high || 1, this.inBytes ? 1024 : 0) * 1.08]);
    const label = (tick) => (tick === null ? "" : this.log ? power(tick) : this.inBytes ? wholeBytes(tick) : compact(tick));
    const powers = (_, axisIndex, low, high) => Array.from({ length: Math.round(Math.log10(high / low)) + 1 }, (__, step) => low * 10 ** step);
    const scale = this.inBytes ? { incrs: Array.from({ length: 60 }, (_, exponent) => 2 ** exponent) } : this.log ? { splits: powers, filter: (_, ticks) => ticks } : {};
    return {
      width,
      height,
      padding: this.spark ? [2, 0, 2, 0] : [8, 1.8 * font(), 0, 0],
      scales: { y: { range: ends, distr: this.log ? 3 : 1 } },
      series: [{ value: (plot, _, __, index) => stamp(index === null ? plot.data[0].at(-1) : plot.data[0][index]) }, ...this.lines.map(line), ...this.band.map(() => edge)],
      axes: [
        { ...axis, size: 1.6 * font(), space: 5 * font(), values: (_, ticks, __, ___, step) => times(ticks, step) },
        { ...axis, size: (this.log ? 6 : 4.2) * font(), space: 2.4 * font(), values: (_, ticks) => ticks.map(label), ...scale },
      ],
      bands: this.band.length ? [{ series: [this.lines.length + 2, this.lines.length + 1], fill: () => `${colour("purple")}33` }] : [],
      cursor: { show: !this.spark, y: false, drag: { x: false, y: false } },
      legend: { show: !this.spark, mount: (_, table) => this.figure.append((this.table = table)), markers: { dash: (plot, index) => (plot.series[index].dash?.length ? "dashed" : "solid"), fill: () => "transparent" } },
      hooks: this.spark ? {} : { draw: [() => this.mark()], setCursor: [() => this.read()], ready: [(plot) => this.ready(plot)] },
    };
  }

  // The arrow keys move the pointer by one point, with Shift by ten.
  ready(plot) {
    const wrap = plot.root.querySelector(".u-wrap");
    Object.assign(wrap, { role: "img", tabIndex: 0 });
    wrap.addEventListener("blur", () => plot.setCursor({ left: -10, top: -10 }));
    wrap.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
      if (!way) return;
      event.preventDefault();
      const last = plot.data[0].length - 1;
      const index = Math.min(last, Math.max(0, (plot.cursor.idx ?? last) + way * (event.shiftKey ? 10 : 1)));
      plot.setCursor({ left: plot.valToPos(plot.data[0][index], "x"), top: 1 });
    });
  }

  // Draws events as triangles on the time axis.
  mark() {
    const { ctx, bbox } = this.plot;
    const size = 5 * devicePixelRatio;
    this.plot.redrawn = this.events
      .filter(({ kind, time }) => MARKED[kind] && time >= this.plot.scales.x.min && time <= this.plot.scales.x.max)
      .map((event) => ({ event, x: this.plot.valToPos(event.time, "x", true) }));
    for (const { event, x } of this.plot.redrawn) {
      ctx.fillStyle = colour(MARKED[event.kind]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top + bbox.height - size * 1.6);
      ctx.lineTo(x + size, bbox.top + bbox.height);
      ctx.lineTo(x - size, bbox.top + bbox.height);
      ctx.fill();
    }
  }

  read() {
    const at = this.plot.cursor.left;
    const near = at >= 0 && this.plot.redrawn?.find(({ event }) => Math.abs(this.plot.valToPos(event.time, "x") - at) < NEAR);
    this.say?.(near?.event);
    const words = [...this.table.rows].map((row) => row.innerText.replace(/\s+/g, " "));
    this.plot.root.querySelector(".u-wrap").ariaLabel = `${this.name}: ${words.join(", ")}`;
  }
}

export const line = (key, label, name) => ({ key, label, colour: name });

// Returns the charts of a crawl over time.
export const timeCharts = (say) => [
  ["pages", rate, [line("pages_per_second", "fetched", "blue")]],
  ["pending", count, [line("pending", "pending", "blue"), line("in_flight", "in flight", "red")]],
  ["failures", count, [line("failed", "failed", "bad"), line("client_errors", "4xx", "red"), line("server_errors", "5xx", "purple"), line("soft404", "soft 404", "green"), line("blocked", "blocked", "quiet")]],
  ["memory", bytes, [line("memory", "crawler", "blue"), line("seen_bytes", "seen-set", "purple")]],
].map(([id, format, lines]) => new Chart(document.getElementById(`chart-${id}`), { say, format, lines, inBytes: format === bytes }));
