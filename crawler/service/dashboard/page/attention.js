// What needs somebody: each with its cause in words, and what to do.

import { get } from "./api.js";
import { cut, find, keep, make, mark, set, write } from "./dom.js";
import { showTries } from "./failures.js";
import * as format from "./format.js";
import { cause, className, isHeld, isUsedUp, mainClass, remedy, stateMark } from "./words.js";

const LOOK = 12; // hosts that failed most
const LISTED = 50; // hosts with most errors
const STAYS = 20_000; // milliseconds for which something is shown after it was seen last: hosts are held again and again
// Milliseconds between two looks at the hosts: after something changed or while a host is in trouble, and otherwise.
const EVERY = { soon: 9_500, calm: 29_500 };

let rows = null; // null until they were asked for once
let pendings = new Map(); // of these hosts
let hosts = []; // answers by host, from the survey
let asked = 0;
let wait = 0;
let trouble = ""; // what the crawl said of trouble when the hosts were asked for
let over = false; // no crawl runs, so nothing can be pressed
let open = () => {};

const item = (level, what, why, act, host = null, pending = 0) => ({ level, what, why, act, host, pending, key: `${host ?? ""} ${host ? "" : what.replace(/[\d,]+/g, "")}` });

// The crawl says what about it deserves a look; hosts are looked at here, a few at a time.
const ofCrawl = (needs) => (needs ?? []).map((need) => ({ ...item(need.level, need.what, need.text.replace(/\.$/, ""), need.act), key: need.kind }));

// What somebody can press in the row of a host that holds the crawl up, and what that costs.
function withButtons(found) {
  if (!found || !found.pending || found.level === "note") return found;
  const urls = format.counted(found.pending, "URL");
  const press = over || found.what === "was given up" ? "" : ` Or open it here: Pause lets it wait, Block… ends the crawl without its ${urls}.`;
  return { ...found, why: `${found.why}; ${urls} ${found.pending === 1 ? "waits" : "wait"} for it`, act: `${found.act}${press}` };
}

const ofHost = (row) => {
  const found = troubleOfHost(row);
  return found && withButtons({ ...found, pending: (row.pending ?? 0) + (row.in_flight ?? 0) });
};

const again = (host) => (over ? `Then crawler retry --failed --host ${host}, and run the crawl again.` : "Then open it and press Visit again.");

function troubleOfHost(row) {
  if (row.no_page) return null; // one row says it of all such hosts
  const kind = mainClass(row);
  const lost = row.failed ? `${format.counted(row.failed, "visit")} failed` : "";
  if (row.state === "retired") return item("bad", "was given up", [kind ? cause(kind) : row.reason, lost].filter(Boolean).join("; "), `${kind ? remedy(kind) : ""} ${again(row.host)}`, row.host);
  if (isUsedUp(row)) return item("note", "has used up its budget", row.reason, "Raise the budget to go on.", row.host);
  const next = !over && row.next_time && row.wait_seconds > 30 ? `; asked again at ${format.stamp(row.next_time, false)}` : "";
  if (row.state === "snoozed") return item("bad", "does not answer", `${kind ? cause(kind) : row.reason}${next}`, kind ? remedy(kind) : "", row.host);
  if (isHeld(row)) {
    const held = ["retry_after", "backoff"].includes(row.rule) ? "throttled" : row.rule === "errors" ? "server_error" : kind;
    return item("wait", held === "throttled" ? "slows the crawl down" : "is held back", `${held ? cause(held) : row.reason}${next}`, held ? remedy(held) : "", row.host);
  }
  if (row.failed) return item("wait", "failed on some visits", [lost, kind ? `most tries: ${className(kind)}` : ""].filter(Boolean).join("; "), `${kind ? remedy(kind) : ""} ${again(row.host)}`, row.host);
  return null;
}

function ofAnswers(host, known) {
  if (known.has(host.host) || !(host.ok + host.redirects || pendings.get(host.host))) return null;
  const all = host.ok + host.redirects + host.client_errors + host.server_errors + host.failed;
  if (host.server_errors >= 3 && host.server_errors > 0.05 * all) return item("wait", "answers with errors", `${format.count(host.server_errors)} of ${format.count(all)} answers are 5xx or 429`, "Its owner has to mend it; have the pages visited again later.", host.host, pendings.get(host.host) ?? 0);
  if (host.client_errors >= 5 && host.client_errors > 0.2 * all) return item("note", "has many broken links", `${format.count(host.client_errors)} of ${format.count(all)} answers are 4xx`, "See who links to them below Failures.", host.host);
  return null;
}

