// The screens that add and change a server: the form of its entry, filled in by pasting; the consent to what would run; a
// test of the connection; the sign-in.

import { judge, on, post } from "./api.js";
import { fill, h, icon, visible } from "./dom.js";
import { EntryForm } from "./entry-form.js";
import { problem, warnings } from "./parts.js";
import { ServerFields } from "./server-fields.js";
import { open, refreshServers, state } from "./state.js";
import { tested } from "./tested.js";

const EXAMPLES = [
  ["A command", "npx -y @modelcontextprotocol/server-everything"],
  ["A URL", "https://mcp.example.com/mcp"],
  ["A snippet", '{\n  "mcpServers": {\n    "files": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "."] }\n  }\n}'],
];
// Another program or address needs a new consent.
const REACHING = ["command", "args", "env", "envFile", "cwd", "url", "headers"];

function reachOf(entry) {
  return JSON.stringify(REACHING.map((key) => entry[key]));
}

export function create() {
  const form = new ServerForm();
  return { node: form.node, route: ([server]) => form.route(server), close: () => form.close(), holdsInput: () => form.touched };
}

class ServerForm extends EntryForm {
  constructor() {
    const fields = new ServerFields(() => this.changed(), (state.session?.models ?? []).map((model) => model.name));
    const consent = h("input", { type: "checkbox", id: "consent", onchange: () => fill(this.outcome) });
    const consentWords = h("span");
    const consentRow = h("label.check.consent", { hidden: true, for: "consent" }, consent, consentWords);
    const testButton = h("button", { onclick: () => this.test() }, "Test connection");
    const authorizeButton = h("button", { onclick: () => this.save(true) }, icon("key"), "Save and authorize");
    const pasted = h("div.field.wide");
    super({ noun: "server", adding: "Add server", path: "/servers", label: "Servers", fields, before: pasted, consent: consentRow, buttons: [testButton, authorizeButton] });
    Object.assign(this, { consent, consentWords, consentRow, authorizeButton, pasted });
    this.fillPasteBox();
    // The entry may be another one, or gone.
    this.stops.push(on("servers", ({ name: changed }) => changed === this.shown && this.version !== null && !this.saving && this.later()));
  }

  begin() {
    this.source = null;
    this.named = false;
    this.text.value = "";
    fill(this.pasteProblem);
    fill(this.heading, "Add a server");
    fill(this.about, "Paste what its README shows, or fill in the form. You see what is written, and what would run, before it happens. ", h("a", { href: "#/import" }, "Import from other applications"));
    this.pasted.hidden = false;
    super.begin();
    this.text.focus();
  }

  load() {
    this.back.setAttribute("href", `#${this.of(this.shown)}`);
    this.pasted.hidden = true;
    return super.load();
  }

  // === paste ===

  fillPasteBox() {
    this.text = h("textarea", { id: "paste", rows: 3, placeholder: "Paste it here", spellcheck: "false", autocomplete: "off", "aria-describedby": "paste-help", oninput: () => this.pasteLater() });
    this.pasteProblem = h("div", { "aria-live": "polite" });
    const examples = EXAMPLES.map(([label, text]) => h("button", { class: "small", onclick: () => this.use(text) }, label));
    fill(this.pasted, h("label", { for: "paste" }, "Snippet, command or URL ", h("span.sub", "(fills in the form)")), this.text, h("p", { id: "paste-help", class: "sub" }, "For example ", h("span.examples", examples)), this.pasteProblem);
  }

  use(text) {
    this.text.value = text;
    this.text.focus();
    this.pasteLater();
  }

  pasteLater() {
    clearTimeout(this.pasting);
    this.pasting = setTimeout(() => this.paste(), 150);
  }

  async paste() {
    const text = this.text.value;
    fill(this.pasteProblem);
    if (!text.trim()) return;
    const wanted = this.fields.name.value;
    try {
      const parsed = await judge("/servers/parse", { text, ...(wanted && this.named ? { name: wanted } : {}) });
      if (text !== this.text.value) return;
      this.fields.set(parsed.name, parsed.entry);
      // Its secrets stand in the form as references.
      this.source = { text, name: parsed.name };
      // The name of a snippet is no name that the user chose.
      this.named = false;
      fill(this.pasteProblem, parsed.warnings.length ? warnings(parsed.warnings) : null);
      this.changed();
    } catch (error) {
      if (text === this.text.value) fill(this.pasteProblem, problem(error));
    }
  }

  // === what would be written ===

  changed() {
    this.named = document.activeElement === this.fields.name.input || this.named;
    // What was tested is another server now, and the box is for what is shown.
    if (reachOf(this.fields.entry) !== this.agreed) {
      this.consent.checked = false;
      this.consent.disabled = true;
    }
    super.changed();
  }

  get draft() {
    return { ...super.draft, ...(this.version === null && this.source ? { pasted: this.source } : {}) };
  }

  plan(how) {
    this.authorizeButton.hidden = !this.fields.signsIn;
    return super.plan(how);
  }

  isBlank({ name, entry }) {
    return !name && !entry.command && !entry.url;
  }

  nothing() {
    this.consentRow.hidden = true;
    this.consent.checked = false;
    return super.nothing();
  }

  show(planned, { entry }) {
    const reaches = reachOf(entry);
    // Consent is for one program or address.
    if (reaches !== this.agreed) this.consent.checked = false;
    this.agreed = reaches;
    this.consent.disabled = false;
    this.consentRow.hidden = !planned.needsConsent;
    fill(this.consentWords, planned.runs ? ["Run this program on this computer, with my rights: ", h("code.wrap", visible(planned.runs))] : ["Connect to ", h("code.wrap", visible(planned.url ?? "")), " and send it what tools are called with"]);
    super.show(planned);
  }

  fail(error, all) {
    this.consentRow.hidden = true;
    super.fail(error, all);
  }

  // === test and save ===

  // Whether all is there, with the consent: else its box has the focus.
  async ready(what) {
    if (!(await super.ready())) return false;
    if (!this.planned.needsConsent || this.consent.checked) return true;
    fill(this.outcome, problem({ message: `confirm first what will ${this.planned.runs ? "run" : "be connected to"}, then ${what}` }));
    this.consent.focus();
    return false;
  }

  async test() {
    if (!(await this.ready("test it"))) return;
    const { draft } = this;
    this.busy("Testing the connection…");
    try {
      const answer = await post("/servers/test", { draft, consent: true });
      const authorize = h("button", { class: "primary", onclick: () => this.save(true) }, icon("key"), "Save and authorize");
      fill(this.outcome, tested(answer, draft.name, authorize));
    } catch (error) {
      fill(this.outcome, problem(error));
    }
    this.rest();
    this.outcome.scrollIntoView({ block: "nearest" });
  }

  async save(authorize = false) {
    if (!(await this.ready("save it"))) return;
    const saved = await this.write({ draft: this.draft, consent: this.consent.checked });
    if (saved === null) return;
    refreshServers();
    open(`#${this.of(saved)}`, { authorize });
  }
}
