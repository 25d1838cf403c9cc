// What needs somebody: each with its cause in words, and what to do.

import { get } from "./api.js";
import { cut, find, keep, make, mark, set, write } from "./dom.js";
import * as format from "./format.js";
import { cause, className, isHeld, mainClass, remedy, stateMark } from "./words.js";

const LOOK = 12; // hosts that failed most
const STAYS = 20_000; // milliseconds for which something is shown after it was seen last: hosts are held again and again
// Milliseconds between two looks at the hosts: after something changed or while a host is in trouble, and otherwise.
const EVERY = { soon: 9_500, calm: 29_500 };
const SLOW = 120; // seconds from which one host that takes longer than all others is worth a word

let rows = null; // null until they were asked for once
let hosts = []; // answers by host, from the survey
let asked = 0;
let wait = 0;
let trouble = ""; // what the crawl said of trouble when the hosts were asked for
let open = () => {};

const item = (level, what, why, act, host = null) => ({ level, what, why, act, host, key: `${host ?? ""} ${host ? "" : what.replace(/[\d,]+/g, "")}` });

function ofCrawl(stats) {
  const found = [];
  if (stats.paused) {
    const acts = { disk: "Free some space on the job's disk; the crawl resumes by itself.", outage: "Check this machine's network; the crawl resumes by itself when a host answers.", hours: "Nothing: it goes on when the hosts' hours begin.", user: "Press Resume when it should go on." };
    found.push(item(stats.paused_by === "hours" ? "note" : "bad", "The crawl is paused", stats.paused, acts[stats.paused_by] ?? acts.user));
  }
  const seen = stats.seen;
  if (seen?.count_suspect) found.push(item("bad", "The seen-set cannot be trusted", "its bits are not those that its keys should have set", "Run crawler verify on the job, and start again with a keyed hash."));
  if (seen && seen.fpp_estimated !== null && seen.fpp_estimated > seen.fpp_target) found.push(item("bad", "The seen-set errs more often than it should", `${format.probability(seen.fpp_estimated)} instead of ${format.probability(seen.fpp_target)}`, "Give it more memory, or resume with another --seen."));
  else if (stats.advice?.warning) found.push(item("wait", "The seen-set is heading for a limit", stats.advice.warning, "Look at the seen-set below before it gets there."));
  if (stats.hosts_overlooked?.count) found.push(item("bad", `${format.counted(stats.hosts_overlooked.count, "host")} overlooked`, stats.hosts_overlooked.names.join(", "), "This is a fault of the program: stop and resume the crawl, and please report it."));
  if (stats.proxies?.failing) found.push(item("bad", `${format.counted(stats.proxies.failing, "proxy", "proxies")} failing`, stats.proxies.named[0]?.reason ?? "", "Check the proxies; hosts are not blamed for it."));
  if (stats.internal_failures) found.push(item("bad", `${format.counted(stats.internal_failures, "answer")} could not be read`, "a bug of the crawler", "Please report it with the URLs, which are listed below Failures."));
  const stopped = Object.values(stats.hooks ?? {}).find((hook) => hook.stopped);
  if (stopped) found.push(item("bad", `Your function ${stopped.function} stopped the crawl`, stopped.stopped, "Mend it and resume."));
  if (stats.pages_code_failed) found.push(item("wait", `Your code failed on ${format.counted(stats.pages_code_failed, "page")}`, "the records of these pages say where and why (data_error)", "Mend the function, then visit these pages again."));
  if (stats.text_failed) found.push(item("wait", `The text of ${format.counted(stats.text_failed, "page")} could not be extracted`, "their records are complete", "Nothing else is lost."));
  return found;
}

