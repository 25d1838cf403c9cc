// The latest visits, newest first. A list pauses while it is in use.

import { cut, find, keep, make, recutUrl, set, write } from "./dom.js";
import * as format from "./format.js";
import { badge, badgeKind, recordWords } from "./words.js";

const LISTS = { ticker: 13, visits: 60 }; // rows

let rows = [];
let reading = false;
let waiting = 0;
const highest = () => Math.max(0, ...rows.map((record) => record.number));

// Rows stay where they are and get new texts: nothing moves as pages arrive.
const create = () => make("li", {}, make("span"), cut(""), make("small"));

function update(node, record) {
  if (node.shows === record.number) return;
  node.shows = record.number;
  const [kind, url, facts] = node.children;
  set(kind, "className", `badge badge-${badgeKind(record)}`);
  set(kind, "title", recordWords(record));
  write(kind, String(badge(record)));
  recutUrl(url, record.url);
  const said = [record.outcome === "failed" ? recordWords(record).split(":")[0] : "", record.bytes === null || record.bytes === undefined ? "" : format.bytes(record.bytes), record.seconds === null || record.seconds === undefined ? "" : format.seconds(record.seconds)];
  write(facts, said.filter(Boolean).join(" · "));
}

let lit = 0; // the highest number shown; numbers are in the order of counting, which takes partitions in turn

function draw() {
  waiting = 0;
  const calm = !lit || matchMedia("(prefers-reduced-motion: reduce)").matches;
  for (const [id, most] of Object.entries(LISTS)) {
    const list = find(id);
    keep(list, rows.slice(0, most).map((record, index) => ({ record, index })), ({ index }) => index, create, (node, { record }) => update(node, record));
    list.nextElementSibling.hidden = rows.length > 0;
    for (const node of calm ? [] : list.children) if (node.shows > lit) node.animate([{ background: "var(--good-wash)" }, {}], { duration: 900, easing: "ease-out" });
  }
  lit = highest();
}

// `fresh`: records, newest first; they may also fill gaps among those shown. `number` is the number of records since the
// last call.
export function showRecords(fresh, number = 0) {
  const known = highest();
  const newer = fresh.filter((record) => record.number > known);
  const all = new Map([...rows, ...fresh].map((record) => [record.number, record]));
  const merged = [...all.values()].sort((one, other) => other.at - one.at || other.number - one.number).slice(0, LISTS.visits);
  const differs = merged.length !== rows.length || merged.some((record, index) => record.number !== rows[index].number);
  rows = merged;
  waiting += Math.max(newer.length, number);
  if (differs && !reading) draw();
  write(find("ticker-words"), reading ? `paused, ${format.count(waiting)} more` : number > newer.length && newer.length ? `${format.count(number)} in the last second` : "");
}

// After another job was started at this address.
export function forget() {
  rows = [];
  lit = 0;
}

export function begin() {
  for (const list of Object.keys(LISTS).map(find)) {
    const stop = () => {
      reading = true;
      waiting = 0;
    };
    const resume = () => {
      reading = list.matches(":hover, :focus-within");
      if (!reading) {
        draw();
        write(find("ticker-words"), "");
      }
    };
    list.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && stop());
    list.addEventListener("pointerleave", resume);
    list.addEventListener("focusin", stop);
    list.addEventListener("focusout", () => setTimeout(resume));
  }
}
