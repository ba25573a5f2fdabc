// A job's page: all that is known of it, brought up to date by its stream.

import { get, jobPath } from "./api.js";
import { commandBar, commandsSection } from "./commands.js";
import { focused, h } from "./dom.js";
import { eventsSection } from "./events.js";
import { goodputSection } from "./goodput.js";
import { hangSection } from "./hang.js";
import { address } from "./jobs.js";
import { follow } from "./live.js";
import { nodesSection } from "./nodes.js";
import { portsSection } from "./ports.js";
import { ranksSection } from "./ranks.js";
import { onChange } from "./session.js";
import { summary } from "./summary.js";
import { timelineSection } from "./timeline.js";

const UNSETTLING = new Set(["job", "ranks", "hang", "generations"]); // what changes the height of much
const PLACES = [["ranks", "Ranks"], ["generations", "Generations"], ["events", "Events"], ["nodes", "Nodes"], ["ports", "Network ports"]];
const AGAIN = 2000; // milliseconds

export function jobView(shell, job) {
  let last = null;
  let wanted = null;
  let again = 0;
  const leaving = new AbortController();
  const parts = {
    summary: summary(), hang: hangSection(), ranks: ranksSection(shell), timeline: timelineSection(), goodput: goodputSection(),
    events: eventsSection(), nodes: nodesSection(), ports: portsSection(), commands: commandsSection(),
  };
  const bar = commandBar(() => last);
  const links = h("nav", { class: "places", "aria-label": "Parts of this page" }, PLACES.map(([id, text]) => h("a", { href: `${address(job)}/${id}` }, text)));
  const waiting = h("p", { class: "quiet" }, "Loading the job.");
  const body = h("div", { hidden: true }, Object.values(parts).map((part) => part.element), bar.dialogs);
  const head = h("div", { class: "job-head" }, h("h1", { tabindex: "-1" }, h("span", { class: "quiet" }, "job "), job), bar.element);
  const element = h("div", { class: "job" }, head, links, waiting, body);

  const hears = {
    hello: () => history(),
    reset: () => history(),
    job(data) {
      last = data;
      waiting.remove();
      body.hidden = false;
      for (const name of ["summary", "goodput", "nodes", "commands"]) parts[name].update(data);
      bar.update();
    },
    ranks: (data) => parts.ranks.whole(data),
    ranks_delta: (data) => parts.ranks.delta(data),
    generations: (data) => parts.timeline.update(data),
    event: (data) => parts.events.add([data]),
    hang: (data) => parts.hang.update(data),
    ports: (data) => parts.ports.update(data),
  };

  /** The history up to now, with each connection, asked for until it comes: the stream tells what comes after. */
  function history(after = parts.events.last()) {
    clearTimeout(again);
    get(jobPath(job, `events?limit=1000${after ? `&after=${after}` : ""}`), leaving.signal).then(({ events }) => parts.events.add(events)).catch((error) => {
      if (error.status === 0 || error.status >= 500) again = setTimeout(history, AGAIN, after);
      shell.failed(error);
    });
  }

  /** Stay at the part of the page that the address names while what stands above it comes in. */
  function settle() {
    const part = wanted && !body.hidden && element.querySelector(`#section-${CSS.escape(wanted)}`);
    if (!part) return;
    part.scrollIntoView();
    focused(part.querySelector("h2"));
  }

  function news(name, data) {
    hears[name]?.(data);
    if (UNSETTLING.has(name)) settle();
  }

  const moves = () => { wanted = null; };
  for (const event of ["wheel", "pointerdown", "keydown"]) element.addEventListener(event, moves, { passive: true });
  const endSession = onChange(bar.update);
  const stream = follow(job, news, shell.connection());
  const timer = setInterval(() => { parts.ranks.tick(); parts.timeline.tick(); }, 1000);
  return {
    element,
    title: job,
    stop() {
      stream.stop();
      leaving.abort();
      clearTimeout(again);
      clearInterval(timer);
      endSession();
      parts.ranks.stop();
    },
    /** Lead the eye to a part of the page, now or as soon as it is there. */
    go(id) {
      wanted = id;
      settle();
    },
  };
}
