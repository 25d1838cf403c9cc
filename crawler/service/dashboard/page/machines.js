// The partitions of a crawl and their workers; the sizes of the outputs.

import { find, keep, make, write } from "./dom.js";
import * as format from "./format.js";

export function showMachines(stats, point) {
  write(find("commits"), format.rate(point.commits_per_second));
  const files = ([name, { files: number, bytes }]) => [name, number > 1 ? `${format.bytes(bytes)} in ${format.count(number)} files` : format.bytes(bytes)];
  keep(find("outputs"), Object.entries(stats.outputs ?? {}).map(files), ([name]) => name, ([name]) => make("div", {}, make("dt", {}, name), make("dd")), (node, [, size]) => write(node.lastChild, size));
  const create = () => make("tr", {}, make("th", { scope: "row" }), ...Array.from({ length: 6 }, () => make("td")));
  keep(find("workers"), stats.partitions ?? [], (part) => part.partition, create, (node, part) => {
    const where = [part.machine, part.age_seconds === undefined ? null : format.ago(part.age_seconds)].filter(Boolean).join(", ");
    const cells = [format.partition(part.partition), part.state, ...["pages_fetched", "urls_pending", "urls_in_flight", "hosts"].map((key) => format.figure(part[key])), where || (part.process ? `process ${part.process}` : "–")];
    cells.forEach((cell, index) => write(node.children[index], cell));
  });
}
