// The list of problems that need attention, one line each; hosts with the same problem share a line. A line opens to show the remedy.

import { get, post, token } from "./api.js";
import { find, keep, make, mark, notify, set, write } from "./dom.js";
import { showTries } from "./failures.js";
import * as format from "./format.js";
import { go } from "./tabs.js";
import { cause, isHeld, isUsedUp, mainClass, remedy, stateMark } from "./words.js";

const LOOK = 12; // hosts with most errors that are checked
const LISTED = 50; // hosts with most errors that are requested
const SHOWN = 9; // items shown before "Show more"
const NAMED = { line: 2, opened: 12 }; // hosts named in an item
const STAYS = 20_000; // milliseconds for which an item stays after its last occurrence: hosts are held again and again
// Milliseconds between two requests for hosts: after a change or while a host is in trouble, and otherwise.
const EVERY = { soon: 9_500, calm: 29_500 };
// The tab that has details about a problem of the crawl.
const PLACES = { "nothing-fetched": "machines", "code-fails": "machines", "code-stopped": "machines", "seen-suspect": "seen-set", "seen-errs": "seen-set", "seen-limit": "seen-set", "unreadable-answers": "failures", "hosts-without-page": "hosts", "hosts-retired": "hosts", "hosts-need-browser": "hosts" };

let rows = null; // null until the first request
let pendings = new Map(); // pending URLs of these hosts
let hosts = []; // answers by host, from the survey
let silent = {}; // the hosts that gave no page, as in an item
let errors = new Map(); // errors of all tries by host, of the hosts with most
let asked = 0;
let wait = 0;
let trouble = ""; // the crawl's counts of problems when the hosts were last requested
let over = false; // true if no crawl is running, so no host can be paused
let all = false;
const opened = new Set(); // keys

// The crawl reports its own problems; those of hosts are found here, a few hosts at a time.
const ofCrawl = (needs) => (needs ?? []).map(({ kind, what, text, act, level }) => ({ key: kind, level, what, why: text.replace(/\.$/, ""), act, hosts: [], pending: 0, failed: 0, ...(kind === "hosts-without-page" && silent) }));

// `what` is said of one host, `many` of several; `why` is the same for all hosts of an item.
const ofOne = (level, what, many, why, act, row) => ({ level, what, many, why, act: act.trim(), hosts: [row.host], pending: (row.pending ?? 0) + (row.in_flight ?? 0), failed: row.failed ?? 0 });

function ofHost(row) {
  if (row.no_page) return null; // a single item covers all such hosts
  const kind = mainClass(["failing", "snoozed"].includes(row.rule) ? { errors: { ...row.errors, server_error: 0, throttled: 0 } } : row);
  const why = kind ? cause(kind) : row.reason;
  const what = kind ? remedy(kind) : "";
  if (row.state === "retired") return ofOne("bad", "was given up", "were given up", why, what, row);
  if (isUsedUp(row)) return ofOne("note", "has used up its budget", "have used up their budgets", row.reason, "Raise the budget to crawl more of it.", row);
  if (row.state === "snoozed") return ofOne("bad", "does not answer", "do not answer", why, what, row);
  if (isHeld(row)) {
    const held = ["retry_after", "backoff"].includes(row.rule) ? "throttled" : row.rule === "errors" ? "server_error" : kind;
    return ofOne("wait", over ? "was on hold" : "is on hold", over ? "were on hold" : "are on hold", held ? cause(held) : row.reason, held ? remedy(held) : "", row);
  }
  const often = kind && row.pending && row.errors[kind] >= Math.max(3, 0.05 * row.fetched); // its URLs may still be fetched
  return row.failed || often ? ofOne("wait", "failed on some tries", "failed on some tries", kind ? cause(kind) : "", what, row) : null;
}

function ofAnswers(host, known) {
  if (known.has(host.host) || !(host.ok + host.redirects || pendings.get(host.host))) return null;
  const row = { host: host.host, pending: pendings.get(host.host) };
  const answers = host.ok + host.redirects + host.client_errors + host.server_errors + host.failed;
  const { throttled = 0, server_error: erred = 0 } = errors.get(host.host) ?? {};
  const kind = throttled > erred ? "throttled" : "server_error";
  if (host.server_errors >= 3 && host.server_errors > 0.05 * answers) return ofOne("wait", "answers with errors", "answer with errors", `over 5% of answers: ${cause(kind)}`, `${remedy(kind)} Visit the pages again later.`, row);
  if (host.client_errors >= 5 && host.client_errors > 0.2 * answers) return ofOne("note", "has many broken links", "have many broken links", "over 20% of answers are 4xx", "The tab Failures lists the pages with these links.", row);
  return null;
}

