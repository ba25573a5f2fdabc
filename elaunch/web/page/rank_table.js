// The ranks of a job in columns, as the server sends them: a whole table, then what changes of it.

import { shown } from "./rank_states.js";
import { wall } from "./clock.js";

const TABLES = {
  state: "states", section: "sections", where: "places", waits_in: "collectives",
  device: "devices", nic: "nics", rail: "rails", start_phase: "phases",
};
const AGES = ["step_age", "progress_age"];

export class RankTable {
  constructor(whole) {
    this.generation = whole.generation;
    this.worldSize = whole.world_size;
    this.known = whole.known;
    this.nodes = whole.nodes;
    this.columns = whole.columns;
    this.tables = Object.fromEntries(Object.values(TABLES).map((name) => [name, whole[name] || [""]]));
    this.heard = new Float64Array(this.length).fill(whole.at); // when each row's ages were true
  }

  get length() {
    return this.columns.rank.length;
  }

  /** Take in a `ranks_delta`; false where it is of another table. */
  apply(delta) {
    if (delta.generation !== this.generation) return false;
    for (const [name, texts] of Object.entries(delta.tables || {})) this.tables[name]?.push(...texts);
    delta.index.forEach((row, at) => {
      for (const [name, values] of Object.entries(delta.columns)) {
        if (this.columns[name]) this.columns[name][row] = values[at];
      }
      if (AGES.some((name) => delta.columns[name])) this.heard[row] = delta.at;
    });
    return true;
  }

  text(name, row) {
    return this.tables[TABLES[name]][this.columns[name]?.[row]] ?? "";
  }

  /** Seconds since anything of the rank went on, now. */
  progressAge(row, now = wall()) {
    const told = this.columns.progress_age[row];
    return told < 0 ? 0 : told + Math.max(0, now - this.heard[row]);
  }

  /** The code of the state that is shown. */
  code(row, now = wall()) {
    return shown(this.text("state", row), this.progressAge(row, now));
  }

  node(row) {
    return this.nodes[this.columns.node[row]] ?? { node_id: "", host: "" };
  }

  /** All that is known of one rank. */
  row(row) {
    const { columns } = this;
    const at = (name) => columns[name]?.[row] ?? -1;
    return {
      ...this.node(row),
      code: this.code(row),
      progress_age: this.progressAge(row),
      ...Object.fromEntries(["rank", "local_rank", "pid", "step", "lag", "awaited_by"].map((name) => [name, at(name)])),
      ...Object.fromEntries(Object.keys(TABLES).filter((n) => n !== "state").map((name) => [name, this.text(name, row)])),
    };
  }

  /** The numbers of ranks of each node, in the order of rows, which are sorted by rank. */
  blocks() {
    const counts = [];
    let last = null;
    for (const node of this.columns.node) {
      if (node === last) counts[counts.length - 1] += 1;
      else counts.push(1);
      last = node;
    }
    return counts;
  }
}
