// The top line: how far the crawl is, how long it takes, how much it has brought.

import { find, write } from "./dom.js";
import * as format from "./format.js";

const STEADY = 20; // seconds over which an estimate must hold before it is shown
const SETTLED = 60; // seconds after which a crawl has found its pace
const SWING = 1.6; // times by which it may change meanwhile

// URLs that are done, that are still to come, and that are known so far. A page that is revisited is still to come.
export function counts(stats) {
  const pending = (stats.urls_pending ?? 0) + (stats.urls_in_flight ?? 0);
  const known = Math.max(stats.urls_admitted ?? 0, pending);
  return { done: known - pending, pending, known };
}

export function shareDone(stats) {
  const { done, known } = counts(stats);
  return known ? done / known : null;
}

const estimates = [];

// The estimate of the time left, if those of the last seconds agree on the moment of the end. Of a crawl that has been
// running for a while, the first one that the page gets is good enough.
function steady(now, left, elapsed) {
  if (!left) {
    estimates.length = 0;
    return null;
  }
  estimates.push({ now, seconds: left.seconds });
  while (now - estimates[0].now > STEADY) estimates.shift();
  if (now - estimates[0].now < STEADY / 2 && !(elapsed >= SETTLED)) return null;
  const ends = estimates.map((one) => Math.max(1, one.seconds - (now - one.now)));
  return Math.max(...ends) <= Math.max(SWING * Math.min(...ends), Math.min(...ends) + 15) ? left : null;
}

// Returns the time left that is shown, null if none is.
function showTimeLeft(stats, point, left) {
  const holds = stats.state === "running" ? steady(point.t, left, stats.elapsed_seconds) : null;
  const over = { ended: "done", stopped: "stopped", paused: "paused", stopping: "stopping" }[stats.state];
  write(find("time-left"), over ?? (holds ? `${holds.at_least ? "≥ " : ""}${format.left(holds.seconds)}` : left ? "estimating…" : "–"));
  const end = holds && holds.seconds > 90 ? format.stamp(point.t + holds.seconds, false) : null;
  const ran = stats.elapsed_seconds ? `${over ? "after" : "running for"} ${format.duration(stats.elapsed_seconds)}` : "";
  write(find("time-left-note"), end ? (holds.at_least ? `${end} at the earliest` : `done about ${end}`) : ran);
  return holds;
}

// Whether the crawl works, with the time left that the figure shows: two of them would differ.
function showWork({ mark, text }, doing, left) {
  const toGo = left && mark === "good" ? `, ${left.at_least ? "at least" : "about"} ${format.left(left.seconds)} to go${left.host ? ` for ${left.host}` : ""}.` : ".";
  write(find("working-words"), doing === undefined ? text : doing.replace(/\.$/, toGo));
  find("working").dataset.mark = mark;
}

export function showProgress({ stats, point, working, doing }, left, lately) {
  const { done, pending, known } = counts(stats);
  const share = known ? done / known : null;
  const flying = known ? (stats.urls_in_flight ?? 0) / known : 0;
  const bar = find("progress");
  bar.setAttribute("aria-valuenow", String(Math.floor(100 * (share ?? 0))));
  find("progress-done").style.width = `${100 * (share ?? 0)}%`;
  find("progress-flying").style.width = `${100 * flying}%`;
  write(find("progress-share"), format.share(share));
  const words = pending ? `${format.count(done)} of ${format.count(known)} known` : `all ${format.count(known)} URLs found`;
  write(find("progress-words"), known ? words : "no URLs yet");
  showWork(working, doing, showTimeLeft(stats, point, left));
  write(find("pages-note"), stats.state === "running" && lately !== null ? `${format.rate(lately)} per second` : "in all runs");
  write(find("bytes-note"), stats.pages_fetched ? `${format.bytes((stats.bytes_fetched ?? 0) / stats.pages_fetched)} per page` : "–");
}
