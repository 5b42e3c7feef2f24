// One resource or prompt: texts as arguments, which stand in the address, a button that calls, and the result.

import { CompletingInput } from "./completing.js";
import { fill, h, icon, unmarked, visible } from "./dom.js";
import { offerHead } from "./offers.js";
import { toast } from "./parts.js";
import { RunPanel } from "./run-panel.js";

export class ArgumentView {
  // what: { of: "prompt" | "template", own, list: [{ name, description, required }], prefix, verb }
  constructor(item, frame, { of, own, list, prefix, verb }) {
    this.item = item;
    this.frame = frame;
    this.prefix = prefix;
    this.touched = false;
    const { completes } = frame.answer.servers[item.server] ?? {};
    this.inputs = list.map(({ name, description, required }) => {
      const key = unmarked(name);
      const known = () => Object.fromEntries(Object.entries(this.values).filter(([other]) => other !== key));
      const complete = completes ? { of, server: item.server, name: own, argument: name, known } : null;
      return [key, new CompletingInput({ label: name, help: description, isRequired: required, complete, onchange: () => this.changed() })];
    });
    this.panel = new RunPanel({ onrun: (run) => frame.replace({ ...this.state, run }) });
    this.news = h("div", { "aria-live": "polite" });
    this.facts = h("dl.facts");
    this.actions = h("div.actions", h("button", { type: "submit", class: "primary" }, icon("play"), verb));
    const submit = (event) => {
      event.preventDefault();
      if (this.panel.isRunning) toast("It is still running.");
      else if (!this.missing()) this.call();
    };
    const form = h("form.stack", { novalidate: true, onsubmit: submit }, this.inputs.map(([, input]) => input.node), this.facts, this.actions);
    this.node = h("div.stack", offerHead(item, item.title || item.name, own), item.description ? h("p.prose", { dir: "auto" }, visible(item.description)) : null, form, this.news, this.panel.node);
  }

  close() {
    this.panel.close();
  }

  // The list was read again: null if it is gone.
  set(item) {
    if (item === null) fill(this.news, h("p.warning", icon("warning"), "The server does not offer this now. What you typed stays here."));
    else if (this.isGone) fill(this.news);
    this.isGone = item === null;
  }

  get values() {
    return Object.fromEntries(this.inputs.map(([name, input]) => [name, input.value]).filter(([, value]) => value !== ""));
  }

  get state() {
    return Object.fromEntries(Object.entries(this.values).map(([name, value]) => [`${this.prefix}.${name}`, value]));
  }

  async route(query) {
    for (const [name, input] of this.inputs) {
      const given = query.get(`${this.prefix}.${name}`);
      if (given !== null && input.value === "") input.value = given;
    }
    this.draw();
    const run = query.get("run");
    if (run !== null && run !== this.panel.id) await this.panel.open(run);
  }

  changed() {
    this.touched = true;
    this.frame.replace(this.state);
    this.draw();
  }

  // What depends on the values.
  draw() {}

  // Whether an argument is missing; the first of them has the focus.
  missing() {
    const [first] = this.inputs.filter(([, input]) => input.check());
    first?.[1].input.focus();
    return first !== undefined;
  }
}
