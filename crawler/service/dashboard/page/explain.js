// Shows the explanation of a URL, step by step.

import { get } from "./api.js";
import { make } from "./dom.js";

export async function explain(list, url) {
  list.replaceChildren(make("li", { className: "quiet" }, "…"));
  try {
    const { lines } = await get("api/explain", { url });
    // Skip the steps of canonicalisation that changed nothing.
    const shown = lines.filter(({ text }, index) => !text || text !== lines[index - 1]?.text);
    list.replaceChildren(...shown.map(({ what, text }) => make("li", {}, make("b", {}, text ? `${what}: ` : what), text)));
  } catch (error) {
    list.replaceChildren(make("li", { className: "bad" }, error.message));
  }
}
