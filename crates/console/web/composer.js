// The lower part of the screen Chat: the message that is typed, what is attached to it, who answers, and the messages that wait.

import { get, post } from "./api.js";
import { Attachments, Proposals, attached } from "./attachments.js";
import { cut, fill, h, icon, unmarked, visible } from "./dom.js";
import { action, pill } from "./parts.js";
import { state } from "./state.js";

const MODES = [["ask", "Ask before every call"], ["writes", "Ask before changes"], ["allow", "Allow every call"]];
const option = ([value, label]) => h("option", { value }, label);
// What was typed and not sent, by conversation.
const typed = new Map();

export class Composer {
  // screen: { id, send(message, items), cancel(), placed(), chose() }
  constructor(screen) {
    this.screen = screen;
    // The message before which a branch begins; null for a further message.
    this.edited = null;
    const { models, defaultModel } = state.session;
    this.text = h("textarea", { rows: 1, "aria-label": "Message", placeholder: "Ask something; @ attaches", "aria-autocomplete": "list", "aria-haspopup": "listbox", "aria-controls": "proposals", onkeydown: (event) => this.key(event), oninput: () => this.grow(), onblur: () => this.proposals.close(), onpaste: (event) => this.paste(event) });
    this.model = h("select", { "aria-label": "Model" }, models.map(({ name }) => option([name, name])));
    this.mode = h("select", { "aria-label": "Approvals", onchange: () => screen.chose() }, MODES.map(option));
    this.mode.value = state.session.mode ?? "writes";
    this.select(defaultModel);
    this.assistant = h("select", { "aria-label": "Assistant", hidden: true, onchange: () => this.choose() });
    this.proposals = new Proposals(this.text, (offer) => this.attachments.offer(offer));
    this.attachments = new Attachments(() => (this.edited ? null : screen.id), () => this.how(), () => screen.placed());
    this.send = h("button.primary", { type: "submit", title: "Enter sends, Shift+Enter begins a new line" });
    this.stop = h("button", { hidden: true, onclick: () => screen.cancel() }, icon("stop"), h("span", "Stop"));
    this.picker = h("input.hidden", { type: "file", multiple: true, tabindex: "-1", "aria-label": "Files", onchange: () => {
      this.attachments.files([...this.picker.files]);
      this.picker.value = "";
    } });
    this.note = h("div.edit-note", { hidden: true, role: "status" }, h("span.grow", "Your message begins a branch: this conversation stays as it is."), action("Stop editing", () => this.edit(null), { class: "small" }));
    this.form = h("form.composer", { hidden: models.length === 0, onsubmit: (event) => this.submit(event) }, this.proposals.node, this.note, this.attachments.node, this.text, h("div.composer-row", h("button.quiet.icon-button", { "aria-label": "Attach files", onclick: () => this.picker.click() }, icon("plus")), this.picker, this.assistant, this.model, this.mode, h("span.grow"), this.stop, this.send));
    this.queue = h("div.queue", { role: "region", "aria-label": "Messages that wait" });
    this.running(false);
    get("/assistants").then((list) => {
      this.assistants = list;
      fill(this.assistant, option(["", "No assistant"]), list.map(({ name }) => option([name, cut(name, 60)])));
      this.draw();
      this.as(this.wanted);
    }, () => {});
  }

  // Begins as an assistant: `#/chat?assistant=NAME`.
  as(wanted) {
    this.wanted = wanted;
    if (!this.assistants?.some(({ name }) => name === wanted)) return;
    this.assistant.value = wanted;
    this.choose();
  }

  draw() {
    this.assistant.hidden = !this.assistants?.length || this.screen.id !== null;
  }

  // An assistant has a model and an approval of its own.
  choose() {
    const { chosen } = this;
    this.select(chosen?.model ?? state.session.defaultModel);
    fill(this.mode, chosen ? option(["", `As the assistant: ${chosen.approval}`]) : null, MODES.map(option));
    this.mode.value = chosen ? "" : (state.session.mode ?? "writes");
    this.screen.chose();
  }

