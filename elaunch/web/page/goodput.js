// Where the job's time went: useful work, and what ate the rest.

import { fill, h } from "./dom.js";
import { section } from "./parts.js";
import { PHASES } from "./timeline.js";
import { span } from "./words.js";

export function goodputSection() {
  const body = h("div");
  const element = section("goodput", "Where the time went", body);
  element.hidden = true;

  function update({ goodput }) {
    element.hidden = !goodput || !(goodput.total_seconds > 0);
    if (element.hidden) return;
    const lost = Object.entries(goodput.lost).filter(([, seconds]) => seconds > 0).sort((a, b) => b[1] - a[1]);
    const parts = [["useful", "useful", goodput.useful_seconds], ...lost.map(([code, seconds]) => [code, words(code), seconds])];
    const share = (seconds) => `${((100 * seconds) / goodput.total_seconds).toFixed(1)} %`;
    fill(body,
      h("div", { class: "track whole", "aria-hidden": "true" }, parts.map(([code, , seconds]) => h("span", { class: `span-${look(code)}`, style: { width: share(seconds).replace(" ", "") } }))),
      h("ul", { class: "spans" }, parts.map(([code, text, seconds]) => h("li", {}, h("span", { class: `chip span-${look(code)}`, "aria-hidden": "true" }), `${text} `, h("strong", {}, share(seconds)), ` ${span(seconds)}`))));
  }

  return { element, update };
}

const look = (code) => (PHASES.has(code) || code === "useful" || code === "lost_work" ? code : "other");
const words = (code) => (code === "lost_work" ? "work done again" : PHASES.get(code) || code.replaceAll("_", " "));
