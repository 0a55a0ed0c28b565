// The time axis: a canvas that draws only what can be seen. A state is a colour and a pattern, or a height where there is
// no room for a pattern: never a colour alone.

import { STATES, count, length, moment, size } from "./format.js";
import { GUTTER, Lanes, TOP, first } from "./lanes.js";

const NARROWEST_MS = 1000, WIDEST_MS = 400 * 365.25 * 86400000;
const HOUR = 3600000, DAY = 24 * HOUR;
const STEPS = [1000, 5000, 15000, 60000, 300000, 900000, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY];
const MONTHS = [1, 3, 6, 12, 24, 60, 120, 600, 1200];
// Lines of an 8 × 8 tile; [] is plain.
const PATTERNS = {
  Healthy: [], Fresh: [[2, 2, 3, 2], [6, 6, 7, 6]], HealthyOverlapped: [[0, 8, 8, 0]], Marked: [[0, 0, 8, 8]],
  Deletable: [[0, 0, 8, 8], [0, 8, 8, 0]], Deleting: [[0, 2, 8, 2], [0, 6, 8, 6]], Partial: [[2, 0, 2, 8], [6, 0, 6, 8]],
  Malformed: [[0, 4, 8, 4], [4, 0, 4, 8]],
};
// Where a pattern would not show, what is on its way out is lower.
const LOW = { Fresh: 0.85, HealthyOverlapped: 0.7, Partial: 0.55, Marked: 0.45, Deletable: 0.35, Deleting: 0.25 };
const PATTERN_SHOWS = 5;

export class Paint {
  constructor() {
    const style = getComputedStyle(document.documentElement);
    const value = (name) => style.getPropertyValue(`--${name}`).trim();
    [this.text, this.quiet, this.line, this.card, this.link] = ["text", "quiet", "line", "card", "link"].map(value);
    this.fill = Object.fromEntries(STATES.map((state) => [state, value(state)]));
    this.hatch = Object.fromEntries(STATES.map((state) => [state, tile(PATTERNS[state], value("ink"))]));
  }

  block(context, state, x, y, width, height) {
    const shows = width >= PATTERN_SHOWS, high = shows ? height : height * (LOW[state] ?? 1);
    context.fillStyle = this.fill[state];
    context.fillRect(x, y + height - high, width, high);
    if (shows && this.hatch[state]) {
      context.fillStyle = this.hatch[state];
      context.fillRect(x, y, width, height);
    }
  }

  swatch(canvas, state) {
    canvas.width = 36;
    canvas.height = 24;
    const context = canvas.getContext("2d");
    context.scale(2, 2);
    this.block(context, state, 0, 0, 18, 12);
  }
}

function tile(lines, ink) {
  if (!lines.length) return null;
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 8;
  const context = canvas.getContext("2d");
  context.strokeStyle = ink;
  context.lineWidth = 1.5;
  for (const [x, y, toX, toY] of lines) {
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(toX, toY);
    context.stroke();
  }
  return context.createPattern(canvas, "repeat");
}

