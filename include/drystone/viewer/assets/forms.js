// Airflow's forms. Airflow takes no values by address, so they are shown, copied, and pasted into its form.

import { ask, make } from "./format.js";

const KINDS = { minor: "lifecycle", major: "major_compaction", mark: "lifecycle", sweep: "lifecycle" };

// The ids of the stream's DAGs that this login may see; none where this is not Airflow's server.
export async function workflows(stream) {
  const tags = `tags=drystone&tags=${encodeURIComponent(stream)}&tags_match_mode=all`;
  const found = await ask(`../api/v2/dags?${tags}&limit=100&order_by=dag_id`);
  return found.dags.filter((dag) => dag.dag_id.startsWith(`${stream}__`)).map((dag) => ({ id: dag.dag_id, paused: dag.is_paused }));
}

export const page = (dag) => `../dags/${encodeURIComponent(dag)}`;

export const workflowOf = (stream, kind) => `${stream}__${KINDS[kind]}`;

// What a person may start about a block: [what the button says, the workflow, the values of its form].
export function about(details) {
  const blocks = [details.ulid];
  const broken = { Partial: "partial", Malformed: "malformed" }[details.state];
  const found = [["Hold it", "hold", { action: "hold", name: `block-${details.ulid}`, blocks, length: "2h", reason: "" }]];
  if (broken) found.push(["Remove it", "repair", { kind: broken, blocks, reason: "", dry_run: true }]);
  else {
    found.push(["Rewrite it", "repair", { kind: "rewrite", blocks, reason: "", dry_run: true }]);
    found.push(["Retire its rows", "retire", { blocks, reason: "", dry_run: true }]);
  }
  if (details.mark) found.unshift(["Unmark it", "hold", { action: "unmark", blocks, length: "2h", reason: "" }]);
  return found;
}

// Ask in a dialog: the values, a button that copies them, a link to the DAG.
export function propose(dialog, title, dag, values) {
  const text = JSON.stringify(values, null, 2);
  const said = make("span", { role: "status" });
  const area = make("textarea", { readonly: true, rows: Math.min(14, text.split("\n").length + 1), cols: 60, "aria-label": "Values of the form, as JSON" });
  area.value = text;
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      said.textContent = "Copied.";
    } catch {
      area.select();
      said.textContent = "Press Ctrl+C: the browser lets no page copy by itself here.";
    }
  };
  dialog.replaceChildren(
    make("h2", { id: "form-title" }, title),
    make("p", {}, "Copy the values. In Airflow press ", make("b", {}, "Trigger"), ", open ", make("b", {}, "Advanced Options"),
      " and paste them as the configuration; the form's own checks apply. Nothing starts before you press Trigger there."),
    area,
    make("p", { class: "tools" }, make("button", { type: "button", onclick: copy }, "Copy values"), said,
      make("a", { href: page(dag), target: "_blank", rel: "noopener" }, `Open ${dag}`),
      make("span", { class: "grow" }), make("button", { type: "button", onclick: () => dialog.close() }, "Close")));
  dialog.showModal();
}
