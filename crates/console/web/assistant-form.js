// The screens that add and change an assistant: the form of its entry in the user's file.

import { on } from "./api.js";
import { fill, h } from "./dom.js";
import { EntryForm } from "./entry-form.js";
import { EntryFields, folded, getAt, group, RadioControl, setAt, TextControl } from "./fields.js";
import { state } from "./state.js";
import { PatternsControl, ServersControl } from "./tool-choice.js";

export const APPROVALS = [
  ["always-ask", "Always ask", "every one, whatever answers are saved"],
  ["trusted-only", "Trusted tools only", "all but tools that you name, and servers with full trust"],
  ["auto", "Automatic", "none that mode and rules allow"],
];
const DEFAULT = "always-ask";

export function create() {
  const form = new AssistantForm();
  return { node: form.node, route: ([assistant]) => form.route(assistant), close: () => form.close(), holdsInput: () => form.touched };
}

class AssistantForm extends EntryForm {
  constructor() {
    const { models = [], defaultModel } = state.session ?? {};
    const fields = new AssistantFields(() => this.changed(), models.map((model) => model.name), defaultModel);
    super({ noun: "assistant", adding: "Add assistant", path: "/assistants", label: "Assistants", fields });
    // A server of it may have gone.
    this.stops.push(on("changed:servers", () => this.touched && this.later()), ...fields.servers.stops);
  }

  begin() {
    fill(this.heading, "Add an assistant");
    fill(this.about, "A name for a model, a prompt, servers and an approval. You see what is written before it happens.");
    super.begin();
    this.fields.name.focus();
  }

  async save() {
    if (!(await this.ready())) return;
    if ((await this.write({ draft: this.draft })) !== null) location.hash = "#/assistants";
  }
}

class AssistantFields extends EntryFields {
  constructor(onchange, models, defaultModel) {
    super(onchange);
    const drawn = () => { this.servers.draw(); this.onchange(); };
    const lines = { kind: "lines", rows: 3, wide: true, help: "`SERVER.TOOL`, one on each line, with `*`; or tick them at their servers.", onchange: drawn };
    this.name = new TextControl({ label: "Name", help: "Letters, digits, `.`, `_` and `-`.", onchange });
    const trusts = () => this.approval.value === "trusted-only";
    this.approval = new RadioControl({ label: "Which calls are asked about", choices: APPROVALS, onchange: () => { this.arrange(); drawn(); } });
    this.offered = new PatternsControl({ label: "Tools", all: "All of these servers", ...lines });
    this.trusted = new PatternsControl({ label: "Trusted tools", ...lines });
    this.servers = new ServersControl({ label: "Servers", offered: this.offered, trusted: this.trusted, trusts, onchange });
    const number = (path, label) => this.text(path, label, { kind: "number", placeholder: "as without an assistant" });
    const asChosen = [["", "As set for all"], [true, "Go on, and tell the model later"], [false, "Wait for the end"]];
    this.node = h(
      "div",
      { class: "form-groups" },
      group("Assistant", [this.name.node, this.text("description", "Description"), this.select("model", "Model", [["", `As without an assistant${defaultModel ? ` (${defaultModel})` : ""}`], ...models.map((model) => [model, model])]), this.text("system", "Prompt", { rows: 5, wide: true, help: "What its model is told first (system prompt)." })]),
      group("Approval", [this.field("approval", this.approval), this.field("trustedTools", this.trusted, { when: trusts })]),
      group("Servers and tools", [this.field("servers", this.servers), this.field("tools", this.offered)]),
      folded("Background tasks, limits, resources", [
        this.select("tasks.background", "While a task runs", asChosen),
        this.text("tasks.pollInterval", "Time between two looks at a task", { placeholder: "5s" }),
        number("budgets.maxTurns", "Requests to the model in one answer"),
        number("budgets.maxToolCalls", "Tool calls in one answer"),
        number("budgets.maxTokens", "Tokens in one answer"),
        this.text("budgets.maxTime", "Time for one answer", { placeholder: "10m" }),
        this.text("resources", "Resources", { kind: "lines", rows: 2, wide: true, help: "URIs, or SERVER.URI, one on each line: attached before the first message of a conversation." }),
      ]),
    );
    this.set("", {});
  }

  set(name, entry) {
    this.base = entry;
    this.name.set(name || undefined);
    for (const { path, control } of this.fields) control.set(getAt(entry, path) ?? (path === "approval" ? DEFAULT : undefined));
    this.arrange();
    this.servers.draw();
  }

  arrange() {
    for (const { control, when } of this.fields) control.node.hidden = !when();
  }

  get entry() {
    const entry = structuredClone(this.base);
    for (const { path, control, when } of this.fields) if (when()) setAt(entry, path, control.value);
    // What is not written is the default.
    if (this.base.approval === undefined && entry.approval === DEFAULT) delete entry.approval;
    return entry;
  }
}
