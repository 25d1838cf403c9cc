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
  const { seen, advice } = stats;
  if (!seen) return false;
  // A partition that begins is no growth.
  const chains = new Set((seen.slices ?? []).map((slice) => slice.partition)).size;
  const newest = `${(seen.slices?.length ?? 0) - chains} ${seen.compactions}`;
  if (shape !== null && shape !== newest) grew = now;
  shape = newest;
  const near = seen.fpp_estimated !== null && seen.fpp_target > 0 && seen.fpp_estimated > seen.fpp_target / 2;
  return near || Boolean(advice?.warning) || Boolean(seen.count_suspect) || (grew > 0 && now - grew < GROWN);
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

function showNext(stats) {
  const advice = stats.advice;
  let next = ["running", "paused"].includes(stats.state) ? "No forecast yet." : "There is a forecast only while the crawl runs.";
  if (advice) {
    // A paused crawl has no time forecast.
    const timed = advice.seconds_left !== null && stats.state === "running";
    const when = timed ? `, in about ${format.left(advice.seconds_left)} at the last minute's ${format.rate(advice.new_urls_per_second)} new URLs/s` : "";
    const which = advice.partition === undefined ? "It" : `That of partition ${format.partition(advice.partition)}, the first to,`;
    const what = advice.next_size === null ? `${which} is full` : `${which} grows (by ${format.bytes(advice.next_size)})`;
    next = `${what} after ${format.counted(advice.urls_left, "more URL")}${when}. Then it errs on at most ${format.probability(advice.fpp_then)}.`;
    if (advice.warning) next += ` ${advice.warning[0].toUpperCase()}${advice.warning.slice(1)}.`;
  }
  write(find("next-slice"), next);
  find("next-slice").classList.toggle("bad", Boolean(advice?.warning));
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
  // The next slice is that of one partition, and all others go on as they are.
  find("slice-full").hidden = stats.advice?.partition !== undefined;
  for (const node of document.querySelectorAll("[data-ahead]")) write(node, slices.length ? format.count(slices.length) : "–");
  write(find("ahead-when"), stats.advice?.forecast?.when === "day" ? "in a day" : "at the end");
  showNext(stats);
  write(find("forecast"), forecast ?? "");
}

export function begin(redraw) {
  const panel = find("seen-set");
  panel.querySelector("summary").addEventListener("click", () => {
    chosen = !panel.open;
  });
  panel.addEventListener("toggle", () => panel.open && redraw());
}