// What costs most comes first: what holds up the whole crawl, then the hosts that it waits for, those with many pending
// URLs first, then what is over and what is only worth a word. Numbers that grow a little change no places.
const RANK = { bad: 0, wait: 1, note: 2 };
const cost = (one) => [one.host === null ? (one.level === "note" ? 2 : 0) : one.pending ? 1 : one.level === "note" ? 4 : 3, -Math.floor(Math.log2(one.pending + 1)), RANK[one.level]];

function create(one) {
  const what = one.host ? make("button", { type: "button", className: "link" }, cut(one.host)) : make("b");
  if (one.host) what.addEventListener("click", () => open(one.host));
  return make("li", {}, what, make("p", { className: "why" }), make("p", { className: "act" }));
}

function update(node, one) {
  set(node, "className", `mark-${one.level}`);
  if (!one.host) write(node.firstChild, one.what);
  const why = one.host ? `${one.what}${one.why ? `: ${one.why}` : ""}` : one.why;
  write(node.children[1], why ? `${one.host ? why : why[0].toUpperCase() + why.slice(1)}.` : "");
  write(node.children[2], one.act.trim());
}

const kept = new Map(); // key -> what was seen last, and when

function lasting(found) {
  const now = Date.now();
  found.forEach((one, place) => kept.set(one.key, { one, first: kept.get(one.key)?.first ?? now + place / 1000, last: now }));
  const isDone = (one) => one.pending > 0 && pendings.get(one.host) === 0;
  for (const [key, { one, last }] of kept) if (now - last > STAYS || isDone(one)) kept.delete(key);
  const order = (entry) => [...cost(entry.one), entry.first];
  const differ = (one, other) => order(one).map((part, index) => part - order(other)[index]).find((part) => part !== 0) ?? 0;
  return [...kept.values()]
    .sort(differ)
    .map(({ one }) => one);
}

export function showAttention({ stats, needs }) {
  if (rows === null) return; // all at once, so that nothing moves
  const wasOver = over;
  over = ["ended", "stopped"].includes(stats.state);
  if (over && !wasOver) [rows, asked] = [[], 0]; // what was seen of hosts before is not true any more
  if (over !== wasOver) kept.clear();
  const known = new Set(rows.filter(ofHost).map((row) => row.host)); // of which something is said already
  const found = lasting([...ofCrawl(needs), ...rows.map(ofHost), ...hosts.map((host) => ofAnswers(host, known))].filter(Boolean));
  keep(find("attention"), found, (one) => one.key, create, update);
  const worst = found.filter((one) => one.level !== "note").length;
  write(find("attention-count"), found.length ? `${format.count(found.length)}${worst ? "" : ", nothing urgent"}` : "");
  mark(find("attention-count"), "alarm", worst > 0);
  find("attention-none").hidden = found.length > 0;
}

export const showAnswers = (answers) => {
  hosts = answers;
};

// What changes when a host gets into trouble.
function troubleOf(stats) {
  const { snoozed, retired, blocked } = stats.hosts_by_state ?? {};
  return [stats.state, stats.pages_failed, stats.retries, stats.throttled, snoozed, retired, blocked].join(" ");
}

// The hosts with most errors, and those with most pending URLs.
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
    const failed = answer.hosts.filter((row) => !row.no_page).slice(0, LOOK);
    const waiting = answer.total > failed.length ? (await look("pending", LOOK)).hosts : []; // what the crawl waits for need not have failed
    const all = new Map([...failed, ...waiting].map((row) => [row.host, row]));
    pendings = new Map([...all.values()].map((row) => [row.host, row.pending ?? 0]));
    rows = [...all.values()].filter((row) => row.failed || mainClass(row) || stateMark(row) !== "good");
    if (!rows.some(ofHost)) next = EVERY.calm;
    next += Math.min(20_000, answer.total / 5);
  } catch {
    rows ??= [];
  }
  wait = next;
}

export function begin(openHost) {
  open = openHost;
}
