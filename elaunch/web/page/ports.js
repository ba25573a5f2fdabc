// Network ports: what each carries, what is wrong with it.

import { ago, counting } from "./clock.js";
import { fill, h, keyed, say } from "./dom.js";
import { section, table } from "./parts.js";
import { bitrate, range } from "./words.js";

const SHOWN = 16;
const HEAD = ["Port", "Host", "Ranks", "State", ["Rate", "number"], ["Sent", "number"], ["Received", "number"], "Errors in 60 s", "Trouble"];

/** `host` null: of all nodes. */
export function portsSection(host = null) {
  const made = table("Network ports", HEAD);
  const more = h("button", { type: "button", hidden: true, on: { click: () => { all = true; show(); } } });
  const note = h("p", { class: "quiet" });
  const element = section("ports", "Network ports", note, made.element, more);
  let all = false;
  let ports = [];
  let beyond = 0;

  function show() {
    const shown = all ? ports : ports.slice(0, SHOWN);
    made.element.hidden = !ports.length;
    more.hidden = shown.length === ports.length;
    say(more, `Show all ${ports.length} ports`);
    say(note, ports.length ? summary() : "No port is watched: ranks are bound to none.");
    keyed(made.body, shown, (port) => `${port.host} ${port.port}`, () => h("tr"), change);
  }

  function summary() {
    const bad = ports.filter((port) => port.trouble?.length).length;
    const first = bad ? `${bad} of ${ports.length} in trouble.` : `${ports.length} watched, none in trouble.`;
    return beyond ? `${first} ${beyond} more are not shown.` : first;
  }

  return {
    element,
    update(document) {
      ports = host === null ? document.ports : document.ports.filter((port) => port.host === host);
      beyond = host === null ? document.more || 0 : 0;
      show();
    },
  };
}

function change(line, port) {
  const seen = JSON.stringify(port);
  if (line.dataset.seen === seen) return;
  line.dataset.seen = seen;
  line.className = port.trouble?.length ? "troubled" : "";
  const state = port.phys_state && port.state !== "active" ? `${port.state} (${port.phys_state})` : port.state;
  fill(line,
    h("th", { scope: "row" }, port.port), h("td", {}, port.host), h("td", {}, port.ranks ? range(...port.ranks) : "-"),
    h("td", {}, state || "-", port.left_out ? ", left out" : ""),
    h("td", { class: "number" }, port.rate_gbit ? bitrate(port.rate_gbit * 1e9) : "-"),
    h("td", { class: "number" }, traffic(port.sent)), h("td", { class: "number" }, traffic(port.received)),
    h("td", {}, errors(port.errors)),
    h("td", { class: "text" }, trouble(port.trouble || [])));
}

/** Bytes a second are told; said in bits, so that they stand beside the port's rate. */
const traffic = (value) => (value === null || value === undefined ? "-" : bitrate(8 * value));

const errors = (found) => Object.entries(found || {}).map(([name, number]) => `${number} ${name}`).join(", ") || "-";

function trouble(found) {
  if (!found.length) return "-";
  return found.flatMap((one, at) => [at ? "; " : "", one.text, ", since ", counting(ago(one.seconds))]);
}
