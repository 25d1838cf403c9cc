// The events by kind, newest first.

import { get } from "./api.js";
import { find, keep, make } from "./dom.js";
import * as format from "./format.js";

const MOST = 500;
const KINDS = ["retired", "backoff", "soft404", "slice", "checkpoint", "error", "control", "run"];

const hidden = new Set();
let events = [];
let have = 0;
let fetching = null;

function line(event) {
  const when = { dateTime: new Date(1000 * event.time).toISOString(), title: format.moment(event.time) };
  const kind = make("span", { className: `kind kind-${event.kind}` }, event.kind);
  const host = event.host ? [make("b", {}, event.host), " "] : [];
  return make("li", { title: event.text.length > 100 ? event.text : "" }, make("time", when, format.stamp(event.time)), " ", kind, " ", ...host, event.text);
}

function draw() {
  const shown = events.filter((event) => !hidden.has(event.kind));
  const none = { number: null };
  keep(find("events"), shown.length ? shown.reverse() : [none], (event) => event.number, (event) => (event === none ? make("li", { className: "quiet" }, "No events of this kind.") : line(event)));
  for (const button of find("kinds").children) {
    const number = events.filter((event) => event.kind === button.dataset.kind).length;
    button.lastElementChild.textContent = String(number);
  }
}

function take(newer) {
  const fresh = newer.filter((event) => event.number > have);
  if (!fresh.length) return;
  events = [...events, ...fresh].slice(-MOST);
  have = fresh.at(-1).number;
  draw();
}

async function catchUp() {
  fetching ??= get("api/log", { after: have })
    .then(({ events: newer }) => take(newer))
    .catch(() => {})
    .finally(() => {
      fetching = null;
    });
  await fetching;
}

// `log` is from a tick: the events after number `after`, up to number `last`.
export function showLog(log) {
  if (log.last < have) forget(); // another crawl, or one that lost its latest events
  if (log.last === have) return;
  if (log.after > have) catchUp();
  else take(log.events);
}

export const all = () => events;

export function forget() {
  events = [];
  have = 0;
  keep(find("events"), [], () => null, () => null); // numbers of another crawl are of other events
}

export function begin() {
  const buttons = KINDS.map((kind) => {
    const button = make("button", { type: "button", "aria-pressed": "true", "data-kind": kind }, `${kind} `, make("small", {}, "0"));
    button.addEventListener("click", () => {
      if (!hidden.delete(kind)) hidden.add(kind);
      button.setAttribute("aria-pressed", String(!hidden.has(kind)));
      draw();
    });
    return button;
  });
  find("kinds").replaceChildren(...buttons);
  draw();
}
