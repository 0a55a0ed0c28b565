// Where blocks are drawn: levels from high to low, and in each as many lanes as blocks of it lie above each other.

export const GUTTER = 46, TOP = 26, LABEL = 6;

export class Lanes {
  // `blocks`: columns; `chosen`: positions of those to draw. `bands`: {level, top, lanes}; a lane is a list of positions
  // by time, none of which overlap.
  constructor(blocks, chosen) {
    const levels = new Map();
    for (const i of chosen) {
      if (blocks.start[i] === null) continue;
      const level = blocks.level[i];
      if (!levels.has(level)) levels.set(level, []);
      levels.get(level).push(i);
    }
    this.blocks = blocks;
    this.bands = [...levels.keys()].sort((a, b) => b - a).map((level) => ({ level, lanes: pack(blocks, levels.get(level)) }));
    const most = this.bands.reduce((sum, band) => sum + band.lanes.length, 0);
    this.height = most > 400 ? 8 : most > 40 ? 12 : 20;
    let top = TOP;
    this.at = new Map();
    for (const band of this.bands) {
      band.top = top + LABEL;
      band.lanes.forEach((lane, n) => lane.forEach((i, place) => this.at.set(i, { band, n, place })));
      top = band.top + Math.max(band.lanes.length * this.height, 18);
    }
    this.total = top + LABEL;
  }

  top(i) {
    const { band, n } = this.at.get(i);
    return band.top + n * this.height;
  }

  // The block at a height and a time, or within `slack` ms of it; null if there is none.
  find(y, time, slack) {
    for (const band of this.bands) {
      const lane = band.lanes[Math.floor((y - band.top) / this.height)];
      if (y < band.top || lane === undefined) continue;
      const near = first(this.blocks, lane, time - slack);
      if (near < lane.length && this.blocks.start[lane[near]] <= time + slack) return lane[near];
    }
    return null;
  }

  // The block that an arrow key leads to: the next in its lane, or the nearest in time of the lane above or below.
  beside(i, across, down) {
    const { band, n, place } = this.at.get(i);
    if (across) return band.lanes[n][place + across] ?? i;
    const lanes = this.bands.flatMap((each) => each.lanes);
    const lane = lanes[lanes.indexOf(band.lanes[n]) + down];
    if (lane === undefined) return i;
    const near = Math.min(first(this.blocks, lane, this.blocks.start[i]), lane.length - 1);
    return lane[near];
  }
}

// The place in a lane of the first block that ends after a time.
export function first(blocks, lane, time) {
  let low = 0, high = lane.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (Math.max(blocks.end[lane[middle]], blocks.start[lane[middle]] + 1) > time) high = middle; else low = middle + 1;
  }
  return low;
}

// Each block goes into the topmost lane that is free by then.
function pack(blocks, found) {
  found.sort((a, b) => blocks.start[a] - blocks.start[b] || blocks.end[a] - blocks.end[b] || a - b);
  const lanes = [], busy = new Heap((a, b) => a.end - b.end), free = new Heap((a, b) => a - b);
  for (const i of found) {
    while (busy.items.length && busy.items[0].end <= blocks.start[i]) free.push(busy.pop().lane);
    const lane = free.items.length ? free.pop() : lanes.push([]) - 1;
    lanes[lane].push(i);
    busy.push({ lane, end: Math.max(blocks.end[i], blocks.start[i] + 1) });
  }
  return lanes;
}

class Heap {
  constructor(compare) {
    this.compare = compare;
    this.items = [];
  }

  push(item) {
    const { items } = this;
    let at = items.push(item) - 1;
    for (let up = (at - 1) >> 1; at && this.compare(items[at], items[up]) < 0; at = up, up = (at - 1) >> 1) {
      [items[at], items[up]] = [items[up], items[at]];
    }
  }

  pop() {
    const { items } = this, top = items[0], last = items.pop();
    if (!items.length) return top;
    items[0] = last;
    for (let at = 0; ;) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2]) if (child < items.length && this.compare(items[child], items[least]) < 0) least = child;
      if (least === at) return top;
      [items[at], items[least]] = [items[least], items[at]];
      at = least;
    }
  }
}
