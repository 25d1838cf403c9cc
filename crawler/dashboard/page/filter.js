// The chain of slices, drawn and in a table.

import { element, find, make, write } from "./dom.js";
import * as format from "./format.js";

function meter(slice) {
  const node = make("meter", { min: 0, max: 1, value: slice.fill ?? 0 });
  node.setAttribute("aria-label", `bits set: ${format.percent(slice.fill)}`);
  return node;
}

// Each slice is a block as wide as its share of the bits, filled as far as it holds what it was made for.
function drawChain(slices) {
  const width = 1000;
  const total = slices.reduce((sum, slice) => sum + slice.bits, 0) || 1;
  const least = Math.min(20, width / Math.max(1, slices.length));
  const scale = (width - least * slices.length) / width;
  const svg = element("svg", { viewBox: `0 0 ${width} 60`, preserveAspectRatio: "none", "aria-hidden": "true" });
  let x = 0;
  for (const slice of slices) {
    const wide = least + (slice.bits / total) * width * scale;
    const used = slice.capacity ? Math.min(1, slice.count / slice.capacity) : 0;
    svg.append(
      element("rect", { class: "empty", x: x + 1, y: 0, width: Math.max(1, wide - 2), height: 60 }),
      element("rect", { class: "used", x: x + 1, y: 60 * (1 - used), width: Math.max(1, wide - 2), height: 60 * used }),
    );
    x += wide;
  }
  const chain = find("chain");
  chain.replaceChildren(svg);
  const words = slices.map((slice, index) => `slice ${index + 1} holds ${format.count(slice.count)} of ${format.count(slice.capacity)} URLs`);
  chain.setAttribute("aria-label", words.join(", ") || "There are no slices");
}

function row(slice, index) {
  const cells = [
    String(index + 1),
    `${format.count(slice.count)} of ${format.count(slice.capacity)}`,
    [meter(slice), format.percent(slice.fill)],
    format.probability(slice.fpp_estimated),
    format.probability(slice.fpp_design),
    format.bytes(slice.bits === null || slice.bits === undefined ? null : slice.bits / 8),
  ];
  return make("tr", {}, ...cells.map((cell) => make("td", {}, ...[cell].flat())));
}

export function showFilter(stats, forecast) {
  const slices = stats.seen?.slices ?? [];
  drawChain(slices);
  find("slices").replaceChildren(...slices.map(row));
  const advice = stats.advice;
  let next = "What comes next is known while the crawl runs.";
  if (advice) {
    const when = advice.seconds_left === null ? "" : `, about ${format.duration(advice.seconds_left)} at ${format.rate(advice.new_urls_per_second)} new URLs/s`;
    const what = advice.next_size === null ? "Full" : `The next slice (${format.bytes(advice.next_size)}) comes`;
    next = `${what} in ${format.count(advice.urls_left)} URLs${when}; the fpp is then at most ${format.probability(advice.fpp_then)}.`;
    if (advice.warning) next += ` ${advice.warning[0].toUpperCase()}${advice.warning.slice(1)}.`;
  }
  write(find("next-slice"), next);
  find("next-slice").classList.toggle("bad", Boolean(advice?.warning));
  write(find("forecast"), forecast ?? "");
}
