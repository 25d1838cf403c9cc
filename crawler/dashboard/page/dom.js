// Small helpers for the page. Everything is set as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

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
