// The table of hosts, sorted and searched by the crawl, one page at a time. A row opens in place.

import { get, post, token } from "./api.js";
import { cut, find, inUse, keep, make, mark, recut, set, write } from "./dom.js";
import * as format from "./format.js";
import { cause, className, isAtWork, mainClass, remedy, stateMark, stateWords } from "./words.js";

const LIMIT = 50;
const QUEUE = 8; // entries shown of a host's queue, and of its recent visits
const RECENT = 8;
const NOTICED = 300; // milliseconds after which a click without effect is noticed
const FIRST = { sort: "work", order: "desc" };

const view = { ...FIRST, offset: 0, q: "" };
const opened = new Map(); // name -> the node with its details
let total = 0;
let asking = 0;
let due = 0;

const errors = (row) =>
  Object.entries(row.errors ?? {})
    .filter(([, number]) => number)
    .map(([name, number]) => `${className(name)} ${format.count(number)}`)
    .join(", ");

function when(row) {
  if (row.state === "retired") return "never";
  if (row.state === "paused") return "when you resume it";
  if (row.next_time === null || row.next_time === undefined) return "–";
  if (row.wait_seconds >= 0.5) return `in ${format.near(row.wait_seconds)}`;
  return row.state === "queued" ? "when its turn comes" : "now";
}

// -- rows ----------------------------------------------------------------------------------------------------------

// True if all URLs of the host are finished and none returned a page: it is not done like the others.
const isDead = (row) => Boolean(row.no_page);

// The text of each column.
const COLUMNS = [
  ["done", (row) => (isDead(row) || row.share === null || row.share === undefined ? "–" : `${row.grows && row.pending ? "≤ " : ""}${format.share(row.share)}`)],
  ["pending", (row) => `${row.grows && row.pending ? "≥ " : ""}${format.narrow(row.pending)}`],
  ["state", stateWords],
  ["failed", (row) => format.narrow(row.failed)],
  ["latency", (row) => format.seconds(row.latency_seconds)],
];

function create(row) {
  const open = make("button", { type: "button", className: "row", "aria-expanded": "false" }, cut(row.host));
  open.addEventListener("click", () => toggle(row.host));
  const bar = make("span", { className: "meter", "aria-hidden": "true" }, make("i"));
  const cells = COLUMNS.map(([name]) => make("td", { className: `of-${name}` }, ...(name === "done" ? [bar, make("span")] : [make("span")])));
  return make("tr", { className: "host" }, make("th", { scope: "row" }, open), ...cells);
}

function update(node, row) {
  const open = opened.has(row.host);
  const button = node.firstChild.firstChild;
  if (button.getAttribute("aria-expanded") !== String(open)) button.setAttribute("aria-expanded", String(open));
  set(node.dataset, "mark", stateMark(row));
  COLUMNS.forEach(([name, text], index) => {
    const cell = node.children[index + 1];
    write(cell.lastChild, text(row));
    if (name === "done") {
      const width = `${isDead(row) ? 0 : 100 * (row.share ?? 0)}%`;
      const bar = cell.firstChild.firstChild;
      if (bar.style.width !== width) bar.style.width = width;
    }
    if (name === "state") set(cell, "title", row.reason ?? "");
    if (name === "pending") set(cell, "title", row.grows ? "at least this many: its queue grows as fast as it is read" : "");
    if (name === "failed") {
      mark(cell, "some", row.failed > 0);
      set(cell, "title", errors(row));
    }
  });
}

// -- details -------------------------------------------------------------------------------------------------------

const PARTS = ["why", "act", "facts", "recent", "queue", "robots"];

// The number of visible columns. A cell that spans more would add columns, which take room from these.
const columns = () => [...find("hosts-table").tHead.rows[0].cells].filter((cell) => cell.getClientRects().length).length;

function fit() {
  const number = columns();
  for (const node of opened.values()) if (node.firstChild.colSpan !== number) node.firstChild.colSpan = number;
}

