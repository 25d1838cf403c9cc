// Listens to the crawl and shows its numbers. Everything is set as text, never as markup.

import { takeTokenFromAddress } from "./api.js";
import { Chart } from "./chart.js";
import * as controls from "./controls.js";
import { at, find, notify, write } from "./dom.js";
import * as explain from "./explain.js";
import { showFilter } from "./filter.js";
import * as format from "./format.js";
import * as hosts from "./hosts.js";
import * as log from "./log.js";
import { showOutputs } from "./outputs.js";
import { showShares } from "./shares.js";

const SPANS = { recent: 300, hour: 3600, all: Infinity }; // seconds
const MEAN_OVER = 10; // seconds over which the shown rates are averaged
const RETRY = [1000, 2000, 4000, 8000]; // milliseconds

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
      { key: "pending", label: "pending", colour: "blue" },
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

function drawCharts() {
  if (series[span]) for (const chart of charts) chart.draw(series[span]);
}

// The mean of a rate over the last seconds: what is shown should not flicker.
function mean(key) {
  const data = series.recent;
  if (!data?.t.length) return null;
  let [sum, time] = [0, 0];
  for (let index = data.t.length - 1; index > 0 && data.t.at(-1) - data.t[index] < MEAN_OVER; index -= 1) {
    const value = data[key][index];
    if (value === null) break;
    const seconds = data.t[index] - data.t[index - 1];
    sum += value * seconds;
    time += seconds;
  }
  return time ? sum / time : null;
}

const WORDS = { paused: "paused", running: "running", stopping: "stopping", ended: "ended", stopped: "stopped" };

function showState(state) {
  write(find("state"), WORDS[state] ?? state);
  find("state").dataset.state = state;
  document.title = `${WORDS[state] ?? state} · crawl`;
}

function show({ stats, point, trust, working, forecast, log: news }) {
  append(point);
  document.querySelector("main").classList.remove("waiting");
  for (const node of document.querySelectorAll("[data-show]")) write(node, format[node.dataset.as ?? "figure"](at(stats, node.dataset.show)));
  for (const node of document.querySelectorAll("[data-rate]")) write(node, format[node.dataset.as ?? "rate"](mean(node.dataset.rate)));
  const met = (stats.urls_duplicate ?? 0) + (stats.urls_admitted ?? 0);
  write(find("duplicates"), format.percent(met ? stats.urls_duplicate / met : null));
  for (const node of document.querySelectorAll("[data-sum]")) {
    const numbers = node.dataset.sum.split(" ").map((key) => stats[key]).filter((number) => number != null);
    write(node, format.figure(numbers.length ? numbers.reduce((sum, number) => sum + number) : null));
  }
  write(find("trust"), trust);
  const [estimated, target] = [at(stats, "seen.fpp_estimated"), at(stats, "seen.fpp_target")];
  document.querySelector(".trust").dataset.trusted = estimated !== null && target !== null && estimated > target ? "no" : "yes";
  write(find("working-words"), working.text);
  find("working").dataset.mark = working.mark;
  showFilter(stats, forecast);
  showShares("outcomes", { fetched: stats.pages_fetched, redirect: stats.pages_redirected, excluded: stats.urls_excluded, failed: stats.pages_failed, soft404: stats.pages_soft404, blocked: stats.pages_blocked });
  showShares("status", stats.status ?? {});
  showOutputs(stats.outputs);
  // Only some crawls have these.
  find("ledger").hidden = !stats.seen?.ledger;
  find("held-back").hidden = !Object.values(stats.urls_held_back ?? {}).some(Boolean);
  for (const id of ["harvest", "chart-harvest"]) find(id).hidden = !stats.harvest;
  find("revisits").hidden = !stats.revisits && !stats.pages_scheduled;
  showState(stats.state);
  controls.showControls(stats);
  log.showLog(news);
  hosts.showStates(stats.hosts_by_state);
  hosts.tick();
  drawCharts();
}

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

takeTokenFromAddress();
for (const part of [controls, explain, hosts, log]) part.begin();
listen();
