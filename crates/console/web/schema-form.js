// A form from a JSON schema, with a switch to its JSON. What the form cannot hold stays as JSON, so that nothing that was typed
// is lost on the way there and back. Parts are drawn when they are needed: a schema may be endless.

import { cut, fill, h, icon, name, unmarked, visible, words } from "./dom.js";
import { describe, Digits, fits, isObject, read, same, write } from "./schema.js";

const PAGE = 30;
const MOST_REQUIRED = 200;
const MOST_OPTIONS = 300;
const MOST_ITEMS = 500;
// Required objects within objects are opened at once up to here.
const OPEN_DEPTH = 3;
let slots = 0;

export class SchemaForm {
  constructor(schema) {
    const changed = () => this.changed();
    this.touched = false;
    this.root = new Slot({ schema, root: schema, depth: 0, isRequired: true, changed });
    this.text = h("textarea.json-input", { rows: 8, spellcheck: "false", autocomplete: "off", "aria-label": "Arguments as JSON", hidden: true, oninput: changed });
    this.problem = h("p.field-problem", { role: "alert", hidden: true });
    this.node = h("div.stack", this.root.node, this.text, this.problem);
  }

  get isJson() {
    return !this.text.hidden;
  }

  changed() {
    this.touched = true;
    this.say(null);
  }

  say(problem) {
    this.problem.hidden = !problem;
    fill(this.problem, problem ? words(problem) : []);
  }

  // Switches to JSON or back. Text that is no JSON object stays where it is.
  toggle() {
    if (!this.isJson) {
      const { value } = this.root;
      // A text that says the same stays as it was typed.
      if (this.typed === undefined || !same(this.typed, value)) this.text.value = write(value, 2);
    } else {
      const value = this.parsed();
      if (value === null) return;
      this.typed = value;
      this.root.set(value);
    }
    this.say(null);
    this.text.hidden = !this.text.hidden;
    this.root.node.hidden = this.isJson;
  }

  parsed() {
    try {
      const value = read(this.text.value.trim() || "{}");
      if (isObject(value)) return value;
      this.say("the arguments must be a JSON object");
    } catch (error) {
      this.say(`this is not JSON yet: ${error.message}`);
    }
    this.text.focus();
    return null;
  }

  set(value) {
    this.root.set(value);
    this.text.value = write(value, 2);
  }

  // The arguments as JSON text; null if something is wrong, which is then said and has the focus.
  read() {
    if (this.isJson) return this.parsed() && (this.text.value.trim() || "{}");
    const wrong = this.root.check();
    wrong?.focus();
    return wrong ? null : write(this.root.value);
  }

  // The arguments as far as they are filled in.
  get sofar() {
    try {
      return this.isJson ? read(this.text.value) : this.root.value;
    } catch {
      return {};
    }
  }

  // Problems by JSON pointer; what belongs to no field is said below.
  show(problems) {
    const rest = [];
    let first = null;
    for (const [pointer, message] of Object.entries(problems)) {
      const parts = pointer.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
      const slot = this.isJson ? this.root : this.root.find(parts);
      if (slot === this.root) rest.push(`\`${parts.join(".") || "arguments"}\`: ${message}`);
      else slot.say(message);
      if (slot !== this.root) first ??= slot;
    }
    this.say(rest.join("; ") || null);
    first?.focus();
  }
}

const KINDS = { text: "text", number: "number", integer: "whole number", boolean: "yes or no", object: "object", array: "list", choice: "one of a list", const: "fixed", variants: "one of several", any: "JSON" };
const BOUNDS = { minimum: "at least", maximum: "at most", exclusiveMinimum: "more than", exclusiveMaximum: "less than", minLength: "length at least", maxLength: "length at most", pattern: "like" };

// One value with its control. A control has: node, value, accepts(value), set(value); and where it differs target, trouble,
// inner (the slots within it) and child(key).
class Slot {
  // options: { schema, root, depth, label, isRequired, changed }
  constructor(options) {
    const { label, schema, root } = options;
    this.options = options;
    this.id = `value${++slots}`;
    this.described = describe(schema, root);
    const { kind, nullable } = this.described;
    this.nests = ["object", "array", "variants"].includes(kind);
    this.problem = h("p.field-problem", { id: `${this.id}-problem`, role: "alert", hidden: true });
    this.body = h("div.slot-body");
    this.isNull = nullable ? h("input", { type: "checkbox", id: `${this.id}-null`, onchange: () => {
      this.body.hidden = this.isNull.checked;
      this.changed();
    } }) : null;
    this.begin();
    const nothing = nullable ? h("label.check.null-check", { for: this.isNull.id }, this.isNull, "null") : null;
    const parts = label === undefined ? [nothing] : [this.nests ? h("legend", this.title()) : h("label", { for: this.id }, this.title()), this.help(), nothing];
    this.node = h(this.nests && label !== undefined ? "fieldset" : "div", { class: "field slot" }, parts, this.body, this.problem);
  }

