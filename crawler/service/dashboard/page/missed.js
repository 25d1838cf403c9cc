// What the crawl missed: failures, and URLs excluded by rules and limits.

import { find, keep, make, write } from "./dom.js";
import * as format from "./format.js";

// Limits that leave links out, by setting: what is left out, and how to get it.
const LIMITS = {
  "crawl.max_depth": ["links deeper than the limit", "raise --max-depth"],
  "crawl.scope": ["links outside the scope", "widen --scope or add seeds"],
  "scope.include": ["links that match no include pattern", "change scope.include"],
  "scope.exclude": ["links that match an exclude pattern", "change scope.exclude"],
  "links.max_url_length": ["links longer than the limit", "raise links.max_url_length"],
  "links.max_links": ["pages with more links than the limit", "raise links.max_links"],
  "fetch.max_body": ["pages longer than the limit", "raise fetch.max_body"],
  "links.max_sitemap_bytes": ["sitemaps longer than the limit", "the limit is 50 MiB"],
  "hooks.filter_link": ["links that your code filtered out", "change hooks.filter_link"],
};

const RULES = {
  "private-address": ["URLs at private addresses", "--allow-private permits them"],
  "link-local": ["URLs at link-local addresses", "never requested"],
  "metadata-address": ["URLs at cloud metadata addresses", "never requested"],
  "blocked-port": ["URLs at ports of other services", "see the rule blocked-port"],
  "too-many-ports": ["URLs at too many ports of one address", "see the rule too-many-ports"],
  "too-many-hosts": ["URLs at too many names of one domain", "see the rule too-many-hosts"],
};

const total = (...numbers) => numbers.reduce((sum, number) => sum + (number ?? 0), 0);

let answered429 = 0; // URLs, as counted in the records: the statistics have them among the others with 4xx

export const noteThrottled = (number) => {
  answered429 = number ?? answered429;
};

// Returns the counts of URLs whose last visit went wrong.
export function wrongOf({ urls_by_outcome: urls, pages_by_status: pages, urls_retrying: retrying }) {
  const all = pages?.["4xx"] ?? 0;
  const throttled = Math.min(all, answered429);
  return { failed: urls?.failed, client: all - throttled, throttled, server: pages?.["5xx"], soft: urls?.soft404, blocked: urls?.blocked, retrying: retrying ?? 0 };
}

function lost(stats) {
  const wrong = wrongOf(stats);
  const pending = total(stats.urls_pending, stats.urls_in_flight, stats.endless ? -(stats.revisits_pending ?? 0) : 0);
  return [
    ["pending", Math.max(0, pending), "URLs not finished yet", `${stats.state === "stopped" ? "run the same command to resume" : "the crawl will visit them"}${wrong.retrying ? `; ${format.figure(wrong.retrying)} failed and are tried again` : ""}`],
    ["failed", wrong.failed, "URLs without an answer", "crawler retry --failed visits them again", "failed"],
    ["answered 4xx", wrong.client, "pages with a status 4xx, such as 404 not found", "correct the links on the pages that contain them", "4xx"],
    ["answered 429", wrong.throttled, "pages whose host asked for fewer requests (status 429)", "visit them again later, with a longer politeness.delay", "429"],
    ["answered 5xx", wrong.server, "pages with a status 5xx, server errors", "visit them again later", "5xx"],
    ["soft 404", wrong.soft, "pages with “not found” and status 200 (soft 404)", "the links to them are broken", "soft 404"],
    ["blocked", wrong.blocked, "URLs behind a challenge, login or paywall", "give the crawl a login, or ask the owner"],
    ["skipped by mistake", Math.round(stats.seen?.expected_urls_skipped ?? 0), "URLs probably skipped by mistake", "they looked known to the seen-set; with a ledger they are crawled"],
    ["wrong in the seeds", stats.seeds_rejected, "lines of the seeds that are not URLs", "correct them and run again"],
  ];
}

function leftOut(stats) {
  const held = Object.entries(stats.urls_held_back ?? {});
  const limits = Object.entries(stats.links_left_out ?? {});
  const excluded = (stats.urls_by_outcome?.excluded ?? 0) - total(...held.map(([, number]) => number));
  return [
    ["excluded", Math.max(0, excluded), "URLs excluded by robots.txt, a pattern or a block", "crawler tail --outcome excluded lists them; if a robots.txt was unreachable, crawler retry --excluded robots"],
    ...held.map(([rule, number]) => [rule, number, RULES[rule]?.[0] ?? `URLs excluded by ${rule}`, RULES[rule]?.[1] ?? `change ${rule}: the next run crawls them`]),
    ...limits.map(([setting, number]) => [setting, number, LIMITS[setting]?.[0] ?? `left out by ${setting}`, `${LIMITS[setting]?.[1] ?? `change ${setting}`}: the next run crawls them`]),
    ["off", stats.links_left_out?.["crawl.scope"] ? 0 : stats.links_off_scope, "links outside the scope", "as configured (--scope)"],
    ["trapped", stats.links_trapped, "links into traps", "their hosts generate endless URLs"],
    ["copies", total(stats.links_of_copies, stats.links_of_soft404), "links on copies and “not found” pages", "the original pages have them"],
    ["invalid", stats.links_rejected, "links that are not web addresses", "such as mailto: and broken URLs"],
  ];
}

// What the crawl missed, in one line.
function gaps(stats) {
  const { "crawl.scope": off, ...limits } = stats.links_left_out ?? {};
  const excluded = [["excluded by rules", stats.urls_by_outcome?.excluded], ["left out by limits", total(...Object.values(limits))]];
  const { client, throttled } = wrongOf(stats);
  // The latest 429s may not be counted yet, but the sum of all 4xx is exact.
  const answered = [`answered 4xx${throttled ? ` (${format.figure(throttled)} of them 429)` : ""}`, client + throttled];
  const [pending, ...others] = lost(stats).filter(([name]) => !["answered 4xx", "answered 429"].includes(name));
  const words = some([answered, ...others, ...excluded]).map(([name, number]) => `${format.figure(number)} ${name}`);
  return `Missed${["ended", "stopped"].includes(stats.state) ? "" : " so far"}: ${words.join(", ") || (stats.urls_admitted ? "nothing" : "unknown, no URL was added")}${pending[1] ? `; ${format.figure(pending[1])} pending` : ""}`;
}

let show = () => {};

function create([, , , , filter]) {
  const number = filter ? make("button", { type: "button", className: "link" }) : make("b");
  if (filter) number.addEventListener("click", () => show(filter));
  return make("li", {}, number, make("span"), make("small"));
}

// Turns words for many into words for one.
const SINGLE = [[/^(\w+?)s\b/, "$1"], [/ are not (\w+ address|URL)e?s$/, " is not a $1"], [/ that match\b/, " that matches"]];
const single = (what) => SINGLE.reduce((words, [many, one]) => words.replace(many, one), what);

function update(node, [, number, what, how]) {
  write(node.children[0], format.figure(number));
  write(node.children[1], number === 1 ? single(what) : what);
  write(node.children[2], how);
}

// The rows that are not 0, the largest first.
const some = (rows) => rows.filter(([, number]) => number).sort(([, one], [, other]) => other - one);

export function showMissed(stats) {
  write(find("gaps"), gaps(stats));
  for (const [id, rows] of [["lost", some(lost(stats))], ["left-out", some(leftOut(stats))]]) {
    keep(find(id), rows, ([name]) => name, create, update);
    find(`${id}-none`).hidden = rows.length > 0;
  }
}

export function begin(showFailures) {
  show = showFailures;
}
