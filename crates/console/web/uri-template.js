// URI templates (RFC 6570): their variables, and the address for values. A value is a text; lists have commas.

const EXPRESSION = /\{([+#./;?&]?)([^{}]*)\}/g;
// First, separator, whether names are written, and whether reserved characters stay.
const KINDS = { "": ["", ",", false, false], "+": ["", ",", false, true], "#": ["#", ",", false, true], ".": [".", ".", false, false], "/": ["/", "/", false, false], ";": [";", ";", true, false], "?": ["?", "&", true, false], "&": ["&", "&", true, false] };

function parts(list) {
  return list.split(",").filter(Boolean).map((part) => {
    const [, name, length, explode] = /^([^:*]*)(?::(\d+))?(\*)?$/.exec(part.trim()) ?? [null, part, undefined, undefined];
    return { name, length: length === undefined ? null : Number(length), isList: explode === "*" };
  });
}

// The names of the variables, each once.
export function variables(template) {
  const names = [...template.matchAll(EXPRESSION)].flatMap(([, , list]) => parts(list).map(({ name }) => name));
  return [...new Set(names)].slice(0, 50);
}

export function expand(template, values) {
  return template.replace(EXPRESSION, (_, operator, list) => {
    const [first, separator, isNamed, isReserved] = KINDS[operator];
    const encode = (text) => (isReserved ? encodeURI(text).replace(/%25([0-9a-f]{2})/gi, "%$1") : encodeURIComponent(text).replace(/[!'()*]/g, (letter) => `%${letter.charCodeAt(0).toString(16).toUpperCase()}`));
    const written = parts(list).filter(({ name }) => (values[name] ?? "") !== "").map(({ name, length, isList }) => {
      const text = length === null ? values[name] : [...values[name]].slice(0, length).join("");
      const each = isList ? text.split(",").map(encode) : [encode(text)];
      const label = (value) => (isNamed ? `${name}${value === "" && operator === ";" ? "" : "="}${value}` : value);
      return each.map(label).join(separator);
    });
    return written.length ? first + written.join(separator) : "";
  });
}
