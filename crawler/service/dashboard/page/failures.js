// Failed and broken URLs, newest first, with the pages that link to them; and answers by host.

import { cut, cutUrl, find, inUse, keep, make, mark, recut, set, write } from "./dom.js";
import { explain } from "./explain.js";
import * as format from "./format.js";
import { go } from "./tabs.js";
import { badge, badgeKind, recordRemedy, recordWords } from "./words.js";

const KINDS = {
  all: () => true,
  failed: (record) => record.outcome === "failed",
  "4xx": (record) => record.outcome === "fetched" && record.status >= 400 && record.status < 500 && record.status !== 429,
  429: (record) => record.outcome === "fetched" && record.status === 429,
  "5xx": (record) => record.outcome === "fetched" && record.status >= 500,
  "soft 404": (record) => record.outcome === "soft404",
};

const LISTED = 50; // hosts

let records = [];
let totals = {}; // URLs by kind, including those not listed, and pending ones to be tried again
let kind = "all";

// A link to a crawled page; it does not send the dashboard's address as referrer.
export function away(url) {
  const safe = /^https?:\/\//i.test(url);
  return safe ? make("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, url) : make("span", {}, url);
}

function details(record) {
  const rows = [
    ["address", away(record.url)],
    ["linked from", record.via ? away(record.via) : "no page: it is a seed"],
    ["why", recordWords(record) || "–"],
    ["what to do", recordRemedy(record)],
    ["when", format.moment(record.at)],
  ];
  return make("dl", { className: "facts" }, ...rows.map(([term, value]) => make("div", {}, make("dt", {}, term), make("dd", {}, value))));
}

function toggle(node, record) {
  const button = node.firstChild;
  const open = button.getAttribute("aria-expanded") !== "true";
  button.setAttribute("aria-expanded", String(open));
  if (!open) return node.lastChild.remove();
  const steps = make("ol", { className: "steps" }, make("li", { className: "quiet" }, "…"));
  const more = make("details", {}, make("summary", {}, "What the crawl knows about this URL"), steps);
  more.addEventListener("toggle", () => more.open && explain(steps, record.url), { once: true });
  node.append(make("div", { className: "detail" }, details(record), more));
}

function create(record) {
  const head = make("button", { type: "button", className: "row", "aria-expanded": "false" });
  const why = [recordWords(record).split(":")[0], record.via ? "on " : "a seed"].filter(Boolean).join(", ");
  head.append(
    make("span", { className: `badge badge-${badgeKind(record)}` }, String(badge(record))),
    cut(record.url),
    make("span", { className: "from" }, make("small", {}, why), record.via ? cutUrl(record.via) : ""),
    make("time", { title: format.moment(record.at) }, format.clock(record.at)),
  );
  const node = make("li", {}, head);
  head.addEventListener("click", () => toggle(node, record));
  return node;
}

function draw() {
  const fitting = records.filter(KINDS[kind]);
  keep(find("failures"), fitting, (record) => record.number, create);
  count();
  find("failures-none").hidden = fitting.length > 0;
  write(find("failures-none"), records.length ? (totals[kind] ? "None of the newest URLs are of this kind: Download has all." : "None of this kind.") : "Nothing failed or broken so far.");
}

function createKind(name) {
  const button = make("button", { type: "button", "data-failures": name }, `${name} `, make("small"));
  button.addEventListener("click", () => reveal(name));
  return button;
}

// Each URL is listed once, with its last visit.
function count() {
  const names = Object.keys(KINDS).sort((one, other) => (totals[other] ?? 0) - (totals[one] ?? 0) || (other === "all") - (one === "all"));
  keep(find("failure-kinds"), names, (name) => name, createKind, (button, name) => {
    write(button.lastElementChild, format.figure(totals[name] ?? 0));
    set(button, "ariaPressed", String(name === kind));
  });
  if (held) return;
  const listed = records.filter(KINDS[kind]).length;
  const [some, later] = [totals[kind] > listed ? `${format.count(listed)} of ${format.counted(totals[kind], "URL")} shown` : "", totals.again ? `${format.counted(totals.again, "more URL")} failed and will be tried again: counted here if the last try fails` : ""];
  write(find("failures-count"), [some, later].filter(Boolean).join("; "));
}

// Shows the totals counted by the crawl.
export function showTotals({ failed = 0, client = 0, throttled = 0, server = 0, soft = 0, retrying = 0 }) {
  totals = { all: failed + client + throttled + server + soft, failed, "4xx": client, 429: throttled, "5xx": server, "soft 404": soft, again: retrying };
  count();
}

let newest = null;
let held = null; // a survey that arrived while the list was in use

export function showFailures(survey) {
  const found = survey.failures ?? [];
  const key = `${found[0]?.number} ${found.length}`;
  if (key === newest) return;
  if (records.length && inUse(find("failures"))) {
    held = survey;
    const more = found.filter((record) => record.number > records[0].number).length;
    return write(find("failures-count"), more ? `paused, ${format.count(more)} more` : "");
  }
  held = null;
  newest = key;
  records = found;
  draw();
}

// -- errors by host ------------------------------------------------------------------------------------------------

let answers = []; // results of finished visits, by host
let tries = []; // hosts with most errors in all requests, including those for robots.txt

const ANSWERS = [
  ["ok", "good"],
  ["redirects", "quiet"],
  ["client_errors", "warn"],
  ["soft404", "soft"],
  ["server_errors", "bad"],
  ["failed", "lost"],
];

function answersRow() {
  const bar = make("span", { className: "stack", "aria-hidden": "true" }, ...ANSWERS.map(([, colour]) => make("i", { className: `stack-${colour}` })));
  return make("tr", {}, make("th", { scope: "row" }, cut("")), make("td", {}, bar), ...ANSWERS.map(() => make("td")));
}

// A visit that ended with an error is also in the errors of its last request, so take the larger number.
function withTries({ host, errors }, row) {
  const { server_error: server = 0, throttled = 0, ...others } = errors ?? {};
  const lost = Object.values(others).reduce((sum, number) => sum + number, 0);
  return { ...row, host, server_errors: Math.max(row?.server_errors ?? 0, server + throttled), failed: Math.max(row?.failed ?? 0, lost) };
}

const sumOf = (row, names) => names.reduce((sum, name) => sum + (row[name] ?? 0), 0);
const wrong = (row) => sumOf(row, ["client_errors", "soft404", "server_errors", "failed"]);
const onlyWrong = (row) => wrong(row) > 0 && !sumOf(row, ["ok", "redirects"]);

export function showTries(rows) {
  tries = rows;
  showAnswers(answers);
}

export function showAnswers(found) {
  answers = found ?? [];
  const all = new Map(answers.map((row) => [row.host, row]));
  for (const row of tries) all.set(row.host, withTries(row, all.get(row.host)));
  const hosts = [...all.values()].filter((row) => sumOf(row, ANSWERS.map(([key]) => key))).sort((one, other) => onlyWrong(other) - onlyWrong(one) || wrong(other) - wrong(one)).slice(0, LISTED);
  keep(find("answers"), hosts, (row) => row.host, answersRow, (node, row) => {
    recut(node.firstChild.firstChild, row.host);
    const all = ANSWERS.reduce((sum, [key]) => sum + (row[key] ?? 0), 0) || 1;
    ANSWERS.forEach(([key], index) => {
      const share = `${(100 * (row[key] ?? 0)) / all}%`;
      const part = node.children[1].firstChild.children[index];
      if (part.style.width !== share) part.style.width = share;
      const cell = node.children[index + 2];
      write(cell, row[key] ? format.narrow(row[key]) : "–");
      mark(cell, "some", index >= 2 && row[key] > 0);
    });
  });
  find("answers-none").hidden = hosts.length > 0;
}

// Shows the failures of one kind.
export function choose(wanted) {
  kind = KINDS[wanted] ? wanted : "all";
  draw();
}

export const reveal = (wanted) => go("failures", wanted);

export function begin() {
  // When the list is no longer in use, show the survey that arrived meanwhile, even if it has not changed since.
  for (const event of ["pointerleave", "focusout"]) find("failures").addEventListener(event, () => setTimeout(() => held && showFailures(held)));
  count();
}