  title() {
    const { label, isRequired } = this.options;
    const { schema, kind, nullable } = this.described;
    const format = typeof schema.format === "string" ? ` (${cut(schema.format, 40)})` : "";
    return [typeof schema.title === "string" && schema.title !== label ? [name(schema.title), " "] : "", h("code", visible(cut(label, 200))), h("span.sub", ` ${KINDS[kind]}${format}${nullable ? " or null" : ""}${isRequired ? ", required" : ""}`)];
  }

  help() {
    const { schema, unresolved } = this.described;
    const line = (...content) => h("p.sub", { dir: "auto" }, content);
    const bounds = Object.entries(BOUNDS).filter(([key]) => ["number", "string"].includes(typeof schema[key])).map(([key, word]) => `${word} ${cut(schema[key], 120)}`);
    return [
      typeof schema.description === "string" ? line(visible(cut(schema.description, 1000))) : null,
      unresolved ? line("Its schema refers to something that is not here; write it as JSON.") : null,
      bounds.length ? line(visible(bounds.join(", "))) : null,
      schema.default === undefined ? null : line("Without it: ", h("code", visible(cut(write(schema.default), 200)))),
    ];
  }

  // The properties of an input.
  get aria() {
    const { label, place } = this.options;
    return { id: this.id, "aria-describedby": `${this.id}-problem`, "aria-label": label === undefined ? place ?? false : false, autocomplete: "off", spellcheck: "false" };
  }

  // What it begins with: what holds further parts is opened by the user, unless it is required and near.
  begin() {
    const { depth, isRequired, label } = this.options;
    this.use(this.nests && label !== undefined && (!isRequired || depth > OPEN_DEPTH) ? absent(this) : this.own());
  }

  own() {
    return CONTROLS[this.described.kind](this);
  }

  use(control) {
    this.control = control;
    fill(this.body, control.node);
  }

  changed() {
    this.say(null);
    this.options.changed();
  }

  clear() {
    this.begin();
    this.changed();
    this.focus();
  }

  get value() {
    return this.isNull?.checked ? null : this.control.value;
  }

  set(value) {
    this.say(null);
    const isNull = value === null && this.isNull !== null;
    if (this.isNull) this.isNull.checked = isNull;
    this.body.hidden = isNull;
    if (isNull) return;
    const control = this.own();
    this.use(control.accepts(value) ? control : CONTROLS.any(this));
    this.control.set(value);
  }

  // The first slot that is wrong, and says so; null if none is.
  check() {
    if (this.isNull?.checked) return null;
    const inner = (this.control.inner?.() ?? []).map((slot) => slot.check()).find(Boolean);
    if (inner) return inner;
    const problem = this.control.trouble?.() ?? (this.options.isRequired && this.value === undefined ? "Fill this in; for an empty text use JSON." : null);
    this.say(problem);
    return problem ? this : null;
  }

  find([part, ...rest]) {
    return (part === undefined ? null : this.control.child?.(part)?.find(rest)) ?? this;
  }

  say(problem) {
    this.problem.hidden = !problem;
    fill(this.problem, problem ? visible(cut(problem, 400)) : []);
    if (problem) this.control.target?.setAttribute("aria-invalid", "true");
    else this.control.target?.removeAttribute("aria-invalid");
  }

  focus() {
    (this.control.target ?? this.body.querySelector("input, select, textarea, button"))?.focus();
  }

  // A slot within this one.
  inner(schema, more) {
    const { root, depth } = this.options;
    return new Slot({ schema: schema ?? {}, root, depth: depth + 1, isRequired: true, changed: () => this.changed(), ...more });
  }

  // Buttons below the parts: one that adds a part, and one that takes the whole away.
  buttons(label, add) {
    const { isRequired } = this.options;
    const taken = isRequired ? null : h("button.small.quiet", { onclick: () => this.clear() }, "Remove");
    return h("div.actions", label ? small(label, add) : null, taken);
  }
}

function small(label, onclick, props) {
  return h("button.small", { onclick, ...props }, icon("plus"), label);
}

// A part of a list or a map, with a button that takes it away.
function row(slot, remove, before) {
  const node = h("div.slot-row", h("div.grow.slot-row-body", before, slot.node), h("button.quiet.icon-button", { "aria-label": "Remove", onclick: () => {
    node.remove();
    remove();
  } }, icon("close")));
  return node;
}

// A part that is not set, and a button that begins it.
function absent(slot) {
  const target = small("Fill in", () => {
    slot.use(slot.own());
    slot.control.start?.();
    slot.changed();
    slot.focus();
  }, { id: slot.id });
  return { node: target, target, value: undefined };
}

