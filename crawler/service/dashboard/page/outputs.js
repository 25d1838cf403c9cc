// How large each output is.

import { find, keep, make, write } from "./dom.js";
import * as format from "./format.js";

export function showOutputs(outputs) {
  keep(
    find("outputs"),
    Object.entries(outputs ?? {}),
    ([name]) => name,
    ([name]) => make("div", {}, make("dt", {}, name), make("dd", { "data-output": name })),
    (node, [, { files, bytes }]) => write(node.lastChild, files > 1 ? `${format.bytes(bytes)} in ${format.count(files)} files` : format.bytes(bytes)),
  );
}
