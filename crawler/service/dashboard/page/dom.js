// Small helpers for the page. Everything is set as text, never as markup.

const TAIL = 16; // characters at the end of a long name that are always shown

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

// Writes only changed text: an unchanged node causes no layout.
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function set(node, property, value) {
  if (node[property] !== value) node[property] = value;
}

// Adds or removes a class, unless the node is in that state already.
export function mark(node, name, on) {
  if (node.classList.contains(name) !== on) node.classList.toggle(name, on);
}

// Shows a name or URL in one line. If it does not fit, the middle is left out; the tooltip has the whole text.
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

// Shows a URL without its scheme, to save room.
export const recutUrl = (node, url) => recut(node, url, url.replace(/^https?:\/\//i, ""));

export function cutUrl(url) {
  const node = cut("");
  recutUrl(node, url);
  return node;
}

// Updates the children of `parent` to those for `items`, in order. A child is kept as long as its item is present, with
// its focus and whatever is open in it. `create(item)` returns a node; `update(node, item)` writes changes.
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
  // A node that is moved loses the focus; if it is gone, the list's container gets the focus.
  if (focused && document.activeElement !== focused) (focused.isConnected ? focused : (parent.closest("[tabindex]") ?? document.body)).focus({ preventScroll: true });
}

// Returns true if this part is in use: content under the pointer or with the focus must not move.
export const inUse = (node) => node.matches(":focus-within") || (node.matches(":hover") && matchMedia("(hover: hover)").matches);

// Shows the result of a click above the page for some seconds, without moving anything. With `stay`, it stays in the header.
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
