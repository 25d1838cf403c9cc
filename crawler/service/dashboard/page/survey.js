// The survey of the records, made by the crawl: requested every few seconds, and drawn if it has changed.

import { getIfNew } from "./api.js";
import { showAnswers as attend } from "./attention.js";
import { showStatuses, showTypes } from "./bars.js";
import { find, mark, write } from "./dom.js";
import { showAnswers, showFailures } from "./failures.js";
import * as format from "./format.js";
import { showMap } from "./map.js";
import { forget, showRecords } from "./ticker.js";

// Milliseconds. The ticks report the number of new records: without new ones, the answer would be the same.
const EVERY = { first: 4_500, later: 9_500, silent: 60_000 };
const FIRST = 3; // first answers, which are requested more often
const SHARED = 3_000; // maximum age of an answer in milliseconds, as the server reuses answers

let due = 0;
let answers = 0;
let asked = 0;
let heard = 0; // time of the last new record
let counting = true; // true while records of earlier runs are counted, which the ticks do not report
let said = ""; // how many of the records have been counted
let answered = 0;
let tag = null;
let records = 0;

const say = (where, text) => document.querySelectorAll(where).forEach((node) => write(node, text));

function show(survey) {
  mark(document.querySelector("main"), "unread", survey.complete === false && !survey.records);
  say(".visits + .empty", survey.fault ?? (survey.complete === false ? "reading…" : "No visits so far."));
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

// The ticks are up to date. While they report more records than were counted, show the time of the survey.
function date() {
  say("[data-behind]", said || (isBehind() ? `as of ${format.clock(answered / 1000)}` : ""));
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
    if (!answered) say("[data-behind], .visits + .empty", error.message);
    write(find("survey-fault"), `The records cannot be read now: ${error.message}`);
  }
  answers += 1;
  due = Date.now() + (answers < FIRST ? EVERY.first : EVERY.later);
}

// `records` is the number of new ones since the last tick.
export function note(records) {
  if (records !== 0) heard = Date.now();
}

export function tick() {
  const now = Date.now();
  if (answered) date();
  if (document.hidden || now < due) return;
  if (isBehind() || counting || now > due + EVERY.silent) refresh();
}

// After the connection was lost: the next answers may be about another job.
export function again() {
  tag = null;
  due = answers = asked = 0;
}
