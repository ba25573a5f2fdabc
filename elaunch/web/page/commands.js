// Abort, restart, drain, undrain: each asks for a reason and a token. Without the role there are no buttons at all.

import { ApiError, command, whoami } from "./api.js";
import { moment } from "./clock.js";
import { fill, h, keyed, unique } from "./dom.js";
import { section } from "./parts.js";
import { keep, may, token, who } from "./session.js";

const KINDS = {
  abort: {
    text: "Abort", verb: "Abort the job",
    what: "Ends the job for good: the ranks are stopped, every agent exits with 94.",
    fields: () => [checkbox("evidence", "Save the ranks' stacks first")],
  },
  restart: {
    text: "Restart", verb: "Restart the ranks",
    what: "Stops the ranks and starts them again as the next generation. It is not charged to the restarts that are left.",
    fields: () => [input("from_step", "From the checkpoint of step (empty: the newest good one)", { type: "number", min: "0", step: "1", inputmode: "numeric" })],
  },
  drain: {
    text: "Drain a node", verb: "Drain the node",
    what: "The node leaves as after a SIGTERM; the rest goes on. Its host stays out until it is undrained.",
    fields: (job) => [choice("node", "Node", job.nodes.filter((node) => !node.drained).map((node) => [node.node_id, `${node.host} (${node.node_id})`]))],
  },
  undrain: {
    text: "Undrain a host", verb: "Undrain the host",
    what: "Lets the host take part again.",
    fields: (job) => [choice("node", "Host", job.drained.map(({ host, why }) => [host, `${host} (${why})`]))],
    when: (job) => job.drained?.length > 0,
  },
};

/** The buttons, in the DOM only while the role allows them. */
export function commandBar(current) {
  const element = h("div", { class: "commands" });
  const dialogs = h("div");

  function update() {
    const job = current();
    const kinds = Object.keys(KINDS).filter((kind) => job && !job.over && may(kind) && (KINDS[kind].when?.(job) ?? true));
    keyed(element, kinds, (kind) => kind, (kind) => h("button", { type: "button", class: kind === "abort" ? "danger" : null, on: { click: () => open(kind) } }, `${KINDS[kind].text}...`));
  }

  function open(kind) {
    const dialog = ask(kind, current());
    fill(dialogs, dialog);
    dialog.showModal();
  }

  return { element, dialogs, update };
}

function ask(kind, job) {
  const { verb, what, fields } = KINDS[kind];
  const [title, about] = [unique("title"), unique("about")];
  const answer = h("p", { class: "answer", role: "status" });
  const needsToken = who()?.act_needs_token !== false;
  const secret = needsToken ? input("token", "Operator's token", { type: "password", required: true, autocomplete: "off", value: token() }) : null;
  const send = h("button", { type: "submit", class: kind === "abort" ? "danger" : "primary" }, verb);
  const cancel = h("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel");
  const form = h("form", { method: "dialog", on: { submit } },
    h("h2", { id: title }, `${verb}: ${job.job}`), h("p", { id: about }, what),
    fields(job), input("reason", "Reason (stands in the events)", { required: true, maxlength: "1000", autocomplete: "off", autofocus: true }), secret, answer,
    h("div", { class: "buttons" }, cancel, send));
  const dialog = h("dialog", { "aria-labelledby": title, "aria-describedby": about }, form);

  async function submit(event) {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(form));
    if (secret && values.token !== token()) {
      keep(values.token);
      await whoami().catch(() => {}); // a wrong token is told by the answer to the command
    }
    send.disabled = true;
    fill(answer, "Asking.");
    try {
      const { command: done } = await command(job.job, body(kind, values));
      fill(answer, `${done.standing}${done.answer ? `: ${done.answer}` : ""}`);
      cancel.textContent = "Close";
      cancel.focus();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(answer, h("span", { class: "bad" }, `Not done: ${error.message}`));
      send.disabled = false;
    }
  }

  return dialog;
}

function body(kind, values) {
  const sent = { command: kind, reason: values.reason.trim() };
  if (kind === "abort" && values.evidence) sent.evidence = true;
  if (kind === "restart" && values.from_step !== "") sent.from_step = Number(values.from_step);
  if (kind === "drain" || kind === "undrain") sent.node = values.node;
  return sent;
}

export function input(name, text, attributes) {
  const id = unique(name);
  return h("p", { class: "field" }, h("label", { for: id }, text), h("input", { id, name, ...attributes }));
}

function checkbox(name, text) {
  const id = unique(name);
  return h("p", { class: "field check" }, h("input", { id, name, type: "checkbox" }), h("label", { for: id }, text));
}

function choice(name, text, options) {
  const id = unique(name);
  return h("p", { class: "field" }, h("label", { for: id }, text), h("select", { id, name, required: true }, options.map(([value, said]) => h("option", { value }, said))));
}

/** What operators asked for, and what became of it. */
export function commandsSection() {
  const list = h("ol", { class: "events" });
  const element = section("commands", "Commands", list);
  element.hidden = true;

  function update({ commands }) {
    element.hidden = !commands?.length;
    keyed(list, commands || [], (one) => one.id, () => h("li"), (item, one) => {
      const seen = JSON.stringify(one);
      if (item.dataset.seen === seen) return;
      item.dataset.seen = seen;
      item.className = one.standing === "failed" || one.standing === "refused" ? "error" : "info";
      fill(item, h("span", { class: "sign", "aria-hidden": "true" }, "·"), moment(one.at, { both: true }),
        h("p", {}, h("code", {}, one.kind), ` ${one.standing}, by ${one.who}${one.reason ? `: ${one.reason}` : ""}`, one.answer ? h("span", { class: "quiet" }, ` (${one.answer})`) : null));
    });
  }

  return { element, update };
}
