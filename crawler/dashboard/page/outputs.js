// How large each output is.

import { find, make } from "./dom.js";
import * as format from "./format.js";

export function showOutputs(outputs) {
  find("outputs").replaceChildren(
    ...Object.entries(outputs ?? {}).map(([name, { files, bytes }]) =>
      make("div", {}, make("dt", {}, name), make("dd", { "data-output": name }, files > 1 ? `${format.bytes(bytes)} in ${format.count(files)} files` : format.bytes(bytes))),
    ),
  );
}
