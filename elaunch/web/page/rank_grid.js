// The grid of ranks: drawn cells, a cursor that arrow keys move, and a sentence for each cell, seen and read out.

import { h, say, unique } from "./dom.js";
import { cellAt, layout, moved } from "./rank_layout.js";
import { drawCells, palette, pointOf, sized } from "./rank_paint.js";
import { onChange as onTheme } from "./theme.js";

const KEYS = new Set(["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"]);

/** `pointed(row)` hears which row is looked at, by mouse or keyboard; `described(row)` gives its sentence. */
export function rankGrid({ pointed, described }) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const ring = h("div", { class: "ring", hidden: true });
  const help = h("p", { class: "unseen", id: unique("help") }, "Arrow keys move from rank to rank, Page keys ten rows, Home and End to the first and last rank.");
  const said = h("p", { class: "unseen", role: "status", "aria-live": "polite" });
  const frame = h("div", {
    class: "grid", id: "rank-grid", tabindex: "0", role: "application", "aria-roledescription": "grid of ranks", "aria-describedby": help.id,
    on: { keydown, click, mousemove: hover, mouseleave: () => pointed(cursor), focus: () => read() },
  }, canvas, ring);
  const element = h("div", { class: "grid-frame" }, frame, help, said);

  let rows = null;
  let grid = null;
  let context = null;
  let colours = null;
  let looks = [];
  let mode = "state";
  let cursor = 0;
  let width = 0;

  function keydown(event) {
    if (!KEYS.has(event.key) || !grid || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    go(moved(grid, cursor, event.key));
  }

  function click(event) {
    const index = cellAt(grid, ...pointOf(canvas, event));
    if (index >= 0) go(index);
  }

  function hover(event) {
    const index = grid ? cellAt(grid, ...pointOf(canvas, event)) : -1;
    pointed(index >= 0 ? index : cursor);
  }

  function go(index) {
    cursor = index;
    place();
    ring.scrollIntoView({ block: "nearest", inline: "nearest" });
    pointed(cursor);
    read();
  }

  const read = () => rows && say(said, described(cursor));

  function place() {
    const cell = grid?.cells[cursor];
    ring.hidden = !cell;
    if (!cell) return;
    ring.style.transform = `translate(${cell.x}px, ${cell.y}px)`;
    ring.style.width = ring.style.height = `${grid.size + 6}px`;
  }

  function lay() {
    width = frame.clientWidth - 6;
    if (!rows || width <= 0) return;
    grid = layout(rows.blocks, width);
    context = sized(canvas, grid.width, grid.height);
    looks = [];
    cursor = Math.min(cursor, grid.cells.length - 1);
    paint();
    place();
  }

  function paint() {
    if (context) drawCells(context, grid, { mode, colours, looks, ...rows });
  }

  function recolour() {
    colours = palette(frame);
    looks = [];
    paint();
  }

  const watcher = new ResizeObserver(() => Math.abs(frame.clientWidth - 6 - width) > 1 && lay());
  watcher.observe(frame);
  const endTheme = onTheme(() => requestAnimationFrame(recolour));

  return {
    element,
    go,
    focus: () => frame.focus(),
    /** `blocks`: numbers of ranks by node; `codes` and `lags` by row. */
    update(next, anew) {
      rows = next;
      colours ??= palette(frame);
      frame.setAttribute("aria-label", `${next.codes.length} ranks. ${next.label}`);
      if (anew || !grid) lay();
      else paint();
    },
    colourBy(next) {
      mode = next;
      looks = [];
      paint();
    },
    stop() {
      watcher.disconnect();
      endTheme();
    },
  };
}
