// Words for numbers, and elements for words. Times are ms since the epoch and are shown in UTC.

export const STATES = ["Fresh", "Healthy", "HealthyOverlapped", "Partial", "Malformed", "Marked", "Deleting", "Deletable"];

export const count = (n) => (n ?? null) === null ? "" : n.toLocaleString("en");

export function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let n = bytes, unit = 0;
  while (n >= 1024 && unit < units.length - 1) { n /= 1024; unit += 1; }
  return `${unit && n < 100 ? n.toFixed(1) : Math.round(n)} ${units[unit]}`;
}

export function moment(ms) {
  if ((ms ?? null) === null) return "";
  const date = new Date(ms);
  if (Number.isNaN(date.getTime())) return `${ms} ms`;
  return date.toISOString().replace("T", " ").replace(".000Z", "Z");
}

export const local = (ms) => new Date(ms).toISOString().slice(0, 19);

export function length(ms) {
  for (const [unit, of] of [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]]) {
    if (Math.abs(ms) >= 2 * of) return `${Math.floor(ms / of)} ${unit}`;
  }
  return `${(ms / 1000).toFixed(1)} s`;
}

// An element: attributes by name, `on…` for listeners; children are nodes or text.
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const row = (...cells) => make("tr", {}, cells.map(([text, kind]) => make("td", { class: kind }, text)));

export function table(caption, columns, rows) {
  const head = columns.map((name) => make("th", { scope: "col", class: name.startsWith(">") ? "number" : null }, name.replace(">", "")));
  return make("div", { class: "scroll" },
    make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, head)), make("tbody", {}, rows)));
}

export class Trouble extends Error {}

// GET as JSON; whatever goes wrong is a Trouble whose message is one line for a person.
export async function ask(path, signal) {
  let answer;
  try {
    answer = await fetch(path, { headers: { Accept: "application/json" }, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Trouble("Airflow's server cannot be reached.");
  }
  if (answer.status === 401) throw new Trouble("The login has ended: log in to Airflow again, then press Refresh.");
  if (answer.status === 403) throw new Trouble("Your role in Airflow may not see this.");
  const said = await answer.json().catch(() => null);
  if (answer.ok && said !== null) return said;
  const detail = typeof said?.detail === "string" ? said.detail : `the server answered ${answer.status}`;
  throw new Trouble(detail.replaceAll("\n", " "));
}
