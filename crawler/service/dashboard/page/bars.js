// Bar charts of counts.

import { find, keep, make, write } from "./dom.js";
import * as format from "./format.js";
import { statusWords } from "./words.js";

// rows: { name, words, value, note, kind }
export function showBars(id, rows) {
  const most = Math.max(1, ...rows.map((row) => row.value));
  const create = (row) => make("li", { className: `bar-${row.kind ?? "plain"}` }, make("span", { className: "bar-name" }), make("b"), make("small"), make("i", { "aria-hidden": "true" }));
  keep(find(id), rows, (row) => row.name, create, (node, row) => {
    const [name, value, note, bar] = node.children;
    write(name, row.words ? `${row.name} ${row.words}` : row.name);
    if (name.title !== name.textContent) name.title = name.textContent;
    write(value, format.figure(row.value));
    write(note, row.note ?? "");
    const width = `${(100 * row.value) / most}%`;
    if (bar.style.width !== width) bar.style.width = width;
  });
  find(`${id}-none`).hidden = rows.length > 0;
}

const kindOf = (status) => (status >= 500 ? "bad" : status >= 400 ? "warn" : status >= 300 ? "quiet" : "good");

export const showStatuses = (statuses) =>
  showBars(
    "statuses",
    Object.entries(statuses ?? {})
      .filter(([status]) => /^\d+$/.test(status))
      .sort(([, one], [, other]) => other - one)
      .map(([status, value]) => ({ name: status, words: statusWords(Number(status)), value, kind: kindOf(Number(status)) })),
  );

export const showTypes = (types) => showBars("types", (types ?? []).map((row) => ({ name: row.type || "no type", value: row.records, note: row.bytes ? format.bytes(row.bytes) : "–" })));
