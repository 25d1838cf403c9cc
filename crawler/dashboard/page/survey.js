// What the records tell, counted by the crawl: asked for every few seconds, and drawn if it is new.

import { getIfNew } from "./api.js";
import { showAnswers as attend } from "./attention.js";
import { showDepths, showStatuses, showTypes } from "./bars.js";
import { find, write } from "./dom.js";
import { showAnswers, showFailures } from "./failures.js";
import * as format from "./format.js";
import { showMap } from "./map.js";
import { forget, showRecords } from "./ticker.js";

const EVERY = 4_500; // milliseconds

let due = 0;
let tag = null;
let records = 0;

function show(survey) {
  if (survey.records < records) forget(); // another job
  records = survey.records;
  showFailures(survey);
  showAnswers(survey.hosts);
  attend(survey.hosts ?? []);
  showMap(survey);
  showDepths(survey.depths);
  showStatuses(survey.statuses);
  showTypes(survey.types);
  showRecords(survey.recent ?? []);
  const behind = survey.complete === false;
  for (const node of document.querySelectorAll("[data-behind]")) write(node, behind ? `counting: ${format.share(survey.read ?? 0)} of the records read` : "");
  find("survey-fault").hidden = true;
}

export async function refresh() {
  due = Date.now() + 60_000;
  try {
    const answer = await getIfNew("api/survey", tag);
    if (answer) {
      tag = answer.tag;
      show(answer.content);
    }
  } catch (error) {
    find("survey-fault").hidden = false;
    write(find("survey-fault"), `The records cannot be read now: ${error.message}`);
  }
  due = Date.now() + EVERY;
}

export function tick() {
  if (!document.hidden && Date.now() >= due) refresh();
}

// The crawl was lost and found: what it says may be of another job.
export function again() {
  tag = null;
  due = 0;
}