function detail(name) {
  const node = make("tr", { className: "detail" });
  const buttons = ["pause-host", "resume-host", "block-host", "retry"].map((what) => {
    const words = { "pause-host": "Pause", "resume-host": "Resume", "block-host": "Block…", retry: "Visit again" };
    const button = make("button", { type: "button", "data-host-do": what }, words[what]);
    button.addEventListener("click", () => control(name, what, node));
    return button;
  });
  const notice = make("p", { className: "notice", role: "status" });
  const [why, act] = [make("p", { className: "why" }), make("p", { className: "act" })];
  const facts = make("dl", { className: "minor columns" });
  const [recent, queue] = [make("ol", { className: "urls" }), make("ol", { className: "urls" })];
  const robots = make("dl", { className: "minor" });
  const lists = make("div", { className: "lists" });
  for (const [title, list] of [["Latest finished URLs", recent], ["Next in its queue", queue], ["robots.txt and settings", robots]]) lists.append(make("div", {}, make("h3", {}, title), list));
  const box = make("div", { className: "detail-box" }, why, act, facts, make("div", { className: "controls", role: "group", "aria-label": `Controls of ${name}` }, ...buttons), notice, lists);
  node.append(make("td", { colSpan: columns() }, box));
  node.parts = Object.fromEntries(PARTS.map((part, index) => [part, [why, act, facts, recent, queue, robots][index]]));
  node.notice = notice;
  return node;
}

function pairs(node, values) {
  keep(node, values, ([name]) => name, () => make("div", {}, make("dt"), make("dd")), (pair, [name, value]) => {
    write(pair.firstChild, name);
    write(pair.lastChild, value);
  });
}

// Shows a URL without its host, which is the row's heading, so that less is cut.
function path(url) {
  const node = cut("");
  recut(node, url, url.replace(/^https?:\/\/[^/]*(?=\/)/i, ""));
  return node;
}

function urls(node, rows, words) {
  const key = JSON.stringify(rows);
  if (node.shows === key) return;
  node.shows = key;
  const lines = rows.map((row) => make("li", {}, path(row.url), make("small", {}, words(row))));
  node.replaceChildren(...(lines.length ? lines : [make("li", { className: "quiet" }, "none")]));
}

function recentWords(row) {
  const said = row.status ?? className(String(row.error ?? row.outcome).split(":")[0]);
  return [said, row.bytes === null ? null : format.bytes(row.bytes), row.fetched_at ? format.stamp(Date.parse(row.fetched_at) / 1000) : null].filter((part) => part !== null && part !== undefined).join(" · ");
}

function robotsPairs({ robots, settings, errors }) {
  const said = [];
  if (robots) {
    const got = robots.ignored ? "ignored (robots.ignore)" : robots.status === null ? (robots.error ?? (errors && Object.keys(errors).length ? "not fetched yet, after errors" : "not fetched yet")) : `answered ${robots.status}`;
    said.push(["robots.txt", got]);
    if (robots.asked_at) said.push(["read", format.stamp(robots.asked_at)]);
    if (robots.until) said.push(["valid until", format.stamp(robots.until)]);
    if (robots.crawl_delay) said.push(["Crawl-delay", format.seconds(robots.crawl_delay)]);
    for (const words of robots.cut ?? []) said.push(["left out", words]);
  }
  for (const setting of settings ?? []) if (setting.place !== "default") said.push([setting.key, `${setting.value}`]);
  return said;
}

