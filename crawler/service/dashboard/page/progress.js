// The summary: what the crawl is doing, and how much of it is done.

import { find, write } from "./dom.js";
import * as format from "./format.js";

// Counts the URLs done, pending and known, without soft-404 probes, which the crawler makes up. A page to be revisited
// is pending if the crawl has an end.
export function counts(stats) {
  const pending = (stats.urls_pending ?? 0) + (stats.urls_in_flight ?? 0);
  const known = Math.max((stats.urls_admitted ?? 0) - (stats.soft404_probes ?? 0), pending);
  // In an endless crawl, pages to be revisited are done: they were visited before.
  const left = stats.endless ? Math.max(0, pending - (stats.revisits_pending ?? 0)) : pending;
  return { done: known - left, pending: left, known };
}

export function shareDone({ stats, standing }) {
  if (standing === "failed") return 0; // every URL is finished, but none returned a page
  const { done, known } = counts(stats);
  return known ? done / known : null;
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
  const words = pending ? `done: ${format.count(done)} of ${format.counted(known, "known URL")}` : standing === "failed" ? `of ${format.counted(known, "URL")} fetched` : known === 1 ? "of the one known URL" : `of all ${format.count(known)} known URLs`;
  write(find("progress-words"), known ? words : "no URLs yet");
  sayWork(working.text);
  find("working").dataset.mark = working.mark;
}
