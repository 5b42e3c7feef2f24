// The screen Tools: all tools of all servers with a search, and one of them with what it says of itself, a form and its result.

import { get } from "./api.js";
import { fill, h, icon, visible, words } from "./dom.js";
import { fullTime, TRUST } from "./format.js";
import { copyButton, json } from "./json.js";
import { offerHead, OfferScreen, rowWords } from "./offers.js";
import { hints, problem, section, toast } from "./parts.js";
import { RunPanel } from "./run-panel.js";
import { SchemaForm } from "./schema-form.js";
import { write } from "./schema.js";

export function create() {
  return new OfferScreen({
    path: "tools",
    title: "Tools",
    one: "Tool",
    many: "tools",
    welcome: "What it does, its arguments and a form to run it are shown here.",
    read: (list) => [...list.tools, ...list.hidden],
    nameOf: (tool) => tool.name,
    row: (tool) => [rowWords(tool, tool.name, tool.title ?? tool.description), h("span", { class: "tags" }, tool.reason ? h("span", { class: "tag bad" }, "hidden") : hints({ ...tool, openWorld: false, idempotent: false }))],
    detail: (tool, frame) => (tool.reason ? hiddenTool(tool) : new ToolView(tool, frame)),
  });
}

// A tool that policy hides from models and clients.
function hiddenTool(item) {
  return { item, node: h("div", { class: "stack" }, offerHead(item, item.name), h("p", { class: "warning" }, icon("warning"), "It is hidden from models and clients, because it is not what was seen first."), h("pre", { class: "plain", tabindex: "0" }, visible(item.reason))), close() {} };
}

class ToolView {
  constructor(item, frame) {
    this.item = item;
    this.frame = frame;
    this.about = h("div", { class: "stack" });
    this.news = h("div", { "aria-live": "polite" });
    this.formPlace = h("div", {});
    this.asJson = h("button", { type: "button", class: "small", "aria-pressed": "false", onclick: () => this.toggle() }, "JSON");
    this.runButton = h("button", { type: "submit", class: "primary" }, icon("play"), "Run");
    this.panel = new RunPanel({ onrun: (run) => this.frame.replace({ run }), onend: (run) => this.ended(run) });
    this.form = h("form", { class: "stack tool-form", novalidate: true, onsubmit: (event) => this.submit(event), onkeydown: (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && this.submit(event) });
    this.schemas = h("div", { class: "stack" });
    this.node = h("div", { class: "stack" }, this.about, this.news, this.form, this.panel.node, this.schemas);
    this.loading = this.load();
  }

  get touched() {
    return this.schemaForm?.touched ?? false;
  }

  async load() {
    try {
      const tool = await get(`/tools/${encodeURIComponent(this.item.server)}/${encodeURIComponent(this.item.name)}`);
      const isOther = this.tool !== undefined && write(this.tool.inputSchema) !== write(tool.inputSchema);
      this.drawAbout(tool);
      if (!this.schemaForm || (isOther && !this.touched)) this.useForm(tool);
      else if (isOther) this.offerForm(tool);
    } catch (error) {
      fill(this.news, problem(error));
    }
  }

  // The list was read again: null if the tool is gone.
  set(item) {
    if (item === null || item.reason) return void fill(this.news, h("p", { class: "warning" }, icon("warning"), "The server does not offer this tool now. What you typed stays here."));
    this.item = item;
    fill(this.news);
    this.loading = this.load();
  }

  useForm(tool) {
    const before = this.schemaForm?.sofar;
    this.tool = tool;
    this.schemaForm = new SchemaForm(tool.inputSchema ?? {});
    if (before) this.schemaForm.set(before);
    fill(this.form, h("div", { class: "part-head" }, h("h3", {}, "Arguments"), this.asJson), this.schemaForm.node, h("div", { class: "actions form-actions" }, this.runButton, this.copies(tool)));
    this.asJson.setAttribute("aria-pressed", "false");
    fill(this.news);
  }

  offerForm(tool) {
    fill(this.news, h("p", { class: "warning" }, icon("warning"), h("span", {}, "The server has changed the arguments of this tool. ", h("button", { type: "button", class: "small", onclick: () => this.useForm(tool) }, "Use the new form"))));
  }

  async route(query) {
    const run = query.get("run");
    if (run === null || run === this.panel.id) return;
    await this.loading;
    const values = await this.panel.open(run);
    if (values && !this.touched) this.schemaForm?.set(values);
  }

  toggle() {
    this.schemaForm.toggle();
    this.asJson.setAttribute("aria-pressed", String(this.schemaForm.isJson));
  }

  async submit(event) {
    event.preventDefault();
    if (this.panel.isRunning) return toast("It is still running.");
    const values = this.schemaForm.read();
    if (values === null) return;
    await this.panel.start("tool", this.item.server, this.item.name, values);
    this.panel.node.scrollIntoView({ block: "nearest" });
  }

  ended(run) {
    if (Object.keys(run.fields).length) this.schemaForm?.show(run.fields);
    // Its first use is what it is compared with from now on.
    else if (run.result && this.tool?.definition?.standing === "unseen") this.load();
  }

  close() {
    this.panel.close();
  }

  copies(tool) {
    const values = () => this.schemaForm.sofar;
    const call = () => `toolway call ${tool.publicName} --args '${write(values()).replaceAll("'", "'\\''")}'`;
    const message = () => write({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: tool.name, arguments: values() } }, 2);
    return [copyButton(call, "Copy as command"), copyButton(message, "Copy as JSON-RPC")];
  }

