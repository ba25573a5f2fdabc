// What has happened to the job, the newest first, and what happens now.

import { moment } from "./clock.js";
import { h, say } from "./dom.js";
import { section } from "./parts.js";

const SHOWN = 30;
const KEPT = 1000;
const SIGNS = { info: "·", warning: "▲", error: "✕" };

export function eventsSection() {
  const list = h("ol", { class: "events" });
  const more = h("button", { type: "button", hidden: true, on: { click: () => { limit = KEPT; show(); } } });
  const empty = h("p", { class: "quiet" }, "Nothing has happened yet.");
  const element = section("events", "Events", empty, list, more);
  const lines = new Map();
  let limit = SHOWN;

  function show() {
    const sorted = [...lines.values()].sort((a, b) => b.seq - a.seq);
    for (const old of sorted.splice(KEPT)) lines.delete(old.seq);
    const seen = sorted.slice(0, limit);
    empty.hidden = sorted.length > 0;
    more.hidden = seen.length === sorted.length;
    say(more, `Show all ${sorted.length} events`);
    place(seen);
  }

  /** Lines never change: only what is new is made. */
  function place(seen) {
    const old = new Map([...list.children].map((child) => [Number(child.dataset.seq), child]));
    list.replaceChildren(...seen.map((event) => old.get(event.seq) || line(event)));
  }

  return {
    element,
    /** The number of the newest, 0 before there is any. */
    last: () => Math.max(0, ...lines.keys()),
    /** Take in events, those that are there already too. */
    add(events) {
      for (const event of events) lines.set(event.seq, event);
      if (events.length) show();
    },
  };
}

function line(event) {
  const level = SIGNS[event.level] ? event.level : "info";
  const who = event.who ? h("span", { class: "quiet" }, ` by ${event.who}${event.why ? `: ${event.why}` : ""}`) : null;
  return h("li", { "data-seq": event.seq, class: level },
    h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[level]),
    moment(event.time, { both: true }),
    h("p", {}, level === "info" ? null : h("span", { class: "unseen" }, `${level}: `), h("code", {}, event.code), " ", event.text, event.text.includes(event.who) ? null : who));
}