// Combines hosts with the same problem and cause.
function grouped(found) {
  const items = new Map();
  for (const one of found) {
    const key = one.key ?? `${one.level} ${one.many} ${one.why.replace(/[\d,]+/g, "")}`;
    const item = items.get(key);
    if (!item) items.set(key, { ...one, key });
    else Object.assign(item, { hosts: [...item.hosts, ...one.hosts], pending: item.pending + one.pending, failed: item.failed + one.failed });
  }
  return [...items.values()];
}

// The order of items: first problems that stop the whole crawl, then hosts that the crawl waits for, those with most
// pending URLs first, then hosts that are finished, and notes last. The logarithm keeps items in place while numbers grow.
const RANK = { bad: 0, wait: 1, note: 2 };
const cost = (one) => [one.hosts.length && !one.total ? (one.pending ? 1 : one.level === "note" ? 4 : 3) : one.level === "note" ? 2 : 0, -Math.floor(Math.log2(one.pending + 1)), RANK[one.level]];

function title({ hosts: names, total = names.length, what, many }) {
  if (!names.length) return what;
  const [named, more] = [names.slice(0, NAMED.line), total - Math.min(NAMED.line, names.length)];
  return `${named.join(more ? ", " : " and ")}${more ? ` and ${format.count(more)} more` : ""} ${total === 1 ? what : many}`;
}

// -- lines -----------------------------------------------------------------------------------------------------------

// Sends the same request for each host of an item.
async function each(names, words, request) {
  try {
    for (const name of names) await request(name);
    notify(`${words} ${format.counted(names.length, "host")}.`);
  } catch (error) {
    notify(error.message);
  }
}

const BUTTONS = {
  Show: (one) => go(PLACES[one.key] ?? "hosts", one.hosts.length === 1 ? one.hosts[0] : ""),
  Resume: () => find("pause").click(),
  Pause: (one) => each(one.hosts, "Paused", (host) => post("api/control", { do: "pause-host", host })),
  "Visit again": (one) => each(one.hosts, "Queued the failed URLs of", (host) => post("api/retry", { host, failed: true })),
};

function buttonsOf(one) {
  const found = one.hosts.length || PLACES[one.key] ? ["Show"] : [];
  if (one.key === "paused") found.push("Resume");
  if (one.pending && !over) found.push("Pause");
  if (one.failed && !over) found.push("Visit again");
  return found;
}

function create(one) {
  const open = make("button", { type: "button", className: "link" });
  const node = make("li", {}, open, make("span", { className: "why" }), make("span", { className: "acts" }), make("div", { className: "more", hidden: true }, make("p", { className: "act" }), make("ul", { className: "names" })));
  open.addEventListener("click", () => {
    if (!opened.delete(one.key)) opened.add(one.key);
    update(node, node.one);
  });
  return node;
}

function update(node, one) {
  node.one = one;
  const [open, why, acts, more] = node.children;
  set(node, "className", `mark-${one.level}`);
  write(open, title(one));
  set(open, "ariaExpanded", String(opened.has(one.key)));
  write(why, [one.why, one.pending ? format.counted(one.pending, "pending URL") : ""].filter(Boolean).join("; "));
  set(why, "title", why.textContent);
  keep(acts, buttonsOf(one), (name) => name, (name) => {
    const button = make("button", { type: "button" }, name);
    button.addEventListener("click", () => BUTTONS[name](node.one));
    return button;
  });
  for (const button of acts.children) {
    button.disabled = button.textContent !== "Show" && token() === null;
    set(button, "title", button.disabled ? "Unlock the controls first" : "");
  }
  more.hidden = !opened.has(one.key);
  const again = over && one.failed ? " Then crawler retry --failed, and run the crawl again." : "";
  write(more.firstChild, `${one.act}${again}`);
  keep(more.lastChild, one.hosts.slice(0, NAMED.opened), (name) => name, (name) => make("li", {}, make("a", { href: `#/hosts/${encodeURIComponent(name)}` }, name)));
}

