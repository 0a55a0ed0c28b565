// The block page: one stream at a time, or all of them. Its address says which: #stream, #stream/ULID.

import { Chart, Paint, describe } from "./chart.js";
import { about, page as dagPage, propose, workflowOf, workflows } from "./forms.js";
import { STATES, ask, count, length, local, make, moment, row, size } from "./format.js";
import * as panels from "./panels.js";

const PER_PAGE = 20, KINDS = ["minor", "major", "mark", "sweep"], PARALLEL = 2;
const $ = (id) => document.getElementById(id);
const now = { stream: null, blocks: null, chosen: [], inView: [], at: 0, kind: "minor", dags: [], asked: null, opener: null };
const chart = new Chart($("chart"), $("tip"), { open: (i) => open(now.blocks.ulid[i]), moved, cursor: (i) => tell(describe(now.blocks, i)) });

const tell = (text) => { $("live").textContent = text; };

function show(error) {
  $("error").hidden = error === null;
  $("error").textContent = error === null ? "" : error.message;
}

// Do one thing that may fail; the reason is shown as one line, and what was there stays.
async function attempt(work) {
  try {
    return await work();
  } catch (error) {
    if (error.name !== "AbortError") show(error);
    return undefined;
  }
}

const address = (stream, ...rest) => ["api/streams", encodeURIComponent(stream), ...rest].join("/");

const place = () => decodeURIComponent(location.hash.slice(1)).split("/");

async function route() {
  const [stream] = place();
  show(null);
  if ($("stream").options.length === 1 && !(await attempt(listStreams))) return;
  $("stream").value = stream;
  $("overview").hidden = stream !== "";
  $("one").hidden = stream === "";
  document.title = stream ? `${stream} – Drystone` : "Drystone";
  if (!stream) {
    now.asked?.abort();
    now.stream = null;
    $("asof").textContent = "";
    await overview();
  } else if (stream !== now.stream) await load(stream, false);
  // Loading takes its time, and the address may have changed meanwhile.
  const [current, ulid] = place();
  if (current !== stream) return;
  if (!ulid || !now.blocks) closeBlock(false);
  else if ($("block").hidden || now.byUlid.get(ulid) !== chart.opened || chart.opened === null) await showBlock(ulid);
}

async function listStreams() {
  const found = await ask("api/streams");
  now.streams = found.streams;
  $("config-file").textContent = `Configuration: ${found.config_file}`;
  $("stream").append(...found.streams.map((each) => make("option", { value: each.stream }, each.stream)));
  return found;
}

// What is kept of each stream is shown at once; only streams of which nothing is kept are looked at.
async function overview() {
  const kept = (await attempt(() => ask("api/fleet")))?.streams ?? [];
  const waiting = [];
  const lines = now.streams.map((each) => {
    const line = make("tr", {}, make("td", {}, make("a", { href: `#${each.stream}` }, each.stream)), make("td", {}, each.kind), make("td", { colspan: 8, class: "quiet" }, "…"));
    const found = kept.find((one) => one.stream === each.stream);
    if (found?.numbers) overviewLine(line, found); else waiting.push([each.stream, line]);
    return line;
  });
  $("streams").tBodies[0].replaceChildren(...lines);
  const work = async () => {
    for (let next = waiting.shift(); next && now.stream === null; next = waiting.shift()) await lookAt(...next);
  };
  await Promise.all(Array.from({ length: PARALLEL }, work));
}

async function lookAt(stream, line) {
  try {
    overviewLine(line, await ask(address(stream)));
  } catch (error) {
    line.replaceChildren(...[...line.cells].slice(0, 2), make("td", { colspan: 8, class: "wide" }, error.message));
  }
}

function overviewLine(line, { numbers, ingest_lag: lag, wrong, at }) {
  const cells = [[count(numbers.blocks_visible), "number"], [count(numbers.blocks_total), "number"], [count(numbers.rows), "number"],
    [size(numbers.bytes), "number"], [size(numbers.bytes_to_reclaim), "number"], [lag === null ? "" : length(lag), "number"],
    [wrong || (numbers.problems ? `${count(numbers.problems)} problems` : ""), wrong ? "wide bad" : "wide"], [moment(at).slice(0, 16), null]];
  line.replaceChildren(...[...line.cells].slice(0, 2), ...row(...cells).cells);
}

