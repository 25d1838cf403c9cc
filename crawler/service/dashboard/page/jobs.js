// The list of jobs. Everything is set as text, never as markup.

import { barred, enter, keepToken, post, takeTokenFromAddress, token } from "./api.js";
import { find, make, notify, write } from "./dom.js";
import * as format from "./format.js";

const RETRY = [1000, 2000, 4000, 8000]; // milliseconds
const SAID = { pause: "Paused.", resume: "Resumed.", stop: "Stopping." };

const rows = new Map(); // name -> the nodes of a job
const busy = new Set(); // names of jobs with a request in progress
let shown = { jobs: [] };
let locked = ""; // why the page has no access

const address = (name) => `jobs/${encodeURIComponent(name)}/`;

// -- actions -------------------------------------------------------------------------------------------------------

async function act(name, path, content, said) {
  busy.add(name);
  show();
  try {
    const answer = await post(path, content);
    notify(`${name}: ${answer?.text ?? said}`);
    return true;
  } catch (error) {
    notify(`${name}: ${error.message}`);
    if (error.status === 401) keepToken(null);
    return false;
  } finally {
    busy.delete(name);
    show();
  }
}

const control = (name, what) => act(name, `${address(name)}api/control`, { do: what }, SAID[what]);
const again = (name) => act(name, `api/jobs/${encodeURIComponent(name)}/resume`, {}, "Started.");

// Opens a dialog, and calls `done` if it is closed with the button of that value.
function opens(dialog, value, done) {
  dialog.returnValue = "";
  dialog.showModal();
  dialog.onclose = () => {
    if (dialog.returnValue === value) done();
  };
}

function stop(name) {
  write(find("stop-name"), name);
  opens(find("stop-dialog"), "stop", () => control(name, "stop"));
}

// Opens the dialog for a new job, or for a copy of the one named `of`.
function begin(of) {
  const copies = of !== undefined;
  write(find("new-title"), copies ? "Duplicate" : "New job");
  find("new-more").hidden = copies;
  find("new-copies").hidden = !copies;
  find("new-seeds").required = !copies;
  write(find("new-of"), of ?? "");
  write(find("new-error"), "");
  find("new-name").value = copies ? free(of) : "";
  find("new-dialog").showModal();
  find("new-form").onsubmit = async (event) => {
    if (event.submitter?.value !== "start") return;
    event.preventDefault(); // keep the dialog open until the job has started, so that no input is lost
    const name = find("new-name").value.trim();
    const seeds = find("new-seeds").value.split("\n").map((line) => line.trim()).filter(Boolean);
    const path = copies ? `api/jobs/${encodeURIComponent(of)}/duplicate` : "api/jobs";
    find("new-start").disabled = true;
    write(find("new-error"), "");
    try {
      const answer = await post(path, copies ? { name } : { name, seeds, settings: find("new-settings").value });
      notify(`${name}: ${answer.text}`);
      find("new-dialog").close();
      find("new-seeds").value = "";
    } catch (error) {
      write(find("new-error"), error.message);
      if (error.status === 401) keepToken(null);
    } finally {
      find("new-start").disabled = false;
    }
  };
}

function free(name) {
  const taken = new Set(shown.jobs.map((job) => job.name));
  let number = 2;
  while (taken.has(`${name}-${number}`)) number += 1;
  return `${name}-${number}`;
}

// -- the list ------------------------------------------------------------------------------------------------------

const figure = (label) => {
  const value = make("dd", {}, "–");
  return { value, node: make("div", {}, make("dt", {}, label), value) };
};

function button(label, name, done) {
  const node = make("button", { type: "button", "aria-label": `${label} ${name}` }, label);
  node.addEventListener("click", done);
  return node;
}

function create(name) {
  const figures = { pages: figure("pages"), pending: figure("pending"), failed: figure("failed"), left: figure("time left") };
  const state = make("p", { className: "state" });
  const said = make("div", { className: "said-of" });

  const link = make("a", { href: address(name) }, name);
  const buttons = {
    pause: button("Pause", name, () => control(name, "pause")),
    goOn: button("Resume", name, () => control(name, "resume")),
    stop: button("Stop…", name, () => stop(name)),
    again: button("Start again", name, () => again(name)),
    copy: button("Duplicate…", name, () => begin(name)),
  };
  const node = make(
    "li",
    { className: "job" },
    make("div", { className: "name" }, make("h2", {}, link), state),
    make("dl", { className: "figures" }, ...Object.values(figures).map((each) => each.node)),
    said,
    make("div", { className: "controls" }, ...Object.values(buttons)),
  );
  return { node, figures, state, said, buttons };
}

