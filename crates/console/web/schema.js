// What a JSON schema describes, one level at a time: local references are followed, `allOf` is merged, `null` and variants are
// told apart. Nothing here is recursive in the schema, so it may refer to itself or be of any depth.

import { unmarked } from "./dom.js";

const MOST_HOPS = 30;
const MOST_PARTS = 50;

// { kind, schema, nullable, variants, choices, unresolved }; kind: "text", "number", "integer", "boolean", "object", "array",
// "choice", "const", "variants" or "any"
export function describe(given, root) {
  const { schema, unresolved } = plain(given, root);
  if (unresolved) return { kind: "any", schema, nullable: false, unresolved };
  if ("const" in schema) return { kind: "const", schema, nullable: false };
  if (Array.isArray(schema.enum)) return { kind: "choice", schema, nullable: false, choices: schema.enum.map((value) => [value, null]) };
  const alternatives = Array.isArray(schema.oneOf) ? schema.oneOf : schema.anyOf;
  if (Array.isArray(alternatives) && alternatives.length) return ofAlternatives(schema, alternatives, root);
  const types = (Array.isArray(schema.type) ? schema.type : [schema.type]).filter((type) => typeof type === "string");
  const nullable = types.includes("null") || schema.nullable === true;
  const others = types.filter((type) => type !== "null");
  if (others.length > 1) return { kind: "variants", schema, nullable, variants: others.map((type) => ({ ...schema, type })) };
  return { kind: KINDS[others[0]] ?? inferred(schema), schema, nullable };
}

const KINDS = { string: "text", number: "number", integer: "integer", boolean: "boolean", object: "object", array: "array" };

function inferred(schema) {
  if (isObject(schema.properties) || isObject(schema.additionalProperties)) return "object";
  return schema.items !== undefined || schema.prefixItems !== undefined ? "array" : "any";
}

function ofAlternatives(schema, alternatives, root) {
  const parts = alternatives.slice(0, MOST_PARTS).map((part) => plain(part, root).schema);
  const isNull = (part) => part.type === "null" || part.const === null;
  const others = parts.filter((part) => !isNull(part));
  const nullable = others.length < parts.length;
  const { oneOf, anyOf, ...base } = schema;
  if (others.length > 0 && others.every((part) => "const" in part)) return { kind: "choice", schema, nullable, choices: others.map((part) => [part.const, part.title ?? null]) };
  if (others.length === 1) return { ...describe(merged([base, others[0]]), root), nullable };
  return { kind: "variants", schema, nullable, variants: others.map((part) => merged([base, part])) };
}

// A schema without a reference or `allOf` at its top.
function plain(given, root) {
  let schema = isObject(given) ? given : {};
  for (let hops = 0; typeof schema.$ref === "string"; hops += 1) {
    const target = hops < MOST_HOPS ? resolve(schema.$ref, root) : null;
    if (target === null) return { schema, unresolved: true };
    const { $ref, ...beside } = schema;
    schema = { ...target, ...beside };
    if (target.$ref !== undefined && beside.$ref === undefined) schema.$ref = target.$ref;
  }
  if (!Array.isArray(schema.allOf)) return { schema, unresolved: false };
  const { allOf, ...base } = schema;
  const parts = allOf.slice(0, MOST_PARTS).map((part) => (isObject(part) && typeof part.$ref === "string" ? { ...resolve(part.$ref, root), ...part, $ref: undefined } : part));
  return { schema: merged([base, ...parts.filter(isObject)]), unresolved: false };
}

// The target of a reference within the document; null for any other.
function resolve(reference, root) {
  if (!reference.startsWith("#")) return null;
  let target = root;
  for (const part of reference.slice(1).split("/").slice(1)) {
    const key = decode(part).replaceAll("~1", "/").replaceAll("~0", "~");
    if (!isObject(target) && !Array.isArray(target)) return null;
    if (!Object.hasOwn(target, key)) return null;
    target = target[key];
  }
  return isObject(target) ? target : null;
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function merged(parts) {
  const whole = {};
  for (const part of parts) {
    for (const [key, value] of Object.entries(part)) {
      if (value === undefined || key === "__proto__") continue;
      if (key === "properties" && isObject(whole.properties) && isObject(value)) whole.properties = { ...whole.properties, ...value };
      else if (key === "required" && Array.isArray(whole.required) && Array.isArray(value)) whole.required = [...new Set([...whole.required, ...value])];
      else whole[key] = value;
    }
  }
  return whole;
}

export function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Digits);
}

// Whether a value looks like one of a schema, by its type, its constants and its required members.
export function fits(value, given, root) {
  const { kind, schema, nullable, choices } = describe(given, root);
  if (value === null) return nullable || kind === "any";
  const types = { text: "string", number: "number", integer: "number", boolean: "boolean" };
  if (kind in types) return typeof value === types[kind] || (types[kind] === "number" && value instanceof Digits);
  if (kind === "const") return same(value, schema.const);
  if (kind === "choice") return choices.some(([known]) => same(value, known));
  if (kind === "array") return Array.isArray(value);
  if (kind !== "object") return true;
  if (!isObject(value)) return false;
  const properties = isObject(schema.properties) ? schema.properties : {};
  const constant = ([key, part]) => !isObject(part) || part.const === undefined || !(key in value) || same(value[key], part.const);
  const required = Array.isArray(schema.required) ? schema.required : [];
  return required.every((key) => unmarked(key) in value) && Object.entries(properties).slice(0, 200).every(constant);
}

// Whether both are the same JSON, in any order of members.
export function same(one, other) {
  return write(sorted(one)) === write(sorted(other));
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  return isObject(value) ? Object.fromEntries(Object.keys(value).sort().map((key) => [key, sorted(value[key])])) : value;
}

// === values ===

// A number that has more digits than a number of JavaScript keeps.
export class Digits {
  constructor(text) {
    this.text = text;
  }
}

// What is not seen is escaped, so that a text that is copied says what it is.
const HIDDEN = /[\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

// The JSON text of a value, without marks.
export function write(value, indent = 0, depth = 0) {
  const line = indent ? `\n${" ".repeat(indent * (depth + 1))}` : "";
  const end = indent ? `\n${" ".repeat(indent * depth)}` : "";
  if (value instanceof Digits) return value.text;
  if (typeof value === "string") return text(value);
  if (Array.isArray(value)) return value.length ? `[${value.map((item) => line + write(item, indent, depth + 1)).join(",")}${end}]` : "[]";
  if (value === null || typeof value !== "object") return JSON.stringify(value) ?? "null";
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return members.length ? `{${members.map(([key, member]) => `${line}${text(key)}:${indent ? " " : ""}${write(member, indent, depth + 1)}`).join(",")}${end}}` : "{}";
}

function text(value) {
  return JSON.stringify(unmarked(value)).replace(HIDDEN, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

// The value of a JSON text; numbers keep their digits where the browser tells them.
export function read(source) {
  return JSON.parse(source, (_, value, context) => (typeof value === "number" && context?.source !== undefined && !Number.isSafeInteger(value) && String(value) !== context.source ? new Digits(context.source) : value));
}
