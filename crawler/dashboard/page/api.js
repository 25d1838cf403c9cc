// Requests to the crawl, with the token if there is one. The token belongs to one origin and to this tab.

const KEY = "token";

export function takeTokenFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token") ?? new URLSearchParams(location.search).get("token");
  if (given) {
    keepToken(given);
    // Remove it from the address bar and from the browser's history.
    history.replaceState(null, "", location.pathname);
  }
}

export function keepToken(token) {
  if (token) sessionStorage.setItem(KEY, token);
  else sessionStorage.removeItem(KEY);
}

export const token = () => sessionStorage.getItem(KEY);

// Returns the JSON of the answer. Throws an Error whose message is one line for the reader.
async function asked(path, options = {}) {
  let response;
  try {
    response = await fetch(path, options);
  } catch {
    throw new Error("No answer from the crawl.");
  }
  const said = (response.headers.get("Content-Type") ?? "").startsWith("application/json") ? await response.json() : null;
  if (!response.ok) throw Object.assign(new Error(said?.error ?? `The crawl answered ${response.status}.`), { status: response.status });
  return said;
}

export const get = (path, parameters = {}) => {
  const query = new URLSearchParams(parameters).toString();
  return asked(query ? `${path}?${query}` : path);
};

export const post = (path, content) =>
  asked(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${token() ?? ""}` },
    body: JSON.stringify(content),
  });
