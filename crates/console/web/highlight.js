// Colours the words of code: comments, texts, numbers and keywords. What it does not know stays as it is.

import { h, visible } from "./dom.js";

const MOST = 20_000;
const WORDS = "[Ff]alse|[Tt]rue|None|Self|and|as|async|await|bool|break|case|catch|class|const|continue|def|default|del|do|done|elif|else|enum|except|export|extends|fi|finally|float|fn|for|from|func|function|go|if|impl|import|in|int|interface|is|lambda|let|loop|match|mod|mut|new|nil|not|null|or|package|pass|private|pub|public|raise|return|self|static|string|struct|super|switch|then|this|throw|trait|try|type|undefined|use|using|var|void|while|with|yield|ALTER|AND|AS|BY|CREATE|DELETE|FROM|GROUP|INSERT|INTO|JOIN|LIMIT|NOT|NULL|ON|OR|ORDER|SELECT|SET|TABLE|UPDATE|VALUES|WHERE";
const code = (comment, words = `\\b(?:${WORDS})\\b`) => new RegExp(`\ufdd0[0-9a-f]+\ufdd1|(${comment})|("(?:[^"\\\\\\n]|\\\\.)*"?|'(?:[^'\\\\\\n]|\\\\.)*'|\`(?:[^\`\\\\]|\\\\.)*\`?)|\\b(\\d[\\w.]*)\\b|(${words})`, "g");
const PLAIN = /^(|console|log|markdown|md|plain|plaintext|text|txt)$/i;
// The languages that differ from C in their comments; marks of hidden characters stay whole.
const RULES = [
  [/^(bash|dockerfile|ini|make|makefile|perl|py|python|rb|ruby|sh|shell|toml|ya?ml|zsh)$/i, code("(?<!\\S)#.*")],
  [/sql/i, code("--.*")],
  [/^(html|svg|vue|xml)$/i, code("<!--[^]*?(?:-->|$)", "</?[\\w:-]+|/?>")],
  [/^(diff|patch)$/i, /^(@@.*)|^(\+.*)|^(-.*)/gm],
  [/./, code("//.*|/\\*[^]*?(?:\\*/|$)")],
];
const KINDS = ["comment", "text", "number", "word"];

// The nodes of a code; null if it is no code, or too long.
export function highlighted(text, language) {
  if (text.length > MOST || PLAIN.test(language)) return null;
  const [, rule] = RULES.find(([names]) => names.test(language));
  const nodes = [];
  let end = 0;
  for (const { index, 0: whole, ...parts } of text.matchAll(rule)) {
    const kind = KINDS[[1, 2, 3, 4].findIndex((part) => parts[part] !== undefined)];
    nodes.push(visible(text.slice(end, index)), kind ? h(`span.code-${kind}`, visible(whole)) : visible(whole));
    end = index + whole.length;
  }
  return [nodes, visible(text.slice(end))];
}
