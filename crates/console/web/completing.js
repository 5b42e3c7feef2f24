// A text that its server helps to complete: its proposals are those of the browser for a field.

import { post } from "./api.js";
import { cut, fill, h, unmarked, visible } from "./dom.js";

let inputs = 0;

export class CompletingInput {
  // options: { label, help, isRequired, complete: { of, server, name, argument, known() } | null, onchange }
  constructor(options) {
    this.options = options;
    const id = `completing${++inputs}`;
    this.list = h("datalist", { id: `${id}-list` });
    this.input = h("input", { id, type: "text", autocomplete: "off", spellcheck: "false", "aria-describedby": `${id}-problem`, list: options.complete ? `${id}-list` : false, onfocus: () => this.later(), oninput: () => this.typed() });
    this.problem = h("p.field-problem", { id: `${id}-problem`, role: "alert", hidden: true }, "Fill this in.");
    this.node = h("div.field", h("label", { for: id }, h("code", visible(cut(options.label, 200))), options.isRequired ? h("span.sub", " required") : null), options.help ? h("p.sub", { dir: "auto" }, visible(cut(options.help, 600))) : null, this.input, this.list, this.problem);
  }

  get value() {
    return this.input.value;
  }

  set value(text) {
    this.input.value = unmarked(text);
  }

  // Whether a value is missing, which is then said.
  check() {
    const isMissing = this.options.isRequired === true && this.value === "";
    this.problem.hidden = !isMissing;
    this.input.setAttribute("aria-invalid", String(isMissing));
    return isMissing;
  }

  typed() {
    if (!this.problem.hidden) this.check();
    this.options.onchange();
    this.later();
  }

  later() {
    clearTimeout(this.timer);
    if (this.options.complete) this.timer = setTimeout(() => this.ask(), 150);
  }

  async ask() {
    const { value } = this;
    const { known, ...what } = this.options.complete;
    const { values } = await post("/complete", { ...what, value, known: known() }).catch(() => ({ values: [] }));
    // A list of the browser cannot show hidden characters, so a proposal with some is left to be typed.
    if (value === this.value) fill(this.list, values.filter((proposal) => !proposal.includes("\ufdd0")).map((proposal) => h("option", { value: proposal })));
  }
}
