// Elements out of plain values. Text only ever becomes a text node: nothing that a job says is read as markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element: `h("a", {class: "x", href: "#/"}, "text", child, null)`. `on` holds listeners by event. */
export function h(name, attributes = {}, ...children) {
  return filled(document.createElement(name), attributes, children);
}

/** The same within an SVG. */
export function s(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

function filled(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (key === "style") {
      for (const [property, one] of Object.entries(value)) element.style.setProperty(property, one);
    } else {
      element.setAttribute(key, value === true ? "" : String(value));
    }
  }
  element.append(...children.flat().filter(there).map(node));
  return element;
}

const there = (child) => child !== null && child !== undefined && child !== false && child !== "";
const node = (child) => (child instanceof Node ? child : document.createTextNode(String(child)));

/** Put `children` in the place of what is in `element`. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat().filter(there).map(node));
  return element;
}

/** Set the text only where it differs, so that a screen reader hears of changes alone. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * Make the children of `parent` those of `items`, in their order, and keep the elements of keys that were there:
 * focus and selection survive. `make(item)` gives an element, `change(element, item)` brings one up to date.
 */
export function keyed(parent, items, key, make, change = () => {}) {
  const old = new Map([...parent.children].map((child) => [child.dataset.key, child]));
  let at = parent.firstElementChild;
  for (const item of items) {
    const name = String(key(item));
    let child = old.get(name);
    old.delete(name);
    if (!child) {
      child = make(item);
      child.dataset.key = name;
    }
    change(child, item);
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  for (const gone of old.values()) gone.remove();
}

/** Lead keyboard and screen reader to a heading. */
export function focused(heading) {
  heading?.setAttribute("tabindex", "-1");
  heading?.focus({ preventScroll: true });
}

let numbers = 0;

/** An id that no other element has. */
export const unique = (prefix) => `${prefix}-${++numbers}`;
