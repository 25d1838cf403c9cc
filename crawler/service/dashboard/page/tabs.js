// Tabs with addresses, such as #/hosts and #/hosts/h.test; the search; the keyboard shortcuts.

import { explain } from "./explain.js";
import { find, mark } from "./dom.js";

const PAUSE = 250; // milliseconds after the last keystroke in the search
const TABS = [...document.querySelectorAll(".tabs a")];

let opens = {};
let redraw = () => {};

export const go = (tab, what = "") => {
  location.hash = `#/${tab}${what && `/${encodeURIComponent(what)}`}`;
};

function show() {
  const [, name, what = ""] = location.hash.split("/");
  const current = TABS.find((link) => link.hash === `#/${name}`) ?? TABS[0];
  for (const link of TABS) link.ariaCurrent = link === current ? "page" : null;
  const tab = current.hash.slice(2);
  if (location.hash && name !== tab) history.replaceState(null, "", current.hash); // no tab has this address
  document.body.dataset.tab = tab;
  for (const section of document.querySelector("main").children) mark(section, "off", section.dataset.tab !== tab);
  opens[tab]?.(decodeURIComponent(what));
  redraw();
}

function explained(url) {
  find("explain").hidden = !url;
  if (url) explain(find("explanation"), url);
}

// Searches for a host, or explains a URL.
function search() {
  const text = find("search").value.trim();
  if (text.includes("/")) go("pages", text);
  else if (text || document.body.dataset.tab === "hosts") go("hosts", text);
}

function press(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, dialog")) return;
  const tab = TABS[Number(event.key) - 1];
  if (event.key === "/") find("search").select();
  else if (event.key === "?") find("keys-dialog").showModal();
  else if (tab) location.hash = tab.hash;
  else return;
  event.preventDefault();
}

// `parts`: for some tabs, the function that shows the rest of the address. `changed` is called when a tab is shown.
export function begin(parts, changed) {
  opens = { ...parts, pages: explained };
  redraw = changed;
  let typed = 0;
  find("search").addEventListener("input", () => {
    clearTimeout(typed);
    if (document.body.dataset.tab === "hosts") typed = setTimeout(search, PAUSE);
  });
  find("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    search();
  });
  find("keys").addEventListener("click", () => find("keys-dialog").showModal());
  document.addEventListener("keydown", press);
  addEventListener("hashchange", show);
  show();
}
