// Counts as bars: depths as a histogram, statuses and types as a list.

import { find, keep, make, mark, write } from "./dom.js";
import * as format from "./format.js";
import { statusWords } from "./words.js";

const COLUMNS = 16; // depths that are shown on their own

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

export function showDepths(depths) {
  const shown = (depths ?? []).slice(0, COLUMNS);
  const beyond = (depths ?? []).slice(COLUMNS).reduce((sum, number) => sum + number, 0);
  const rows = shown.map((value, depth) => ({ depth: String(depth), value }));
  if (beyond) rows.push({ depth: `${COLUMNS}+`, value: beyond });
  const most = Math.max(1, ...rows.map((row) => row.value));
  const create = () => make("li", {}, make("b"), make("i", { "aria-hidden": "true" }), make("span"));
  keep(find("depths"), rows, (row) => row.depth, create, (node, row) => {
    const [value, bar, name] = node.children;
    write(value, format.compact(row.value));
    const words = `depth ${row.depth}: ${format.counted(row.value, "page")}`;
    if (node.title !== words) node.title = words;
    const height = `${(100 * row.value) / most}%`;
    if (bar.style.height !== height) bar.style.height = height;
    write(name, row.depth);
  });
  mark(find("depths"), "dense", rows.length > 10);
  find("depths-none").hidden = rows.length > 0;
}
