// The generations: what each recovery took, from what was noticed to the first step, and what came after.

import { counting, moment, wall } from "./clock.js";
import { fill, h, keyed, say } from "./dom.js";
import { section } from "./parts.js";
import { count, took } from "./words.js";

const SHOWN = 5;
export const PHASES = new Map([
  ["waiting", "waiting for nodes"], ["detection", "detection"], ["abort", "abort"], ["rendezvous", "rendezvous"],
  ["start", "start"], ["restore", "restore"], ["first_step", "first step"],
]);
const KNOWN = (phase) => (PHASES.has(phase) ? phase : "other");

export function timelineSection() {
  const list = h("ol", { class: "timeline" });
  const more = h("button", { type: "button", hidden: true, on: { click: () => { all = true; show(); } } });
  const empty = h("p", { class: "quiet", hidden: true }, "No generation has begun.");
  const element = section("generations", "Generations", key(), empty, list, more);
  let all = false;
  let last = [];

  function show() {
    const shown = all ? last : last.slice(0, SHOWN);
    const longest = Math.max(1e-3, ...shown.map((one) => total(one) - waited(one)));
    empty.hidden = last.length > 0;
    more.hidden = shown.length === last.length;
    say(more, `Show all ${last.length} generations`);
    keyed(list, shown, (one) => one.generation, () => h("li"), (item, one) => change(item, one, longest));
  }

  return {
    element,
    update(document) {
      last = document.generations;
      show();
    },
    tick() {
      if (last.some((one) => one.phases.some((phase) => phase.running))) show();
    },
  };
}

const seconds = (phase) => (phase.running && phase.at ? Math.max(phase.seconds, wall() - phase.at) : phase.seconds);
const waited = (one) => one.phases.filter(({ phase }) => phase === "waiting").reduce((sum, phase) => sum + seconds(phase), 0);
const total = (one) => one.phases.reduce((sum, phase) => sum + seconds(phase), 0);

function key() {
  const items = [...PHASES].map(([phase, words]) => h("li", {}, h("span", { class: `chip span-${phase}`, "aria-hidden": "true" }), words));
  return h("ul", { class: "legend", "aria-label": "Phases of a recovery" }, items);
}

function change(item, one, longest) {
  const running = !one.complete; // between two phases none is under way
  const seen = JSON.stringify([one, longest]);
  if (item.dataset.seen === seen && !running) return;
  item.dataset.seen = seen;
  const room = longest - (total(one) - waited(one)); // for the wait for nodes, which sets no scale for recoveries
  const track = h("div", { class: "track", "aria-hidden": "true" }, one.phases.map((phase) => bar(phase, longest, room)));
  fill(item,
    h("div", { class: "generation" },
      h("h3", {}, `Generation ${one.generation}`),
      h("p", {}, h("strong", {}, took(total(one))), running ? " so far" : " to the first step")),
    h("p", { class: "why" }, one.reason?.text || "", " ", h("span", { class: "quiet" }, began(one))),
    track,
    h("ul", { class: "spans" }, one.phases.map((phase) => h("li", {}, h("span", { class: `chip span-${KNOWN(phase.phase)}`, "aria-hidden": "true" }), `${words(phase.phase)} `, h("strong", {}, took(seconds(phase))), phase.running ? " so far" : ""))),
    h("p", { class: "after" }, after(one)));
}

function bar(phase, longest, room) {
  const [took_, waits] = [seconds(phase), phase.phase === "waiting"];
  const drawn = waits ? Math.min(took_, Math.max(room, longest / 20)) : took_;
  const look = `span-${KNOWN(phase.phase)}${phase.running ? " under-way" : ""}${drawn < took_ ? " cut" : ""}`;
  return h("span", { class: look, style: { width: `${(100 * drawn) / longest}%` }, title: `${words(phase.phase)} ${took(took_)}` });
}

const words = (phase) => PHASES.get(phase) || phase;

function began(one) {
  const world = one.ranks === null || one.nodes === null ? "" : `, ${count(one.ranks, "rank")} on ${count(one.nodes, "node")}`;
  return ["began ", moment(one.began), world];
}

function after(one) {
  const parts = [];
  if (one.first_step !== null && one.first_step !== undefined) parts.push(`first step ${one.first_step}`);
  if (one.work_seconds !== null && one.work_seconds !== undefined) {
    parts.push(one.ended === null ? ["at work for ", counting(wall() - one.work_seconds)] : `at work for ${took(one.work_seconds)}`);
  }
  if (one.lost_seconds) parts.push(`${took(one.lost_seconds)} of work lost at its end`);
  if (one.end?.text) parts.push(`ended: ${one.end.text}`);
  return parts.flatMap((part, at) => (at ? ["; ", part] : [part])).flat();
}
