// Controls of a form about JSON: each has a label, a help text, the problem of its value, and the value as JSON, which is
// `undefined` where nothing is set. A value that is not touched stays as it was, also in a spelling that the control lacks.

import { fill, h, icon, words } from "./dom.js";

let controls = 0;

export class Control {
  // options: { label, help, hint, optional, onchange }
  constructor(options) {
    this.options = options;
    this.id = `control${++controls}`;
    this.original = undefined;
    this.problem = h("p.field-problem", { id: `${this.id}-problem`, role: "alert", hidden: true });
    this.help = options.help ? h("p.sub", { id: `${this.id}-help` }, words(options.help)) : null;
  }

  get described() {
    return [this.help ? `${this.id}-help` : null, `${this.id}-problem`].filter(Boolean).join(" ");
  }

  changed() {
    this.say(null);
    this.options.onchange?.();
  }

  frame(...content) {
    this.node = h("div", { class: `field ${this.options.wide ? "wide" : ""}` }, h("label", { for: this.id }, this.options.label), content, this.help, this.problem);
  }

  say(problem) {
    this.problem.hidden = !problem;
    fill(this.problem, problem ? words(problem) : []);
    const target = this.target();
    if (problem) target?.setAttribute("aria-invalid", "true");
    else target?.removeAttribute("aria-invalid");
  }

  target() {
    return this.input;
  }

  focus() {
    this.target()?.focus();
  }
}

// A text. options: { kind: "text" | "password" | "number" | "words" | "lines", rows, placeholder }
export class TextControl extends Control {
  constructor(options) {
    super(options);
    const props = { id: this.id, autocomplete: "off", spellcheck: "false", placeholder: options.placeholder ?? false, "aria-describedby": this.described, oninput: () => this.changed() };
    this.input = options.rows ? h("textarea", { ...props, rows: options.rows }) : h("input", { ...props, type: options.kind === "password" ? "password" : "text", inputmode: options.kind === "number" ? "numeric" : false });
    this.frame(this.input);
    this.set(undefined);
  }

  set(value) {
    this.original = value;
    this.shown = this.written(value);
    this.input.value = this.shown;
    // A reference is not the secret.
    if (this.options.kind === "password") this.input.type = /^\$\{[^}]+\}$/.test(this.shown) ? "text" : "password";
  }

  written(value) {
    if (value === undefined || value === null) return "";
    if (Array.isArray(value)) return value.join(this.options.kind === "words" ? " " : "\n");
    return String(value);
  }

  get value() {
    const text = this.input.value;
    if (text === this.shown) return this.original;
    if (this.options.kind === "lines") return filled(text.split("\n").map((line) => line.replace(/\r$/, "")).filter((line) => line !== ""));
    if (this.options.kind === "words") return filled(text.split(/[\s,]+/).filter(Boolean));
    const trimmed = this.options.rows ? text : text.trim();
    if (trimmed === "") return undefined;
    return this.options.kind === "number" && /^\d+$/.test(trimmed) ? Number(trimmed) : trimmed;
  }
}

// One of several. options: { choices: [[value, label]] }; the value "" is nothing, others are texts or booleans.
export class SelectControl extends Control {
  constructor(options) {
    super(options);
    this.input = h("select", { id: this.id, "aria-describedby": this.described, onchange: () => this.changed() });
    this.frame(this.input);
    this.set(undefined);
  }

  set(value) {
    this.original = value;
    const { choices } = this.options;
    const isKnown = choices.some(([known]) => known === (value ?? ""));
    const all = isKnown ? choices : [...choices, [String(value), String(value)]];
    fill(this.input, all.map(([known, label]) => h("option", { value: known }, label)));
    this.shown = value === undefined || value === null ? "" : String(value);
    this.input.value = this.shown;
  }

  get value() {
    if (this.input.value === this.shown) return this.original;
    const chosen = this.options.choices.find(([value]) => String(value) === this.input.value)?.[0];
    return chosen === "" ? undefined : chosen;
  }
}

