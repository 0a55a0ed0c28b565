// What a stream and a block are, in words, tables and bars.

import { count, length, make, moment, row, size, table } from "./format.js";

const SHOWN = 200, FIRST = 20;

export function figures(summary) {
  const { numbers, to_delete: waste } = summary;
  const facts = [
    ["visible blocks", count(numbers.blocks_visible), `of ${count(numbers.blocks_total)} in the bucket`],
    ["rows", count(numbers.rows), summary.waiting ? `${count(summary.waiting)} more wait for sync_delay` : "none wait"],
    ["size", size(numbers.bytes), `in ${number(numbers.files, "file")}`],
    ["small files", count(numbers.small_files), `under half of ${size(summary.target_block_bytes)}`],
    ["ingest lag", lag(summary.ingest_lag), "since the newest readable rows were planned"],
    ["event lag", lag(summary.event_lag), `newest readable rows before ${moment(numbers.newest_event).slice(0, 16) || "–"}`],
    ["to delete", size(numbers.bytes_to_reclaim),
      `${size(waste.marked)} marked, ${size(waste.superseded)} superseded, ${size(waste.partial)} partial`],
    ["edits, holds, pins", `${summary.edits}, ${summary.holds.length}, ${summary.pins}`, summary.holds[0] ?? "in force"],
  ];
  return facts.map(([name, value, note]) => make("div", {}, make("dt", {}, name), make("dd", {}, value, make("small", {}, note))));
}

const lag = (ms) => (ms === null ? "–" : length(ms));

export function trouble(summary) {
  const parts = [["damage: rows are missing", summary.damage, summary.numbers.damage], ["problems", summary.problems, summary.numbers.problems]];
  const lists = parts.filter(([, found]) => found.length).map(([name, found, all]) => make("details", { open: name !== "problems" },
    make("summary", { class: name === "problems" ? null : "bad" }, `${count(all)} ${name}`),
    make("ul", {}, found.map((each) => make("li", {}, each.text))), all > found.length ? `… and ${count(all - found.length)} more` : ""));
  return [...(summary.wrong ? [make("p", { class: "bad" }, summary.wrong)] : []), ...lists];
}

export function sizes(summary) {
  if (!summary.sizes.length) return [make("p", { class: "quiet" }, "There is no visible block.")];
  const most = Math.max(...summary.sizes.map((bin) => bin.blocks));
  const rows = summary.sizes.map((bin) => {
    const bar = make("span", { class: bin.small ? "bar small" : "bar" });
    bar.style.width = `${(100 * bin.blocks) / most}%`;
    return row([`${size(bin.low)} to ${size(bin.high)}`], [bin.small ? "small" : ""], [count(bin.blocks), "number"], [size(bin.bytes), "number"], [bar, "bars"]);
  });
  return [table(`Small: under half of target_block_bytes, ${size(summary.target_block_bytes)}`, ["size", "", ">blocks", ">bytes", "share"], rows)];
}

export const number = (n, one, several = `${one}s`) => `${count(n)} ${n === 1 ? one : several}`;

export function plan(made, open, shown = FIRST) {
  const lines = [
    ...made.merges.map((each) => ["merge", each.label, each.blocks, each.rows, each.bytes, `${each.kind}: ${each.reason}`]),
    ...made.unmarks.map((each) => ["unmark", "", [each.ulid], null, null, each.reason]),
    ...made.marks.map((each) => ["mark", "", [each.ulid], null, null, each.reason]),
    ...made.deletes.map((each) => ["delete", "", [each.ulid], null, each.bytes, each.reason]),
  ];
  const rows = lines.slice(0, shown).map(([action, label, blocks, lot, bytes, why]) => row(
    [action], [label], [inputs(blocks, open)], [count(lot), "number"], [bytes === null ? "" : size(bytes), "number"], [why, "wide"]));
  const left = made.skipped.slice(0, SHOWN).map((each) => make("li", {}, `${each.name}: ${each.reason}`));
  const told = `${number(lines.length, "action")}; as of ${moment(made.created)}`;
  const more = make("p", { class: "tools" });
  const all = () => more.parentElement.replaceChildren(...plan(made, open, lines.length));
  if (lines.length > rows.length) more.append(make("button", { type: "button", onclick: all }, `Show all ${count(lines.length)}`));
  return [
    lines.length ? table(told, ["action", "chunk", "blocks", ">rows", ">size", "why"], rows) : make("p", {}, "There is nothing to do."),
    more,
    left.length ? make("details", {}, make("summary", {}, `${count(made.skipped.length)} left alone`), make("ul", {}, left)) : null,
    make("p", { class: "quiet" }, "In a terminal: ", make("code", {}, `drystone plan ${made.stream} --kind ${made.kind}`)),
  ].filter(Boolean);
}

