// The screen Chat: conversations at the left, one of them at the right, with questions in place.

import { get, on, post } from "./api.js";
import { fill, h, icon, name } from "./dom.js";
import { ago, count, isOpenTask } from "./format.js";
import { isIdle, started, turnOf } from "./live.js";
import { command, empty, loading, problem, toast } from "./parts.js";
import { Questions } from "./questions.js";
import { Reply, taskMessage, userMessage } from "./reply.js";
import { state } from "./state.js";

const MOST_MESSAGES = 200;
const MODES = [["ask", "Ask before every call"], ["writes", "Ask before changes"], ["allow", "Allow every call"]];

export function create() {
  const screen = new ChatScreen();
  return { node: screen.node, route: (parts) => screen.route(parts), close: () => screen.close() };
}

class ChatScreen {
  constructor() {
    this.id = null;
    this.reply = null;
    this.replies = [];
    this.ends = 0;
    this.log = h("div", { class: "log", tabindex: "0", role: "group", "aria-label": "Conversation" });
    this.title = h("h2", {});
    this.said = h("p", { class: "hidden", role: "status" });
    this.questions = new Questions((waiting) => this.reply?.waiting(waiting));
    this.list = new ConversationList((item) => item.id === this.id && fill(this.title, name(item.title || "Conversation")));
    this.node = h("div", { class: "split chat" }, this.list.node, h("section", { class: "pane detail", "aria-label": "Conversation" }, this.header(), this.log, this.questions.node, this.composer(), this.said));
    this.stops = [
      on("turn", (turn) => turn.conversation === this.id && this.take(turn)),
      on("turn", ({ event, isFirst }) => (isFirst || event.type === "end") && this.list.later()),
      on("task", (task) => task.conversation === this.id && this.replies.forEach((reply) => reply.task(task))),
      on("reset", () => this.id && this.load()),
      on("online", ({ resumed }) => resumed && this.id && this.load()),
      on("changed:inbox", () => this.questions.update(this.id)),
      on("changed:servers", () => this.welcome?.isConnected && this.greet()),
    ];
  }

  close() {
    this.stops.forEach((stop) => stop());
    this.questions.close();
  }

  header() {
    const toggle = h("button", { type: "button", class: "quiet icon-button narrow-only", "aria-label": "Conversations", onclick: () => this.node.classList.toggle("show-list") }, icon("list"));
    return h("header", { class: "chat-head" }, toggle, this.title, h("a", { class: "button quiet narrow-only", href: "#/chat", "aria-label": "New conversation" }, icon("plus")));
  }

  composer() {
    const { models, defaultModel, mode } = state.session;
    this.text = h("textarea", { rows: 1, "aria-label": "Message", placeholder: "Ask something", onkeydown: (event) => this.key(event), oninput: () => this.grow() });
    this.model = h("select", { "aria-label": "Model" }, models.map((model) => h("option", { value: model.name, selected: model.name === defaultModel }, model.name)));
    this.mode = h("select", { "aria-label": "Approvals" }, MODES.map(([value, label]) => h("option", { value, selected: value === (mode ?? "writes") }, label)));
    this.send = h("button", { type: "submit", class: "primary", title: "Enter sends, Shift+Enter begins a new line" }, icon("send"), h("span", {}, "Send"));
    this.stop = h("button", { type: "button", hidden: true, onclick: () => this.cancel() }, icon("stop"), h("span", {}, "Stop"));
    const form = h("form", { class: "composer", onsubmit: (event) => this.submit(event) }, this.text, h("div", { class: "composer-row" }, this.model, this.mode, h("span", { class: "grow" }), this.stop, this.send));
    form.hidden = models.length === 0;
    return form;
  }

  // === a conversation ===

  async route([id]) {
    this.node.classList.remove("show-list");
    this.list.mark(id ?? null);
    if (id !== undefined && id === this.id) return;
    this.id = id ?? null;
    this.list.load();
    if (this.id) await this.load();
    else this.blank();
    this.questions.update(this.id);
  }

  blank() {
    this.reply = null;
    this.replies = [];
    this.drawn = null;
    fill(this.title, "New conversation");
    if (state.session.models.length) this.greet();
    else fill(this.log, noModel());
    this.running(false);
    if (matchMedia("(min-width: 900px)").matches) this.text.focus();
  }

  // The servers may be read, or connected, after this screen is opened. A text that did not change is left as it is.
  greet() {
    const about = aboutTools();
    if (this.welcome?.isConnected && about === this.about) return;
    this.about = about;
    this.welcome = welcome(about, (text) => this.suggest(text));
    fill(this.log, this.welcome);
  }

  suggest(text) {
    this.text.value = text;
    this.grow();
    this.text.focus();
  }

