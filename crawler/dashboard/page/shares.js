// Counts as shares of a bar, with their names and numbers below it.

import { find, make } from "./dom.js";
import * as format from "./format.js";

export function showShares(id, counts) {
  const total = Object.values(counts).reduce((sum, number) => sum + (number ?? 0), 0);
  const names = Object.keys(counts);
  const parts = names.filter((name) => counts[name]).map((name) => {
    const part = make("span", { className: `share-${names.indexOf(name) % 6}` });
    part.style.flexGrow = counts[name] / total;
    return part;
  });
  find(id).replaceChildren(...parts);
  find(id).setAttribute("aria-label", names.map((name) => `${name}: ${format.count(counts[name])}`).join(", "));
  find(`${id}-legend`).replaceChildren(
    ...names.map((name, index) =>
      make("li", {}, make("i", { className: `share-${index % 6}` }), `${name} `, make("b", { "data-count": name }, format.count(counts[name]))),
    ),
  );
}