async function load(stream, anew) {
  now.asked?.abort();
  const asked = now.asked = new AbortController();
  if (stream !== now.stream) {
    Object.assign(now, { stream, blocks: null, dags: [], chosen: [], inView: [] });
    chart.forget();
    resetFilters();
    for (const id of ["figures", "trouble", "plan", "sizes", "forms"]) $(id).replaceChildren();
    $("table").tBodies[0].replaceChildren();
    $("forms-section").hidden = true;
    $("figures-title").textContent = stream;
  }
  $("one").setAttribute("aria-busy", "true");
  const found = await attempt(async () => {
    const summary = await ask(`${address(stream)}?anew=${anew}`, asked.signal);
    return [summary, await ask(address(stream, "blocks"), asked.signal)];
  });
  if (asked.signal.aborted) return;
  $("one").setAttribute("aria-busy", "false");
  $("one").classList.toggle("empty", !found);
  if (!found) return;
  const [summary, blocks] = found;
  now.blocks = blocks;
  now.byUlid = new Map(blocks.ulid.map((ulid, i) => [ulid, i]));
  $("asof").textContent = `as of ${moment(summary.at).slice(0, 19)}Z`;
  $("figures").replaceChildren(...panels.figures(summary));
  $("trouble").replaceChildren(...panels.trouble(summary));
  $("sizes").replaceChildren(...panels.sizes(summary));
  legend(summary);
  filter();
  await showForms();  // What may be started is known before anything offers it.
  await showPlan();
}

function resetFilters() {
  $("filters").reset();
  $("states").querySelectorAll("label").forEach((each) => each.remove());
  $("levels").querySelectorAll("label").forEach((each) => each.remove());
}

// The legend is the filter: a box for each state and each level, ticked unless a person took the tick away.
function legend(summary) {
  const off = new Set([...document.querySelectorAll("fieldset input:not(:checked)")].map((box) => box.name));
  const box = (name, ...words) => make("label", {}, make("input", { type: "checkbox", name, checked: !off.has(name), onchange: filter }), ...words);
  const states = STATES.filter((state) => summary.numbers.states[state]).map((state) => {
    const swatch = make("canvas", { class: "swatch", "aria-hidden": "true" });
    chart.paint.swatch(swatch, state);
    swatch.dataset.state = state;
    return box(`state ${state}`, swatch, `${state} ${count(summary.numbers.states[state])}`);
  });
  const levels = [...new Set(now.blocks.level)].sort((a, b) => (a ?? 0) - (b ?? 0));
  const counted = (level) => count(now.blocks.level.filter((each) => each === level).length);
  $("states").replaceChildren($("states").firstElementChild, ...states);
  $("levels").replaceChildren($("levels").firstElementChild, ...levels.map((level) => box(`level ${level}`, `${level ?? "unknown"} (${counted(level)})`)));
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  const paint = new Paint();
  document.querySelectorAll("canvas.swatch").forEach((swatch) => paint.swatch(swatch, swatch.dataset.state));
});

function filter() {
  if (!now.blocks) return;
  const off = new Set([...document.querySelectorAll("fieldset input:not(:checked)")].map((box) => box.name));
  const text = $("text").value.trim().toLowerCase(), { ulid, state, level, group, chunk, start } = now.blocks;
  now.chosen = [];
  for (let i = 0; i < ulid.length; i += 1) {
    if (off.has(`state ${state[i]}`) || off.has(`level ${level[i]}`)) continue;
    if (text && ![ulid[i], group[i], chunk[i]].some((each) => each.toLowerCase().includes(text))) continue;
    now.chosen.push(i);
  }
  const placeless = now.chosen.filter((i) => start[i] === null).length;
  $("placeless").hidden = !placeless;
  $("placeless").textContent = `Without a readable meta.json, and so without a place in time: ${count(placeless)}. They stand first in the table.`;
  chart.show(now.blocks, now.chosen);
  moved(chart.from, chart.to);
}

let soon = 0;

// The time axis shows another range: the table follows when it has come to rest.
function moved(from, to) {
  $("range").textContent = `${moment(Math.round(from / 1000) * 1000)} to ${moment(Math.round(to / 1000) * 1000)}`;
  if (document.activeElement !== $("from")) $("from").value = local(from);
  if (document.activeElement !== $("to")) $("to").value = local(to);
  clearTimeout(soon);
  soon = setTimeout(() => { fillView(from, to); }, 120);
}

function fillView(from, to) {
  if (!now.blocks) return;
  const { start, end } = now.blocks;
  now.inView = now.chosen.filter((i) => start[i] === null || (start[i] < to && Math.max(end[i], start[i] + 1) > from));
  now.inView.sort((a, b) => (start[a] ?? -Infinity) - (start[b] ?? -Infinity) || a - b);
  now.at = 0;
  fillTable();
  tell(`${count(now.inView.length)} blocks in view.`);
}

function fillTable() {
  const { ulid, state, level, chunk, start, end, rows, bytes, sources } = now.blocks;
  const shown = now.inView.slice(now.at, now.at + PER_PAGE);
  const opened = chart.opened;
  $("table").caption.textContent = shown.length
    ? `Blocks in view: ${count(now.at + 1)} to ${count(now.at + shown.length)} of ${count(now.inView.length)}` : "No block is in view.";
  $("table").tBodies[0].replaceChildren(...shown.map((i) => {
    const line = row([panels.link(ulid[i], open)], [state[i]], [level[i] ?? "", "number"], [chunk[i]], [moment(start[i])], [moment(end[i])],
      [count(rows[i]), "number"], [size(bytes[i]), "number"], [count(sources[i]), "number"]);
    if (i === opened) line.setAttribute("aria-selected", "true");
    return line;
  }));
  $("previous").disabled = now.at === 0;
  $("next").disabled = now.at + PER_PAGE >= now.inView.length;
}

