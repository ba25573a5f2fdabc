// The head of a job's page: the same facts as the first lines of `elaunch status`.

import { ago, counting, moment } from "./clock.js";
import { fill, h } from "./dom.js";
import { badge, facts, notice } from "./parts.js";
import { bytes, count, span, took } from "./words.js";

export function summary() {
  const state = h("p", { class: "state" });
  const why = h("p", { class: "why" });
  const list = h("dl", { class: "facts" });
  const notes = h("div");
  const element = h("div", { class: "summary" }, state, why, list, notes);

  function update(job) {
    fill(state, badge(job.phase), " ", job.over ? exit(job) : ["since ", counting(ago(job.phase_seconds ?? 0))]);
    fill(why, job.waiting_for || job.reason?.text || "");
    facts(list, [
      ["Generation", job.generation, since(job)],
      ["Restarts", restarts(job), job.max_restarts === null ? "" : `${job.budget_left} left`],
      ["World", count(job.world_size ?? 0, "rank"), nodes(job)],
      ["Step", job.step === null ? "not told" : job.step, job.step_seconds ? `${took(job.step_seconds)} a step` : ""],
      ["Last checkpoint", ...checkpoint(job)],
      ["A failure now would cost", ...cost(job)],
      ["Goodput", job.goodput ? `${(100 * job.goodput.ratio).toFixed(1)} %` : null, job.goodput ? `useful ${span(job.goodput.useful_seconds)} of ${span(job.goodput.total_seconds)}` : ""],
      ["Led by", job.leader ? job.leader.host || job.leader.node_id : "nobody", job.leader ? job.leader.address : ""],
    ]);
    fill(notes, remarks(job));
  }

  return { element, update };
}

const exit = (job) => (job.exit_code === null ? "" : `exit code ${job.exit_code}`);

function since(job) {
  if (job.restored_step === null || job.restored_step === undefined) return "";
  return job.restored_step < 0 ? "began from scratch" : `went on from step ${job.restored_step}`;
}

const restarts = (job) => (job.max_restarts === null ? String(job.restart_count) : `${job.restart_count} of ${job.max_restarts}`);

function nodes(job) {
  const limits = job.max_nodes ? ` of ${job.min_nodes}:${job.max_nodes}` : "";
  return `${count(job.nodes.length, "node")}${limits}`;
}

function checkpoint(job) {
  const last = job.checkpoint;
  if (!last) return ["none", "nothing is committed"];
  const more = [moment(ago(last.age_seconds))];
  if (last.bytes) more.push(`, ${bytes(last.bytes)}`);
  if (last.seconds) more.push(`, saved in ${took(last.seconds)}`);
  return [`step ${last.step}`, h("span", { title: last.path || null }, more)];
}

function cost(job) {
  if (!job.cost || job.phase !== "running") return [null];
  const seconds = counting(ago(job.cost.seconds));
  return job.cost.steps === null ? [seconds] : [count(job.cost.steps, "step"), [seconds, " of work"]];
}

function remarks(job) {
  const lines = [];
  if (!job.live && !job.over) lines.push(notice("warning", `The leader does not answer (${job.live_error || "no reason told"}): as etcd has it.`));
  if (job.suspect_steps?.length) lines.push(notice("warning", `Suspect checkpoints, avoided: step ${job.suspect_steps.join(", ")}.`));
  for (const { rank, ratio } of job.stragglers || []) {
    lines.push(notice("warning", `Rank ${rank} is a straggler: it needs ${ratio.toFixed(1)} times as long as its peers.`));
  }
  for (const { host, why } of job.drained || []) lines.push(notice("info", `Host ${host} is out: ${why}`));
  if (job.leader?.web && !job.leader.here) {
    const safe = /^https?:\/\//.test(job.leader.web);
    lines.push(notice("info", "The leader serves a page of its own: ", safe ? h("a", { href: job.leader.web, rel: "noreferrer" }, job.leader.web) : job.leader.web));
  }
  return lines;
}
