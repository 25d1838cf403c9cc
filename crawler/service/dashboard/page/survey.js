// What the records tell, counted by the crawl: asked for every few seconds, and drawn if it is new.

import { getIfNew } from "./api.js";
import { showAnswers as attend } from "./attention.js";
import { showStatuses, showTypes } from "./bars.js";
import { find, mark, write } from "./dom.js";
import { showAnswers, showFailures } from "./failures.js";
import * as format from "./format.js";
import { showMap } from "./map.js";
import { forget, showRecords } from "./ticker.js";

// Milliseconds. The ticks say how many records are new: without any, the answer would be the same.
const EVERY = { first: 4_500, later: 9_500, silent: 60_000 };
const FIRST = 3; // answers while a page fills
const SHARED = 3_000; // milliseconds that an answer may be old, because others asked for it too

let due = 0;
let answers = 0;
let asked = 0;
let heard = 0; // when something new was heard of
let counting = true; // records of earlier runs, of which the ticks do not tell
let said = ""; // how far the records were counted
let answered = 0;
let tag = null;
let records = 0;

function show(survey) {
  mark(document.querySelector("main"), "unread", survey.complete === false && !survey.records);
  if (survey.records < records) forget(); // another job
  records = survey.records;
  showFailures(survey);
  showAnswers(survey.hosts);
  attend(survey.hosts ?? []);
  showMap(survey);
  showStatuses(survey.statuses);
  showTypes(survey.types);
  showRecords(survey.recent ?? []);
  const behind = survey.complete === false;
  counting = behind || Boolean(survey.fault);
  said = behind ? `counting: ${format.share(survey.read ?? 0)} of the records read` : "";
  find("survey-fault").hidden = true;
}

// The ticks are of this second. While what they tell of is newer than the records that were counted, say so.
function date() {
  const text = said || (isBehind() ? `as of ${format.clock(answered / 1000)}` : "");
  for (const node of document.querySelectorAll("[data-behind]")) write(node, text);
}

const isBehind = () => heard + SHARED >= asked;

async function refresh() {
  asked = Date.now();
  due = asked + EVERY.silent;
  try {
    const answer = await getIfNew("api/survey", tag);
    answered = Date.now();
    if (answer) {
      tag = answer.tag;
      show(answer.content);
    }
  } catch (error) {
    heard = Date.now();
    find("survey-fault").hidden = false;
    write(find("survey-fault"), `The records cannot be read now: ${error.message}`);
  }
  answers += 1;
  due = Date.now() + (answers < FIRST ? EVERY.first : EVERY.later);
}

// `records`: how many are new since the last tick.
export function note(records) {
  if (records !== 0) heard = Date.now();
}

export function tick() {
  const now = Date.now();
  if (answered) date();
  if (document.hidden || now < due) return;
  if (isBehind() || counting || now > due + EVERY.silent) refresh();
}

// The crawl was lost and found: what it says may be of another job.
export function again() {
  tag = null;
  due = answers = asked = 0;
}