function inputs(blocks, open) {
  if (blocks.length === 1) return link(blocks[0], open);
  return make("details", {}, make("summary", {}, number(blocks.length, "block")),
    make("ul", {}, blocks.slice(0, SHOWN).map((ulid) => make("li", {}, link(ulid, open))),
      blocks.length > SHOWN ? make("li", {}, `… and ${count(blocks.length - SHOWN)} more`) : null));
}

export function link(ulid, open) {
  return make("button", { type: "button", class: "ulid", onclick: () => open(ulid) }, ulid);
}

function relatives(title, found, open) {
  if (!found.length) return null;
  const items = found.slice(0, SHOWN).map((each) => make("li", {}, each.there ? link(each.ulid, open) : make("span", { class: "ulid" }, `${each.ulid} (gone)`)));
  const hidden = found.length - items.length;
  return make("div", {}, make("h4", {}, `${title} (${count(found.length)})`), make("ul", {}, items, hidden > 0 ? make("li", {}, `… and ${count(hidden)} more`) : null));
}

export function block(page, { open, close, start }) {
  const { details, run } = page, { meta, mark } = details;
  const own = meta?.thanos.extensions?.drystone;
  const facts = [
    ["state", details.state], ["why", details.why],
    ["rows", meta ? count(meta.stats.numSamples) : ""], ["level", meta ? meta.compaction.level : ""],
    ["times", meta ? `${moment(meta.minTime)} to ${moment(meta.maxTime)}` : ""],
    ["chunk", own ? `${own.time_chunk.granularity} from ${moment(own.time_chunk.start)}` : ""],
    ["made by", meta?.thanos.source ?? ""], ["run", runOf(run)],
    ["group", details.group_members.length > 1 ? details.group : ""],
    ["deletion mark", mark ? `${moment(mark.deletion_time * 1000)}: ${mark.details || "no reason given"}` : ""],
    ["no-compact mark", details.no_compact ? "yes" : ""],
    ["applied edits", (own?.edits ?? []).join(", ")],
  ];
  const members = details.group_members.filter((ulid) => ulid !== details.ulid).map((ulid) => ({ ulid, there: true }));
  const lineage = [
    relatives("Came from", details.parents, open), relatives("Made into", details.children, open),
    relatives("Replaced by", details.covered_by, open), relatives("Replaces", details.covers, open), relatives("Group", members, open),
  ].filter(Boolean);
  return [
    make("div", { class: "top" }, make("h3", { id: "block-title", tabindex: "-1" }, "Block ", make("span", { class: "ulid" }, details.ulid)),
      make("button", { type: "button", onclick: close, "aria-label": "Close the block" }, "Close")),
    make("dl", {}, facts.filter(([, value]) => value !== "").flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)])),
    ...[...details.damage, ...details.problems].map((each) => make("p", { class: "bad" }, each.text)),
    make("h3", {}, "Lineage"), ...(lineage.length ? lineage : [make("p", { class: "quiet" }, "It came from no other block, and none replaces it.")]),
    sources(details), files(details.files),
    meta ? make("details", {}, make("summary", {}, "meta.json"), make("pre", { tabindex: "0" }, JSON.stringify(meta, null, 1))) : null,
    make("h3", {}, "What can be done"), make("p", { class: "tools" }, start),
  ].filter(Boolean);
}

function runOf(run) {
  if (run === null) return "";
  const name = run.href === null ? run.name : make("a", { href: `../${run.href}` }, run.name);
  return make("span", {}, name, make("br"), make("span", { class: "quiet" }, `${run.why}, ${moment(run.when)}`));
}

function sources(details) {
  const away = new Set(details.excluded);
  const items = details.sources.slice(0, SHOWN).map((id) => make("li", { class: "ulid" }, away.has(id) ? `${id} (not read from here)` : id));
  const hidden = details.sources.length - items.length;
  return make("details", {}, make("summary", {}, number(details.sources.length, "source")), make("ul", {}, items, hidden > 0 ? make("li", {}, `… and ${count(hidden)} more`) : null));
}

function files(found) {
  const rows = found.map((file) => row([file.known ? file.name : `${file.name} (no part of it)`, "wide"], [size(file.size), "number"], [moment(file.modified)]));
  return make("details", {}, make("summary", {}, number(found.length, "file")), table("", ["file", ">size", "modified"], rows));
}
