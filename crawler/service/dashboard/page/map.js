// The map of the crawl: sites and their paths as areas, in the chosen colours. A click opens an area; arrow keys move as in a grid.

import { cut, find, keep, make, mark, set, write } from "./dom.js";
import * as format from "./format.js";
import { squarify } from "./treemap.js";

const GAP = 2; // pixels between areas
// In the root's font size: the minimum size of an area that shows its name, its figure, and nested areas below them.
const NAMED = { width: 3.6, height: 1.3 };
const VALUED = { width: 5, height: 2.7 };
const NESTS = { width: 6.4, height: 4, head: 1.45, valued: 10 };
const EVERY = 4_000; // milliseconds between two redraws while records arrive

const DAY = 86_400; // seconds
const mean = (part, key) => part[key] / part.records;
const age = (part) => Math.max(0, Date.now() / 1000 - mean(part, "at"));
// The colour scales: the value of an area, the upper ends of the steps, their names, and words about an area.
const COLOURS = {
  broken: { value: (part) => mean(part, "broken"), ends: [0, 0.01, 0.05, 0.2], names: ["none broken or failed", "up to 1%", "up to 5%", "up to 20%", "more"], words: () => "" },
  age: { value: age, ends: [3_600, DAY, 7 * DAY, 30 * DAY], names: ["visited in the last hour", "day", "7 days", "30 days", "before"], words: (part) => `, visited ${format.near(age(part))} ago on average` },
  depth: { value: (part) => Math.round(mean(part, "depth")), ends: [1, 2, 3, 5], names: ["up to 1 link from a seed", "2", "3", "up to 5", "more"], words: (part) => `, ${format.rate(mean(part, "depth"))} links from a seed on average` },
};

let sites = [];
let colour = "broken";
let missed = 0;
let path = []; // names of the opened areas
let measure = "records";
let drawn = 0;
let seen = false;
let later = 0;
const nameOf = (part) => part.name || "everything else";
const size = (part) => part[measure] ?? 0;

// Large areas first. Areas of similar size are ordered by name, so that they do not swap places while they grow.
function ordered(parts) {
  const step = (part) => Math.round(2 * Math.log2(1 + size(part)));
  return parts.filter((part) => size(part) > 0).sort((one, other) => step(other) - step(one) || (one.name < other.name ? -1 : 1));
}

function words(part) {
  const broken = part.broken ? `, ${format.count(part.broken)} broken` : "";
  return `${nameOf(part)}: ${format.counted(part.records, "URL")}, ${format.bytes(part.bytes)}${broken}${COLOURS[colour].words(part)}`;
}

// The opened areas, as far as they still exist.
function inside() {
  let parts = sites;
  const way = [];
  for (const name of path) {
    const next = parts.find((part) => part.name === name);
    if (!next?.parts?.length) break;
    way.push(next);
    parts = next.parts;
  }
  return { parts, way };
}

let rem = 16;
const fits = (box, { width, height }) => box.width >= width * rem && box.height >= height * rem;

function place(node, { x, y, width, height }) {
  const style = { left: x, top: y, width: Math.max(0, width - GAP), height: Math.max(0, height - GAP) };
  for (const [key, value] of Object.entries(style)) {
    const text = `${value.toFixed(1)}px`;
    if (node.style[key] !== text) node.style[key] = text;
  }
  mark(node, "named", fits({ width, height }, NAMED));
  mark(node, "valued", fits({ width, height }, VALUED));
}

function fill(node, part) {
  write(node.firstChild, nameOf(part));
  write(node.children[1], measure === "bytes" ? format.bytes(part.bytes) : format.narrow(part.records));
  const { value, ends } = COLOURS[colour];
  const step = ends.findIndex((end) => value(part) <= end);
  set(node.dataset, "step", String(step < 0 ? ends.length : step));
}

const tile = (name) => make(name, {}, make("span", { className: "name" }), make("small"));

function area(part) {
  const node = tile("button");
  Object.assign(node, { type: "button", tabIndex: -1 });
  node.append(make("span", { className: "inner", "aria-hidden": "true" }));
  node.addEventListener("click", () => enter(node.holds));
  for (const event of ["pointerenter", "focus"]) node.addEventListener(event, () => write(find("map-words"), words(node.holds)));
  return node;
}

function nest(node, part, box) {
  const parts = ordered(part.parts ?? []);
  const nests = parts.length > 1 && fits(box, NESTS);
  const inner = node.lastChild;
  mark(node, "nests", nests);
  if (nests) mark(node, "valued", box.width >= NESTS.valued * rem);
  if (!nests) return keep(inner, [], () => "", () => null);
  const places = squarify(parts.map(size), { x: 0, y: 0, width: box.width - GAP - 6, height: box.height - NESTS.head * rem - GAP - 4 });
  const shown = parts.map((each, index) => ({ part: each, place: places[index] })).filter(({ place: { width, height } }) => width > 5 && height > 5);
  keep(inner, shown, (each) => each.part.name, () => tile("span"), (child, each) => {
    place(child, each.place);
    fill(child, each.part);
  });
}