// === single values ===

const INPUTS = { date: "date", time: "time", email: "email", uri: "url" };
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;

function text(slot) {
  const type = INPUTS[slot.described.schema.format];
  const props = { ...slot.aria, oninput: () => slot.changed() };
  const target = type ? h("input", { ...props, type }) : h("textarea", { ...props, class: "text-input", rows: 1 });
  // A text that is empty was chosen as JSON; a field that is empty is not set.
  let isEmpty = false;
  return {
    node: target,
    target,
    accepts: (value) => typeof value === "string",
    set(value) {
      isEmpty = value === "";
      target.value = unmarked(value);
    },
    get value() {
      return target.value === "" && !isEmpty ? undefined : target.value;
    },
  };
}

function number(slot) {
  const target = h("input", { ...slot.aria, type: "text", inputmode: "decimal", oninput: () => slot.changed() });
  return {
    node: target,
    target,
    accepts: (value) => ["number", "string"].includes(typeof value) || value instanceof Digits,
    set: (value) => (target.value = typeof value === "string" ? unmarked(value) : write(value)),
    // What is no number stays a text, which JSON shows.
    get value() {
      const typed = target.value.trim();
      if (!NUMBER.test(typed)) return typed || undefined;
      return String(Number(typed)) === typed ? Number(typed) : new Digits(typed);
    },
    trouble() {
      const typed = target.value.trim();
      if (typed && !NUMBER.test(typed)) return "This must be a number.";
      return slot.described.kind === "integer" && !Number.isInteger(Number(typed)) ? "This must be a whole number." : null;
    },
  };
}

// One of these: [[value, words]]
function select(slot, options) {
  const target = h("select", { ...slot.aria, onchange: () => slot.changed() }, h("option", { value: "" }, slot.options.isRequired ? "Choose…" : "Not set"), options.slice(0, MOST_OPTIONS).map(([value, label], index) => h("option", { value: String(index) }, visible(cut(label ?? (typeof value === "string" ? value : write(value)), 200)))));
  const more = options.length - MOST_OPTIONS;
  return {
    node: more > 0 ? h("div", target, h("p.sub", `${more} more values; write one of them as JSON.`)) : target,
    target,
    accepts: (value) => options.slice(0, MOST_OPTIONS).some(([known]) => same(known, value)),
    set: (value) => (target.value = String(options.findIndex(([known]) => same(known, value)))),
    get value() {
      return options[Number(target.value || -1)]?.[0];
    },
  };
}

// The only value that a required part can have is there from the beginning.
function fixed(slot) {
  const control = select(slot, [[slot.described.schema.const]]);
  if (slot.options.isRequired) control.target.value = "0";
  return control;
}

// Any value, as JSON.
function any(slot) {
  const target = h("textarea", { ...slot.aria, class: "text-input", rows: 2, placeholder: "JSON", oninput: () => slot.changed() });
  const parsed = () => {
    try {
      return target.value.trim() ? { value: read(target.value) } : {};
    } catch {
      return { value: target.value, isWrong: true };
    }
  };
  return {
    node: target,
    target,
    accepts: () => true,
    set: (value) => (target.value = write(value, 2)),
    get value() {
      return parsed().value;
    },
    trouble: () => (parsed().isWrong ? "This is not JSON. A text stands in double quotes." : null),
  };
}

// === values of several parts ===

