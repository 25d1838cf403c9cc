// Listens to the crawl and shows its figures. Everything is set as text, never as markup.

import { barred, takeTokenFromAddress } from "./api.js";
import * as attention from "./attention.js";
import { showBars } from "./bars.js";
import { Chart, line, timeCharts } from "./chart.js";
import * as controls from "./controls.js";
import { at, find, notify, write } from "./dom.js";
import * as failures from "./failures.js";
import * as format from "./format.js";
import * as hosts from "./hosts.js";
import * as job from "./job.js";
import * as log from "./log.js";
import * as map from "./map.js";
import { showMachines } from "./machines.js";
import * as missed from "./missed.js";
import { sayWork, shareDone, showProgress } from "./progress.js";
import { showSeen } from "./seen.js";
import * as survey from "./survey.js";
import * as tabs from "./tabs.js";
import * as ticker from "./ticker.js";
import { setRunning } from "./words.js";

const SPANS = { recent: 300, hour: 3600, all: Infinity }; // seconds
const RETRY = [1000, 2000, 4000, 8000]; // milliseconds
const REDRAW = { recent: 1000, hour: 10_000, all: 10_000 }; // milliseconds between two drawings of the charts

const killed = () => (last.stats.checkpoint ? `killed; charts end at the checkpoint of ${format.stamp(last.point.t)}` : "killed before its first checkpoint");
const rest = () => (last?.stats.stopped_by === "killed" ? killed() : series[span]?.t.length > 1 ? "▲ marks an event" : "too short for charts");
const say = (event) => write(find("flow-event"), event ? `${format.stamp(event.time)} ${event.kind}: ${event.host ?? ""} ${event.text}` : rest());

const charts = [
  ...timeCharts(say),
  new Chart(find("chart-fpp"), {
    log: true,
    format: format.probability,
    measured: "fpp_measured",
    band: ["fpp_measured_low", "fpp_measured_high"],
    lines: [line("fpp_estimated", "estimated", "blue"), line("fpp_measured", "measured", "purple"), line("fpp_target", "target", "red"), line("fpp_bound", "bound", "green")],
  }),
];
const SPARKS = { pages: "pages_per_second", pending: "pending", failed: "failed", hosts: "hosts_pending", bytes: "bytes_per_second", skipped: "skipped" };
const sparks = Object.entries(SPARKS).map(([id, key]) => new Chart(find(`spark-${id}`), { spark: true, lines: [line(key, key, id === "failed" || id === "skipped" ? "red" : "blue")] }));

let series = {};
let span = "recent";

function append(point) {
  for (const [name, data] of Object.entries(series)) {
    if (!(point.t > (data.t.at(-1) ?? -Infinity))) continue;
    for (const [key, values] of Object.entries(data)) values.push(point[key] ?? null);
    let old = 0;
    while (point.t - data.t[old] > SPANS[name]) old += 1;
    if (old) for (const values of Object.values(data)) values.splice(0, old);
  }
}

let drawn = 0;

function drawCharts(now = true) {
  if (!series[span] || (!now && Date.now() - drawn < REDRAW[span])) return;
  drawn = Date.now();
  say();
  for (const chart of charts) chart.draw(series[span], log.all());
  for (const spark of sparks) spark.draw(series[span]);
}

const SHOWN = [...document.querySelectorAll("[data-show]")];
const ONLY_IF = [...document.querySelectorAll("[data-if]")];

let share = null;

function showState(state) {
  const words = state === "lost" ? "no answer" : state;
  write(find("state"), words);
  find("state").dataset.state = state;
  job.showTitle(words, share);
}

const sum = (stats, ...keys) => keys.reduce((all, key) => all + (stats[key] ?? 0), 0);

function showCounts(stats) {
  const urls = stats.urls_by_outcome ?? {};
  const outcomes = [
    ["fetched", urls.fetched, "good"],
    ["redirected", urls.redirect, "quiet"],
    ["failed", urls.failed, "bad"],
    ["excluded", urls.excluded, "quiet"],
    ["soft 404", urls.soft404, "warn"],
    ["blocked", urls.blocked, "warn"],
  ];
  const links = [
    ["seen before", stats.urls_duplicate, "quiet"],
    ["known from older crawls", stats.urls_known, "quiet"],
    ["out of scope", stats.links_off_scope, "quiet"],
    ["left out by patterns", sum(stats, "links_not_included", "links_excluded"), "quiet"],
    ["too deep or too long", sum(stats, "links_too_deep", "links_too_long"), "quiet"],
    ["filtered out by your code", stats.links_filtered, "quiet"],
    ["into traps", stats.links_trapped, "warn"],
    ["on copies and soft 404s", sum(stats, "links_of_copies", "links_of_soft404"), "quiet"],
    ["not web addresses", stats.links_rejected, "quiet"],
    ["new: admitted", Math.max(0, sum(stats, "urls_admitted") - sum(stats, "seeds", "soft404_probes")), "good"],
  ];
  // Targets of redirects, URLs in sitemaps and added URLs are counted too.
  links.unshift(["all", links.reduce((all, [, value]) => all + (value ?? 0), 0), "plain"]);
  for (const [id, rows] of [["outcomes", outcomes], ["links", links]]) {
    showBars(id, rows.filter(([, value]) => value).map(([name, value, kind]) => ({ name, value, kind })));
  }
  write(find("hosts-noun"), stats.hosts === 1 ? "host" : "hosts");
  const wrong = missed.wrongOf(stats);
  const broken = sum(wrong, "client", "throttled", "server", "soft");
  failures.showTotals(wrong);
  write(find("broken-note"), broken ? `and ${format.figure(broken)} with 4xx or 5xx` : "none with 4xx or 5xx");
  write(find("bytes-note"), stats.pages_fetched ? `${format.bytes((stats.bytes_fetched ?? 0) / stats.pages_fetched)} a visit` : "–");
}

