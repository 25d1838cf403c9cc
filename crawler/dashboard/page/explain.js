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
      const { lines } = await get("api/explain", { url });
      // A step of canonicalisation that changed nothing says nothing.
      show(lines.filter(({ text }, index) => !text || text !== lines[index - 1]?.text));
    } catch (error) {
      show([{ what: error.message }], "bad");
    }
  });
}