  // The assistant that is chosen for a new conversation.
  get chosen() {
    return this.assistants?.find(({ name }) => name === this.assistant.value);
  }

  select(model) {
    if ([...this.model.options].some(({ value }) => value === model)) this.model.value = model;
  }

  get holdsInput() {
    return this.isSending || this.text.value.trim() !== "" || this.attachments.items.length > 0;
  }

  how() {
    return { model: this.model.value, ...(this.mode.value ? { mode: this.mode.value } : {}) };
  }

  // === what is typed ===

  put(text, items, draft) {
    this.text.value = unmarked(text);
    if (items) this.attachments.put(items, draft);
    this.grow();
  }

  type(text, items) {
    this.put(text, items);
    this.text.focus();
  }

  // Keeps what is typed for a conversation, and shows what was typed for another one.
  change(from, to) {
    const { items, draft } = this.attachments;
    if (from !== undefined && !this.edited) typed.set(from, [this.text.value, items, draft]);
    this.begin(null);
    this.put(...(typed.get(to) ?? ["", [], null]));
    this.draw();
  }

  begin(branch) {
    this.edited = branch;
    this.note.hidden = !branch;
  }

  edit(branch, text = "") {
    this.begin(branch);
    this.put(text, [], null);
    this.text.focus();
  }

  async submit(event) {
    event.preventDefault();
    const text = this.text.value.trim();
    if (!text) return;
    await Promise.all(this.attachments.items.map(({ reading }) => reading));
    const { edited, attachments: { items, draft } } = this;
    const message = { text, attachments: items.map(({ id }) => id), ...this.how() };
    if (draft) message.conversation = draft;
    if (edited) message.branch = edited;
    else if (this.screen.id === null && this.assistant.value) message.assistant = this.assistant.value;
    typed.delete(this.screen.id);
    this.edit(null);
    // One after the other: the second one of a conversation needs its id.
    const sent = (this.sent = Promise.resolve(this.sent).then(() => this.screen.send(message, items)));
    this.isSending = true;
    const isTaken = await sent;
    this.isSending = this.sent !== sent;
    if (isTaken) return;
    this.begin(edited);
    this.put([text, this.text.value].filter(Boolean).join("\n\n"), items, draft);
  }

  paste(event) {
    const { files } = event.clipboardData;
    if (files.length) event.preventDefault();
    this.attachments.files(files);
  }

  key(event) {
    if (event.isComposing) return;
    if (this.proposals.key(event)) {
      event.preventDefault();
      event.stopPropagation();
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.form.requestSubmit();
    } else if (event.key === "Escape") {
      if (this.edited) this.edit(null);
      else if (this.isRunning) this.screen.cancel();
    }
  }

  grow() {
    this.text.rows = Math.min(10, this.text.value.split("\n").length);
    this.proposals.update();
  }

  running(isRunning) {
    this.isRunning = isRunning;
    this.stop.hidden = !isRunning;
    fill(this.send, icon("send"), h("span", isRunning ? "Queue" : "Send"));
  }

  // === messages that wait ===

  waits({ held, messages }) {
    const change = (body) => post(`${this.screen.path}/queue`, body);
    const back = async (id) => {
      const { text, attachments } = await change({ remove: id });
      this.type([this.text.value, text].filter(Boolean).join("\n\n"), [...this.attachments.items, ...attachments]);
    };
    const row = ({ id, text, attached: names }) => h("li", pill(["Queued", "wait"]), h("span.grow", { dir: "auto" }, visible(cut(text, 400)), names.map((name) => attached({ name }))), action("Take back", () => back(id), { class: "small" }));
    fill(this.queue, held && messages.length ? h("p.sub", "The turn before was stopped, or failed. ", action("Send now", () => change({}), { class: "small" })) : null, h("ul", messages.map(row)));
    this.queue.hidden = messages.length === 0;
  }
}