export class Chart {
  // `told`: {open(i), moved(from, to), cursor(i)}: what the chart says when it is used.
  constructor(box, tip, told) {
    this.box = box;
    this.canvas = box.querySelector("canvas");
    this.tall = box.querySelector(".tall");
    this.tip = tip;
    this.told = told;
    this.cursor = this.opened = null;
    this.pointers = new Map();
    this.paint = new Paint();
    new ResizeObserver(() => this.draw()).observe(box);
    box.addEventListener("scroll", () => this.draw(), { passive: true });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { this.paint = new Paint(); this.draw(); });
    this.listen();
  }

  // Show the chosen blocks; the time range stays, unless there is none yet.
  show(blocks, chosen) {
    this.blocks = blocks;
    this.lanes = new Lanes(blocks, chosen);
    if (this.cursor !== null && !this.lanes.at.has(this.cursor)) this.cursor = null;
    if (this.from === undefined) this.fit(); else this.draw();
  }

  forget() {
    this.from = this.to = undefined;
    this.cursor = this.opened = null;
  }

  extent() {
    let from = Infinity, to = -Infinity;
    for (const i of this.lanes.at.keys()) {
      from = Math.min(from, this.blocks.start[i]);
      to = Math.max(to, this.blocks.end[i], this.blocks.start[i] + 1);
    }
    return from < to ? [from, to] : [this.blocks.at - DAY, this.blocks.at];
  }

  fit() {
    const [from, to] = this.extent();
    const edge = (to - from) * 0.01;
    this.range(from - edge, to + edge);
  }

  range(from, to) {
    const width = Math.min(Math.max(to - from, NARROWEST_MS), WIDEST_MS), middle = (from + to) / 2;
    [this.from, this.to] = [middle - width / 2, middle + width / 2];
    this.draw();
    this.told.moved(this.from, this.to);
  }

  zoom(factor, around = (this.from + this.to) / 2) {
    this.range(around - (around - this.from) * factor, around + (this.to - around) * factor);
  }

  pan(part) {
    const by = (this.to - this.from) * part;
    this.range(this.from + by, this.to + by);
  }

  draw() {
    if (this.waits || this.from === undefined) return;
    this.waits = requestAnimationFrame(() => { this.waits = 0; this.drawNow(); });
  }

  drawNow() {
    const began = performance.now();
    const ratio = devicePixelRatio || 1, width = this.box.clientWidth;
    const height = Math.min(this.lanes.total, Math.max(innerHeight * 0.6, 160));
    this.tall.style.height = `${this.lanes.total}px`;
    this.canvas.style.height = `${height}px`;
    if (this.canvas.width !== Math.round(width * ratio)) this.canvas.width = Math.round(width * ratio);
    if (this.canvas.height !== Math.round(height * ratio)) this.canvas.height = Math.round(height * ratio);
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    this.drawTicks(context, width, height);
    context.save();
    context.beginPath();
    context.rect(GUTTER, TOP, width - GUTTER, height);
    context.clip();
    const drawn = this.drawBlocks(context, width, height);
    for (const [i, colour] of [[this.opened, this.paint.text], [this.cursor, this.paint.link]]) this.outline(context, i, colour);
    context.restore();
    this.drawLevels(context, height);
    Object.assign(this.canvas.dataset, { drawn, from: Math.round(this.from), to: Math.round(this.to), ms: (performance.now() - began).toFixed(1) });
  }

  x(time) {
    return GUTTER + ((time - this.from) / (this.to - this.from)) * (this.box.clientWidth - GUTTER);
  }

  time(x) {
    return this.from + ((x - GUTTER) / (this.box.clientWidth - GUTTER)) * (this.to - this.from);
  }

  drawBlocks(context, width, height) {
    const { blocks, lanes } = this, up = this.box.scrollTop;
    let drawn = 0;
    for (const band of lanes.bands) {
      const from = Math.max(0, Math.floor((up + TOP - band.top) / lanes.height));
      const to = Math.min(band.lanes.length, Math.ceil((up + height - band.top) / lanes.height));
      for (let n = from; n < to; n += 1) {
        const lane = band.lanes[n], y = band.top + n * lanes.height - up;
        let taken = -Infinity;
        for (let place = first(blocks, lane, this.from); place < lane.length; place += 1) {
          const i = lane[place];
          if (blocks.start[i] >= this.to) break;
          const left = Math.max(this.x(blocks.start[i]), -10), right = Math.min(this.x(blocks.end[i]), width + 10);
          if (right <= taken) continue;  // It would cover the very pixels of the one before.
          const wide = Math.max(right - left - (right - left > 4 ? 1 : 0), 1.5);
          this.paint.block(context, blocks.state[i], left, y, wide, lanes.height - 2);
          taken = Math.floor(left + wide) + 0.5;
          drawn += 1;
        }
      }
    }
    return drawn;
  }

  outline(context, i, colour) {
    if (i === null || !this.lanes.at.has(i)) return;
    const left = this.x(this.blocks.start[i]), right = this.x(this.blocks.end[i]);
    context.strokeStyle = colour;
    context.lineWidth = 2.5;
    context.strokeRect(left - 1, this.lanes.top(i) - this.box.scrollTop - 1, Math.max(right - left, 3) + 1, this.lanes.height);
  }

  drawLevels(context, height) {
    context.fillStyle = this.paint.card;
    context.fillRect(0, 0, GUTTER, height);
    context.fillStyle = this.paint.quiet;
    context.font = "12px system-ui, sans-serif";
    for (const band of this.lanes.bands) {
      const y = band.top - this.box.scrollTop, end = y + band.lanes.length * this.lanes.height;
      // The label of a level that is taller than the window stays where it can be seen.
      const at = Math.min(Math.max(y, TOP), Math.max(end - 14, y)) + 12;
      if (at > TOP && y < height) context.fillText(`level ${band.level}`, 3, at);
    }
  }

  drawTicks(context, width, height) {
    context.font = "12px system-ui, sans-serif";
    context.lineWidth = 1;
    const { at, word } = ticks(this.from, this.to, Math.max(2, (width - GUTTER) / 110));
    for (const time of at) {
      const x = Math.round(this.x(time)) + 0.5;
      if (x < GUTTER) continue;
      context.strokeStyle = this.paint.line;
      context.beginPath();
      context.moveTo(x, TOP - 4);
      context.lineTo(x, height);
      context.stroke();
      context.fillStyle = this.paint.quiet;
      context.fillText(word(time), x + 2, TOP - 10);
    }
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  under(event) {
    const [x, y] = this.place(event);
    if (x < GUTTER || y < TOP || !this.lanes) return null;
    return this.lanes.find(y + this.box.scrollTop, this.time(x), ((this.to - this.from) / this.box.clientWidth) * 2);
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => { if (this.key(event)) event.preventDefault(); });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, this.place(event)[0]);
      this.dragged = 0;
    });
    canvas.addEventListener("pointermove", (event) => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, (event) => {
        const one = this.pointers.size === 1;
        this.pointers.delete(event.pointerId);
        const i = name === "pointerup" && one && this.dragged < 5 ? this.under(event) : null;
        if (i !== null) { this.cursor = i; this.told.open(i); }
      });
    }
    canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    canvas.addEventListener("blur", () => this.draw());
  }

  wheel(event) {
    if (this.from === undefined) return;
    const across = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (event.ctrlKey || event.metaKey) this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 200), this.time(this.place(event)[0]));
    else if (across && (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))) this.pan(across / 1000);
    else return;
    event.preventDefault();
  }

  move(event) {
    const [x] = this.place(event);
    if (!this.pointers.has(event.pointerId)) return this.hover(event);
    this.tip.hidden = true;
    const before = [...this.pointers.values()], was = this.pointers.get(event.pointerId);
    this.pointers.set(event.pointerId, x);
    this.dragged += Math.abs(x - was);
    const perPixel = (this.to - this.from) / (this.box.clientWidth - GUTTER);
    if (before.length === 1) return this.range(this.from - (x - was) * perPixel, this.to - (x - was) * perPixel);
    const [a, b] = [...this.pointers.values()];
    const wide = Math.abs(before[0] - before[1]), wider = Math.abs(a - b);
    if (before.length === 2 && wide > 10 && wider > 10) this.zoom(wide / wider, this.time((a + b) / 2));
    return undefined;
  }

  hover(event) {
    const i = this.under(event);
    this.tip.hidden = i === null;
    if (i === null) return;
    this.tip.textContent = describe(this.blocks, i, "\n");
    const { offsetWidth: wide, offsetHeight: high } = this.tip;
    this.tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - wide - 8))}px`;
    this.tip.style.top = `${event.clientY + 18 + high > innerHeight ? event.clientY - high - 8 : event.clientY + 18}px`;
  }

  // Returns whether the key is one of the chart's.
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || this.from === undefined) return false;
    const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (move && event.shiftKey && move[0]) this.pan(move[0] * 0.2);
    else if (move) this.step(...move);
    else if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "0") this.fit();
    else if (event.key === "Enter" && this.cursor !== null) this.told.open(this.cursor);
    else return false;
    return true;
  }

  step(across, down) {
    if (!this.lanes.at.size) return;
    if (this.cursor === null) {
      const lane = this.lanes.bands[0].lanes[0];
      this.cursor = lane[Math.min(first(this.blocks, lane, this.from), lane.length - 1)];
    } else this.cursor = this.lanes.beside(this.cursor, across, down);
    this.reveal(this.cursor);
    this.told.cursor(this.cursor);
  }

  // Bring a block into view.
  reveal(i) {
    if (!this.lanes?.at.has(i)) return;
    const top = this.lanes.top(i), { scrollTop, clientHeight } = this.box;
    if (top < scrollTop + TOP) this.box.scrollTop = top - TOP - 10;
    else if (top + this.lanes.height > scrollTop + clientHeight) this.box.scrollTop = top - clientHeight + 30;
    const { start, end } = this.blocks, wide = this.to - this.from;
    if (end[i] <= this.from || start[i] >= this.to) this.range(start[i] - wide / 2, start[i] + wide / 2);
    this.draw();
  }
}

export function describe(blocks, i, between = ", ") {
  const rows = blocks.rows[i] === null ? "no meta.json" : `${count(blocks.rows[i])} rows`;
  const facts = [blocks.ulid[i], `${blocks.state[i]}, level ${blocks.level[i] ?? "unknown"}`, `${rows}, ${size(blocks.bytes[i])}`];
  if (blocks.start[i] !== null) facts.push(`${moment(blocks.start[i])} to ${moment(blocks.end[i])} (${length(blocks.end[i] - blocks.start[i])})`);
  return facts.join(between);
}

function ticks(from, to, most) {
  const step = STEPS.find((each) => (to - from) / each <= most);
  const at = [];
  if (step) {
    for (let time = Math.ceil(from / step) * step; time < to; time += step) at.push(time);
    return { at, word: (time) => (step < DAY && time % DAY ? new Date(time).toISOString().slice(11, step < 60000 ? 19 : 16) : new Date(time).toISOString().slice(0, 10)) };
  }
  const months = MONTHS.find((each) => (to - from) / (each * 30.44 * DAY) <= most) ?? 12000;
  const began = new Date(from);
  let month = Math.ceil((began.getUTCFullYear() * 12 + began.getUTCMonth()) / months) * months;
  for (; at.length < 200; month += months) {
    const time = new Date(0).setUTCFullYear(Math.floor(month / 12), month % 12, 1);
    if (time >= to) break;
    at.push(time);
  }
  return { at, word: (time) => new Date(time).toISOString().slice(0, months % 12 ? 7 : 4) };
}
