// Listens to the crawl and shows its numbers. Everything is set as text, never as markup.

import { takeTokenFromAddress } from "./api.js";
import * as attention from "./attention.js";
import { showBars } from "./bars.js";
import { Chart } from "./chart.js";
import * as controls from "./controls.js";
import { at, find, notify, write } from "./dom.js";
import * as explain from "./explain.js";
import * as failures from "./failures.js";
import * as filter from "./filter.js";
import * as format from "./format.js";
import * as hosts from "./hosts.js";
import * as job from "./job.js";
import * as log from "./log.js";
import * as map from "./map.js";
import * as missed from "./missed.js";
import { showOutputs } from "./outputs.js";
import { shareDone, showProgress } from "./progress.js";
import * as survey from "./survey.js";
import * as ticker from "./ticker.js";
import { setRunning } from "./words.js";

const SPANS = { recent: 300, hour: 3600, all: Infinity }; // seconds
const MEAN_OVER = 10; // seconds over which the shown rates are averaged
const RETRY = [1000, 2000, 4000, 8000]; // milliseconds
const REDRAW = { recent: 1000, hour: 10_000, all: 10_000 }; // milliseconds between two drawings of the charts

const charts = [
  new Chart(find("chart-fpp"), {
    log: true,
    format: format.probability,
    band: { low: "fpp_measured_low", high: "fpp_measured_high" },
    lines: [
      { key: "fpp_estimated", label: "estimated", colour: "blue" },
      { key: "fpp_target", label: "target", colour: "red" },
      { key: "fpp_bound", label: "bound", colour: "green" },
      { key: "fpp_measured", label: "measured", colour: "purple" },
    ],
  }),
  new Chart(find("chart-pages"), {
    format: format.rate,
    lines: [{ key: "pages_per_second", label: "fetched", colour: "blue" }],
  }),
  new Chart(find("chart-links"), {
    format: format.rate,
    lines: [
      { key: "links_per_second", label: "found", colour: "blue" },
      { key: "duplicates_per_second", label: "seen", colour: "green" },
      { key: "new_per_second", label: "new", colour: "red" },
    ],
  }),
  new Chart(find("chart-pending"), {
    counted: true,
    format: format.count,
    lines: [
      { key: "pending", label: "waiting", colour: "blue" },
      { key: "in_flight", label: "in flight", colour: "red" },
    ],
  }),
  new Chart(find("chart-harvest"), {
    format: format.percent,
    lines: [
      { key: "harvest_recent_rate", label: "of the last pages", colour: "blue" },
      { key: "harvest_rate", label: "of all", colour: "green" },
    ],
  }),
  new Chart(find("chart-bytes"), {
    bytes: true,
    format: format.bytes,
    lines: [{ key: "bytes_per_second", label: "bodies", colour: "blue" }],
  }),
];

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
  for (const chart of charts) chart.draw(series[span]);
}

// The mean of a rate over the last seconds: what is shown should not flicker.
function mean(key, over = MEAN_OVER) {
  const data = series.recent;
  if (!data?.t.length) return null;
  let [sum, time] = [0, 0];
  for (let index = data.t.length - 1; index > 0 && data.t.at(-1) - data.t[index] < over; index -= 1) {
    const value = data[key][index];
    if (value === null) break;
    const seconds = data.t[index] - data.t[index - 1];
    sum += value * seconds;
    time += seconds;
  }
  return time ? sum / time : null;
}

const WORDS = { paused: "paused", running: "running", stopping: "stopping", ended: "ended", stopped: "stopped", lost: "no answer" };
const SHOWN = [...document.querySelectorAll("[data-show]")];
const RATES = [...document.querySelectorAll("[data-rate]")];

let share = null;

function showState(state) {
  write(find("state"), WORDS[state] ?? state);
  find("state").dataset.state = state;
  job.showTitle(WORDS[state] ?? state, share);
}

const sum = (stats, ...keys) => keys.reduce((all, key) => all + (stats[key] ?? 0), 0);

