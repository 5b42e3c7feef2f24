// A form that a server asks for: inputs made from its fields, checked here and again by the API.

import { fill, h, visible } from "./dom.js";
import { longText } from "./json.js";

let forms = 0;

export class FormView {
  constructor(fields) {
    this.id = `form${++forms}`;
    this.inputs = fields.map((field, index) => new Field(field, `${this.id}-${index}`));
    this.node = h("div.stack", this.inputs.map((input) => input.node));
  }

  // The content to send, or null if a field is not valid; the first such field has the focus.
  read() {
    const content = {};
    let first = null;
    for (const input of this.inputs) {
      const { value, problem } = input.read();
      input.say(problem);
      if (problem) first ??= input;
      else if (value !== undefined) content[input.field.name] = value;
    }
    first?.focus();
    return first ? null : content;
  }

  // What the API said about fields.
  show(problems) {
    let first = null;
    for (const input of this.inputs) {
      const problem = problems[input.field.name];
      input.say(problem ?? null);
      if (problem) first ??= input;
    }
    first?.focus();
  }
}

class Field {
  constructor(field, id) {
    this.field = field;
    this.id = id;
    this.problem = h("p.field-problem", { id: `${id}-problem`, role: "alert", hidden: true });
    this.help = field.description ? h("p.sub", { id: `${id}-help`, dir: "auto" }, longText(String(field.description), 1000)) : null;
    this.node = this.build();
  }

  build() {
    const { field, id } = this;
    const title = [visible(field.title || field.name), field.required ? h("span.sub", " (required)") : null];
    const described = [this.help ? `${id}-help` : null, `${id}-problem`].filter(Boolean).join(" ");
    const secret = field.secret ? h("p.warning", "This looks like a secret. A server should not ask for one in a form; fill it in only if you are sure.") : null;
    if (field.type === "multichoice") return this.choices(title, described, secret);
    if (field.type === "boolean") {
      this.control = h("input", { type: "checkbox", id, checked: field.default === true, "aria-describedby": described });
      return h("div.field", h("label.check", { for: id }, this.control, h("span", title)), this.help, secret, this.problem);
    }
    this.control = field.type === "choice" ? this.select(described) : this.input(described);
    return h("div.field", h("label", { for: id }, title), this.help, secret, this.control, this.problem);
  }

  input(described) {
    const { field, id } = this;
    const isNumber = field.type === "number" || field.type === "integer";
    const formats = { email: "email", uri: "url", date: "date", "date-time": "text" };
    const type = field.secret ? "password" : isNumber ? "text" : formats[field.format] ?? "text";
    const props = { id, type, value: field.default ?? "", inputmode: isNumber ? "decimal" : false, autocomplete: "off", "aria-describedby": described, placeholder: field.format === "date-time" ? "2026-11-17T09:30:00Z" : false };
    return (field.maxLength ?? 0) > 300 ? h("textarea", { ...props, type: null, rows: 4 }) : h("input", props);
  }

  select(described) {
    const { field, id } = this;
    const options = (field.options ?? []).map((option) => h("option", { value: option.value, selected: option.value === field.default }, visible(option.title ?? option.value)));
    return h("select", { id, "aria-describedby": described }, h("option", { value: "", selected: field.default === undefined || field.default === null }, "Choose…"), options);
  }

  choices(title, described, secret) {
    const { field, id } = this;
    const chosen = new Set(Array.isArray(field.default) ? field.default : []);
    this.boxes = (field.options ?? []).map((option, index) => h("input", { type: "checkbox", id: `${id}-${index}`, value: option.value, checked: chosen.has(option.value) }));
    const rows = this.boxes.map((box, index) => h("label.check", { for: box.id }, box, h("span", visible(field.options[index].title ?? box.value))));
    return h("fieldset.field", { "aria-describedby": described }, h("legend", title), this.help, secret, rows, this.problem);
  }

  read() {
    const { field } = this;
    if (field.type === "boolean") return { value: this.control.checked };
    if (field.type === "multichoice") return this.readChoices();
    const text = this.control.value;
    if (text === "") return field.required ? { problem: "This is required." } : {};
    if (field.type === "number" || field.type === "integer") return this.readNumber(text.trim());
    if (field.minLength > [...text].length) return { problem: `At least ${field.minLength} characters.` };
    if (field.maxLength !== null && field.maxLength !== undefined && [...text].length > field.maxLength) return { problem: `At most ${field.maxLength} characters.` };
    return { value: text };
  }

  readNumber(text) {
    const { field } = this;
    const value = Number(text.replace(",", "."));
    if (!Number.isFinite(value)) return { problem: "This must be a number." };
    if (field.type === "integer" && !Number.isInteger(value)) return { problem: "This must be a whole number." };
    if (typeof field.minimum === "number" && value < field.minimum) return { problem: `At least ${field.minimum}.` };
    if (typeof field.maximum === "number" && value > field.maximum) return { problem: `At most ${field.maximum}.` };
    return { value };
  }

  readChoices() {
    const value = this.boxes.filter((box) => box.checked).map((box) => box.value);
    const { minItems, maxItems, required } = this.field;
    if (value.length === 0 && !required && !minItems) return {};
    if (value.length < (minItems || (required ? 1 : 0))) return { problem: `Choose at least ${minItems || 1}.` };
    if (typeof maxItems === "number" && value.length > maxItems) return { problem: `Choose at most ${maxItems}.` };
    return { value };
  }

  say(problem) {
    this.problem.hidden = !problem;
    fill(this.problem, problem ? visible(String(problem).slice(0, 400)) : []);
    const control = this.control ?? this.node;
    if (problem) control.setAttribute("aria-invalid", "true");
    else control.removeAttribute("aria-invalid");
  }

  focus() {
    (this.control ?? this.boxes[0])?.focus();
  }
}
