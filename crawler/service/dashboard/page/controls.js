// Buttons that control the crawl. They need the token; without it, they show how to get it.

import { enter, keepToken, post, token } from "./api.js";
import { find, notify, write } from "./dom.js";
import * as hosts from "./hosts.js";

const SAID = { pause: "Paused.", resume: "Resumed.", checkpoint: "Checkpoint written.", stop: "Stopping." };
let state = "";
let paused = false;
let over = false; // true if the crawl was over when it last answered, or is elsewhere
let parted = false; // true for a crawl in partitions, which is stopped where it was started
let busy = false;

function update() {
  const running = ["running", "paused"].includes(state) && !over;
  const may = token() !== null && running && !busy;
  find("pause").disabled = !may;
  find("stop").disabled = !may;
  document.querySelector("[data-do=checkpoint]").disabled = !may;
  for (const button of [find("pause"), document.querySelector("[data-do=checkpoint]")]) button.hidden = over;
  find("stop").hidden = over || parted;
  const locked = state === "locked"; // the page has no access
  find("unlock").hidden = over || (token() !== null && !locked);
  const silent = state === "lost"; // no server checks the token or sends files
  find("unlock").disabled = silent;
  document.querySelector(".downloads").inert = silent || locked;
  find("no-controls").hidden = !over && !silent;
  write(find("no-controls"), silent ? `${over ? "" : "no answer: "}nothing to change or download` : ["ended", "stopped"].includes(state) ? "the crawl is not running" : "control the crawl on its machine");
  find("pause").dataset.do = paused ? "resume" : "pause";
  write(find("pause"), paused ? "Resume" : "Pause");
  document.body.classList.toggle("locked", token() === null);
  hosts.unlock(running);
}

// Enables the buttons that apply to the state in `stats`.
export function showControls(stats) {
  if (stats.state === state && Boolean(stats.paused) === paused) return;
  state = stats.state;
  if (state !== "lost") over = ["ended", "stopped", "copy"].includes(state) || (stats.partitions ?? []).some((part) => part.machine);
  paused = Boolean(stats.paused);
  parted = stats.partitions !== undefined;
  update();
}

async function control(what) {
  busy = true;
  update();
  try {
    await post("api/control", { do: what });
    notify(SAID[what]);
  } catch (error) {
    notify(error.message);
    if (error.status === 401) keepToken(null); // the token of another crawl
  } finally {
    busy = false;
    update();
  }
}

export function begin() {
  for (const button of document.querySelectorAll("[data-do]")) button.addEventListener("click", () => control(button.dataset.do));
  const stop = find("stop-dialog");
  find("stop").addEventListener("click", () => {
    stop.returnValue = "";
    stop.showModal();
  });
  stop.addEventListener("close", () => {
    if (stop.returnValue === "stop") control("stop");
  });
  const unlock = find("unlock-dialog");
  find("unlock").addEventListener("click", () => {
    unlock.returnValue = "";
    unlock.showModal();
  });
  unlock.addEventListener("close", () => {
    const given = find("unlock-token").value.trim();
    find("unlock-token").value = "";
    if (unlock.returnValue !== "unlock" || !given) return;
    if (state === "locked") enter(given);
    else keepToken(given);
    update();
  });
  update();
}
