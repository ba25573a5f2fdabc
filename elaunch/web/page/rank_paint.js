// The cells of a grid, drawn. Each state has a shape of its own beside its colour, each level of lag a height.

import { LAGS, lagLevel, STATES } from "./rank_states.js";

const MARGIN = 3; // around the cells, for the cursor's frame

/** The colours of the theme that holds now, as the style sheet has them within `element`. */
export function palette(element) {
  const probe = element.appendChild(document.createElement("i"));
  const read = (name) => {
    probe.style.color = `var(--${name})`; // resolves light-dark(), which the variable itself does not
    return getComputedStyle(probe).color;
  };
  const colours = {
    state: Object.fromEntries(STATES.map(([code]) => [code, read(`rank-${code}`)])),
    lag: LAGS.map((_, level) => read(`lag-${level}`)),
    base: read("lag-base"),
    ink: read("ground"),
    none: read("line-strong"),
  };
  probe.remove();
  return colours;
}

/** One cell of a state. */
export function drawState(context, x, y, size, state, colours) {
  const colour = colours.state[state];
  context.fillStyle = context.strokeStyle = colour;
  const edge = Math.max(1, Math.round(size / 7));
  const inner = { x: x + edge, y: y + edge, size: size - 2 * edge };
  SHAPES[state](context, { x, y, size, edge, inner, ink: colours.ink });
}

const SHAPES = {
  run: (c, { x, y, size }) => c.fillRect(x, y, size, size),
  ended: (c, { x, y, size, edge }) => c.fillRect(x, y + size / 2 - edge, size, 2 * edge),
  starting: (c, { x, y, size }) => c.fillRect(x + size / 4, y + size / 4, size / 2, size / 2),
  wait: (c, { x, y, size, edge }) => box(c, x, y, size, edge),
  unknown: (c, { x, y, size, edge }) => {
    for (const [dx, dy] of [[0, 0], [1, 0], [0, 1], [1, 1]]) {
      c.fillRect(x + dx * (size - 2 * edge), y + dy * (size - 2 * edge), 2 * edge, 2 * edge);
    }
  },
  straggler: (c, { x, y, size }) => {
    c.beginPath();
    c.moveTo(x, y + size);
    c.lineTo(x + size, y + size);
    c.lineTo(x + size / 2, y);
    c.fill();
  },
  stopped: (c, { x, y, size }) => {
    c.fillRect(x, y, size * 0.36, size);
    c.fillRect(x + size * 0.64, y, size * 0.36, size);
  },
  hang: (c, { x, y, size, edge, inner, ink }) => {
    c.fillRect(x, y, size, size);
    cross(c, inner, ink, edge);
  },
  failed: (c, { edge, inner }) => cross(c, inner, c.strokeStyle, 1.5 * edge),
};

function box(context, x, y, size, edge) {
  context.lineWidth = edge;
  context.strokeRect(x + edge / 2, y + edge / 2, size - edge, size - edge);
}

function cross(context, { x, y, size }, colour, width) {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x + size, y + size);
  context.moveTo(x + size, y);
  context.lineTo(x, y + size);
  context.stroke();
}

/** One cell of a level of lag: the further behind, the fuller. */
export function drawLag(context, x, y, size, level, colours) {
  if (level < 0) {
    context.strokeStyle = colours.none;
    box(context, x, y, size, 1);
    return;
  }
  context.fillStyle = colours.base;
  context.fillRect(x, y, size, size);
  const height = Math.round((size * level) / 4);
  context.fillStyle = colours.lag[level];
  context.fillRect(x, y + size - height, size, height);
}

/** Make `canvas` as large as the grid, at the screen's resolution; the context, in CSS pixels of the grid. */
export function sized(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  canvas.width = Math.ceil((width + 2 * MARGIN) * scale);
  canvas.height = Math.ceil((height + 2 * MARGIN) * scale);
  canvas.style.width = `${width + 2 * MARGIN}px`;
  canvas.style.height = `${height + 2 * MARGIN}px`;
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, MARGIN * scale, MARGIN * scale);
  return context;
}

/** Where on the grid a mouse event is. */
export function pointOf(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left - MARGIN, event.clientY - box.top - MARGIN];
}

/** The cells whose look has changed; `looks` remembers how each was drawn. */
export function drawCells(context, grid, { mode, colours, codes, lags, looks }) {
  const { size } = grid;
  grid.cells.forEach(({ x, y }, index) => {
    const look = mode === "lag" ? `lag${lagLevel(lags[index])}` : codes[index];
    if (looks[index] === look) return;
    looks[index] = look;
    context.clearRect(x, y, size, size);
    if (mode === "lag") drawLag(context, x, y, size, lagLevel(lags[index]), colours);
    else drawState(context, x, y, size, codes[index], colours);
  });
}
