// Calls to the server. Each has a deadline; an error carries the server's sentence and code.

import { heard } from "./clock.js";
import { learnt, token } from "./session.js";

const DEADLINE = 20000; // milliseconds; a command answers within 10 s

export class ApiError extends Error {
  constructor(status, code, text) {
    super(text);
    this.status = status;
    this.code = code;
  }
}

/** The headers that every call carries. */
export const headers = () => (token() ? { Authorization: `Bearer ${token()}` } : {});

export const jobPath = (job, ...rest) => ["/api/jobs", encodeURIComponent(job), ...rest].join("/");

/** The document at `path`. Throws ApiError; status 0 where the server was not reached. */
export async function get(path, signal) {
  return call(path, { headers: headers(), signal });
}

/** Give a job a command; `{done, command}`, where `done` tells whether it is through. */
export async function command(job, body) {
  const sent = { ...headers(), "Content-Type": "application/json", "X-Elaunch": "1" };
  return call(jobPath(job, "commands"), { method: "POST", headers: sent, body: JSON.stringify(body) });
}

/** Ask anew what the token allows, and tell everyone. */
export async function whoami() {
  const answer = await get("/api/whoami");
  learnt(answer);
  return answer;
}

async function call(path, options) {
  const limit = AbortSignal.timeout(DEADLINE);
  const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
  let response;
  try {
    response = await fetch(path, { ...options, signal, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", error.name === "TimeoutError" ? "no answer in time" : "the server cannot be reached");
  }
  const body = await response.json().catch(() => null);
  if (!response.ok) throw new ApiError(response.status, body?.error || "http", body?.text || `HTTP ${response.status}`);
  if (body === null) throw new ApiError(response.status, "answer", "the answer is no JSON");
  heard(body.at);
  return body;
}
