// What a rank's cell shows, out of what the leader tells of the rank. Values only.

export const STILL = 10; // seconds without progress after which `elaunch status` tells of a rank

/** The states in the order of the legend, worst first: the server's code, words, and a plural for counts. */
export const STATES = [
  ["failed", "failed"],
  ["hang", "others wait for it"],
  ["stopped", "stopped (SIGSTOP)"],
  ["unknown", "nothing heard of it"],
  ["straggler", "straggler"],
  ["wait", "waits in a collective"],
  ["starting", "starting"],
  ["ended", "ended with 0"],
  ["run", "running"],
];
export const WORDS = new Map(STATES);

/** How far a rank is behind the one that is furthest: the least lag of each level, and words for it. */
export const LAGS = [
  [0, "0 steps behind"],
  [1, "1 behind"],
  [2, "2 to 4 behind"],
  [5, "5 to 19 behind"],
  [20, "20 or more behind"],
];

/** The level in LAGS, -1 where the program tells no steps. */
export function lagLevel(lag) {
  if (!(lag >= 0)) return -1;
  let level = 0;
  while (level + 1 < LAGS.length && lag >= LAGS[level + 1][0]) level += 1;
  return level;
}

/** The code that is shown: to be in a collective for moments is how ranks that run look. */
export function shown(code, progressAge) {
  if (!WORDS.has(code)) return "unknown";
  return code === "wait" && progressAge < STILL ? "run" : code;
}

/** What a rank without progress does, as `elaunch status` says it; of others where they are. */
export function sentence(rank) {
  const seconds = Math.round(rank.progress_age);
  const parts = [];
  if (rank.progress_age >= STILL && rank.code !== "ended" && rank.code !== "failed") {
    if (rank.awaited_by > 0) {
      const waiting = rank.awaited_by === 1 ? "1 rank waits" : `${rank.awaited_by} ranks wait`;
      parts.push(`${waiting} for it; no progress since ${seconds} s`);
    } else if (rank.waits_in) parts.push(`waits in ${rank.waits_in} since ${seconds} s`);
    else if (rank.step >= 0 || rank.code === "stopped") parts.push(`no progress since ${seconds} s`);
  }
  if (rank.section) parts.push(`in section '${rank.section}'`);
  if (rank.where) parts.push(`at ${rank.where}`);
  return parts.join(", ");
}
