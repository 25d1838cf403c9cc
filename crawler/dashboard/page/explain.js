// A URL in, all that the crawl knows of it out.

import { get } from "./api.js";
import { find, make } from "./dom.js";

function lines(answer) {
  if (Array.isArray(answer)) return answer.map(String);
  if (Array.isArray(answer?.lines)) return answer.lines.map(String);
  return Object.entries(answer ?? {}).map(([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`);
}

function show(texts, className = "") {
  find("explanation").replaceChildren(
    ...texts.map((text) => {
      const [, name, rest] = /^([^:]{1,40}):\s(.*)$/s.exec(text) ?? [null, null, text];
      return make("li", { className }, ...(name ? [make("b", {}, `${name}:`), ` ${rest}`] : [rest]));
    }),
  );
}

export function begin() {
  find("explain-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const url = find("explain-url").value.trim();
    if (!url) return;
    show(["…"], "quiet");
    try {
      show(lines(await get("api/explain", { url })));
    } catch (error) {
      show([error.message], "bad");
    }
  });
}
