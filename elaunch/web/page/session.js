// Who looks: the token, which is kept for this tab only, and what it allows.

const KEY = "elaunch-token";
const told = new Set();
let memory = "";
let known = null;

/** The token that is shown to the server, "" for none. */
export function token() {
  try {
    return sessionStorage.getItem(KEY) || memory;
  } catch {
    return memory; // storage is switched off: until the page is left
  }
}

/** Show this token from now on; "" forgets it. */
export function keep(text) {
  memory = text;
  try {
    if (text) sessionStorage.setItem(KEY, text);
    else sessionStorage.removeItem(KEY);
  } catch {
    // storage is switched off: until the page is left
  }
}

/** What `/api/whoami` said last; null before. */
export const who = () => known;

export function learnt(answer) {
  known = answer;
  for (const listener of told) listener(answer);
}

/** Call `listener` when the role may have changed; returns how to end that. */
export function onChange(listener) {
  told.add(listener);
  return () => told.delete(listener);
}

/** Whether this command may be given now. */
export const may = (command) => Boolean(known?.can_act && known.actions.includes(command));
