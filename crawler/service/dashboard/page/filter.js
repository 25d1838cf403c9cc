// The chain of slices, as a drawing and as a table.

import { find, make, write } from "./dom.js";
import * as format from "./format.js";

const MANY = 8; // slices beside one another that leave no room for more than their names
const GROWN = 300; // seconds for which a seen-set that grew is worth a look

// In a crawl of partitions each has a chain of its own: slice 2 of partition 03 is 03-2.
function named(slices) {
  const before = new Map();
  return slices.map((slice) => {
    if (slice.partition === undefined) return String(slices.indexOf(slice) + 1);
    before.set(slice.partition, (before.get(slice.partition) ?? 0) + 1);
    return `${format.partition(slice.partition)}-${before.get(slice.partition)}`;
  });
}

// Each slice is a block: its width is its share of the bits, its filling the share of its capacity in use.
function drawChain(slices) {
  const total = slices.reduce((sum, slice) => sum + slice.bits, 0) || 1;
  const names = named(slices);
  const blocks = slices.map((slice, index) => {
    const used = slice.capacity ? Math.min(1, slice.count / slice.capacity) : 0;
    const fill = make("i");
    fill.style.height = `${100 * used}%`;
    const block = make("div", { className: "slice" }, make("div", {}, fill), make("small", {}, slices.length > MANY ? names[index] : `${names[index]}: ${Math.floor(100 * used)}%`));
    block.style.flexGrow = slice.bits / total;
    return block;
  });
  const chain = find("chain");
  chain.replaceChildren(...blocks);
  const words = slices.map((slice, index) => `slice ${names[index]} holds ${format.count(slice.count)} of ${format.count(slice.capacity)} URLs`);
  chain.setAttribute("aria-label", words.join(", ") || "No slices");
}

function row(slice, name) {
  const cells = [
    name,
    `${format.count(slice.count)} of ${format.count(slice.capacity)}`,
    format.percent(slice.fill),
    format.probability(slice.fpp_estimated),
    format.probability(slice.fpp_design),
    format.bytes(slice.bits === null || slice.bits === undefined ? null : slice.bits / 8),
  ];
  return make("tr", {}, ...cells.map((cell) => make("td", {}, cell)));
}

let grew = 0; // when the chain changed last
let shape = null; // slices and compactions

// Whether the seen-set has something to say: then its panel opens by itself, until somebody closes it.
function speaks(stats, now) {
  const { seen } = stats;
  if (!seen) return false;
  // A partition that begins is no growth.
  const chains = new Set((seen.slices ?? []).map((slice) => slice.partition)).size;
  const newest = `${(seen.slices?.length ?? 0) - chains} ${seen.compactions}`;
  if (shape !== null && shape !== newest) grew = now;
  shape = newest;
  const near = seen.fpp_estimated !== null && seen.fpp_target > 0 && seen.fpp_estimated > seen.fpp_target / 2;
  return near || Boolean(stats.seen_warning) || Boolean(seen.count_suspect) || (grew > 0 && now - grew < GROWN);
}

let chosen = null; // by a click

function open(stats, now) {
  const panel = find("seen-set");
  const wanted = chosen ?? speaks(stats, now);
  if (panel.open !== wanted) panel.open = wanted;
}

function fullness(seen) {
  const capacity = (seen?.slices ?? []).reduce((sum, slice) => sum + slice.capacity, 0);
  return capacity ? seen.slices.reduce((sum, slice) => sum + slice.count, 0) / capacity : null;
}

export function showFilter(stats, forecast, now) {
  const slices = stats.seen?.slices ?? [];
  open(stats, now);
  const full = fullness(stats.seen);
  const facts = [stats.seen?.kind, full === null ? null : `${format.share(full)} full`, stats.seen ? format.bytes(stats.seen.bytes) : null, full >= 0.5 ? format.perUrl(stats.seen.bits_per_url) : null];
  write(find("seen-facts"), facts.filter(Boolean).join(" · "));
  if (!find("seen-set").open) return;
  drawChain(slices);
  const names = named(slices);
  find("slices").replaceChildren(...slices.map((slice, index) => row(slice, names[index])));
  write(find("forecast"), forecast || "It is not known yet what the seen-set will be at the end.");
}

export function begin(redraw) {
  const panel = find("seen-set");
  panel.querySelector("summary").addEventListener("click", () => {
    chosen = !panel.open;
  });
  panel.addEventListener("toggle", () => panel.open && redraw());
}