const kept = new Map(); // key -> the item last seen, and when

function lasting(found) {
  const now = Date.now();
  found.forEach((one, place) => kept.set(one.key, { one, first: kept.get(one.key)?.first ?? now + place / 1000, last: now }));
  const isDone = (one) => one.pending > 0 && one.hosts.every((host) => pendings.get(host) === 0);
  for (const [key, { one, last }] of kept) if (now - last > STAYS || isDone(one)) kept.delete(key);
  const order = (entry) => [...cost(entry.one), entry.first];
  const differ = (one, other) => order(one).map((part, index) => part - order(other)[index]).find((part) => part !== 0) ?? 0;
  return [...kept.values()].sort(differ).map(({ one }) => one);
}

export function showAttention({ stats, needs }) {
  if (rows === null) return; // show all items at once, so that nothing moves
  const wasOver = over;
  over = ["ended", "stopped"].includes(stats.state);
  // Earlier problems of hosts still apply to a crawl that stopped, but not to one that ended: no URLs are pending.
  if (over && !wasOver) [rows, pendings, asked] = stats.state === "ended" ? [[], new Map(), 0] : [rows, pendings, 0];
  if (over !== wasOver) kept.clear();
  const known = new Set(rows.filter(ofHost).map((row) => row.host)); // hosts that have an item already
  const found = lasting(grouped([...ofCrawl(needs), ...rows.map(ofHost), ...hosts.map((host) => ofAnswers(host, known))].filter(Boolean)));
  keep(find("attention"), all ? found : found.slice(0, SHOWN), (one) => one.key, create, update);
  const worst = found.filter((one) => one.level !== "note").length;
  write(find("attention-count"), found.length ? `${format.count(found.length)}${worst ? "" : ", nothing urgent"}` : "");
  mark(find("attention-count"), "alarm", worst > 0);
  find("attention-none").hidden = found.length > 0;
  find("attention-more").hidden = found.length <= SHOWN;
  write(find("attention-more"), all ? "Show fewer" : `Show ${format.count(found.length - SHOWN)} more`);
}

export const showAnswers = (answers) => {
  hosts = answers;
};

// A text that changes when a host gets into trouble.
function troubleOf(stats) {
  const { snoozed, retired, blocked } = stats.hosts_by_state ?? {};
  return [stats.state, stats.pages_failed, stats.retries, stats.throttled, snoozed, retired, blocked].join(" ");
}

// Requests the hosts with most errors, and those with most pending URLs.
export async function tick(stats) {
  const now = troubleOf(stats);
  if (document.hidden || Date.now() < asked + (now === trouble ? wait : Math.min(wait, EVERY.soon))) return;
  asked = Date.now();
  trouble = now;
  wait = Infinity;
  let next = EVERY.soon;
  try {
    const look = (sort, limit) => get("api/hosts", { sort, order: "desc", offset: 0, limit, q: "" });
    const answer = await look("errors", LISTED);
    showTries(answer.hosts);
    errors = new Map(answer.hosts.map((row) => [row.host, row.errors]));
    const failed = answer.hosts.filter((row) => !row.no_page).slice(0, LOOK);
    const waiting = answer.total > failed.length ? (await look("pending", LOOK)).hosts : []; // the crawl may wait for a host without failures
    const looked = new Map([...failed, ...waiting].map((row) => [row.host, row]));
    pendings = new Map([...looked.values()].map((row) => [row.host, row.pending ?? 0]));
    const total = Object.values(stats.hosts_without_page ?? {}).reduce((sum, number) => sum + number, 0);
    const mute = total ? (await look("no_page", NAMED.opened)).hosts.filter((row) => row.no_page) : [];
    silent = mute.length ? { hosts: mute.map((row) => row.host), total, what: "gave no page", many: "gave no page" } : {};
    rows = [...looked.values()].filter((row) => row.failed || mainClass(row) || stateMark(row) !== "good");
    if (!rows.some(ofHost)) next = EVERY.calm;
    next += Math.min(20_000, answer.total / 5);
  } catch {
    rows ??= [];
  }
  wait = next;
}

export function begin() {
  find("attention-more").addEventListener("click", () => {
    all = !all;
  });
}
