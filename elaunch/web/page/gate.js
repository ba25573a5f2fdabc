// The dialog that takes a token, and the button for it.

import { ApiError, whoami } from "./api.js";
import { input } from "./commands.js";
import { fill, h, unique } from "./dom.js";
import { keep, onChange, token, who } from "./session.js";

/** What stands in the page's head: who looks, and the way to show a token. `changed()` once another is shown. */
export function gate(changed) {
  const element = h("div", { class: "gate" });
  const button = h("button", { type: "button", on: { click: () => open(changed) } });
  const role = h("span", { class: "quiet" });

  function show() {
    const known = who();
    const useful = known && (known.token_needed || (known.actions.length > 0 && known.act_needs_token));
    if (!useful) return fill(element);
    fill(role, known.role || "");
    fill(button, token() ? "Token..." : known.can_read ? "Operator token..." : "Token...");
    return fill(element, role, button);
  }

  onChange(show);
  show();
  return { element, open: () => open(changed) };
}

function open(changed) {
  const [title, about] = [unique("title"), unique("about")];
  const answer = h("p", { class: "answer", role: "status" });
  const forget = h("button", { type: "button", on: { click: () => take("") } }, "Forget it");
  const form = h("form", { method: "dialog", on: { submit: (event) => { event.preventDefault(); take(new FormData(form).get("token")); } } },
    h("h2", { id: title }, "Token"),
    h("p", { id: about }, "A viewer's or an operator's, from the job's token file. It is kept for this tab, until it is closed."),
    input("token", "Token", { type: "password", required: true, autocomplete: "off", autofocus: true }), answer,
    h("div", { class: "buttons" }, token() ? forget : null, h("button", { type: "button", on: { click: () => dialog.close() } }, "Cancel"), h("button", { type: "submit", class: "primary" }, "Use it")));
  const dialog = h("dialog", { "aria-labelledby": title, "aria-describedby": about }, form);

  async function take(text) {
    keep(text);
    try {
      const known = await whoami();
      if (known.token_wrong) {
        keep("");
        fill(answer, h("span", { class: "bad" }, "The server does not know this token."));
        return;
      }
      dialog.close();
      changed();
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      fill(answer, h("span", { class: "bad" }, `${error.message}.`));
    }
  }

  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
