// Light, dark, or as the system has it. The choice is kept in this browser.

import { h } from "./dom.js";

const KEY = "elaunch-theme";
const CHOICES = [["auto", "System"], ["light", "Light"], ["dark", "Dark"]];
const told = new Set();

function kept() {
  try {
    const choice = localStorage.getItem(KEY);
    return CHOICES.some(([code]) => code === choice) ? choice : "auto";
  } catch {
    return "auto"; // storage is switched off: the choice lasts as long as the page
  }
}

function apply(choice) {
  if (choice === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
  for (const listener of told) listener();
}

/** Call `listener` whenever colours may have changed; returns how to end that. */
export function onChange(listener) {
  told.add(listener);
  return () => told.delete(listener);
}

export function start() {
  apply(kept());
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(kept()));
}

/** The control that switches it. */
export function control() {
  const select = h(
    "select",
    { id: "theme", "aria-label": "Colours" },
    CHOICES.map(([code, text]) => h("option", { value: code, selected: code === kept() }, text)),
  );
  select.addEventListener("change", () => {
    try {
      localStorage.setItem(KEY, select.value);
    } catch {
      // storage is switched off: the choice lasts as long as the page
    }
    apply(select.value);
  });
  return select;
}
