// A URL in, all that the crawl knows of it out.

import { get } from "./api.js";
import { find, make } from "./dom.js";

function show(rows, className = "") {
  const lines = rows.map(({ what, text }) => make("li", { className }, ...(text ? [make("b", {}, `${what}:`), ` ${text}`] : [what])));
  find("explanation").replaceChildren(...lines);
}

export function begin() {
  find("explain-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const url = find("explain-url").value.trim();
    if (!url) return;
    show([{ what: "…" }], "quiet");
    try {
      show((await get("api/explain", { url })).lines);
    } catch (error) {
      show([{ what: error.message }], "bad");
    }
  });
}