function turn(by) {
  now.at += by * PER_PAGE;
  fillTable();
  tell($("table").caption.textContent);
}

function open(ulid) {
  now.opener = document.activeElement;
  const wanted = `#${now.stream}/${ulid}`;
  show(null);
  if (location.hash === wanted) showBlock(ulid); else location.hash = wanted;
}

// After a refresh the open block is as new as the rest.
async function showAgain() {
  const [, ulid] = place();
  if (ulid && !$("block").hidden) await showBlock(ulid, false);
}

async function showBlock(ulid, focus = true) {
  const found = await attempt(() => ask(address(now.stream, "blocks", ulid)));
  if (!found) return;
  const i = now.byUlid.get(ulid);
  chart.opened = i ?? null;
  if (i !== undefined) { chart.cursor = i; chart.reveal(i); }
  const start = about(found.details).filter(([, workflow]) => hasDag(`${now.stream}__${workflow}`)).map(([title, workflow, values]) => make("button",
    { type: "button", onclick: () => propose($("form"), `${title}: ${ulid}`, `${now.stream}__${workflow}`, values) }, `${title} …`));
  $("block").replaceChildren(...panels.block(found, { open, close: () => closeBlock(true), start }));
  $("block").hidden = false;
  fillTable();
  if (focus) $("block-title").focus();
}

// Without Airflow's list of DAGs nothing is offered.
const hasDag = (id) => now.dags.some((dag) => dag.id === id);

function closeBlock(back) {
  if ($("block").hidden) return;
  $("block").hidden = true;
  $("block").replaceChildren();
  chart.opened = null;
  chart.draw();
  if (now.blocks) fillTable();
  if (!back) return;
  history.replaceState(null, "", `#${now.stream}`);
  (now.opener?.isConnected ? now.opener : chart.canvas).focus();
}

async function showPlan() {
  const { stream, kind } = now;
  $("kinds").replaceChildren(...KINDS.map((each) => make("button", { type: "button", "aria-pressed": String(each === kind), onclick: () => { now.kind = each; showPlan(); } }, each)));
  const made = await attempt(() => ask(`${address(stream, "plan")}?kind=${kind}`));
  if (!made || stream !== now.stream || kind !== now.kind) return;
  const dag = workflowOf(stream, kind);
  if (hasDag(dag)) $("kinds").append(make("a", { href: dagPage(dag) }, `Open ${dag}`));
  $("plan").replaceChildren(...panels.plan(made, open));
}

async function showForms() {
  const { stream } = now;
  const found = await workflows(stream).catch(() => []);
  if (stream !== now.stream) return;
  now.dags = found;
  $("forms-section").hidden = !found.length;
  $("forms").replaceChildren(...found.map((dag) => make("li", {}, make("a", { href: dagPage(dag.id) }, dag.id), dag.paused ? make("span", { class: "quiet" }, " paused") : null)));
}

function rangeTyped() {
  const [from, to] = ["from", "to"].map((id) => Date.parse(`${$(id).value}Z`));
  const wrong = !(from < to);
  $("to").setCustomValidity(wrong ? "It must be later than From." : "");
  if (wrong) $("to").reportValidity();
  else chart.range(from, to);
}

addEventListener("hashchange", route);
$("stream").addEventListener("change", (event) => { location.hash = `#${event.target.value}`; });
$("refresh").addEventListener("click", async () => {
  show(null);
  if ($("stream").options.length === 1) await route();
  else if (now.stream) await load(now.stream, true).then(showAgain);
  else await overview();
});
$("filters").addEventListener("submit", (event) => event.preventDefault());
$("text").addEventListener("input", filter);
for (const id of ["from", "to"]) $(id).addEventListener("change", rangeTyped);
$("clear").addEventListener("click", () => {
  document.querySelectorAll("fieldset input").forEach((box) => { box.checked = true; });
  $("text").value = "";
  filter();
  chart.fit();
});
$("zoom-in").addEventListener("click", () => chart.zoom(0.5));
$("zoom-out").addEventListener("click", () => chart.zoom(2));
$("earlier").addEventListener("click", () => chart.pan(-0.5));
$("later").addEventListener("click", () => chart.pan(0.5));
$("fit").addEventListener("click", () => chart.fit());
$("previous").addEventListener("click", () => turn(-1));
$("next").addEventListener("click", () => turn(1));
addEventListener("keydown", (event) => { if (event.key === "Escape" && !$("form").open) closeBlock(true); });
route();
