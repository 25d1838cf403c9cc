// The chain of slices, as a drawing and as a table.

import { find, make, write } from "./dom.js";
import * as format from "./format.js";

// Each slice is a block: its width is its share of the bits, its filling the share of its capacity in use.
function drawChain(slices) {
  const total = slices.reduce((sum, slice) => sum + slice.bits, 0) || 1;
  const blocks = slices.map((slice, index) => {
    const used = slice.capacity ? Math.min(1, slice.count / slice.capacity) : 0;
    const fill = make("i");
    fill.style.height = `${100 * used}%`;
    const block = make("div", { className: "slice" }, make("div", {}, fill), make("small", {}, `${index + 1}: ${Math.floor(100 * used)}%`));
    block.style.flexGrow = slice.bits / total;
    return block;
  });
  const chain = find("chain");
  chain.replaceChildren(...blocks);
  const words = slices.map((slice, index) => `slice ${index + 1} holds ${format.count(slice.count)} of ${format.count(slice.capacity)} URLs`);
  chain.setAttribute("aria-label", words.join(", ") || "No slices");
}

function row(slice, index) {
  const cells = [
    String(index + 1),
    `${format.count(slice.count)} of ${format.count(slice.capacity)}`,
    format.percent(slice.fill),
    format.probability(slice.fpp_estimated),
    format.probability(slice.fpp_design),
    format.bytes(slice.bits === null || slice.bits === undefined ? null : slice.bits / 8),
  ];
  return make("tr", {}, ...cells.map((cell) => make("td", {}, cell)));
}

export function showFilter(stats, forecast) {
  const slices = stats.seen?.slices ?? [];
  drawChain(slices);
  find("slices").replaceChildren(...slices.map(row));
  for (const node of document.querySelectorAll("[data-ahead]")) write(node, slices.length ? format.count(slices.length) : "–");
  const advice = stats.advice;
  write(find("ahead-when"), advice?.forecast?.when === "day" ? "in a day" : "at the end");
  let next = ["running", "paused"].includes(stats.state) ? "No forecast yet." : "There is a forecast only while the crawl runs.";
  if (advice) {
    // A paused crawl has no time forecast.
    const timed = advice.seconds_left !== null && stats.state === "running";
    const when = timed ? `, about ${format.duration(advice.seconds_left)} at the last minute's ${format.rate(advice.new_urls_per_second)} new URLs/s` : "";
    const what = advice.next_size === null ? "Full" : `The next slice (${format.bytes(advice.next_size)}) opens`;
    next = `${what} in ${format.count(advice.urls_left)} ${advice.urls_left === 1 ? "URL" : "URLs"}${when}; the fpp is then at most ${format.probability(advice.fpp_then)}.`;
    if (advice.warning) next += ` ${advice.warning[0].toUpperCase()}${advice.warning.slice(1)}.`;
  }
  write(find("next-slice"), next);
  find("next-slice").classList.toggle("bad", Boolean(advice?.warning));
  write(find("forecast"), forecast ?? "");
}