function showDetails(node, row) {
  const { why, act, facts, recent, queue, robots } = node.parts;
  const kind = mainClass(row);
  const next = (row.pending || row.in_flight) && when(row) !== "–" ? ` Next request: ${when(row)}.` : "";
  write(why, row.pending || row.in_flight || row.state === "retired" || row.state === "blocked" ? `${stateWords(row)}: ${row.reason ?? "–"}.${next}` : "All its URLs are done.");
  const held = ["bad", "wait"].includes(stateMark(row)) || row.failed;
  write(act, kind && held ? `Most often: ${cause(kind)}. ${remedy(kind)}` : "");
  pairs(facts, [
    ["pending", format.count(row.pending)],
    ["in flight", format.count(row.in_flight)],
    ["fetched", format.count(row.fetched)],
    ["visits failed", format.count(row.failed)],
    ["tries failed", errors(row) || "none"],
    ["gap between requests", format.seconds(row.gap_seconds)],
    ["response time", format.seconds(row.latency_seconds)],
  ]);
  urls(queue, (row.queue ?? []).slice(0, QUEUE), (entry) => `depth ${entry.depth}`);
  urls(recent, (row.recent ?? []).slice(0, RECENT), recentWords);
  pairs(robots, robotsPairs(row));
}

async function refreshDetails(name) {
  const node = opened.get(name);
  try {
    const row = await get(`api/hosts/${encodeURIComponent(name)}`);
    if (opened.get(name) === node) showDetails(node, row);
  } catch (error) {
    write(node.notice, error.message);
  }
}

function toggle(name) {
  if (!opened.delete(name)) {
    const node = detail(name);
    opened.set(name, node);
    unlock();
    refreshDetails(name);
  }
  place();
}

let shown = [];

// Places the rows, each open one with its details below.
function place() {
  const items = shown.flatMap((row) => (opened.has(row.host) ? [{ row }, { row, details: true }] : [{ row }]));
  const name = ({ row, details }) => `${details ? "details " : ""}${row.host}`;
  keep(find("hosts"), items, name, ({ row, details }) => (details ? opened.get(row.host) : create(row)), (node, { row, details }) => {
    if (!details) update(node, row);
  });
}

// Keeps the rows in their order on the page while they are in use.
let order = "";

function settled(rows) {
  const same = order === JSON.stringify(view);
  order = JSON.stringify(view);
  if (!same || !inUse(find("hosts"))) return rows;
  const places = new Map(shown.map((row, index) => [row.host, index]));
  return [...rows].sort((one, other) => (places.get(one.host) ?? Infinity) - (places.get(other.host) ?? Infinity) || 0);
}

// -- the table -----------------------------------------------------------------------------------------------------

const say = (text) => write(find("hosts-count"), text);

// `wished`: the user waits for it. Some columns take a second or two to sort a hundred thousand hosts.
export async function refresh(wished = false) {
  const mine = ++asking;
  due = Date.now() + 60_000;
  const wondering = wished ? setTimeout(() => mine === asking && say("reading the hosts…"), NOTICED) : null;
  try {
    const answer = await get("api/hosts", { ...view, q: spelled(view.q), limit: LIMIT });
    if (mine !== asking) return; // a later request is in progress
    total = answer.total;
    if (view.offset && view.offset >= total) {
      view.offset = 0;
      return refresh();
    }
    shown = settled(answer.hosts);
    for (const name of opened.keys()) if (!shown.some((row) => row.host === name)) opened.delete(name);
    place();
    const last = view.offset + answer.hosts.length;
    say(total > LIMIT ? `${format.count(view.offset + 1)} to ${format.count(last)} of ${format.count(total)}` : format.counted(total, "host"));
    find("hosts-pages").hidden = total <= LIMIT;
    find("hosts-before").disabled = view.offset === 0;
    find("hosts-after").disabled = last >= total;
  } catch (error) {
    if (mine === asking) say(error.message);
  } finally {
    clearTimeout(wondering);
    if (mine === asking) due = Date.now() + 3_500 + Math.min(8_000, total / 10);
  }
}

// Shows the number of hosts in each state; null until all were counted once. Some of the finished ones gave no page.
export function showStates({ hosts_by_state: counts }) {
  const sums = new Map();
  for (const [state, number] of Object.entries(counts ?? {})) {
    const words = isAtWork(state) ? "at work" : state === "idle" ? "finished" : stateWords({ state });
    if (number) sums.set(words, { words, mark: stateMark({ state }), number: number + (sums.get(words)?.number ?? 0) });
  }
  keep(find("host-states"), [...sums.values()], ({ words }) => words, ({ words, mark: kind }) => make("li", { "data-mark": kind }, `${words} `, make("b")), (node, { number }) => write(node.lastChild, format.figure(number)));
  write(find("hosts-at-work"), format.narrow(sums.get("at work")?.number ?? 0));
}

