// The table of hosts, sorted and searched by the crawl, one page at a time; and the details of one host.

import { get, post, token } from "./api.js";
import { find, make, write } from "./dom.js";
import * as format from "./format.js";

const LIMIT = 100;
const QUEUE = 12; // entries of an opened host's queue, and its recent fetches
const RECENT = 10;
const PAUSE = 250; // milliseconds after the last key of a search

const view = { sort: "failed", order: "desc", offset: 0, q: "" };
let total = 0;
let opened = null;
let asking = 0;
let due = 0;

const errors = (row) =>
  Object.entries(row.errors ?? {})
    .filter(([, number]) => number)
    .map(([name, number]) => `${name} ${format.count(number)}`)
    .join(", ");

const wait = (row, write = format.span) => (row.next_time === null || row.next_time === undefined ? "–" : row.wait_seconds >= 0.05 ? write(row.wait_seconds) : row.state === "queued" ? "queued" : "now");
// The table shortens long numbers; pointing at one shows all of it.
const number = (value, className = "") => make("span", { className, title: value >= 1e6 ? format.count(value) : "" }, format.narrow(value));

// The rule in one word, if there is no room for the sentence.
function why(row) {
  const held = !["ready", "leased", "robots", "idle"].includes(row.state) && row.rule;
  const parts = [make("span", { className: "long" }, row.reason ?? "–"), make("span", { className: "short" }, held ? row.rule.replaceAll("_", " ") : (row.reason ?? "–"))];
  return make("span", { title: row.reason ?? "" }, ...parts);
}

function line(row) {
  const open = make("button", { type: "button", className: "open", title: row.host }, row.host);
  open.addEventListener("click", () => openHost(row.host));
  const cells = [
    make("span", { className: `host-state host-${row.state}` }, row.state),
    number(row.failed, row.failed ? "some" : ""),
    make("span", { title: errors(row) }, errors(row) || "–"),
    number(row.pending),
    wait(row, format.near),
    why(row),
    format.seconds(row.latency_seconds),
    format.seconds(row.gap_seconds),
  ];
  return make("tr", {}, make("th", { scope: "row" }, open), ...cells.map((cell) => make("td", {}, cell)));
}

function keepFocus(update) {
  const active = document.activeElement;
  const name = active?.closest?.("#hosts") ? active.textContent : null;
  update();
  if (name !== null) focusHost(name, { preventScroll: true });
}

// The row from which a host was opened was replaced since. If no row shows the host, focus the table.
function focusHost(name, options = {}) {
  const button = [...find("hosts").querySelectorAll("button.open")].find((each) => each.textContent === name);
  (button ?? document.querySelector(".hosts .rows")).focus(options);
}

function say(text) {
  write(find("hosts-count"), text);
}

export async function refresh() {
  const mine = ++asking;
  due = Date.now() + 60_000;
  try {
    const answer = await get("api/hosts", { ...view, limit: LIMIT });
    if (mine !== asking) return; // a later request is in progress
    total = answer.total;
    if (view.offset && view.offset >= total) {
      view.offset = 0;
      return refresh();
    }
    keepFocus(() => find("hosts").replaceChildren(...answer.hosts.map(line)));
    const last = view.offset + answer.hosts.length;
    say(total ? `${format.count(view.offset + 1)} to ${format.count(last)} of ${format.count(total)}` : "no hosts");
    find("hosts-before").disabled = view.offset === 0;
    find("hosts-after").disabled = last >= total;
  } catch (error) {
    if (mine === asking) say(error.message);
  } finally {
    if (mine === asking) due = Date.now() + 2_000 + Math.min(8_000, total / 10);
  }
}

// The number of hosts in each state; null until all were counted once.
export function showStates(counts) {
  const some = Object.entries(counts ?? {}).filter(([, number]) => number);
  const words = some.map(([state, number]) => make("li", { className: `host-state host-${state}` }, `${state} `, make("b", {}, format.figure(number))));
  find("host-states").replaceChildren(...words);
}

// Called once a second, with the tick: asks again when it is time, unless the page is in the background.
export function tick() {
  if (document.hidden || Date.now() < due) return;
  refresh();
  if (opened) showHost(opened);
}

function sortBy(key) {
  const texts = ["host", "state", "rule"];
  if (view.sort === key) view.order = view.order === "desc" ? "asc" : "desc";
  else Object.assign(view, { sort: key, order: texts.includes(key) ? "asc" : "desc" });
  view.offset = 0;
  for (const button of document.querySelectorAll("#hosts-table [data-sort]")) {
    const words = { asc: "ascending", desc: "descending" };
    button.parentElement.setAttribute("aria-sort", button.dataset.sort === view.sort ? words[view.order] : "none");
  }
  refresh();
}

