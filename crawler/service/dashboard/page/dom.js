// Small helpers for the page. Everything is set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const TAIL = 16; // characters at the end of a long name that are never cut

export const find = (id) => document.getElementById(id);

export function make(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("aria-") || key.startsWith("data-") || key === "role") node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children);
  return node;
}

export function element(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

// Writes only what changed: an unchanged number causes no layout.
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function set(node, property, value) {
  if (node[property] !== value) node[property] = value;
}

// Adds a class or removes it, and touches nothing if it is as it should be.
export function mark(node, name, on) {
  if (node.classList.contains(name) !== on) node.classList.toggle(name, on);
}

// Shows a name or a URL in one line. If it does not fit, its middle is left out; pointing at it shows all.
export function cut(text, name = "span", properties = {}) {
  const node = make(name, { ...properties, className: `cut ${properties.className ?? ""}` }, make("span"), make("span"));
  recut(node, text);
  return node;
}

export function recut(node, text, shown = text) {
  if (node.title === text) return;
  const at = shown.length > 2 * TAIL ? shown.length - TAIL : shown.length;
  node.title = text;
  node.firstChild.textContent = shown.slice(0, at);
  node.lastChild.textContent = shown.slice(at);
}

// A URL without its scheme, where room is short.
export const recutUrl = (node, url) => recut(node, url, url.replace(/^https?:\/\//i, ""));

export function cutUrl(url) {
  const node = cut("");
  recutUrl(node, url);
  return node;
}

// Makes the children of `parent` those for `items`, in their order. A child is kept as long as its item is there: it
// keeps its focus and what was opened in it. `create(item)` returns a node; `update(node, item)` writes what changed.
export function keep(parent, items, key, create, update = () => {}) {
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const old = parent.kept ?? new Map();
  const kept = new Map();
  for (const item of items) {
    const name = key(item);
    if (kept.has(name)) continue;
    const node = old.get(name) ?? create(item);
    update(node, item);
    kept.set(name, node);
  }
  for (const [name, node] of old) if (!kept.has(name)) node.remove();
  let next = parent.firstElementChild;
  for (const node of kept.values()) {
    if (node === next) next = next.nextElementSibling;
    else parent.insertBefore(node, next);
  }
  while (next) {
    const after = next.nextElementSibling;
    next.remove();
    next = after;
  }
  parent.kept = kept;
  // A node that is moved loses the focus; if it is gone, the focus goes to what holds the list.
  if (focused && document.activeElement !== focused) (focused.isConnected ? focused : (parent.closest("[tabindex]") ?? document.body)).focus({ preventScroll: true });
}

// Whether this part is in use: what is under the pointer or has the focus must not move away.
export const inUse = (node) => node.matches(":focus-within") || (node.matches(":hover") && matchMedia("(hover: hover)").matches);

// Shows the result of a click above the page for a while, without moving anything. With `stay`, it stays in the first line.
let fading = 0;

export function notify(text, stay = false) {
  const notice = find("notice");
  clearTimeout(fading);
  write(notice, text);
  notice.classList.toggle("toast", !stay);
  notice.classList.remove("old");
  if (!stay) fading = setTimeout(() => notice.classList.add("old"), 8_000);
}

export const at = (value, path) => path.split(".").reduce((part, key) => part?.[key], value) ?? null;
