// Problems in words, and their remedies.

// Classes of failure, as in the errors of a host: the problem, and the remedy.
const CLASSES = {
  dns: ["no address for the name", "Check the spelling of the name and this machine's name server."],
  refused: ["connection refused", "Check that the server is up and that the port is right."],
  unreachable: ["no route to the host", "Check the network between this machine and the host."],
  tls: ["no secure connection", "Look at the certificate in a browser. The owner of the host must fix it."],
  timeout: ["no answer in time", "Allow more time (fetch.headers_timeout), or send requests less often (politeness.delay)."],
  cut_off: ["connection closed before the answer was complete", "Send requests less often (politeness.delay): the host may be overloaded."],
  server_error: ["server errors (5xx)", "The owner of the host must fix them. The crawl retries each URL before it gives up."],
  throttled: ["too many requests (429 or 503)", "The crawl waits as long as the host asks. A longer politeness.delay avoids these answers."],
  protocol: ["answers that are not HTTP", "Check that the port belongs to a web server."],
  other: ["answers above a limit, or that cannot be decoded", "The failures of the host show the limit."],
  internal: ["answers that the crawler could not read", "This is a bug in the crawler: please report it with the URL."],
  proxy: ["the proxy did not reach the host", "Check the proxy. No request reached the host itself."],
  blocked: ["a challenge instead of pages", "Ask the owner to admit this crawler, or block the host."],
  login: ["a login instead of pages", "Give the crawl a login for the host, or exclude it."],
  robots_unreachable: ["its robots.txt could not be fetched, so its URLs are excluded", "crawler retry --excluded robots visits them again."],
};

// The class that a host failed with most often, unless only its robots.txt failed.
export const mainClass = (row) =>
  Object.entries(row.no_page === "robots_unreachable" ? { [row.no_page]: 1 } : row.errors ?? {})
    .filter(([, number]) => number)
    .sort(([, one], [, other]) => other - one)[0]?.[0] ?? null;

export const cause = (kind) => CLASSES[kind]?.[0] ?? `failed requests (${kind})`;
export const remedy = (kind) => CLASSES[kind]?.[1] ?? "Open the host to see its latest URLs.";

export const className = (kind) => ({ server_error: "server error", cut_off: "cut off", dns: "no address" })[kind] ?? kind;

// The words for the state of a host.
const STATES = {
  ready: "working",
  leased: "working",
  robots: "reading robots.txt",
  queued: "queued",
  waiting: "working",
  held: "on hold",
  snoozed: "not answering",
  retired: "given up",
  paused: "paused",
  blocked: "closed",
  idle: "done",
};

const HELD = {
  retry_after: "asked to wait",
  backoff: "backing off",
  robots_retry: "no robots.txt yet",
  failing: "not answering",
  errors: "server errors",
  hours: "outside its hours",
  retry: "waiting to try again",
};

const WORKING = ["ready", "leased", "robots", "queued", "waiting", "held"]; // when the crawl is not running, hosts in these states wait for it
let running = true;

export const setRunning = (runs) => {
  running = runs;
};

export const isAtWork = (state) => running && state !== "held" && WORKING.includes(state);

// True if the host has used up its budget: this is intended, so nothing is wrong.
export const isUsedUp = (row) => row.state === "blocked" && row.rule === "budget";

export function stateWords(row) {
  if (!running && WORKING.includes(row.state)) return "to be resumed";
  if (isUsedUp(row)) return "limit reached";
  if (row.state === "idle" && row.no_page) return "no page";
  return (["held", "waiting"].includes(row.state) && HELD[row.rule]) || (STATES[row.state] ?? row.state);
}

// True if the host is on hold for another reason than its gap, or was when the crawl stopped.
export const isHeld = (row) => (running ? row.state === "held" : WORKING.includes(row.state) && row.rule in HELD && row.rule !== "hours");

// The mark of a row: good, wait, bad or done.
export function stateMark(row) {
  if (isUsedUp(row)) return "done";
  if (["retired", "blocked"].includes(row.state)) return "bad";
  if (row.state === "snoozed" || row.state === "paused" || isHeld(row)) return "wait";
  if (!running && WORKING.includes(row.state)) return "wait";
  if (row.state === "idle") return row.no_page && row.no_page !== "excluded" ? "bad" : "done";
  return "good";
}

const STATUSES = {
  200: "OK", 201: "created", 204: "no content", 206: "partial content", 301: "moved", 302: "found elsewhere", 303: "see other", 304: "not modified",
  307: "temporary redirect", 308: "permanent redirect", 400: "bad request", 401: "login needed", 403: "forbidden", 404: "not found",
  405: "method not allowed", 406: "not acceptable", 408: "request timed out", 410: "gone", 429: "too many requests", 451: "barred by law", 500: "server error", 502: "bad gateway", 503: "unavailable", 504: "gateway timed out",
};
export const statusWords = (status) => STATUSES[status] ?? "";

// A short label for a record: its status, or why it has none.
export const badge = (record) => (record.outcome === "soft404" ? "soft 404" : record.status ?? ({ failed: "failed", excluded: "excluded", blocked: "blocked" }[record.outcome] ?? record.outcome));

export function badgeKind(record) {
  if (record.outcome === "failed" || record.status >= 500) return "bad";
  if (record.outcome === "soft404" || record.outcome === "blocked" || record.status >= 400) return "warn";
  if (record.outcome === "redirect" || record.outcome === "excluded") return "quiet";
  return "good";
}

// The words for a record; empty for an ordinary page.
export function recordWords(record) {
  if (record.words && record.words !== record.outcome && record.words !== "ok") return record.words;
  return record.outcome === "soft404" ? "its host sends this page for paths that do not exist" : statusWords(record.status);
}

// The remedy for a failed record.
export function recordRemedy(record) {
  const word = String(record.words ?? "").split(":")[0];
  if (record.outcome === "failed") return `${CLASSES[word]?.[1] ?? "The tab Hosts shows the problem of its host."} Then visit the URL again.`;
  if (record.outcome === "soft404") return "The link leads nowhere: correct it on the page that contains it.";
  if ([401, 403].includes(record.status)) return "The host refuses this page to the crawler: give the crawl a login, or exclude the page.";
  if (record.status === 429) return "The host asked for fewer requests: visit the URL again later.";
  if (record.status >= 500) return "The owner of the host must fix it. Visit the URL again later.";
  return "The page does not exist: correct the link on the page that contains it.";
}