// -- one host ------------------------------------------------------------------------------------------------------

function pairs(id, values) {
  find(id).replaceChildren(...values.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

function urls(id, rows, words) {
  const lines = rows.map((row) => make("li", {}, make("span", { className: "url" }, row.url), make("small", {}, words(row))));
  find(id).replaceChildren(...(lines.length ? lines : [make("li", { className: "quiet" }, "none")]));
}

function recentWords(row) {
  return [row.status ?? row.error ?? row.outcome, row.bytes === null ? null : format.bytes(row.bytes), row.fetched_at ? format.stamp(Date.parse(row.fetched_at) / 1000) : null].filter((part) => part !== null && part !== undefined).join(", ");
}

// Times are seconds since 1970.
const robotsWord = (key, value) => (value === null || value.length === 0 ? "–" : ["asked_at", "copy_of", "until"].includes(key) ? format.moment(value) : String(value));

async function showHost(name) {
  try {
    const row = await get(`api/hosts/${encodeURIComponent(name)}`);
    if (opened !== name) return;
    const [when, why] = [wait(row), row.reason ?? "–"];
    write(find("host-why"), when === "–" ? "No URLs left." : `Next ${["now", "queued"].includes(when) ? when : `in ${when}`}: ${why}.`);
    pairs("host-row", [
      ["state", row.state],
      ["pending", format.count(row.pending)],
      ["in flight", format.count(row.in_flight)],
      ["fetched", format.count(row.fetched)],
      ["failed", format.count(row.failed)],
      ["errors", errors(row) || "none"],
      ["gap", format.seconds(row.gap_seconds)],
      ["latency", format.seconds(row.latency_seconds)],
    ]);
    urls("host-queue", (row.queue ?? []).slice(0, QUEUE), (entry) => `depth ${entry.depth}, class ${entry.class}`);
    urls("host-recent", (row.recent ?? []).slice(0, RECENT), recentWords);
    pairs("host-robots", Object.entries(row.robots ?? {}).map(([key, value]) => [key.replaceAll("_", " "), robotsWord(key, value)]));
    find("host-body").hidden = false;
  } catch (error) {
    if (opened === name) write(find("host-notice"), error.message);
  }
}

function openHost(name) {
  opened = name;
  write(find("host-title"), name);
  write(find("host-notice"), "");
  unsure();
  find("host-body").hidden = true; // the answer appears all at once, and nothing moves
  unlock();
  showHost(name);
  find("host-dialog").showModal();
}

let running = false;

// Whether a crawl is running whose hosts can be paused.
export function unlock(runs = running) {
  running = runs;
  for (const button of document.querySelectorAll("[data-host-do]")) button.disabled = token() === null || !running;
}

// Excluded URLs stay excluded, so ask for a second press.
let sure = false;

function unsure() {
  sure = false;
  write(document.querySelector("[data-host-do=block-host]"), "Block host");
}

async function controlHost(what) {
  const name = opened;
  if (what === "block-host" && !sure) {
    sure = true;
    write(document.querySelector("[data-host-do=block-host]"), "Confirm block");
    write(find("host-notice"), "Press again to block this host: its pending URLs will be excluded, and stay excluded if you resume it.");
    return;
  }
  unsure();
  try {
    await post("api/control", { do: what, host: name });
    write(find("host-notice"), "Done.");
  } catch (error) {
    write(find("host-notice"), error.message);
  }
  showHost(name);
  refresh();
}

export function begin() {
  for (const button of document.querySelectorAll("#hosts-table [data-sort]")) button.addEventListener("click", () => sortBy(button.dataset.sort));
  let typed = 0;
  find("hosts-search").addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(() => {
      Object.assign(view, { q: find("hosts-search").value.trim(), offset: 0 });
      refresh();
    }, PAUSE);
  });
  for (const [id, step] of [["hosts-before", -LIMIT], ["hosts-after", LIMIT]]) {
    find(id).addEventListener("click", () => {
      view.offset = Math.max(0, view.offset + step);
      refresh();
    });
  }
  for (const button of document.querySelectorAll("[data-host-do]")) button.addEventListener("click", () => controlHost(button.dataset.hostDo));
  find("host-dialog").addEventListener("close", () => {
    focusHost(opened);
    opened = null;
  });
  find("host-dialog").querySelector("[data-close]").addEventListener("click", () => find("host-dialog").close());
}