  async load() {
    const wanted = this.id;
    const { ends } = this;
    if (this.drawn !== wanted) {
      fill(this.title, " ");
      fill(this.log, loading(3));
    }
    let conversation;
    try {
      conversation = await get(`/conversations/${encodeURIComponent(wanted)}`);
    } catch (error) {
      if (wanted === this.id) fill(this.log, problem(error, "The conversation could not be opened"));
      return;
    }
    if (wanted !== this.id) return;
    // A turn that ended meanwhile is not running any more.
    if (conversation.running && ends !== this.ends) return this.load();
    fill(this.title, name(conversation.title || "Conversation"));
    if (conversation.model && [...this.model.options].some((option) => option.value === conversation.model)) this.model.value = conversation.model;
    if (!conversation.running) isIdle(wanted);
    this.draw(conversation);
    this.running(conversation.running);
    this.scroll(true);
    this.resume(conversation);
  }

  // Tasks that an earlier run of Toolway began are taken up; the model is told of those that have ended.
  resume({ id, running, tasks, messages }) {
    const told = new Set(messages.map(({ task }) => task?.id));
    const results = messages.flatMap((message) => message.results ?? []);
    const isStarted = (task) => results.some(({ recordId, text }) => recordId === task.id && text.startsWith("started, id "));
    if (running || !this.model.value || !tasks.some((task) => !told.has(task.id) && isStarted(task))) return;
    this.resuming = post(`/chat/${encodeURIComponent(id)}/resume`, { model: this.model.value, mode: this.mode.value }).catch(() => {});
  }

  draw({ messages, running, messagesBefore, partial, tasks }) {
    this.drawn = this.id;
    const turn = turnOf(this.id);
    const whole = running && turn?.whole && !turn.ended && messagesBefore !== null;
    const shown = whole ? beforeReply(messages, messagesBefore) : messages;
    fill(this.log);
    this.reply = null;
    this.replies = [];
    const first = Math.max(0, shown.length - MOST_MESSAGES);
    if (first > 0) this.log.append(h("p", { class: "note" }, `${first} earlier messages are not shown.`));
    for (const message of shown.slice(first)) this.drawMessage(message);
    this.reply?.settle();
    if (!running || whole) this.reply?.close();
    if (whole) this.replay(turn, shown);
    else if (running && partial) this.current().text({ text: partial });
    for (const task of tasks) this.replies.forEach((reply) => reply.task(task));
    this.questions.update(this.id);
  }

  // The events of a turn that was seen from its beginning.
  replay(turn, shown) {
    const told = new Set(shown.map(({ task }) => task?.id));
    this.reply = null;
    for (const event of turn.events) if (event.type !== "task" || !told.has(event.id)) this.show(event);
  }

  // One event of a turn.
  show(event) {
    if (event.type !== "task") return this.current().take(event);
    const node = taskMessage(event);
    if (this.bubble && !this.reply) this.bubble.before(node);
    else this.log.append(node);
    this.reply = null;
  }

  drawMessage({ role, text, calls, results, task }) {
    if (task || (role === "user" && !results?.length)) {
      this.reply?.settle();
      this.reply?.close();
      this.reply = null;
      this.log.append(task ? taskMessage({ ...task, text }) : userMessage(text));
      return;
    }
    const reply = this.current();
    if (role !== "user" && text) reply.text({ text });
    reply.settle();
    for (const call of calls ?? []) reply.call(call);
    for (const result of results ?? []) reply.result({ ...result, id: result.callId, callId: result.recordId });
  }

  current() {
    if (!this.reply) {
      this.reply = new Reply();
      this.reply.ondraw = () => this.scroll(false);
      this.replies.push(this.reply);
      this.log.append(this.reply.node);
    }
    return this.reply;
  }

  // === a turn ===

  async submit(event) {
    event.preventDefault();
    const text = this.text.value.trim();
    if (!text || this.isRunning) return;
    if (this.id === null) fill(this.log);
    const bubble = (this.bubble = userMessage(text));
    this.log.append(bubble);
    this.reply = null;
    this.text.value = "";
    this.grow();
    this.running(true);
    this.scroll(true);
    this.mine = true;
    try {
      await this.resuming;
      const { conversation } = await post("/chat", { ...(this.id ? { conversation: this.id } : {}), text, model: this.model.value, mode: this.mode.value });
      this.begun(conversation);
    } catch (error) {
      this.mine = false;
      this.bubble = null;
      bubble.remove();
      this.text.value = text;
      this.running(false);
      toast(error.message, "bad", error.hint);
      if (this.id === null) this.blank();
    }
  }

  begun(conversation) {
    started(conversation);
    if (this.id === conversation) return;
    this.id = conversation;
    this.drawn = conversation;
    for (const event of turnOf(conversation)?.events ?? []) this.take({ event, isFirst: false, whole: true });
    history.replaceState(null, "", `#/chat/${encodeURIComponent(conversation)}`);
    this.list.mark(conversation);
    this.list.later();
    this.questions.update(conversation);
  }

  take({ event, isFirst, whole }) {
    if (isFirst && !this.mine) return this.load();
    const near = this.isNearEnd();
    this.show(event);
    if (event.type === "end" || event.type === "error") this.ended(event, whole);
    else this.running(true);
    if (near) this.scroll(true);
    this.questions.update(this.id);
  }

