// What several views are built of: sections, tables, badges, notices.

import { fill, h, unique } from "./dom.js";
import { phase as phaseWords } from "./words.js";

/** A section with a heading; `id` is its place in a link. */
export function section(id, title, ...children) {
  const heading = unique("heading");
  return h("section", { id: `section-${id}`, "aria-labelledby": heading }, h("h2", { id: heading }, title), ...children);
}

/** A table in a frame that scrolls by itself, so that the page never does sideways. `head` holds texts or `[text, class]`. */
export function table(label, head) {
  const body = h("tbody");
  const cells = head.map((one) => (Array.isArray(one) ? h("th", { scope: "col", class: one[1] }, one[0]) : h("th", { scope: "col" }, one)));
  const element = h(
    "div",
    { class: "scroll", tabindex: "0", role: "group", "aria-label": label },
    h("table", {}, h("caption", { class: "unseen" }, label), h("thead", {}, h("tr", {}, cells)), body),
  );
  return { element, body };
}

/** A row of texts or elements; `[child, class]` for a cell with a class. The first is the row's head. */
export function row(...cells) {
  return h("tr", {}, cells.map((cell, at) => {
    const [child, look] = Array.isArray(cell) ? cell : [cell, null];
    return at === 0 ? h("th", { scope: "row", class: look }, child) : h("td", { class: look }, child);
  }));
}

/** The phase of a job, with a sign of its own beside the colour. */
export function badge(code) {
  return h("span", { class: `badge phase-${PHASES.has(code) ? code : "gone"}` }, h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[code] || "·"), phaseWords(code));
}

const SIGNS = { running: "►", starting: "◔", waiting: "○", aborting: "■", succeeded: "✓", failed: "✕", stopped: "□", gone: "∅" };
const PHASES = new Set(Object.keys(SIGNS));

/** A sentence in a frame: `kind` is `error`, `warning` or `info`. */
export const notice = (kind, ...children) => h("div", { class: `notice ${kind}`, role: kind === "error" ? "alert" : null }, ...children);

/** Terms and what they are, as a list. Pairs without a value are left out. */
export function facts(element, pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return fill(element, known.map(([term, value, more]) => h("div", {}, h("dt", {}, term), h("dd", {}, value, more ? h("small", {}, more) : null))));
}

/** A button that shows the rest of a long list. */
export function moreButton(listener) {
  return h("button", { type: "button", class: "plain", on: { click: listener } });
}
