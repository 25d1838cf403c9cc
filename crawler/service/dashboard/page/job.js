// The job: its name and seeds in the header, the location of its token, and the downloads.

import { get } from "./api.js";
import { cut, find, make, write } from "./dom.js";
import * as format from "./format.js";

let name = "";
let known = "";
let last = ["connecting", null];

// The title shows the progress, the name and the state of the job.
export function showTitle(state, share) {
  last = [state, share];
  const far = share === null || share === undefined ? "" : `${format.share(share)} `;
  const text = name ? `${far}${name} · ${state}` : `${state} · crawl`;
  if (document.title !== text) document.title = text;
}

const hostOf = (seed) => (URL.canParse(seed) ? new URL(seed).host : seed);

const fact = (term, value) => make("div", {}, make("dt", {}, term), make("dd", {}, value));

function show(job) {
  name = job.name ?? "";
  const heading = find("job-name");
  heading.replaceChildren(cut(name || "Crawl"));
  const first = job.seeds?.length ? hostOf(job.seeds[0]) : "";
  const more = (job.seed_count ?? 0) - 1;
  const unnamed = job.seed_count > 0 ? format.counted(job.seed_count, "seed") : "no seeds yet";
  write(find("seeds-words"), first ? (more > 0 ? `${first} and ${format.counted(more, "more seed")}` : first) : unnamed);
  find("seeds").replaceChildren(...(job.seeds ?? []).map((seed) => make("li", {}, cut(seed))));
  write(find("seeds-more"), (job.seed_count ?? 0) > (job.seeds?.length ?? 0) ? `and ${format.count(job.seed_count - job.seeds.length)} more` : "");
  const facts = [
    ["scope", job.scope],
    ["started", job.began_at ? format.moment(job.began_at) : null],
    ["contact", job.contact || "none given"],
    ["user agent", job.user_agent],
  ];
  find("job-facts").replaceChildren(...facts.filter(([, value]) => value).map(([term, value]) => fact(term, value)));
  if (job.token_file) write(find("token-file"), name && !job.token_file.includes("/") ? `${name}/${job.token_file}` : job.token_file);
  find("all-jobs").hidden = !job.several;
  showTitle(...last);
}

const AGAIN = { known: 60_000, unknown: 3_000 }; // milliseconds; seeds are complete once they have been visited
let due = 0;

// Requests the job at the start, after the connection was lost, and again while its seeds are incomplete.
export async function refresh() {
  due = Date.now() + AGAIN.known;
  try {
    const job = await get("api/job");
    const text = JSON.stringify(job);
    if (text !== known) show(job);
    known = text;
    if ((job.seeds?.length ?? 0) < Math.min(20, job.seed_count ?? 0)) due = Date.now() + AGAIN.unknown;
  } catch (error) {
    write(find("seeds-words"), error.message);
  }
}

export function tick() {
  if (!document.hidden && Date.now() >= due) refresh();
}

// Closes a menu after a click elsewhere, and after Escape.
export function begin() {
  const menus = [...document.querySelectorAll("details.menu")];
  document.addEventListener("click", (event) => {
    for (const menu of menus) if (!menu.contains(event.target) || event.target.closest("a")) menu.open = false;
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    for (const menu of menus.filter((each) => each.open)) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  });
}
