// Where the cells of a grid stand: nodes as blocks, so that a bad host is seen as one. Pure geometry, in CSS pixels.

const SIZES = [26, 22, 18, 16, 14, 12, 11, 10, 9, 8];
const TALLEST = 560; // above this, smaller cells are tried first
const WIDEST_BLOCK = 8; // cells beside each other of one node

/**
 * `counts` are the numbers of ranks of each node, in order. Gives `{size, width, height, cells: [{x, y}]}` with the
 * cells of all nodes in that order; `size` is a cell's edge.
 */
export function layout(counts, width) {
  const most = Math.max(1, ...counts);
  let plan = null;
  for (const size of SIZES) {
    plan = shape(counts.length, most, size, width);
    if (plan.height <= TALLEST && plan.columns >= 1) break;
  }
  return { size: plan.size, width: plan.width, height: plan.height, cells: places(counts, plan) };
}

function shape(nodes, most, size, width) {
  const pitch = size + (size > 12 ? 2 : 1);
  const across = Math.max(1, Math.min(most, nodes === 1 ? 32 : WIDEST_BLOCK, Math.floor(width / pitch)));
  const down = Math.ceil(most / across);
  const gap = most === 1 ? 0 : Math.max(3, Math.round(size / 3));
  const blockWidth = across * pitch + gap;
  const blockHeight = down * pitch + (most === 1 ? 0 : Math.max(2, Math.round(gap / 2)));
  const columns = Math.max(1, Math.min(nodes, Math.floor((width + gap) / blockWidth)));
  const height = Math.ceil(nodes / columns) * blockHeight;
  return { size, pitch, across, blockWidth, blockHeight, columns, height, width: columns * blockWidth - gap };
}

function places(counts, plan) {
  const cells = [];
  counts.forEach((ranks, node) => {
    const left = (node % plan.columns) * plan.blockWidth;
    const top = Math.floor(node / plan.columns) * plan.blockHeight;
    for (let at = 0; at < ranks; at += 1) {
      cells.push({ x: left + (at % plan.across) * plan.pitch, y: top + Math.floor(at / plan.across) * plan.pitch });
    }
  });
  return cells;
}

/** The index of the cell at a point, -1 where there is none. */
export function cellAt(grid, x, y) {
  return grid.cells.findIndex((cell) => x >= cell.x && x <= cell.x + grid.size && y >= cell.y && y <= cell.y + grid.size);
}

/** The index that an arrow key leads to from `from`: left and right by number, up and down by what is nearest. */
export function moved(grid, from, key) {
  const last = grid.cells.length - 1;
  if (key === "ArrowLeft") return Math.max(0, from - 1);
  if (key === "ArrowRight") return Math.min(last, from + 1);
  if (key === "Home") return 0;
  if (key === "End") return last;
  const here = grid.cells[from];
  const sign = key === "ArrowUp" || key === "PageUp" ? -1 : 1;
  const far = key.startsWith("Page") ? 10 : 1;
  const rows = [...new Set(grid.cells.map((cell) => cell.y))].sort((a, b) => a - b);
  const row = rows[Math.max(0, Math.min(rows.length - 1, rows.indexOf(here.y) + sign * far))];
  let best = from;
  let least = Infinity;
  grid.cells.forEach((cell, index) => {
    const away = Math.abs(cell.x - here.x);
    if (cell.y === row && away < least) [best, least] = [index, away];
  });
  return best;
}