function object(slot) {
  const { schema } = slot.described;
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const all = Object.entries(isObject(schema.properties) ? schema.properties : {}).map(([key, part]) => ({ key, part, isRequired: required.has(key) }));
  // Not drawn yet, those that are required first.
  let waiting = [...all.filter((one) => one.isRequired), ...all.filter((one) => !one.isRequired)];
  const known = new Map();
  const others = new Map();
  const [fields, more, rest] = [h("div.slot-fields"), h("div"), h("div.slot-fields")];

  const draw = (wanted) => {
    const drawn = waiting.filter(wanted);
    waiting = waiting.filter((one) => !drawn.includes(one));
    for (const { key, part, isRequired } of drawn) {
      const inner = slot.inner(part, { label: key, isRequired });
      known.set(unmarked(key), inner);
      fields.append(inner.node);
    }
    fill(more, waiting.length ? small(`Show more (${waiting.length} left)`, next) : []);
  };
  const next = () => {
    const first = new Set(waiting.slice(0, PAGE));
    draw((one) => first.has(one));
  };
  const slotOf = (key) => {
    draw((one) => unmarked(one.key) === key);
    return known.get(key) ?? null;
  };
  const search = ({ target }) => {
    const wanted = target.value.trim().toLowerCase();
    const found = new Set(waiting.filter((one) => one.key.toLowerCase().includes(wanted)).slice(0, PAGE));
    if (wanted) draw((one) => found.has(one));
    for (const [key, inner] of known) inner.node.hidden = !key.toLowerCase().includes(wanted);
  };
  // A member without a place of its own.
  const allowed = schema.additionalProperties;
  const isOpen = isObject(allowed) || allowed === true || (allowed === undefined && all.length === 0);
  const addMember = (key, value) => {
    const input = h("input", { type: "text", value: unmarked(key), placeholder: "Name", "aria-label": "Name of the member", autocomplete: "off", spellcheck: "false", oninput: () => slot.changed() });
    const inner = slot.inner(isObject(allowed) ? allowed : {}, { isRequired: false, place: "Value" });
    others.set(input, inner);
    rest.append(row(inner, () => others.delete(input) && slot.changed(), input));
    if (value !== undefined) inner.set(value);
    return input;
  };
  const find = all.length > PAGE ? h("input", { type: "search", placeholder: `Find one of ${all.length} arguments`, "aria-label": "Find an argument", oninput: search }) : null;
  const none = all.length === 0 && allowed === false ? h("p.sub", "It takes no arguments.") : null;
  next();
  return {
    node: h("div.stack", find, none, fields, more, rest, slot.buttons(isOpen ? "Member" : null, () => addMember("").focus())),
    accepts: isObject,
    set(value) {
      for (const [key, member] of Object.entries(value)) {
        const inner = slotOf(key);
        if (inner) inner.set(member);
        else addMember(key, member);
      }
    },
    get value() {
      const members = [...known, ...[...others].map(([input, inner]) => [input.value, inner])].map(([key, inner]) => [key, inner.value]);
      return Object.fromEntries(members.filter(([, value]) => value !== undefined));
    },
    child: (key) => slotOf(key) ?? [...others].find(([input]) => input.value === key)?.[1],
    inner() {
      let drawn = 0;
      draw((one) => one.isRequired && ++drawn <= MOST_REQUIRED);
      return [...known.values(), ...others.values()];
    },
  };
}

function array(slot) {
  const items = [];
  const list = h("div.slot-fields");
  const { prefixItems, items: schema } = slot.described.schema;
  const add = (value) => {
    const at = items.length;
    const inner = slot.inner((Array.isArray(prefixItems) ? prefixItems[at] : undefined) ?? schema, { place: `Item ${at + 1}` });
    items.push(inner);
    list.append(row(inner, () => {
      items.splice(items.indexOf(inner), 1);
      slot.changed();
      slot.focus();
    }));
    if (value !== undefined) inner.set(value);
    return inner;
  };
  return {
    node: h("div.stack", list, slot.buttons("Item", () => {
      add().focus();
      slot.changed();
    })),
    start: () => add(),
    accepts: (value) => Array.isArray(value) && value.length <= MOST_ITEMS,
    set: (values) => values.forEach((value) => add(value)),
    get value() {
      return items.map((inner) => inner.value ?? null);
    },
    child: (index) => items[Number(index)],
    inner: () => items,
  };
}

function variants(slot) {
  const { variants: all } = slot.described;
  const label = (part, index) => {
    const constant = Object.entries(isObject(part.properties) ? part.properties : {}).find(([, inner]) => typeof inner?.const === "string");
    return typeof part.title === "string" ? part.title : constant ? `${constant[0]}: ${constant[1].const}` : `${KINDS[describe(part, slot.options.root).kind]} (${index + 1})`;
  };
  // What was typed in another form is there when that is chosen again.
  const kept = new Map();
  const body = h("div");
  const choose = (index) => {
    if (!kept.has(index)) kept.set(index, slot.inner(all[index], {}));
    target.value = String(index);
    fill(body, kept.get(index).node);
  };
  const target = h("select", { ...slot.aria, "aria-label": "Which form it has", onchange: () => {
    choose(Number(target.value));
    slot.changed();
  } }, all.map((part, index) => h("option", { value: String(index) }, visible(cut(label(part, index), 120)))));
  const chosen = () => kept.get(Number(target.value));
  const indexOf = (value) => all.findIndex((part) => fits(value, part, slot.options.root));
  choose(0);
  return {
    node: h("div.stack", target, body, slot.buttons(null)),
    target,
    accepts: (value) => indexOf(value) >= 0,
    set(value) {
      choose(indexOf(value));
      chosen().set(value);
    },
    get value() {
      return chosen().value;
    },
    child: (key) => chosen().control.child?.(key),
    inner: () => [chosen()],
  };
}

const CONTROLS = { text, number, integer: number, boolean: (slot) => select(slot, [[true, "Yes"], [false, "No"]]), choice: (slot) => select(slot, slot.described.choices), const: fixed, object, array, variants, any };
