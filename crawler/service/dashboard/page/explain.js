// Shows everything that the crawl knows of a URL.

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
      const { lines } = await get("api/explain", { url });
      // Skip the steps of canonicalisation that changed nothing.
      show(lines.filter(({ text }, index) => !text || text !== lines[index - 1]?.text));
    } catch (error) {
      show([{ what: error.message }], "bad");
    }
  });
}
