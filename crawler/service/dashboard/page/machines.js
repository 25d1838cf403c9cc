// The partitions of a crawl and their workers; the sizes of the outputs.

import { find, keep, make, write } from "./dom.js";
import * as format from "./format.js";

const SUMMED = ["pages_fetched", "urls_pending", "urls_in_flight", "hosts"];
const processOf = ({ machine, process }) => (process ? [machine, `process ${process}`].filter(Boolean).join(", ") : "");

// The sums of each process with several partitions.
function sums(partitions) {
  const found = new Map();
  for (const part of partitions) {
    const before = found.get(processOf(part)) ?? { number: 0 };
    const sum = { partition: processOf(part), state: "", number: before.number + 1 };
    for (const key of SUMMED) sum[key] = (before[key] ?? 0) + (part[key] ?? 0);
    found.set(sum.partition, sum);
  }
  return [...found.values()].filter(({ partition, number }) => partition && number > 1);
}

export function showMachines(stats, point) {
  write(find("commits"), format.rate(point.commits_per_second));
  const files = ([name, { files: number, bytes }]) => [name, number > 1 ? `${format.bytes(bytes)} in ${format.count(number)} files` : format.bytes(bytes)];
  keep(find("outputs"), Object.entries(stats.outputs ?? {}).map(files), ([name]) => name, ([name]) => make("div", {}, make("dt", {}, name), make("dd")), (node, [, size]) => write(node.lastChild, size));
  const create = () => make("tr", {}, make("th", { scope: "row" }), ...Array.from({ length: 6 }, () => make("td")));
  const parts = stats.partitions ?? [];
  keep(find("workers"), [...sums(parts), ...parts], (part) => part.partition, create, (node, part) => {
    const age = part.age_seconds === undefined ? "" : format.ago(part.age_seconds);
    const where = part.number ? part.partition : [part.machine ?? processOf(part), age].filter(Boolean).join(", ");
    const name = part.number ? `${format.count(part.number)} partitions` : format.partition(part.partition);
    const cells = [name, part.state, ...SUMMED.map((key) => format.figure(part[key])), where || "–"];
    cells.forEach((cell, index) => write(node.children[index], cell));
  });
}
