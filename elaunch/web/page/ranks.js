// The section of ranks: the grid, its legend, what is looked at, and the same as a table.

import { fill, h, say, unique } from "./dom.js";
import { section } from "./parts.js";
import { rankGrid } from "./rank_grid.js";
import { legend } from "./rank_legend.js";
import { rankList } from "./rank_list.js";
import { lagLevel, sentence, WORDS } from "./rank_states.js";
import { RankTable } from "./rank_table.js";
import { count } from "./words.js";

/** `hold` elements are filled as news come: `whole(data)`, `delta(data)`; `tick()` each second. */
export function ranksSection(shell) {
  let table = null;
  let mode = "state";
  let looked = 0;
  const described = (row) => spoken(table.row(row));
  const panel = h("div", { class: "panel" });
  const grid = rankGrid({ pointed, described });
  const key = legend();
  const list = rankList();
  const note = h("p", { class: "quiet" }, "Nothing is told of ranks yet.");
  const body = h("div", { hidden: true }, h("div", { class: "bar" }, switcher(), finder()), key.element, grid.element, panel, list.element);
  const element = section("ranks", "Ranks", note, body);

  function switcher() {
    const name = unique("colour");
    const radio = (value, text) => h("label", {}, h("input", { type: "radio", name, value, checked: value === "state", on: { change: () => colourBy(value) } }), text);
    return h("fieldset", { class: "choice" }, h("legend", {}, "Colour by"), radio("state", "state"), radio("lag", "step lag"));
  }

  function finder() {
    const id = unique("find");
    const input = h("input", { id, type: "number", min: "0", inputmode: "numeric", placeholder: "number" });
    const submit = (event) => {
      event.preventDefault();
      const at = table ? table.columns.rank.indexOf(Number(input.value)) : -1;
      input.setCustomValidity(at < 0 ? "There is no such rank." : "");
      if (at < 0 || input.value === "") input.reportValidity();
      else { grid.go(at); grid.focus(); }
    };
    input.addEventListener("input", () => input.setCustomValidity(""));
    return h("form", { class: "find", on: { submit } }, h("label", { for: id }, "Go to rank"), input, h("button", { type: "submit" }, "Go"));
  }

  function colourBy(next) {
    mode = next;
    grid.colourBy(mode);
    show(false);
  }

  function pointed(row) {
    looked = row;
    if (!table) return;
    const rank = table.row(row);
    const seen = JSON.stringify([rank, sentence(rank)], (name, value) => (name === "progress_age" ? null : value));
    if (panel.dataset.seen === seen) return; // what somebody has selected stays selected
    panel.dataset.seen = seen;
    fill(panel, details(rank));
  }

  function show(anew) {
    if (!table) return;
    const codes = Array.from({ length: table.length }, (_, row) => table.code(row));
    const label = key.update(mode, mode === "state" ? tally(codes) : tally(table.columns.lag.map(lagLevel)));
    note.hidden = table.length > 0;
    body.hidden = table.length === 0;
    if (!table.length) return;
    grid.update({ blocks: table.blocks(), codes, lags: table.columns.lag, label }, anew);
    looked = Math.min(looked, table.length - 1);
    pointed(looked);
    list.update(table, codes);
    if (anew) shell.painted("elaunch-grid-painted");
  }

  return {
    element,
    whole(data) {
      table = new RankTable(data);
      say(note, data.world_size ? "Nothing is told of ranks yet." : "No rank runs.");
      show(true);
    },
    delta(data) {
      if (table?.apply(data)) show(false);
    },
    tick: () => show(false),
    stop: grid.stop,
  };
}

function tally(values) {
  const counts = new Map();
  for (const value of values) counts.set(value, (counts.get(value) || 0) + 1);
  return counts;
}

/** What the panel shows of a rank. */
function details(rank) {
  const pairs = [
    ["Host", rank.host], ["Step", rank.step < 0 ? "not told" : rank.step], ["Lag", rank.lag < 0 ? "" : count(rank.lag, "step")],
    ["Device", rank.device], ["NIC", rank.nic], ["Rail", rank.rail], ["Local rank", rank.local_rank < 0 ? "" : rank.local_rank],
    ["Pid", rank.pid > 0 ? rank.pid : ""], ["Start", rank.start_phase],
  ];
  return [
    h("p", { class: "panel-head" }, h("strong", {}, `Rank ${rank.rank}`), " ", WORDS.get(rank.code), h("span", { class: "panel-where" }, sentence(rank))),
    h("dl", { class: "inline" }, pairs.filter(([, value]) => value !== "").map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value)))),
  ];
}

/** The same as a screen reader says it. */
function spoken(rank) {
  const parts = [`Rank ${rank.rank}`, WORDS.get(rank.code), `host ${rank.host}`];
  if (rank.step >= 0) parts.push(`step ${rank.step}`);
  if (rank.lag > 0) parts.push(`${count(rank.lag, "step")} behind`);
  if (rank.device) parts.push(`device ${rank.device}`);
  if (rank.nic) parts.push(`NIC ${rank.nic}`);
  if (rank.rail) parts.push(`rail ${rank.rail}`);
  const more = sentence(rank);
  return more ? `${parts.join(", ")}; ${more}.` : `${parts.join(", ")}.`;
}
