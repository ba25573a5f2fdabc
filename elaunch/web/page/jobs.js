// The list of jobs: what `elaunch ps` tells, and what of it wants a look.

import { ago, moment } from "./clock.js";
import { fill, h, keyed, say } from "./dom.js";
import { follow } from "./live.js";
import { badge, table } from "./parts.js";
import { over } from "./words.js";

const HEAD = ["Job", "Phase", ["Gen", "number"], ["Nodes", "number"], ["Ranks", "number"], ["Restarts", "number"], "Last checkpoint", ["Goodput", "number"], "Reason"];

export const address = (job) => `#/job/${encodeURIComponent(job)}`;

/** The view; `shell` tells of the connection and of errors. */
export function jobsView(shell) {
  const list = table("Jobs", HEAD);
  const empty = h("div", { class: "empty", hidden: true },
    h("p", {}, "No jobs here."),
    h("p", { class: "quiet" }, "A job that is started with this etcd appears by itself: ", h("code", {}, "elaunch --rdzv-endpoint=... train.py")));
  const body = h("div", { hidden: true }, list.element, empty);
  const waiting = h("p", { class: "quiet" }, "Loading the jobs.");
  const element = h("div", {}, h("h1", { tabindex: "-1" }, "Jobs"), waiting, body);

  function show({ jobs }) {
    waiting.remove();
    body.hidden = false;
    list.element.hidden = !jobs.length;
    empty.hidden = Boolean(jobs.length);
    const sorted = [...jobs].sort((a, b) => over(a.phase) - over(b.phase) || a.job.localeCompare(b.job));
    keyed(list.body, sorted, (job) => job.job, () => h("tr"), change);
  }

  const news = (name, data) => name === "jobs" && show(data);
  const stream = follow(null, news, shell.connection());
  return { element, title: "Jobs", stop: stream.stop };
}

function change(line, job) {
  const seen = JSON.stringify(job);
  if (line.dataset.seen === seen) return;
  line.dataset.seen = seen;
  const link = line.querySelector("a") || h("a", { href: address(job.job) });
  say(link, job.job);
  fill(
    line,
    h("th", { scope: "row" }, link),
    h("td", {}, badge(job.phase)),
    h("td", { class: "number" }, job.generation),
    h("td", { class: "number" }, job.max_nodes ? `${job.nodes} of ${job.min_nodes}:${job.max_nodes}` : job.nodes),
    h("td", { class: "number" }, job.ranks),
    h("td", { class: "number" }, job.max_restarts === null ? "-" : `${job.restart_count} of ${job.max_restarts}`),
    h("td", {}, checkpoint(job)),
    h("td", { class: "number" }, job.goodput === null ? "-" : `${(100 * job.goodput).toFixed(0)} %`),
    h("td", { class: "text" }, job.reason?.text || ""),
  );
}

function checkpoint(job) {
  if (job.checkpoint_step === null || job.checkpoint_step === undefined) return "-";
  const step = `step ${job.checkpoint_step}`;
  return job.checkpoint_age === null ? step : [`${step}, `, moment(ago(job.checkpoint_age))];
}