function draw() {
  drawn = Date.now();
  const map = find("map");
  const { width, height } = map.getBoundingClientRect();
  if (!width || !seen) return;
  rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const { parts, way } = inside();
  const shown = ordered(parts);
  const places = shown.length ? squarify(shown.map(size), { x: 0, y: 0, width: width + GAP, height: height + GAP }) : [];
  const all = shown.map((part, index) => ({ part, place: places[index] }));
  keep(map, all, ({ part }) => [...way.map((each) => each.name), part.name].join("\n"), ({ part }) => area(part), (node, each) => {
    node.holds = each.part;
    place(node, each.place);
    fill(node, each.part);
    nest(node, each.part, each.place);
    const enters = (each.part.parts?.length ?? 0) > 0;
    mark(node, "enters", enters);
    const label = `${words(each.part)}${enters ? ". Press Enter to open it" : ""}`;
    if (node.getAttribute("aria-label") !== label) node.setAttribute("aria-label", label);
  });
  const tiles = [...map.children];
  if (tiles.length && !tiles.some((each) => each.tabIndex === 0)) tiles[0].tabIndex = 0;
  find("map-none").hidden = shown.length > 0;
  map.parentElement.dataset.colour = colour;
  keep(find("map-legend"), COLOURS[colour].names.map((name, step) => ({ name, step })), ({ name }) => name, ({ name, step }) => make("li", { "data-step": step }, name));
  crumbs(way);
  rest(way, shown);
}

function rest(way, shown) {
  if (find("map").contains(document.activeElement) || find("map").matches(":hover")) return;
  const of = way.at(-1);
  const text = of ? words(of) : `${format.counted(shown.length, "site")}, ${format.counted(shown.reduce((sum, part) => sum + part.records, 0), "URL")}${missed ? `; ${format.count(missed)} more do not fit` : ""}. Click an area to open it.`;
  write(find("map-words"), shown.length ? text : "");
}

function crumbs(way) {
  const names = ["All sites", ...way.map(nameOf)];
  const key = names.join("\n");
  if (find("map-way").dataset.key === key) return;
  find("map-way").dataset.key = key;
  const items = names.map((name, depth) => {
    if (depth === names.length - 1) return make("li", { "aria-current": "location" }, cut(name));
    const button = make("button", { type: "button", className: "link" }, cut(name));
    button.addEventListener("click", () => leave(depth));
    return make("li", {}, button);
  });
  find("map-way").replaceChildren(...items);
}

function enter(part) {
  if (!part.parts?.length) return;
  path = [...inside().way.map((each) => each.name), part.name];
  draw();
  focusFirst();
}

function leave(depth) {
  const from = path[depth];
  path = path.slice(0, depth);
  draw();
  const node = [...find("map").children].find((each) => each.holds.name === from);
  if (node) focus(node);
}

function focus(node) {
  for (const each of find("map").children) each.tabIndex = each === node ? 0 : -1;
  node.focus({ preventScroll: true });
}

function focusFirst() {
  const first = find("map").firstElementChild;
  if (first) focus(first);
}

// Returns the next area in a direction: the nearest whose centre is on that side.
function nearest(node, [dx, dy]) {
  const centre = (each) => [each.offsetLeft + each.offsetWidth / 2, each.offsetTop + each.offsetHeight / 2];
  const [x, y] = centre(node);
  const found = [...find("map").children]
    .filter((each) => each !== node)
    .map((each) => {
      const [otherX, otherY] = centre(each);
      const ahead = (otherX - x) * dx + (otherY - y) * dy;
      const aside = Math.abs((otherX - x) * dy) + Math.abs((otherY - y) * dx);
      return { each, ahead, cost: ahead + 2 * aside };
    })
    .filter(({ ahead }) => ahead > 1);
  return found.sort((one, other) => one.cost - other.cost)[0]?.each;
}

const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function key(event) {
  const node = event.target.closest("#map > button");
  if (!node) return;
  const next = WAYS[event.key] ? nearest(node, WAYS[event.key]) : { Home: node.parentElement.firstElementChild, End: node.parentElement.lastElementChild }[event.key];
  if (next) focus(next);
  else if ((event.key === "Escape" || event.key === "Backspace") && path.length) leave(inside().way.length - 1);
  else if (!WAYS[event.key]) return;
  event.preventDefault();
}

export function showMap(survey) {
  sites = survey.map ?? [];
  missed = survey.map_missed ?? 0;
  clearTimeout(later);
  const wait = find("map").firstElementChild ? drawn + EVERY - Date.now() : 0;
  if (wait <= 0) draw();
  else later = setTimeout(draw, wait);
}

export function begin() {
  const map = find("map");
  map.addEventListener("keydown", key);
  map.addEventListener("pointerleave", () => rest(inside().way, inside().parts));
  new ResizeObserver(() => draw()).observe(map);
  new IntersectionObserver((entries) => {
    seen = entries.at(-1).isIntersecting;
    if (seen) draw();
  }).observe(map);
  const choices = { measure: (value) => (measure = value), colour: (value) => (colour = value) };
  for (const [name, choose] of Object.entries(choices)) {
    const buttons = [...document.querySelectorAll(`.map [data-${name}][aria-pressed]`)];
    for (const button of buttons) {
      button.addEventListener("click", () => {
        choose(button.dataset[name]);
        for (const other of buttons) set(other, "ariaPressed", String(other === button));
        draw();
      });
    }
  }
}
