// The page as a whole: which view stands at which address, and what is said of the connection.

import { ApiError, whoami } from "./api.js";
import * as clock from "./clock.js";
import { fill, focused, h, say } from "./dom.js";
import { gate } from "./gate.js";
import { jobView } from "./job.js";
import { jobsView } from "./jobs.js";
import { nodeView } from "./node.js";
import { notice } from "./parts.js";
import { onChange, who } from "./session.js";
import * as theme from "./theme.js";

const main = document.getElementById("main");
const connection = document.getElementById("connection");
const spoken = document.getElementById("spoken");
let view = null;
let at = null;

const shell = {
  /** A listener for the state of a stream. */
  connection() {
    return (state) => {
      if (state.refused) refused(state);
      else if (state.connected) connected();
      else disconnected(state);
    };
  },
  /** A call that failed: the stream's state says what there is to say. */
  failed(error) {
    if (!(error instanceof ApiError) && error.name !== "AbortError") throw error;
  },
  /** Leave a mark once what was drawn has been painted. */
  painted(mark) {
    requestAnimationFrame(() => setTimeout(() => performance.getEntriesByName(mark).length || performance.mark(mark)));
  },
};

let asking = null;

/** Ask what may be done here; once at a time. */
function ask() {
  asking ??= whoami().catch(shell.failed).finally(() => { asking = null; });
}

function connected() {
  fill(connection, h("span", { class: "live" }, "live"));
  say(spoken, "live");
  if (!who()) ask();
}

/** What is read out is said once, not each second anew. */
function disconnected({ since, why }) {
  const at = since / 1000 + clock.wall() - Date.now() / 1000;
  fill(connection, h("span", { class: "lost" }, "disconnected since ", clock.counting(at), `: ${why}`));
  say(spoken, `disconnected: ${why}`);
}

/** `#/job/NAME`, with a part of the page or a node after it. */
export function parse(hash) {
  const parts = hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decoded);
  if (parts[0] !== "job" || !parts[1]) return { name: "jobs" };
  if (parts[2] === "node" && parts[3]) return { name: "node", job: parts[1], node: parts[3] };
  return { name: "job", job: parts[1], place: parts[2] ?? null };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function make(route) {
  if (route.name === "node") return nodeView(shell, route.job, route.node);
  return route.name === "job" ? jobView(shell, route.job) : jobsView(shell);
}

function open() {
  view?.stop();
  fill(connection);
  view = make(at);
  document.title = `${view.title} - elaunch`;
  fill(main, view.element);
}

function navigate() {
  const before = at;
  at = parse(location.hash);
  const same = before && before.name === at.name && before.job === at.job && before.node === at.node;
  if (!same) open();
  if (at.place) view?.go?.(at.place);
  else if (before) {
    scrollTo(0, 0);
    focused(main.querySelector("h1"));
  }
}

function refused({ why, refused: code }) {
  view?.stop();
  view = null;
  const token = code === "no_token" || code === "wrong_token" || code === "role";
  const again = h("button", { type: "button", on: { click: token ? door.open : open } }, token ? "Token..." : "Try again");
  fill(connection);
  fill(main, h("h1", { tabindex: "-1" }, token ? "A token is needed" : code === "no_such_job" ? "There is no such job" : "Refused"),
    notice("error", why), h("p", { class: "buttons" }, again, " ", h("a", { href: "#/" }, "All jobs")));
}

const door = gate(() => { at = parse(location.hash); open(); });
onChange((known) => fill(document.getElementById("about"), `elaunch ${known.version}, served by ${known.serves === "agent" ? "the job's own agent" : "a controller"}; times are of ${clock.zone()}`));
addEventListener("error", ({ message }) => document.getElementById("faults").replaceChildren(notice("error", `This page is at fault: ${message}. Load it again.`)));
theme.start();
document.getElementById("tools").append(door.element, theme.control());
document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
addEventListener("hashchange", navigate);
navigate();
clock.start();
ask();
