// What the cells of the grid mean, and how many there are of each kind.

import { fill, h } from "./dom.js";
import { drawLag, drawState, palette } from "./rank_paint.js";
import { LAGS, STATES } from "./rank_states.js";
import { onChange as onTheme } from "./theme.js";

const SIZE = 14;

export function legend() {
  const element = h("ul", { class: "legend", "aria-label": "What the cells mean" });
  let last = "";

  /** Show the kinds that occur; gives them as one sentence. */
  function update(mode, counts) {
    const kinds = mode === "state" ? STATES : [[-1, "tells no steps"], ...LAGS.map(([, words], level) => [level, words])];
    const there = kinds.filter(([code]) => counts.get(code)).map(([code, words]) => ({ code, words, number: counts.get(code) }));
    const sentence = there.map(({ words, number }) => `${number} ${words}`).join(", ");
    if (`${mode} ${sentence}` !== last) {
      last = `${mode} ${sentence}`;
      fill(element, there.map(({ code, words, number }) => h("li", {}, swatch(mode, code), h("strong", {}, number), ` ${words}`)));
      requestAnimationFrame(paint);
    }
    return sentence;
  }

  function paint() {
    const colours = palette(element);
    for (const canvas of element.querySelectorAll("canvas")) {
      const context = canvas.getContext("2d");
      const scale = canvas.width / SIZE;
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, SIZE, SIZE);
      const { mode, code } = canvas.dataset;
      if (mode === "lag") drawLag(context, 1, 1, SIZE - 2, Number(code), colours);
      else drawState(context, 1, 1, SIZE - 2, code, colours);
    }
  }

  onTheme(() => element.isConnected && requestAnimationFrame(paint));
  return { element, update };
}

function swatch(mode, code) {
  const scale = Math.ceil(window.devicePixelRatio || 1);
  return h("canvas", { width: SIZE * scale, height: SIZE * scale, class: "swatch", "aria-hidden": "true", "data-mode": mode, "data-code": code });
}