function showCounts(stats) {
  const outcomes = [
    ["fetched", stats.pages_fetched, "good"],
    ["redirected", stats.pages_redirected, "quiet"],
    ["failed", stats.pages_failed, "bad"],
    ["excluded", stats.urls_excluded, "quiet"],
    ["soft 404", stats.pages_soft404, "warn"],
    ["barred", stats.pages_blocked, "warn"],
  ];
  const links = [
    ["found", stats.links_found, "plain"],
    ["seen before", stats.urls_duplicate, "quiet"],
    ["out of scope", stats.links_off_scope, "quiet"],
    ["left out by patterns", sum(stats, "links_not_included", "links_excluded"), "quiet"],
    ["too deep or too long", sum(stats, "links_too_deep", "links_too_long"), "quiet"],
    ["into traps", stats.links_trapped, "warn"],
    ["on copies and soft 404s", sum(stats, "links_of_copies", "links_of_soft404"), "quiet"],
    ["not web addresses", stats.links_rejected, "quiet"],
    ["new: admitted", stats.urls_admitted, "good"],
  ];
  for (const [id, rows] of [["outcomes", outcomes], ["links", links]]) {
    showBars(id, rows.filter(([, value]) => value).map(([name, value, kind]) => ({ name, value, kind })));
  }
  const broken = sum(stats.status ?? {}, "4xx", "5xx") + sum(stats, "pages_soft404");
  write(find("broken-note"), broken ? `and ${format.figure(broken)} broken` : "none broken");
}

// What changes with every tick.
let last = null;

function show(message) {
  last = message;
  append(message.point);
  survey.note(message.records_new);
  if (document.hidden && !document.querySelector("main").classList.contains("waiting")) {
    log.showLog(message.log);
    return;
  }
  draw(message);
}

function draw(message) {
  const { stats, point, trust, forecast, left, records, records_new: fresh, log: news } = message;
  document.querySelector("main").classList.remove("waiting");
  for (const node of SHOWN) write(node, format[node.dataset.as ?? "figure"](at(stats, node.dataset.show)));
  for (const node of RATES) write(node, format[node.dataset.as ?? "rate"](mean(node.dataset.rate)));
  setRunning(["running", "stopping"].includes(stats.state));
  const ahead = left === undefined ? fallback(stats) : left;
  showProgress(message, ahead, mean("pages_per_second", 60));
  share = shareDone(stats);
  attention.showAttention(stats, ahead);
  missed.showMissed(stats);
  showCounts(stats);
  write(find("trust"), trust);
  const [estimated, target] = [at(stats, "seen.fpp_estimated"), at(stats, "seen.fpp_target")];
  const doubtful = (estimated !== null && target !== null && estimated > target) || stats.seen?.count_suspect;
  document.querySelector(".trust").dataset.trusted = doubtful ? "no" : "yes";
  filter.showFilter(stats, forecast, point.t);
  showOutputs(stats.outputs);
  // Only some crawls have these.
  find("ledger").hidden = !stats.seen?.ledger;
  for (const id of ["harvest", "chart-harvest"]) find(id).hidden = !stats.harvest;
  find("revisits").hidden = !stats.revisits && !stats.pages_scheduled;
  showState(stats.state);
  controls.showControls(stats);
  log.showLog(news);
  hosts.showStates(stats.hosts_by_state);
  if (records) ticker.showRecords(records, fresh);
  for (const part of [hosts, attention, survey, job]) part.tick(stats);
  drawCharts(false);
}

// Of a crawl that does not say how long it takes.
const fallback = (stats) => (stats.advice?.forecast?.when === "end" ? { seconds: stats.advice.forecast.seconds, at_least: false, host: null } : null);

// Reconnects for ever: a crawl that resumes is found again at the same address.
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
  });
  source.addEventListener("error", () => {
    source.close();
    const last = find("state").dataset.state;
    if (!ended && last !== "ended" && last !== "stopped") {
      showState("lost");
      write(find("working-words"), "No answer from the crawl.");
      find("working").dataset.mark = "bad";
    }
    const lost = find("state").dataset.state === "lost";
    notify(lost ? "Showing its last numbers; trying again." : "The crawl is over. Showing its final numbers.", true);
    controls.showControls({ state: "lost", paused: null });
    setTimeout(() => listen(failures + 1), RETRY[Math.min(failures, RETRY.length - 1)]);
  });
}

for (const button of document.querySelectorAll("[data-span]")) {
  button.addEventListener("click", () => {
    span = button.dataset.span;
    for (const other of document.querySelectorAll("[data-span]")) other.setAttribute("aria-pressed", String(other === button));
    drawCharts();
  });
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && last) {
    draw(last);
    drawCharts();
  }
});

takeTokenFromAddress();
for (const part of [controls, explain, failures, hosts, job, log, map, ticker]) part.begin();
attention.begin(hosts.reveal);
missed.begin(failures.reveal);
filter.begin(drawCharts);
listen();
