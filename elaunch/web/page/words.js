// How values are said: the words of `elaunch status`, `events` and `ps`.

export const GONE = "gone";
const ENDED = new Set(["succeeded", "failed", "stopped", GONE]);

/** The phase in words. */
export const phase = (code) => (code === GONE ? "no agent lives" : code || "not known");

export const over = (code) => ENDED.has(code);

/** `1 rank`, `2 ranks`. */
export const count = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

/** A time as people read it: `42 s`, `5 min`, `3.2 h`, `2.5 d`. */
export function span(seconds) {
  if (seconds >= 172800) return `${(seconds / 86400).toFixed(1)} d`;
  if (seconds >= 7200) return `${(seconds / 3600).toFixed(1)} h`;
  if (seconds >= 120) return `${(seconds / 60).toFixed(0)} min`;
  return `${Math.max(0, seconds).toFixed(0)} s`;
}

/** A measured time, short ones too: `3 ms`, `0.42 s`, `12.3 s`, then as `span`. */
export function took(seconds) {
  if (seconds < 0.0005) return "0 s";
  if (seconds < 0.1) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  if (seconds < 10) return `${seconds.toFixed(2)} s`;
  if (seconds < 120) return `${seconds.toFixed(1)} s`;
  return span(seconds);
}

/** Bytes in binary units. */
export function bytes(number) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let at = 0;
  while (number >= 1024 && at < units.length - 1) {
    number /= 1024;
    at += 1;
  }
  return `${digits(number, at)} ${units[at]}`;
}

/** Bits a second, out of bits a second, in decimal units as ports are sold. */
export function bitrate(number) {
  const units = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"];
  let at = 0;
  while (number >= 1000 && at < units.length - 1) {
    number /= 1000;
    at += 1;
  }
  return `${digits(number, at)} ${units[at]}`;
}

const digits = (number, at) => (at === 0 || number >= 100 ? number.toFixed(0) : number.toFixed(1).replace(/\.0$/, ""));

/** `0-3`, or `5` where it is one. */
export const range = (first, last) => (first === last ? `${first}` : `${first}-${last}`);

/** `0-3,6`, of sorted numbers. */
export function ranges(numbers) {
  const parts = [];
  for (const number of numbers) {
    const last = parts[parts.length - 1];
    if (last && last[1] === number - 1) last[1] = number;
    else parts.push([number, number]);
  }
  return parts.map(([first, last]) => range(first, last)).join(",");
}

const pad = (number) => String(number).padStart(2, "0");

/** `2026-11-30 06:51:52`, in this browser's time zone; of seconds since 1970. */
export function absolute(time) {
  const at = new Date(time * 1000);
  const date = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return `${date} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}
