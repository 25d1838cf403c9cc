// Requests to the crawl. The browser adds the cookie that permits reading; changes carry the token, if there is one. The
// token belongs to one origin and this tab.

const KEY = "token";

export function takeTokenFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) keepToken(given);
  // Remove it, even if it is wrong, from the address bar and the browser's history.
  if (given || location.search) history.replaceState(null, "", location.pathname);
}

// Exchanges the token for a cookie by loading the page again.
export function enter(token) {
  location.search = new URLSearchParams({ token });
}

export function keepToken(token) {
  if (token) sessionStorage.setItem(KEY, token);
  else sessionStorage.removeItem(KEY);
}

export const token = () => sessionStorage.getItem(KEY);

async function answered(path, options) {
  try {
    return await fetch(path, options);
  } catch {
    throw new Error("No answer from the crawl.");
  }
}

// Returns the JSON of the answer. Throws an Error whose message is one line for the user.
async function asked(path, options = {}) {
  return content(await answered(path, options));
}

async function content(response) {
  const said = (response.headers.get("Content-Type") ?? "").startsWith("application/json") ? await response.json() : null;
  if (!response.ok) throw Object.assign(new Error(said?.error ?? `The crawl answered ${response.status}.`), { status: response.status });
  return said;
}

export const get = (path, parameters = {}) => {
  const query = new URLSearchParams(parameters).toString();
  return asked(query ? `${path}?${query}` : path);
};

// Returns why this page has no access, in one line, or "" for any other error: an event stream does not report the reason.
export async function barred(path) {
  try {
    const response = await fetch(path, { signal: AbortSignal.timeout(2_000) });
    return response.status === 401 ? (await response.json()).error : "";
  } catch {
    return "";
  }
}

// Returns { tag, content }, or null if the content still has this `tag`.
export async function getIfNew(path, tag) {
  const response = await answered(path, { headers: tag ? { "If-None-Match": tag } : {} });
  return response.status === 304 ? null : { tag: response.headers.get("ETag"), content: await content(response) };
}

export const post = (path, content) =>
  asked(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${token() ?? ""}` },
    body: JSON.stringify(content),
  });
