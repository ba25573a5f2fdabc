// The nodes of a job, each with a link to its own page.

import { ago, moment } from "./clock.js";
import { fill, h, keyed, say } from "./dom.js";
import { address } from "./jobs.js";
import { section, table } from "./parts.js";
import { range } from "./words.js";

const SHOWN = 16;

export function nodesSection() {
  const made = table("Nodes", ["Host", "Node", "Ranks", "Phase", "Heard", "Remarks"]);
  const more = h("button", { type: "button", hidden: true, on: { click: () => { all = true; show(); } } });
  const element = section("nodes", "Nodes", made.element, more);
  let all = false;
  let last = null;

  function show() {
    const shown = all ? last.nodes : last.nodes.slice(0, SHOWN);
    more.hidden = shown.length === last.nodes.length;
    say(more, `Show all ${last.nodes.length} nodes`);
    keyed(made.body, shown, (node) => node.node_id, () => h("tr"), (line, node) => change(line, node, last.job));
  }

  return {
    element,
    update(job) {
      last = { job: job.job, nodes: [...job.nodes].sort((a, b) => troubled(b) - troubled(a)) };
      show();
    },
  };
}

/** Those that want a look come first; sorting keeps the order of the others. */
const troubled = (node) => Number(Boolean(node.drained || node.note || node.attached === false));

export const nodeAddress = (job, node) => `${address(job)}/node/${encodeURIComponent(node)}`;

function change(line, node, job) {
  const link = line.querySelector("a") || h("a", { href: nodeAddress(job, node.node_id) });
  say(link, node.host);
  const seen = JSON.stringify([node.host, node.rank0, node.slots, node.phase, node.note, node.leader, node.drained, node.attached, node.member]);
  if (line.dataset.seen !== seen) {
    line.dataset.seen = seen;
    const ranks = node.rank0 === null ? "-" : range(node.rank0, node.rank0 + node.slots - 1);
    fill(line, h("th", { scope: "row" }, link), h("td", {}, h("code", {}, node.node_id)), h("td", {}, ranks), h("td", {}, node.phase || "-"), h("td", { class: "heard" }), h("td", { class: "text" }, remarks(node)));
  }
  fill(line.querySelector(".heard"), heard(node));
}

const heard = (node) => {
  if (node.heard_seconds === null) return "-";
  return node.rank0 === null ? "no ranks" : moment(ago(node.heard_seconds));
};

export function remarks(node) {
  return [node.leader && "leads", node.drained && "drained", node.attached === false && "no stream", node.note].filter(Boolean).join("; ");
}