  // A turn that was not seen from its beginning is read again.
  ended(event, whole) {
    this.ends += 1;
    this.mine = false;
    this.bubble = null;
    this.reply = null;
    this.running(false);
    fill(this.said, event.type === "end" ? "The reply is complete." : "The turn failed.");
    if (!whole && event.type === "end") this.load();
  }

  async cancel() {
    this.stop.disabled = true;
    await post(`/chat/${encodeURIComponent(this.id)}/cancel`).catch((error) => toast(error.message, "bad", error.hint));
    this.stop.disabled = false;
  }

  running(isRunning) {
    this.isRunning = isRunning;
    this.stop.hidden = !isRunning;
    this.send.hidden = isRunning;
    this.log.classList.toggle("working", isRunning);
  }

  // === keys and scrolling ===

  key(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.text.form.requestSubmit();
    } else if (event.key === "Escape" && this.isRunning) {
      this.cancel();
    }
  }

  grow() {
    this.text.rows = Math.min(10, Math.max(1, this.text.value.split("\n").length));
  }

  isNearEnd() {
    return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 120;
  }

  scroll(always) {
    if (always || this.isNearEnd()) this.log.scrollTop = this.log.scrollHeight;
  }
}

// The messages up to the reply of the turn that runs: those before the turn, and what began it.
function beforeReply(messages, before) {
  const reply = messages.findIndex(({ role }, index) => index >= before && role === "assistant");
  return reply < 0 ? messages : messages.slice(0, reply);
}

const SUGGESTIONS = ["What can you do with my tools?", "Which of your tools change something?", "Use one of your tools and show me the result"];

const NO_SERVER = "No server is connected: the model can answer, but use no tools.";

// What the model can use; null until the servers have been read.
function aboutTools() {
  if (state.servers === null) return null;
  const servers = state.servers.filter((server) => server.state === "connected");
  const tools = servers.reduce((sum, server) => sum + (server.counts?.tools ?? 0), 0);
  return servers.length ? `The model can use ${count(tools, "tool")} of ${count(servers.length, "server")}. You are asked before it changes something.` : NO_SERVER;
}

function welcome(about, suggest) {
  if (about === null) return empty("chat", "Talk to a model");
  const ideas = SUGGESTIONS.map((text) => h("button", { type: "button", class: "idea", onclick: () => suggest(text) }, text));
  return empty("chat", "Talk to a model", h("p", {}, about), about === NO_SERVER ? h("p", {}, h("a", { class: "button", href: "#/add" }, icon("plus"), "Add a server")) : h("div", { class: "ideas" }, ideas));
}

function noModel() {
  return empty(
    "chat",
    "No model is configured",
    h("p", {}, "A chat needs a model of a vendor, or one that runs on this computer. Set a key such as ", command("ANTHROPIC_API_KEY"), " or ", command("OPENAI_API_KEY"), " where Toolway runs, or name a model under ", command("models"), " in the configuration, and start Toolway again."),
    h("p", { class: "sub" }, command("toolway models"), " lists what is usable."),
  );
}

// === the list ===

const WHERE = { chat: " · in a terminal", run: " · prompt file" };

class ConversationList {
  // onitem(item): each conversation as it was read.
  constructor(onitem) {
    this.onitem = onitem;
    this.marked = null;
    this.items = [];
    this.search = h("input", { type: "search", placeholder: "Search conversations", "aria-label": "Search conversations", oninput: () => this.later() });
    this.rows = h("ul", { class: "conversation-list" });
    this.node = h("section", { class: "pane master", "aria-label": "Conversations", onclick: (event) => event.target.closest("a") && this.node.parentNode.classList.remove("show-list") }, h("header", { class: "pane-head" }, h("p", { class: "title", "aria-hidden": "true" }, "Chat"), h("a", { class: "button", href: "#/chat" }, icon("plus"), "New")), h("div", { class: "pad" }, this.search), this.rows);
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), 200);
  }

  async load() {
    const words = this.search.value.trim();
    try {
      this.items = await get(`/conversations${words ? `?search=${encodeURIComponent(words)}` : ""}`);
      this.items.forEach(this.onitem);
      this.draw();
    } catch (error) {
      fill(this.rows, h("li", { class: "pad" }, problem(error)));
    }
  }

  mark(id) {
    this.marked = id;
    this.draw();
  }

  draw() {
    const row = (item) => h("li", {}, h("a", { class: "conversation", href: `#/chat/${encodeURIComponent(item.id)}`, "aria-current": item.id === this.marked ? "true" : false }, name(item.title || "Untitled"), h("span", { class: "sub" }, `${ago(item.updatedAt)}${WHERE[item.surface] ?? ""}`)));
    fill(this.rows, this.items.slice(0, 200).map(row));
    if (this.items.length === 0) fill(this.rows, h("li", { class: "sub pad" }, this.search.value ? "No conversation matches." : "Conversations are kept here, those of the terminal as well."));
  }
}