// Called once a second with the tick: requests the table again when due, while it is visible or still empty.
export function tick() {
  const away = document.hidden || (document.body.dataset.tab !== "hosts" && shown.length > 0);
  if (away || Date.now() < due) return;
  refresh();
  for (const name of opened.keys()) refreshDetails(name);
}

function showOrder() {
  for (const button of document.querySelectorAll("#hosts-table [data-sort]")) {
    const words = { asc: "ascending", desc: "descending" };
    button.parentElement.setAttribute("aria-sort", button.dataset.sort === view.sort ? words[view.order] : "none");
  }
  set(find("hosts-first"), "ariaPressed", String(view.sort === FIRST.sort));
}

function sortBy(key) {
  const texts = ["host", "state", "rule"];
  if (view.sort === key) view.order = view.order === "desc" ? "asc" : "desc";
  else Object.assign(view, { sort: key, order: texts.includes(key) ? "asc" : "desc" });
  view.offset = 0;
  showOrder();
  refresh(true);
}

// A name as in URLs: bücher.test is xn--bcher-kva.test.
const spelled = (name) => (/^[ -~]*$/.test(name) || !URL.canParse(`http://${name}`) ? name : new URL(`http://${name}`).host);

// Shows the hosts whose names contain `text`; the host with exactly that name is opened.
export async function reveal(text) {
  if (view.q !== text) {
    find("search").value = text;
    Object.assign(view, { q: text, offset: 0 });
    await refresh(true);
  }
  if (!shown.some((row) => row.host === text)) return;
  if (!opened.has(text)) toggle(text);
  const row = [...find("hosts").children].find((each) => each.querySelector("button.row .cut")?.title === text);
  row?.querySelector("button").focus();
}

// -- control -------------------------------------------------------------------------------------------------------

let running = false;

// `runs` is true if a crawl is running, so its hosts can be paused.
export function unlock(runs = running) {
  running = runs;
  for (const node of opened.values()) for (const button of node.querySelectorAll("[data-host-do]")) button.disabled = token() === null || !running;
  for (const node of opened.values()) if (token() === null && running) write(node.notice, "Unlock the controls at the top to make changes.");
}

// Excluded URLs stay excluded, so a block needs a second click.
async function control(name, what, node) {
  const block = node.querySelector("[data-host-do=block-host]");
  const sure = block.dataset.sure === "yes";
  delete block.dataset.sure;
  write(block, "Block…");
  if (what === "block-host" && !sure) {
    block.dataset.sure = "yes";
    write(block, "Confirm block");
    write(node.notice, "Click again to block this host: its pending URLs are excluded, and stay excluded if you resume it.");
    return;
  }
  try {
    const answer = what === "retry" ? await post("api/retry", { host: name, failed: true }) : await post("api/control", { do: what, host: name });
    write(node.notice, what === "retry" ? `${format.counted(answer.queued, "failed URL")} queued for another visit.` : "Done.");
  } catch (error) {
    write(node.notice, error.message);
  }
  refreshDetails(name);
  refresh();
}

export function begin() {
  new ResizeObserver(fit).observe(find("hosts-table"));
  for (const button of document.querySelectorAll("#hosts-table [data-sort]")) button.addEventListener("click", () => sortBy(button.dataset.sort));
  find("hosts-first").addEventListener("click", () => {
    Object.assign(view, FIRST, { offset: 0 });
    showOrder();
    refresh(true);
  });
  for (const [id, step] of [["hosts-before", -LIMIT], ["hosts-after", LIMIT]]) {
    find(id).addEventListener("click", () => {
      view.offset = Math.max(0, view.offset + step);
      refresh(true);
    });
  }
}