function ofHost(row) {
  const kind = mainClass(row);
  const lost = row.failed ? `${format.counted(row.failed, "URL")} failed` : "";
  if (row.state === "retired") return item("bad", "was given up", [kind ? cause(kind) : row.reason, lost].filter(Boolean).join("; "), `${kind ? remedy(kind) : ""} Then use Visit again.`, row.host);
  if (row.state === "blocked" && row.rule !== "blocked") return item("note", "has used up its budget", row.reason, "Raise the budget to go on.", row.host);
  const next = row.next_time && row.wait_seconds > 30 ? `; asked again at ${format.stamp(row.next_time, false)}` : "";
  if (row.state === "snoozed") return item("bad", "does not answer", `${kind ? cause(kind) : row.reason}${next}`, kind ? remedy(kind) : "", row.host);
  if (isHeld(row)) {
    const held = ["retry_after", "backoff"].includes(row.rule) ? "throttled" : row.rule === "errors" ? "server_error" : kind;
    return item("wait", held === "throttled" ? "slows the crawl down" : "is held back", `${held ? cause(held) : row.reason}${next}`, held ? remedy(held) : "", row.host);
  }
  if (row.failed) return item(row.fetched ? "wait" : "bad", row.fetched ? "lost some pages" : "gave no page", [lost, kind ? `most often: ${className(kind)}` : ""].filter(Boolean).join("; "), kind ? remedy(kind) : "", row.host);
  return null;
}

function ofAnswers(host, known) {
  if (known.has(host.host)) return null;
  const all = host.ok + host.redirects + host.client_errors + host.server_errors + host.failed;
  if (host.server_errors >= 3 && host.server_errors > 0.05 * all) return item("wait", "answers with server errors", `${format.count(host.server_errors)} of ${format.count(all)} answers are 5xx`, "Its owner has to mend it; have the pages visited again later.", host.host);
  if (host.client_errors >= 5 && host.client_errors > 0.2 * all) return item("note", "has many broken links", `${format.count(host.client_errors)} of ${format.count(all)} answers are 4xx`, "See who links to them below Failures.", host.host);
  return null;
}

function ofPace(stats, left) {
  const slow = stats.slowest_host;
  if (!slow || stats.state !== "running" || slow.seconds < SLOW || (left && left.host !== slow.name)) return [];
  const why = `${format.counted(slow.pending, "URL")} at ${format.seconds(slow.seconds_per_url)} each: ${format.left(slow.seconds)}`;
  return [item("note", "sets the time to the end", why, "If its owner agrees, allow it a shorter politeness.delay or more politeness.per_host.", slow.name)];
}

const RANK = { bad: 0, wait: 1, note: 2 };

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
  for (const one of found) kept.set(one.key, { one, first: kept.get(one.key)?.first ?? now, last: now });
  for (const [key, { last }] of kept) if (now - last > STAYS) kept.delete(key);
  const order = (entry) => [RANK[entry.one.level], entry.first];
  return [...kept.values()]
    .sort((one, other) => order(one)[0] - order(other)[0] || order(one)[1] - order(other)[1])
    .map(({ one }) => one);
}

export function showAttention(stats, left) {
  if (rows === null) return; // all at once, so that nothing moves
  const known = new Set(rows.filter(ofHost).map((row) => row.host)); // of which something is said already
  const found = lasting([...ofCrawl(stats), ...rows.map(ofHost), ...hosts.map((host) => ofAnswers(host, known)), ...ofPace(stats, left)].filter(Boolean));
  keep(find("attention"), found, (one) => one.key, create, update);
  const worst = found.filter((one) => one.level !== "note").length;
  write(find("attention-count"), worst ? format.count(worst) : found.length ? "nothing urgent" : "");
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

// The hosts that failed most, and those that are held for their errors.
export async function tick(stats) {
  const now = troubleOf(stats);
  if (document.hidden || Date.now() < asked + (now === trouble ? wait : Math.min(wait, EVERY.soon))) return;
  asked = Date.now();
  trouble = now;
  wait = Infinity;
  let next = EVERY.soon;
  try {
    const answer = await get("api/hosts", { sort: "failed", order: "desc", offset: 0, limit: LOOK, q: "" });
    rows = answer.hosts.filter((row) => row.failed || mainClass(row) || stateMark(row) !== "good");
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