// One of a few that are all visible. options: { choices: [[value, label, help]] }
export class RadioControl extends Control {
  constructor(options) {
    super(options);
    this.inputs = options.choices.map(([value], index) => h("input", { type: "radio", name: this.id, id: `${this.id}-${index}`, value, onchange: () => this.changed() }));
    const rows = options.choices.map(([, label, help], index) => h("label.choice", { for: `${this.id}-${index}` }, this.inputs[index], h("span", h("span.strong", label), help ? h("span.sub", help) : null)));
    this.node = h("fieldset.field.wide", { "aria-describedby": this.described }, h("legend", options.label), h("div.choices", rows), this.help, this.problem);
  }

  target() {
    return this.inputs.find((input) => input.checked) ?? this.inputs[0];
  }

  set(value) {
    for (const input of this.inputs) input.checked = input.value === value;
  }

  get value() {
    return this.inputs.find((input) => input.checked)?.value;
  }
}

// Yes or no. options: { fallback }: what holds where nothing is set.
export class CheckControl extends Control {
  constructor(options) {
    super(options);
    this.input = h("input", { type: "checkbox", id: this.id, "aria-describedby": this.described, onchange: () => this.changed() });
    this.node = h("div.field", h("label.check", { for: this.id }, this.input, h("span", options.label)), this.help, this.problem);
    this.set(undefined);
  }

  set(value) {
    this.original = value;
    this.shown = value ?? this.options.fallback ?? false;
    this.input.checked = this.shown;
  }

  get value() {
    if (this.input.checked === this.shown) return this.original;
    return this.input.checked === (this.options.fallback ?? false) ? undefined : this.input.checked;
  }
}

// Rows of texts: names with values, or members of a list. options: { columns: [{ key, label, placeholder }], add }
class RowsControl extends Control {
  constructor(options) {
    super(options);
    this.rows = [];
    this.list = h("div.rows");
    this.adder = h("button", { class: "small", onclick: () => { this.add().inputs[0].focus(); this.changed(); } }, icon("plus"), options.add);
    this.node = h("fieldset.field.wide", { "aria-describedby": this.described }, h("legend", options.label), this.help, this.list, h("div.actions", this.adder), this.problem);
  }

  target() {
    return this.rows[0]?.inputs[0] ?? this.adder;
  }

  say(problem) {
    super.say(problem);
    this.adder.removeAttribute("aria-invalid");
  }

  clear() {
    this.rows = [];
    fill(this.list);
  }

  add(texts = []) {
    const number = this.rows.length + 1;
    const row = { texts };
    row.inputs = this.options.columns.map((column, index) => h("input", { type: "text", value: texts[index] ?? "", placeholder: column.placeholder ?? column.label, "aria-label": `${column.label} ${number}`, autocomplete: "off", spellcheck: "false", oninput: () => this.changed() }));
    row.node = h("div.row-of-inputs", row.inputs, h("button", { class: "quiet icon-button", "aria-label": `Remove row ${number}`, onclick: () => this.remove(row) }, icon("close")));
    this.rows.push(row);
    this.list.append(row.node);
    return row;
  }

  remove(row) {
    const index = this.rows.indexOf(row);
    this.rows.splice(index, 1);
    row.node.remove();
    (this.rows[index] ?? this.rows[index - 1])?.inputs[0].focus();
    if (this.rows.length === 0) this.adder.focus();
    this.changed();
  }
}

// An object of texts.
export class PairsControl extends RowsControl {
  set(value) {
    this.original = value;
    this.clear();
    for (const [name, text] of Object.entries(value ?? {})) this.add([name, String(text)]);
  }