function update(row, job) {
  const standing = job.standing || job.state;
  write(row.state, standing);
  row.state.dataset.state = standing;
  write(row.figures.pages.value, format.figure(job.pages));
  write(row.figures.pending.value, format.figure(job.pending));
  write(row.figures.failed.value, format.figure(job.failed));
  const left = format.near(job.seconds_left);
  write(row.figures.left.value, job.at_least && job.seconds_left !== null ? `≥ ${left}` : left);
  // A problem is more important than the usual sentence.
  const lines = job.needs.length ? job.needs.map((need) => need.text) : [job.working?.text ?? ""];
  if (job.start_fault && job.state === "stopped") lines.push(`It cannot be started here: ${job.start_fault}.`);
  const text = lines.join("\n");
  if (row.text !== text) {
    row.text = text;
    row.said.replaceChildren(
      ...lines.map((line, place) => make("p", { className: place < job.needs.length ? "need" : "words" }, line)),
    );
  }
  const may = token() !== null && !busy.has(job.name);
  const byUser = job.paused_by === "user";
  const { pause, goOn, stop: end, again: start, copy } = row.buttons;
  pause.hidden = !job.running || byUser;
  goOn.hidden = !job.running || !byUser;
  end.hidden = !job.running;
  start.hidden = job.running || !["stopped", "ended"].includes(job.state);
  copy.hidden = !shown.new_jobs;
  const running = ["running", "paused"].includes(job.state);
  for (const each of [pause, goOn, end]) each.disabled = !may || !running;
  copy.disabled = !may || Boolean(job.start_fault);
  start.disabled = !may || Boolean(job.start_fault);
  for (const each of [start, copy]) each.title = job.start_fault ?? "";
}

// Jobs that need attention come first, then running ones; otherwise the order is that of the server.
const rank = (job) => (job.needs.length ? 0 : job.running ? 1 : 2);

function show() {
  const jobs = shown.jobs.map((job, at) => ({ job, at })).sort((a, b) => rank(a.job) - rank(b.job) || a.at - b.at);
  const list = find("jobs");
  const names = new Set(shown.jobs.map((job) => job.name));
  for (const [name, row] of rows) {
    if (!names.has(name)) {
      row.node.remove();
      rows.delete(name);
    }
  }
  jobs.forEach(({ job }, place) => {
    if (!rows.has(job.name)) rows.set(job.name, create(job.name));
    const row = rows.get(job.name);
    update(row, job);
    if (list.children[place] !== row.node) {
      const focused = row.node.contains(document.activeElement) ? document.activeElement : null;
      list.insertBefore(row.node, list.children[place] ?? null);
      focused?.focus({ preventScroll: true }); // a moved node loses the focus
    }
  });
  const running = shown.jobs.filter((job) => job.running).length;
  const needy = shown.jobs.filter((job) => job.needs.length).length;
  const jobsIn = `${format.count(shown.jobs.length)} ${shown.jobs.length === 1 ? "job" : "jobs"}, ${format.count(running)} running`;
  const need = needy ? `, ${format.count(needy)} ${needy === 1 ? "needs" : "need"} attention` : "";
  write(find("sum"), jobsIn + need);
  document.title = `${needy ? `(${needy}) ` : ""}Crawls: ${jobsIn}`;
  find("none").hidden = shown.jobs.length > 0;
  find("left-out").hidden = !shown.left_out;
  write(find("left-out"), shown.left_out ? `${format.count(shown.left_out)} more jobs are not shown: give fewer directories.` : "");
  find("unlock").hidden = token() !== null;
  find("new").hidden = !shown.new_jobs;
  find("new").disabled = token() === null;
  if (shown.token_file) write(find("token-file"), shown.token_file);
}

// -- listening -----------------------------------------------------------------------------------------------------

let tries = 0;

function listen() {
  const events = new EventSource("api/jobs/events");
  const take = (event) => {
    if (tries) notify("", true);
    document.body.classList.remove("stale");
    tries = 0;
    locked = "";
    shown = JSON.parse(event.data);
    show();
  };
  const lost = async () => {
    events.close();
    locked = await barred("api/jobs");
    notify(locked || "No answer from the dashboard: this list is out of date.", true);
    find("unlock").hidden = token() !== null && !locked;
    document.body.classList.add("stale");
    setTimeout(listen, RETRY[Math.min(tries, RETRY.length - 1)]);
    tries += 1;
  };
  events.addEventListener("jobs", take);
  events.addEventListener("end", lost);
  events.addEventListener("error", lost);
}

takeTokenFromAddress();
find("new").addEventListener("click", () => begin());
find("unlock").addEventListener("click", () =>
  opens(find("unlock-dialog"), "unlock", () => {
    const given = find("unlock-token").value.trim();
    find("unlock-token").value = "";
    if (!given) return;
    if (locked) enter(given);
    else keepToken(given);
    show();
  }),
);
listen();
