// Times that go on by themselves: the server tells an age or a moment once, the page counts from there.

import { h, say } from "./dom.js";
import { absolute, span } from "./words.js";

let skew = 0; // seconds that the server's wall clock is ahead of this machine's

/** Take the server's wall clock, in seconds since 1970, from what it has just sent. */
export function heard(now) {
  if (Number.isFinite(now)) skew = now - Date.now() / 1000;
}

/** The server's wall clock. */
export const wall = () => Date.now() / 1000 + skew;

/** The moment that was `seconds` ago. */
export const ago = (seconds) => wall() - seconds;

/** An element for a moment: `4 min ago`, with the date and time as title; `both` writes these out as well. */
export function moment(time, { both = false } = {}) {
  const relative = h("span", { "data-since": time, "data-tail": " ago" }, `${span(wall() - time)} ago`);
  const whole = absolute(time);
  const iso = new Date(time * 1000).toISOString();
  if (!both) return h("time", { datetime: iso, title: whole }, relative);
  return h("time", { datetime: iso, class: "both" }, h("span", { class: "when" }, whole), " ", relative);
}

/** An element that counts the seconds since a moment: `42 s`. */
export const counting = (time) => h("span", { "data-since": time, title: `since ${absolute(time)}` }, span(wall() - time));

/** Bring all such elements up to date. */
export function tick(root = document) {
  for (const element of root.querySelectorAll("[data-since]")) {
    say(element, `${span(wall() - Number(element.dataset.since))}${element.dataset.tail || ""}`);
  }
}

/** The time zone of this browser, as times are shown. */
export const zone = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "this machine";

export const start = () => setInterval(tick, 1000);
