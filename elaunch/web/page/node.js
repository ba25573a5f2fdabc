// One node: the picture of its machine, and its ports.

import { ApiError, get, jobPath } from "./api.js";
import { fill, h } from "./dom.js";
import { address } from "./jobs.js";
import { follow } from "./live.js";
import { remarks } from "./nodes.js";
import { facts, notice, section } from "./parts.js";
import { portsSection } from "./ports.js";
import { range } from "./words.js";

export function nodeView(shell, job, name) {
  const heading = h("h1", { tabindex: "-1" }, `Node ${name}`);
  const list = h("dl", { class: "facts" });
  const picture = h("div", {}, h("p", { class: "quiet" }, "Asking for the machine's picture."));
  const ports = h("div");
  const back = h("p", { class: "crumbs" }, h("a", { href: address(job) }, `job ${job}`), " / node");
  const element = h("div", {}, back, heading, list, section("topology", "Topology", picture), ports);
  const leaving = new AbortController();
  let portTable = null;
  let lastPorts = null;

  function news(event, data) {
    if (event === "job") show(data);
    if (event === "ports") {
      lastPorts = data;
      portTable?.update(data);
    }
  }

  function show(document) {
    const node = document.nodes.find((one) => one.node_id === name || one.host === name);
    if (!node) {
      fill(list, h("div", {}, h("dt", {}, "State"), h("dd", {}, "not among the job's nodes now")));
      return;
    }
    fill(heading, `Node ${node.host}`);
    if (!portTable) {
      portTable = portsSection(node.host);
      fill(ports, portTable.element);
      if (lastPorts) portTable.update(lastPorts);
    }
    facts(list, [
      ["Node", node.node_id], ["Ranks", node.rank0 === null ? "none" : range(node.rank0, node.rank0 + node.slots - 1)],
      ["Phase", node.phase || "-"], ["Generation", node.generation], ["Remarks", remarks(node)],
    ]);
  }

  draw(picture, job, name, leaving.signal);
  const stream = follow(job, news, shell.connection());
  return { element, title: `Node ${name} of ${job}`, stop: () => { stream.stop(); leaving.abort(); } };
}

async function draw(picture, job, name, signal) {
  try {
    const found = await get(jobPath(job, "topology", encodeURIComponent(name)), signal);
    if (signal.aborted) return;
    if (!found.svg && !found.text) {
      fill(picture, h("p", { class: "quiet" }, found.why || "No picture is known."));
      return;
    }
    const source = found.svg && `data:image/svg+xml;charset=utf-8,${encodeURIComponent(found.svg)}`;
    const image = source && h("div", { class: "scroll picture", tabindex: "0", role: "group", "aria-label": "Picture of the machine" },
      h("img", { src: source, alt: `The machine of ${found.host}: devices, NICs and what joins them. The same follows as text.` }));
    const text = found.text && h("details", { open: !image }, h("summary", {}, "The same as text"), h("pre", { tabindex: "0", role: "group", "aria-label": "The machine as text" }, found.text));
    fill(picture, image, text, found.digest ? h("p", { class: "quiet" }, "digest ", h("code", {}, found.digest)) : null);
  } catch (error) {
    if (signal.aborted) return;
    if (!(error instanceof ApiError)) throw error;
    fill(picture, notice("warning", `The picture could not be had: ${error.message}.`));
  }
}