// Greys out figures that are no longer updated, and shows how old they are.
function showStale(stale, why = "Not connected.") {
  document.body.classList.toggle("stale", stale);
  find("stale-words").hidden = !stale;
  if (stale) write(find("stale-words"), last ? `Everything below is from ${format.stamp(last.point.t)}.` : why);
}

// Called with every tick.
let last = null;

function show(message) {
  const first = !last;
  last = message;
  // If the crawl was over before the page was opened, the last minutes have no data.
  if (first && ["ended", "stopped"].includes(message.stats.state)) choose("all");
  showStale(["gone", "copy"].includes(message.standing));
  append(message.point);
  survey.note(message.records_new);
  missed.noteThrottled(message.answered_429);
  if (document.hidden && !document.querySelector("main").classList.contains("waiting")) {
    log.showLog(message.log);
    return;
  }
  draw(message);
}

function draw(message) {
  const { stats, point, records, records_new: fresh, log: news } = message;
  document.querySelector("main").classList.remove("waiting");
  for (const node of SHOWN) write(node, format[node.dataset.as ?? "figure"](at(stats, node.dataset.show)));
  for (const node of ONLY_IF) node.hidden = !at(stats, node.dataset.if);
  setRunning(["running", "stopping", "copy"].includes(stats.state));
  showProgress(message);
  share = shareDone(message);
  attention.showAttention(message);
  missed.showMissed(stats);
  showCounts(stats);
  showSeen(message);
  showMachines(stats, point);
  showState(message.standing || stats.state);
  controls.showControls(stats);
  log.showLog(news);
  hosts.showStates(stats);
  if (records) ticker.showRecords(records, fresh);
  for (const part of [hosts, attention, survey, job]) part.tick(stats);
  drawCharts(false);
}

// Reconnects forever: a crawl that resumes is found again at the same address.
function listen(failures = 0) {
  const source = new EventSource("api/events");
  let ended = false;
  let met = false;
  source.addEventListener("history", (event) => {
    if (!met) {
      met = true;
      failures = 0;
      log.forget();
      notify("", true);
      survey.again();
      job.refresh();
      hosts.refresh();
    }
    series = JSON.parse(event.data);
    drawCharts();
  });
  source.addEventListener("tick", (event) => show(JSON.parse(event.data)));
  source.addEventListener("end", (event) => {
    ended = true;
    show(JSON.parse(event.data));
    hosts.refresh(); // the last chance: the server stops
  });
  source.addEventListener("error", async () => {
    source.close();
    const why = await barred("api/stats");
    const last = find("state").dataset.state;
    if (why) {
      showState("locked");
      sayWork(why);
      find("working").dataset.mark = "wait";
    } else if (!ended && !["ended", "failed", "stopped", "gone"].includes(last)) {
      showState("lost");
      sayWork("No answer from the crawl. If it was killed, run the same command to resume.");
      find("working").dataset.mark = "bad";
    }
    const shown = find("state").dataset.state;
    notify(shown === "lost" ? "Reconnecting…" : ["gone", "locked"].includes(shown) ? "" : "The crawl is over. These are its final figures.", true);
    showStale(["lost", "gone", "locked"].includes(shown), why || undefined);
    controls.showControls({ state: why ? "locked" : "lost", paused: null });
    setTimeout(() => listen(failures + 1), RETRY[Math.min(failures, RETRY.length - 1)]);
  });
}

function choose(wanted) {
  span = wanted;
  for (const button of document.querySelectorAll("[data-span]")) button.setAttribute("aria-pressed", String(button.dataset.span === span));
  drawCharts();
}

for (const button of document.querySelectorAll("[data-span]")) button.addEventListener("click", () => choose(button.dataset.span));

function again() {
  if (document.hidden || !last) return;
  draw(last);
  drawCharts();
}

document.addEventListener("visibilitychange", again);

takeTokenFromAddress();
for (const part of [controls, failures, hosts, job, log, map, ticker]) part.begin();
attention.begin();
missed.begin(failures.reveal);
tabs.begin({ hosts: hosts.reveal, failures: failures.choose }, again);
listen();
