// The top line: how far the crawl is, how long it takes, how much it has brought.

import { find, write } from "./dom.js";
import * as format from "./format.js";

// URLs that are done, that are still to come, and that are known so far. A page that is revisited is still to come, if that has an end.
export function counts(stats) {
  const pending = (stats.urls_pending ?? 0) + (stats.urls_in_flight ?? 0);
  const known = Math.max(stats.urls_admitted ?? 0, pending);
  // Of a crawl without an end, what is visited again was visited.
  const left = stats.endless ? Math.max(0, pending - (stats.revisits_pending ?? 0)) : pending;
  return { done: known - left, pending: left, known };
}

export function shareDone({ stats, standing }) {
  if (standing === "failed") return 0; // every URL is finished, and none brought a page
  const { done, known } = counts(stats);
  return known ? done / known : null;
}

function showTimeLeft({ stats, point, standing }) {
  const holds = stats.state === "running" ? stats.time_left : null;
  const over = { ended: "done", stopped: "stopped", failed: "failed", paused: "paused", gone: "–", waiting: "waiting", stopping: "stopping" }[standing || stats.state];
  write(find("time-left"), over ?? (holds ? `${holds.at_least ? "≥ " : ""}${format.left(holds.seconds)}` : stats.endless && stats.state === "running" ? "no end" : stats.state === "running" ? "estimating…" : "–"));
  const end = holds && holds.seconds > 90 ? format.stamp(point.t + holds.seconds, false) : null;
  const ran = stats.elapsed_seconds ? `${over ? "after" : "running for"} ${format.duration(stats.elapsed_seconds)}` : "";
  const until = end ? (holds.at_least ? `${end} at the earliest` : `done about ${end}`) : ran;
  write(find("time-left-note"), !over && holds?.host ? `${until} · ${holds.host}` : until);
}

export const sayWork = (text) => write(find("working-words"), text);

export function showProgress(message) {
  const { stats, working, standing } = message;
  const { done, pending, known } = counts(stats);
  const share = shareDone(message);
  const flying = known ? (stats.urls_in_flight ?? 0) / known : 0;
  const bar = find("progress");
  bar.setAttribute("aria-valuenow", String(Math.floor(100 * (share ?? 0))));
  find("progress-done").style.width = `${100 * (share ?? 0)}%`;
  find("progress-flying").style.width = `${100 * flying}%`;
  write(find("progress-share"), format.share(share));
  const words = pending ? `${format.count(done)} of ${format.count(known)} known` : standing === "failed" ? `none of ${format.counted(known, "URL")}` : known === 1 ? "the one URL found" : `all ${format.count(known)} URLs found`;
  write(find("progress-words"), known ? words : "no URLs yet");
  sayWork(working.text);
  find("working").dataset.mark = working.mark;
  showTimeLeft(message);
  write(find("pages-note"), stats.pages_per_second !== null ? `${format.rate(stats.pages_per_second)} per second` : "since the job began");
  write(find("bytes-note"), stats.pages_fetched ? `${format.bytes((stats.bytes_fetched ?? 0) / stats.pages_fetched)} per visit` : "–");
}
