// The stream of a job's news: server-sent events read off a fetch, since EventSource cannot show a token.

import { headers } from "./api.js";
import { heard } from "./clock.js";

const FIRST_WAIT = 500; // milliseconds before the first attempt after a loss, then twice as long each time
const LONGEST_WAIT = 15000;
const STEADY = 10000; // milliseconds after which a connection is held to be a good one
const AFTER_END = 2000; // milliseconds to wait where the server has ended the stream
const SILENCE = 25000; // milliseconds: the server says something each 10 s

/**
 * Follow a stream until `stop()` of what is returned. `job` null: the list of jobs. `on(name, data)` hears each event,
 * `state({connected, since, why, refused})` each change of the connection, `since` in milliseconds since 1970.
 */
export function follow(job, on, state) {
  const stopping = new AbortController();
  const place = { last: null };
  run(job, on, state, place, stopping.signal);
  return { stop: () => stopping.abort() };
}

async function run(job, on, state, place, stopped) {
  let wait = FIRST_WAIT;
  let since = null;
  while (!stopped.aborted) {
    let told = { why: "the connection was lost" };
    const began = Date.now();
    try {
      const hello = () => {
        since = null;
        state({ connected: true });
      };
      told = await once(job, on, hello, place, stopped);
    } catch (error) {
      if (stopped.aborted) return;
      told = { why: error.refused ? error.message : "the server cannot be reached", refused: error.refused };
    }
    if (stopped.aborted) return;
    since ??= Date.now();
    state({ connected: false, since, ...told });
    if (told.refused) return;
    if (Date.now() - began > STEADY) wait = FIRST_WAIT;
    await pause(told.ended ? Math.max(wait, AFTER_END) : wait, stopped);
    wait = Math.min(LONGEST_WAIT, wait * 2);
  }
}

/** One connection, to its end. */
async function once(job, on, hello, place, stopped) {
  const cut = new AbortController();
  const end = () => cut.abort();
  stopped.addEventListener("abort", end, { once: true });
  let watchdog = setTimeout(end, SILENCE);
  let said = { why: "the connection was lost" };
  try {
    const sent = { ...headers(), Accept: "text/event-stream" };
    if (place.last !== null) sent["Last-Event-ID"] = place.last;
    const query = job === null ? "" : `?job=${encodeURIComponent(job)}`;
    const response = await fetch(`/api/stream${query}`, { headers: sent, signal: cut.signal, cache: "no-store", credentials: "omit" });
    if (!response.ok) throw await refusal(response);
    hello();
    for await (const event of events(response.body)) {
      clearTimeout(watchdog);
      watchdog = setTimeout(end, SILENCE);
      if (event.id) place.last = event.id;
      if (!event.name) continue;
      const data = JSON.parse(event.data);
      heard(data.at);
      if (event.name === "end") said = { why: data.why || said.why, ended: true };
      else hand(on, event.name, data);
    }
    return said;
  } finally {
    clearTimeout(watchdog);
    stopped.removeEventListener("abort", end);
    cut.abort();
  }
}

/** A view that cannot show an event is a fault of the page, not of the connection. */
function hand(on, name, data) {
  try {
    on(name, data);
  } catch (error) {
    reportError(error);
  }
}

async function refusal(response) {
  const body = await response.json().catch(() => null);
  const error = new Error(body?.text || `HTTP ${response.status}`);
  error.refused = [401, 403, 404].includes(response.status) ? body?.error || "refused" : undefined;
  return error;
}

/** The events of a body, `{id, name, data}`; one without a name is a beat. */
export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    const blocks = rest.split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) yield parsed(block);
  }
}

function parsed(block) {
  const event = { id: null, name: "", data: "" };
  for (const line of block.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, "");
    const field = line.slice(0, colon);
    if (field === "id") event.id = value;
    else if (field === "event") event.name = value;
    else if (field === "data") event.data += event.data ? `\n${value}` : value;
  }
  return event;
}

function pause(milliseconds, stopped) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    stopped.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}
