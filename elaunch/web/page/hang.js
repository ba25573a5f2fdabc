// A hang: who is to blame, who waits for whom, and what the ranks did, side by side.

import { ago, counting, moment } from "./clock.js";
import { fill, h, s } from "./dom.js";
import { notice, row, section, table } from "./parts.js";
import { count, range, span } from "./words.js";

const AGES = new Set(["since", "progress_age"]);
const NAMED = 3; // ranges of ranks that a box of the graph names

export function hangSection() {
  const body = h("div");
  const element = section("hang", "Hang", body);
  element.hidden = true;
  let last = "";

  function update({ hang }) {
    element.hidden = !hang;
    const seen = JSON.stringify(hang, (name, value) => (AGES.has(name) ? null : value)); // these go on by themselves
    if (!hang || seen === last) return;
    last = seen;
    const when = ["generation ", hang.generation, ", ", moment(hang.time, { both: true })];
    fill(body,
      notice(hang.now ? "error" : "info", h("p", {}, h("strong", {}, hang.now ? "The job hangs. " : "The last hang. "), hang.text), h("p", { class: "quiet" }, when)),
      culprits(hang.culprits || [], hang.now),
      ...(hang.waits || []).map((wait) => waits(wait, hang.now)),
      stacks(hang.stacks || []),
      (hang.evidence || []).map((line) => h("p", { class: "quiet" }, line)));
  }

  return { element, update };
}

const COLUMNS = [
  ["Rank", (one) => one.rank, "number"], ["Host", (one) => one.host || "-"], ["Device", (one) => one.device || "-"], ["NIC", (one) => one.nic || "-"],
  ["Where", (one) => place(one), "code"], ["Step", (one) => one.step ?? "-", "number"],
];

/** How long something lasts, or lasted when the ranks were ended. */
const age = (seconds, now) => (now ? counting(ago(seconds ?? 0)) : span(seconds ?? 0));

function culprits(found, now) {
  if (!found.length) return h("p", {}, "No rank is to blame.");
  const columns = COLUMNS.filter(([, value]) => found.some((one) => value(one) !== "-")); // as `elaunch status --ranks`
  const made = table("Ranks to blame", [...columns.map(([head, , look]) => [head, look]), ["No progress since", "number"]]);
  fill(made.body, found.map((one) => row(...columns.map(([, value, look]) => [value(one), look]), [age(one.progress_age, now), "number"])));
  return [h("h3", {}, "To blame"), made.element];
}

const place = (one) => (one.section ? `${one.where} in section '${one.section}'` : one.where || "-");

/** One group's wait: a sentence, and the same as a picture. */
function waits(wait, now) {
  const [inside, absent] = [wait.waiting || [], wait.absent || []];
  const [many, few] = [size(inside), size(absent)];
  const sentence = absent.length
    ? `${rankText(inside, many)} ${many === 1 ? "waits" : "wait"} in ${wait.what} for ${rankText(absent, few)}`
    : `${rankText(inside, many)} ${many === 1 ? "waits" : "wait"} in ${wait.what}; nobody is missing`;
  return h("figure", { class: "waits" },
    h("figcaption", {}, h("h3", {}, "Who waits for whom"), h("p", {}, sentence, now ? ", since " : ", for ", age(wait.since, now), "."), h("p", { class: "quiet" }, `group ${wait.group}, collective ${wait.sequence}`)),
    graph(inside, many, absent, few));
}

const size = (spans) => spans.reduce((sum, [first, last]) => sum + last - first + 1, 0);
const rankText = (spans, number) => `${number === 1 ? "rank" : "ranks"} ${spans.map(([a, b]) => range(a, b)).join(", ")}`;

function short(spans) {
  const named = spans.slice(0, NAMED).map(([a, b]) => range(a, b)).join(", ");
  return spans.length > NAMED ? `${named}, ...` : named;
}

function graph(inside, many, absent, few) {
  if (!absent.length) return null;
  const box = (x, look, head, text) => [
    s("rect", { x, y: 4, width: 130, height: 52, rx: 4, class: look }),
    s("text", { x: x + 65, y: 26, class: "head" }, head),
    s("text", { x: x + 65, y: 44 }, text),
  ];
  return s("svg", { viewBox: "0 0 360 60", width: 360, height: 60, "aria-hidden": "true", class: "graph" },
    s("path", { d: "M134 30 H220", class: "arrow" }), s("path", { d: "M214 24 L222 30 L214 36", class: "arrow" }),
    s("text", { x: 177, y: 22, class: "small" }, "wait for"),
    box(2, "waiting", count(many, "rank"), short(inside)), box(226, "missing", count(few, "rank"), short(absent)));
}

/** Equal stacks come once, with all ranks that have them; culprits first. */
const stacks = (found) => (found.length ? [h("h3", {}, "Stacks side by side"), h("div", { class: "stacks" }, found.map(stack))] : null);

function stack({ rank, ranks, host, culprit, text }) {
  const spans = ranks || [[rank, rank]];
  const who = size(spans) === 1 ? `rank ${rank} (${host})` : rankText(spans, size(spans));
  return h("article", { class: culprit ? "culprit" : null },
    h("h4", {}, who, culprit ? h("span", { class: "tag" }, "to blame") : null),
    h("pre", { tabindex: "0", role: "group", "aria-label": `Stack of ${who}` }, text));
}
