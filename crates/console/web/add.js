// The screen that adds a server: paste, read what it means, consent, test, add.

import { post } from "./api.js";
import { fill, h, icon, visible } from "./dom.js";
import { count } from "./format.js";
import { json } from "./json.js";
import { labelled, problem, toast, warnings } from "./parts.js";

const EXAMPLES = [
  ["A command", "npx -y @modelcontextprotocol/server-everything"],
  ["A URL", "https://mcp.example.com/mcp"],
  ["A snippet", '{\n  "mcpServers": {\n    "files": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."] }\n  }\n}'],
];

export function create() {
  return { ...new AddForm().screen(), close: () => {} };
}

class AddForm {
  constructor() {
    this.parsed = null;
    this.asked = 0;
    this.text = h("textarea", { id: "add-text", rows: 5, placeholder: "Paste it here", spellcheck: "false", autocomplete: "off", "aria-describedby": "add-help", oninput: () => this.later() });
    this.name = h("input", { id: "add-name", autocomplete: "off", spellcheck: "false", maxlength: 64, oninput: () => this.later() });
    this.preview = h("div", { "aria-live": "polite" });
    this.outcome = h("div", { "aria-live": "polite" });
    this.consent = h("input", { type: "checkbox", id: "add-consent", onchange: () => this.enable() });
    this.consentWords = h("span", {});
    this.consentRow = h("label", { class: "check consent", hidden: true, for: "add-consent" }, this.consent, this.consentWords);
    this.testButton = h("button", { type: "button", disabled: true, onclick: () => this.test() }, "Test connection");
    this.addButton = h("button", { type: "submit", class: "primary", disabled: true }, "Add server");
  }

  screen() {
    const examples = EXAMPLES.map(([label, text]) => h("button", { type: "button", class: "small", onclick: () => this.use(text) }, label));
    const form = h(
      "form",
      { class: "stack", onsubmit: (event) => this.submit(event) },
      h("div", { class: "field" }, h("label", { for: "add-text" }, "Snippet, command or URL"), this.text, h("p", { id: "add-help", class: "sub" }, "For example ", h("span", { class: "examples" }, examples))),
      h("div", { class: "field" }, h("label", { for: "add-name" }, "Name ", h("span", { class: "sub" }, "(optional)")), this.name),
      this.preview,
      this.consentRow,
      h("div", { class: "actions" }, this.addButton, this.testButton),
      this.outcome,
    );
    const node = h("div", { class: "page" }, h("a", { class: "back always", href: "#/servers" }, icon("back"), "Servers"), h("header", { class: "page-head" }, h("p", { class: "title", "aria-hidden": "true" }, "Add a server"), h("p", { class: "sub" }, "Paste what the server's README shows. You see what it means before anything runs.")), form);
    return { node, route: () => this.text.focus() };
  }

  use(text) {
    this.text.value = text;
    this.text.focus();
    this.later();
  }

  // Consent is for one text: each edit takes it back.
  later() {
    this.parsed = null;
    this.consent.checked = false;
    fill(this.outcome);
    this.enable();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.parse(), 150);
  }

  body() {
    const name = this.name.value.trim();
    return { text: this.text.value, ...(name ? { name } : {}) };
  }

  async parse() {
    const turn = ++this.asked;
    if (!this.text.value.trim()) {
      fill(this.preview);
      this.consentRow.hidden = true;
      return;
    }
    try {
      const parsed = await post("/servers/parse", this.body());
      if (turn !== this.asked) return;
      this.parsed = parsed;
      fill(this.preview, preview(parsed));
      fill(this.consentWords, consentFor(parsed));
      this.name.placeholder = parsed.name;
    } catch (error) {
      if (turn !== this.asked) return;
      fill(this.preview, problem(error));
    }
    this.enable();
  }

  enable() {
    const ready = this.parsed !== null && this.consent.checked;
    this.consentRow.hidden = this.parsed === null;
    this.testButton.disabled = !ready;
    this.addButton.disabled = !ready;
  }

  async test() {
    this.busy("Testing the connection…");
    try {
      fill(this.outcome, tested(await post("/servers/test", { ...this.body(), consent: true })));
    } catch (error) {
      fill(this.outcome, problem(error));
    }
    this.enable();
  }

  async submit(event) {
    event.preventDefault();
    if (this.addButton.disabled) return;
    this.busy("Adding…");
    try {
      const { name, notices = [] } = await post("/servers", { ...this.body(), consent: true });
      toast([`Server ${name} is added.`, ...notices].join("\n"), "good");
      location.hash = `#/servers/${encodeURIComponent(name)}`;
    } catch (error) {
      fill(this.outcome, problem(error));
      this.enable();
    }
  }

  busy(words) {
    this.testButton.disabled = true;
    this.addButton.disabled = true;
    fill(this.outcome, h("p", { class: "sub busy-line" }, words));
  }
}

function preview(parsed) {
  return h(
    "section",
    { class: "panel" },
    h("h2", { class: "panel-title" }, "What this adds"),
    h(
      "dl",
      { class: "facts" },
      labelled("Name", h("code", {}, visible(parsed.name))),
      labelled(parsed.kind === "stdio" ? "Runs" : "Connects to", h("code", { class: "wrap" }, visible(parsed.runs ?? parsed.url ?? ""))),
      labelled("Environment", parsed.environment?.length ? parsed.environment.map((word) => h("code", { class: "chip" }, visible(word))) : null),
    ),
    warnings(parsed.warnings ?? []),
    h("details", { class: "raw" }, h("summary", {}, "Entry as it will be written"), json(parsed.entry)),
  );
}

function consentFor(parsed) {
  if (parsed.kind === "stdio") return ["Run this program on this computer, with my rights: ", h("code", { class: "wrap" }, visible(parsed.runs ?? ""))];
  return ["Connect to ", h("code", { class: "wrap" }, visible(parsed.url ?? "")), " and send it what tools are called with"];
}

function tested(answer) {
  if (answer.signIn) return h("div", { class: "success" }, h("p", {}, h("strong", {}, "It answers, and requires a sign-in. "), "Add the server, then sign in on its page here."));
  if (!answer.ok) return problem(answer.error ?? { message: "the test failed" }, "The test failed");
  const names = (answer.tools ?? []).slice(0, 40);
  const rest = (answer.tools ?? []).length - names.length;
  return h(
    "div",
    { class: "success" },
    h("p", {}, h("strong", {}, "It works. "), answer.title ? [visible(answer.title), ", "] : "", answer.revision ? `protocol ${answer.revision}, ` : "", count(answer.tools?.length ?? 0, "tool"), "."),
    h("p", { class: "chips" }, names.map((tool) => h("code", { class: "chip" }, visible(tool))), rest > 0 ? h("span", { class: "sub" }, `and ${rest} more`) : null),
  );
}