  get value() {
    const pairs = this.rows.map(({ inputs: [name, text] }) => [name.value.trim(), text.value]).filter(([name, text]) => name !== "" || text !== "");
    if (pairs.length === 0) return undefined;
    const kept = (name, text) => (this.original && String(this.original[name]) === text ? this.original[name] : text);
    return Object.fromEntries(pairs.map(([name, text]) => [name, kept(name, text)]));
  }
}

// The roots of a server: folders or URIs, each with a name.
export class RootsControl extends RowsControl {
  constructor(options) {
    super(options);
    this.node.classList.add("places");
  }

  set(value) {
    this.clear();
    for (const root of Array.isArray(value) ? value : []) this.add([root.path ?? root.uri ?? "", root.name ?? ""]).original = root;
  }

  get value() {
    const root = ({ inputs: [place, name], original = {} }) => {
      const { path, uri, name: before, ...others } = original;
      const where = place.value.trim();
      return { ...(/^[a-z][a-z0-9+.-]+:/i.test(where) ? { uri: where } : { path: where }), ...(name.value.trim() ? { name: name.value.trim() } : {}), ...others };
    };
    return filled(this.rows.filter(({ inputs: [place] }) => place.value.trim() !== "").map(root));
  }
}

function filled(list) {
  return list.length ? list : undefined;
}

// === the controls of an entry ===

// Controls by the key of the configuration that each stands for. Keys without a control stay as they are.
export class EntryFields {
  // onchange(): a value was changed.
  constructor(onchange) {
    this.onchange = onchange;
    this.base = {};
    this.fields = [];
  }

  // Adds a control; `when()`: whether its key matters.
  field(path, control, { when = () => true } = {}) {
    this.fields.push({ path, control, when });
    return control.node;
  }

  text(path, label, more = {}) {
    return this.field(path, new TextControl({ label, onchange: this.onchange, ...more }), more);
  }

  select(path, label, choices, more = {}) {
    return this.field(path, new SelectControl({ label, choices, onchange: this.onchange, ...more }), more);
  }

  // Says what the API found at the fields; returns the rest, and puts the focus on the first one.
  show(problems, { focus = true } = {}) {
    const rest = [];
    let first = null;
    for (const [path, problem] of problems) {
      const control = this.controlOf(path);
      if (!control || control.node.hidden) {
        rest.push(problem);
        continue;
      }
      control.say(problem);
      first ??= control;
    }
    if (first && focus) {
      const fold = first.node.closest("details");
      if (fold) fold.open = true;
      first.focus();
    }
    return rest;
  }

  clearProblems() {
    for (const { control } of [{ control: this.name }, ...this.fields]) control.say(null);
  }

  controlOf(path) {
    if (path === "name") return this.name;
    const of = (wanted) => this.fields.find((field) => field.path === wanted && field.when())?.control;
    for (let at = path; at; at = at.slice(0, Math.max(0, at.lastIndexOf(".")))) if (of(at)) return of(at);
    return of(path.replace(/\[\d+\].*$/, "")) ?? null;
  }
}

export function group(title, ...parts) {
  return h("section.form-group", h("h2.panel-title", title), parts.map((part) => h("div.form-grid", part)));
}

export function folded(title, fields) {
  return h("details.raw.form-fold", h("summary", title), h("div.form-grid", fields));
}

// === values by path ===

export function getAt(object, path) {
  return path.split(".").reduce((value, key) => (value !== null && typeof value === "object" ? value[key] : undefined), object);
}

// Sets or removes a value; an object that becomes empty is removed.
export function setAt(object, path, value) {
  const [key, ...rest] = path.split(".");
  if (rest.length === 0) {
    if (value === undefined) delete object[key];
    else object[key] = value;
    return;
  }
  const inner = object[key];
  const isObject = inner !== null && typeof inner === "object" && !Array.isArray(inner);
  if (!isObject && value === undefined) return;
  if (!isObject) object[key] = {};
  setAt(object[key], rest.join("."), value);
  if (Object.keys(object[key]).length === 0) delete object[key];
}