  drawAbout(tool) {
    fill(
      this.about,
      offerHead(tool, tool.title || tool.name, tool.name),
      tool.description ? h("p", { class: "prose", dir: "auto" }, visible(tool.description.slice(0, 20_000))) : null,
      h("ul", { class: "hint-list" }, hintWords(tool).map(([tone, text]) => h("li", { class: tone }, text))),
      definition(tool),
    );
    const schema = (title, value) => (value ? h("details", { class: "raw" }, h("summary", {}, title), section(title, copyButton(() => write(value, 2), "Copy as schema"), json(value))) : null);
    fill(this.schemas, schema("Input schema", tool.inputSchema), schema("Output schema", tool.outputSchema));
  }
}

// What the server says of a tool, and what holds where it says nothing.
function hintWords(tool) {
  const said = (key) => typeof tool.annotations?.[key] === "boolean";
  const assumed = (key) => (said(key) ? "" : " (the server does not say; this is assumed)");
  const lines = [tool.readOnly ? ["good", "It only reads"] : ["", `It may change something${assumed("readOnlyHint")}`]];
  if (!tool.readOnly) lines.push(tool.destructive ? ["bad", `It may delete or overwrite${assumed("destructiveHint")}`] : ["", "It only adds: nothing is deleted or overwritten"]);
  if (!tool.readOnly) lines.push(["", tool.idempotent ? "Running it twice with the same arguments changes nothing more" : `Running it twice may act twice${assumed("idempotentHint")}`]);
  lines.push(["", tool.openWorld ? `It may reach beyond its server, such as the web${assumed("openWorldHint")}` : "It works within its server only"]);
  if (tool.task) lines.push(["", tool.task === "required" ? "It runs as a task" : "It can run as a task"]);
  if (tool.trust) lines.push(["", `Its server is ${TRUST[tool.trust] ?? tool.trust}; hints of a server are its own words`]);
  return lines;
}

const STANDINGS = {
  unseen: "Not used yet: its first use is what later ones are compared with.",
  same: "It is what was accepted",
  changed: "It has changed since it was accepted",
  new: "The server did not have it when its other tools were first seen.",
};

function definition({ definition: seen }) {
  if (!seen) return null;
  const { standing, seenAt, difference } = seen;
  const when = seenAt && (standing === "same" || standing === "changed") ? ` (${fullTime(seenAt)})` : "";
  const line = `${STANDINGS[standing] ?? standing}${when}${standing === "same" ? "." : ""}`;
  if (standing !== "changed") return h("p", { class: "sub" }, line);
  return h("details", { class: "raw definition" }, h("summary", {}, icon("warning"), line), h("ul", { class: "change-list" }, difference.slice(0, 100).map((change) => h("li", { class: "wrap" }, words(change)))));
}
