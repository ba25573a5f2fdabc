// The ranks as a table, for whoever cannot see the grid or wants to read: a hundred at a time, by state if wanted.

import { fill, h, say, unique } from "./dom.js";
import { row, table as framed } from "./parts.js";
import { STATES, WORDS } from "./rank_states.js";
import { range } from "./words.js";

const PAGE = 100;
const HEAD = [["Rank", "number"], "Host", "State", ["Step", "number"], ["Lag", "number"], "Device", "NIC", "Rail", "Where"];

export function rankList() {
  const list = framed("Ranks", HEAD);
  const id = unique("state");
  const choice = h("select", { id, on: { change: () => { first = 0; show(); } } },
    h("option", { value: "" }, "all"), STATES.map(([code, words]) => h("option", { value: code }, words)));
  const shown = h("span", { class: "quiet", role: "status" });
  const before = h("button", { type: "button", on: { click: () => turn(-PAGE) } }, "Previous");
  const after = h("button", { type: "button", on: { click: () => turn(PAGE) } }, "Next");
  const element = h("details", { class: "as-table", on: { toggle: () => show() } },
    h("summary", {}, "The ranks as a table"),
    h("div", { class: "bar" }, h("div", {}, h("label", { for: id }, "State"), " ", choice), h("div", { class: "pager" }, before, after, shown)),
    list.element);

  let table = null;
  let codes = [];
  let first = 0;

  function turn(by) {
    first += by;
    show();
  }

  function show() {
    if (!element.open || !table) return;
    const rows = [...codes.keys()].filter((at) => !choice.value || codes[at] === choice.value);
    first = Math.max(0, Math.min(first, Math.floor(Math.max(0, rows.length - 1) / PAGE) * PAGE));
    const page = rows.slice(first, first + PAGE);
    before.disabled = first === 0;
    after.disabled = first + PAGE >= rows.length;
    say(shown, rows.length ? `${range(first + 1, first + page.length)} of ${rows.length}` : "no such rank");
    const ranks = page.map((at) => table.row(at));
    const seen = JSON.stringify(ranks, (name, value) => (name === "progress_age" ? null : value));
    if (list.body.dataset.seen === seen) return; // what somebody has selected stays selected
    list.body.dataset.seen = seen;
    fill(list.body, ranks.map(line));
  }

  return {
    element,
    update(next, nextCodes) {
      [table, codes] = [next, nextCodes];
      show();
    },
  };
}

function line(rank) {
  const number = (value) => [value < 0 ? "-" : value, "number"];
  return row([rank.rank, "number"], rank.host, WORDS.get(rank.code), number(rank.step), number(rank.lag), rank.device || "-", rank.nic || "-", rank.rail || "-", [rank.where || "-", "code"]);
}
