// How far the seen-set can be trusted: each figure with its meaning, and the chain of slices.

import { find, keep, make, set, write } from "./dom.js";
import * as format from "./format.js";

const MANY = 8; // with more slices, there is only room for their names
const EVENTS = 10; // minimum number of false positives for a meaningful measured rate

// In a crawl in partitions, each partition has its own chain: slice 2 of partition 03 is 03-2.
function named(slices) {
  const before = new Map();
  return slices.map((slice) => {
    if (slice.partition === undefined) return String(slices.indexOf(slice) + 1);
    before.set(slice.partition, (before.get(slice.partition) ?? 0) + 1);
    return `${format.partition(slice.partition)}-${before.get(slice.partition)}`;
  });
}

// Draws each slice as a block: its width is its share of the bits, its fill the share of its capacity in use.
function drawChain(slices, names) {
  const total = slices.reduce((sum, slice) => sum + slice.bits, 0) || 1;
  const blocks = slices.map((slice, index) => {
    const used = slice.capacity ? Math.min(1, slice.count / slice.capacity) : 0;
    const fill = make("i");
    fill.style.height = `${100 * used}%`;
    const block = make("div", { className: "slice" }, make("div", {}, fill), make("small", {}, slices.length > MANY ? names[index] : `${names[index]}: ${Math.floor(100 * used)}%`));
    block.style.flexGrow = slice.bits / total;
    return block;
  });
  find("chain").replaceChildren(...blocks);
  find("chain").ariaLabel = slices.map((slice, index) => `slice ${names[index]} holds ${format.count(slice.count)} of ${format.count(slice.capacity)} URLs`).join(", ") || "No slices";
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

const between = (low, high, as) => `between ${as(low)} and ${as(high)}, with 95% confidence`;

function measured({ value, low, high, sample } = {}) {
  if (!sample) return ["–", "Not measured: there is no exact sample of URLs."];
  const wrong = Math.round(value * sample);
  const words = `Of ${format.counted(sample, "new URL")} in an exact sample, ${format.count(wrong)} looked known`;
  if (wrong < EVENTS) return ["–", `${words}: too few for a rate, which is shown from ${EVENTS} on.`];
  return [format.probability(value), `${words}: the rate is ${between(low, high, format.probability)}.`];
}

function rows({ seen, render_recall: recall, urls_admitted: admitted }) {
  if (!seen) return [];
  const room = (seen.slices ?? []).reduce((sum, slice) => sum + slice.capacity, 0);
  const { ledger } = seen;
  const found = [
    ["Estimated now", format.probability(seen.fpp_estimated), "The chance that a new URL looks known, computed from the bits set. It rises as the seen-set fills."],
    ["Measured", ...measured(seen.fpp_measured ?? undefined)],
    ["Target", format.probability(seen.fpp_target), "The configured limit. A larger estimate needs attention."],
    ["Bound", format.probability(seen.fpp_bound), "By design the chance never exceeds this, however many URLs are added."],
  ];
  if (ledger) found.push(["Ledger", `${format.count(ledger.false_positives)} caught`, `Each URL that looks known is checked later against stored digests: ${format.count(ledger.confirmed)} were known, ${format.count(ledger.false_positives)} were new and are crawled, ${format.count(ledger.waiting)} still wait.`]);
  else found.push(["Skipped by mistake", format.expected(seen.expected_urls_skipped), `Expected number of new URLs, of ${format.count(admitted)}, that looked known and were never crawled.`]);
  found.push(["URLs", format.count(seen.count), `Kind ${seen.kind}${seen.hash ? `, hash ${seen.hash.algorithm}${seen.hash.keyed ? " with a secret key" : ""}` : ""}.`]);
  found.push(["Memory", format.bytes(seen.bytes), `${room ? `${format.share(seen.count / room)} of its capacity is in use` : "It has no fixed capacity"}${seen.bits_per_url && 2 * seen.count >= room ? `: ${format.perUrl(seen.bits_per_url)}` : ""}.`]);
  if (recall?.value) found.push(["Recall of the browser", format.percent(recall.value), `The share of the pages needing a browser that were rendered: ${between(recall.low, recall.high, format.percent)}, from ${format.counted(recall.audits, "page")} rendered at random.`]);
  return found;
}

export function showSeen({ stats, trust, forecast }) {
  const { seen } = stats;
  const doubtful = (seen?.fpp_estimated ?? 0) > (seen?.fpp_target ?? 1) || seen?.count_suspect;
  set(find("trust").dataset, "mark", doubtful ? "bad" : "good");
  write(find("trust"), trust);
  const chance = format.probability(seen?.fpp_estimated ?? 0);
  write(find("skipped-note"), chance.startsWith("1 in") ? `looks known: ${chance}` : seen?.ledger ? "every doubt is checked" : "expected");
  write(find("forecast"), forecast);
  if (document.body.dataset.tab !== "seen-set" && find("explained").firstChild) return;
  const create = ([term]) => make("div", {}, make("dt", {}, term), make("dd"), make("dd", { className: "quiet" }));
  keep(find("explained"), rows(stats), ([term]) => term, create, (node, [, value, words]) => {
    write(node.children[1], value);
    write(node.children[2], words);
  });
  const slices = seen?.slices ?? [];
  const names = named(slices);
  drawChain(slices, names);
  find("slices").replaceChildren(...slices.map((slice, index) => row(slice, names[index])));
}
