// Listens to the crawl and shows what it says. Everything is set as text, never as markup.

import { Chart, element } from "./chart.js";
import * as format from "./format.js";

const MOST_POINTS = 300; // of the last minutes, as many as the server keeps
const RETRY = [1000, 2000, 4000, 8000]; // milliseconds

const find = (id) => document.getElementById(id);
const at = (stats, path) => path.split(".").reduce((value, key) => value?.[key], stats) ?? null;

const charts = [
  new Chart(find("chart-fpp"), {
    log: true,
    format: format.probability,
    lines: [
      { key: "fpp_estimated", label: "estimated", colour: "blue" },
      { key: "fpp_target", label: "target", colour: "red" },
      { key: "fpp_bound", label: "bound", colour: "green" },
      { key: "fpp_measured", label: "measured", colour: "purple" },
    ],
  }),
  new Chart(find("chart-pages"), {
    format: format.rate,
    lines: [{ key: "pages_per_second", label: "pages/s", colour: "blue" }],
  }),
  new Chart(find("chart-links"), {
    format: format.rate,
    lines: [
      { key: "links_per_second", label: "found/s", colour: "blue" },
      { key: "new_per_second", label: "new/s", colour: "red" },
    ],
  }),
  new Chart(find("chart-pending"), {
    counted: true,
    format: format.count,
    lines: [{ key: "pending", label: "pending", colour: "blue" }],
  }),
  new Chart(find("chart-flight"), {
    counted: true,
    format: format.count,
    lines: [{ key: "in_flight", label: "in flight", colour: "blue" }],
  }),
];

let series = { recent: null, all: null };
let span = "recent";

function append(point) {
  for (const data of Object.values(series)) {
    if (!data || point.t <= (data.t.at(-1) ?? -Infinity)) continue;
    for (const [key, values] of Object.entries(data)) values.push(point[key] ?? null);
  }
  for (const values of Object.values(series.recent ?? {})) values.splice(0, values.length - MOST_POINTS);
}

function drawCharts() {
  if (series[span]) for (const chart of charts) chart.draw(series[span]);
}

function bar(share) {
  const svg = element("svg", { class: "bar", viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" });
  svg.append(
    element("rect", { class: "rest", width: 100, height: 6, rx: 1 }),
    element("rect", { width: Math.min(100, 100 * share), height: 6, rx: 1 }),
  );
  return svg;
}

function row(head, ...cells) {
  const tr = document.createElement("tr");
  for (const cell of cells) {
    const td = document.createElement("td");
    td.append(...[cell].flat());
    tr.append(td);
  }
  if (head !== null) {
    const th = document.createElement("th");
    th.scope = "row";
    th.textContent = head;
    tr.prepend(th);
  }
  return tr;
}

function fillMeter(slice) {
  const meter = document.createElement("meter");
  Object.assign(meter, { min: 0, max: 1, value: slice.fill ?? 0 });
  meter.setAttribute("aria-label", `bits set: ${format.percent(slice.fill)}`);
  return meter;
}

function showSlices(slices) {
  const rows = (slices ?? []).map((slice, index) =>
    row(
      null,
      String(index + 1),
      `${format.count(slice.count)} of ${format.count(slice.capacity)}`,
      [fillMeter(slice), format.percent(slice.fill)],
      format.count(slice.hashes),
      format.probability(slice.fpp_estimated),
      format.probability(slice.fpp_design),
    ),
  );
  find("slices").replaceChildren(...rows);
}

function showStatus(classes) {
  const entries = Object.entries(classes ?? {});
  const total = entries.reduce((sum, [, number]) => sum + number, 0);
  const rows = entries.map(([name, number]) => {
    const line = row(name, bar(total ? number / total : 0), format.count(number));
    line.children[1].className = "share";
    return line;
  });
  find("status").replaceChildren(...rows);
}

function showState(state) {
  const words = { running: "running", paused: "paused, the disk is full", stopping: "stopping", ended: "ended", stopped: "stopped" };
  find("state").textContent = words[state] ?? state;
  find("state").dataset.state = state;
  document.title = `${words[state] ?? state} · crawl`;
}

function show({ stats, point, trust }) {
  for (const node of document.querySelectorAll("[data-show]")) {
    node.textContent = format[node.dataset.as ?? "count"](at(stats, node.dataset.show));
  }
  for (const node of document.querySelectorAll("[data-rate]")) {
    node.textContent = format.rate(point[node.dataset.rate] ?? null);
  }
  const met = (stats.urls_duplicate ?? 0) + (stats.urls_admitted ?? 0);
  find("duplicates").textContent = format.percent(met ? stats.urls_duplicate / met : null);
  const beyond = [stats.links_too_deep, stats.links_too_long].filter((number) => number != null);
  find("beyond").textContent = format.count(beyond.length ? beyond.reduce((sum, number) => sum + number) : null);
  find("measured").hidden = at(stats, "seen.fpp_measured") === null;
  find("trust").textContent = trust;
  const [estimated, target] = [at(stats, "seen.fpp_estimated"), at(stats, "seen.fpp_target")];
  document.querySelector(".trust").dataset.trusted = estimated !== null && target !== null && estimated > target ? "no" : "yes";
  showSlices(at(stats, "seen.slices"));
  showStatus(stats.status);
  showState(stats.state);
  append(point);
  drawCharts();
}

// Tries again for ever by itself: a crawl that is carried on is found again at the same address.
function listen(failures = 0) {
  const source = new EventSource("api/events");
  let ended = false;
  source.addEventListener("open", () => {
    failures = 0;
    find("notice").textContent = "";
  });
  source.addEventListener("history", (event) => {
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
    if (!ended && last !== "ended" && last !== "stopped") showState("lost");
    find("notice").textContent =
      find("state").dataset.state === "lost"
        ? "No answer from the crawl. Shown is what it said last; trying again."
        : "The crawl is over. Shown is how it ended.";
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

// The token has become a cookie; it need not stay in the address bar.
if (new URLSearchParams(location.search).has("token")) history.replaceState(null, "", location.pathname);
listen();
