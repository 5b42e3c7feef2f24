// The screen Chat: conversations at the left, one of them at the right, with questions in place.

import { get, on, post } from "./api.js";
import { attached } from "./attachments.js";
import { Composer } from "./composer.js";
import { fill, h, icon, marked, name, visible } from "./dom.js";
import { ago, count } from "./format.js";
import { isIdle, started, turnOf } from "./live.js";
import { Meter } from "./meter.js";
import { action, command, empty, loading, problem, toast } from "./parts.js";
import { Questions } from "./questions.js";
import { Reply, compaction, taskMessage, userMessage } from "./reply.js";
import { state } from "./state.js";

const MOST_MESSAGES = 200;

export function create() {
  const screen = new ChatScreen();
  return { node: screen.node, route: (...what) => screen.route(...what), close: () => screen.close(), holdsInput: () => screen.composer.holdsInput };
}

class ChatScreen {
  constructor() {
    this.id = null;
    this.reply = null;
    this.replies = [];
    this.changes = 0;
    this.log = h("div.log", { tabindex: "0", role: "group", "aria-label": "Conversation" });
    this.title = h("h2");
    this.said = h("p.hidden", { role: "status" });
    this.questions = new Questions((waiting) => this.reply?.waiting(waiting));
    this.meter = new Meter();
    this.composer = new Composer(this);
    this.list = new ConversationList((item) => item.id === this.id && fill(this.title, name(item.title || "Conversation")));
    this.pane = h("section.pane.detail", { "aria-label": "Conversation", ondragover: (event) => this.drag(event), ondragleave: () => this.pane.classList.remove("dropping"), ondrop: (event) => this.drop(event) }, this.header(), this.log, this.questions.node, this.composer.queue, this.composer.form, this.said);
    this.node = h("div.split.chat", this.list.node, this.pane);
    this.stops = [
      on("turn", (turn) => turn.conversation === this.id && this.take(turn)),
      on("turn", ({ event, isFirst }) => (isFirst || event.type === "end") && this.list.later()),
      on("task", (task) => task.conversation === this.id && this.replies.forEach((reply) => reply.task(task))),
      on("queue", (queue) => queue.conversation === this.id && this.composer.waits(queue)),
      on("reset", () => this.id && this.load()),
      on("online", ({ resumed }) => resumed && this.id && this.load()),
      on("changed:inbox", () => this.placed()),
      on("changed:servers", () => this.welcome?.isConnected && this.greet()),
    ];
  }

  get path() {
    return `/chat/${encodeURIComponent(this.id)}`;
  }

  close() {
    this.composer.change(this.id);
    this.stops.forEach((stop) => stop());
    this.questions.close();
  }

  header() {
    const toggle = h("button.quiet.icon-button.narrow-only", { "aria-label": "Conversations", onclick: () => this.node.classList.toggle("show-list") }, icon("list"));
    return h("header.chat-head", toggle, this.title, this.meter.node, h("a.button.quiet.narrow-only", { href: "#/chat", "aria-label": "New conversation" }, icon("plus")));
  }

  // Questions are about the conversation, or about what is read for the first message of one.
  placed() {
    this.questions.update(this.id ?? this.composer.attachments.draft);
  }

  drag(event) {
    if (this.composer.form.hidden || !event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    this.pane.classList.add("dropping");
  }

  drop(event) {
    this.drag(event);
    this.pane.classList.remove("dropping");
    this.composer.attachments.files([...event.dataTransfer.files]);
  }

  // === a conversation ===

  async route([id], query, intent) {
    this.node.classList.remove("show-list");
    this.list.mark(id ?? null);
    if (id !== undefined && id === this.id) return;
    const before = this.id;
    this.id = id ?? null;
    this.composer.change(this.wasShown ? before : undefined, this.id);
    this.wasShown = true;
    this.list.load();
    if (this.id) await this.load();
    else this.blank(query, intent);
    this.placed();
  }

  blank(query, intent) {
    this.meter.set(null);
    this.composer.waits({ messages: [] });
    this.reply = null;
    this.replies = [];
    this.drawn = null;
    fill(this.title, "New conversation");
    if (state.session.models.length) this.greet();
    else fill(this.log, noModel());
    this.running(false);
    if (matchMedia("(min-width: 900px)").matches) this.composer.text.focus();
    // An assistant of the screen Assistants, and a prompt that was chosen on the screen Prompts.
    if (query?.has("assistant")) this.composer.as(query.get("assistant"));
    if (intent?.prompt && !this.composer.form.hidden) this.composer.attachments.offer(intent.prompt);
  }

  // The servers may be read, or connected, after this screen is opened. A text that did not change is left as it is.
  greet() {
    const about = aboutTools(this.composer.chosen, this.composer.mode.value);
    if (this.welcome?.isConnected && about === this.about) return;
    this.about = about;
    this.welcome = welcome(about, (text) => this.composer.type(text));
    fill(this.log, this.welcome);
  }

  // Another assistant or mode was chosen.
  chose() {
    if (this.welcome?.isConnected) this.greet();
  }

  async load() {
    const wanted = this.id;
    const { changes } = this;
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
    // A turn that ended meanwhile is not running any more; the message of one that began is not in it.
    if (changes !== this.changes) return this.load();
    fill(this.title, name(conversation.title || "Conversation"));
    if (conversation.model) this.composer.select(conversation.model);
    this.composer.waits(conversation.queue);
    this.meter.set(conversation, this.composer.model.value);
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
    const how = this.composer.how();
    if (running || !how.model || !tasks.some((task) => !told.has(task.id) && isStarted(task))) return;
    this.resuming = post(`${this.path}/resume`, how).catch(() => {});
  }

  draw({ messages, running, messagesBefore, partial, calling, tasks, compaction: left }) {
    this.drawn = this.id;
    // The event of the message that began the turn may come after the message itself was read.
    this.hasBegun = running && messagesBefore !== null && messages.length > messagesBefore;
    const turn = turnOf(this.id);
    const whole = running && turn?.whole && !turn.ended && messagesBefore !== null;
    const shown = whole ? beforeReply(messages, messagesBefore) : messages;
    fill(this.log);
    this.reply = null;
    this.replies = [];
    const first = Math.max(0, shown.length - MOST_MESSAGES);
    if (first > 0) this.log.append(h("p.note", `${first} earlier messages are not shown.`));
    shown.slice(first).forEach((message, index) => {
      if (left && first + index === Math.max(left.summarised, left.shortened)) this.divide(compaction(left));
      this.drawMessage(message);
    });
    this.reply?.settle();
    if (!running || whole) this.reply?.close();
    if (whole) this.replay(turn, shown, messagesBefore);
    else if (running && partial) this.current().text({ text: partial });
    if (!whole) for (const call of calling) this.current().call(call);
    for (const task of tasks) this.replies.forEach((reply) => reply.task(task));
    if (!running && messages.length && messages.at(-1).role !== "assistant") this.offerRetry();
    this.placed();
  }

  // Between two turns, or two steps of one.
  divide(node) {
    this.reply?.settle();
    this.reply?.close();
    this.reply = null;
    this.log.append(node);
  }

  // After a turn that failed: the model is asked again, and no call is made again.
  offerRetry() {
    const line = h("p.note", "The model has not answered. ", action("Ask it again", async () => {
      await post(`${this.path}/retry`, this.composer.how());
      line.remove();
    }, { class: "small" }));
    this.log.append(line);
  }

  // The events of a turn that was seen from its beginning.
  replay(turn, shown, before) {
    const told = new Set(shown.map(({ task }) => task?.id));
    this.reply = null;
    // The message that began it is stored, or comes with its first event.
    const isStored = shown.length > before && shown.at(-1).role === "user";
    for (const event of turn.events) if (!(event.type === "task" && told.has(event.id)) && !(event.type === "begin" && isStored)) this.show(event);
  }

  // One event of a turn.
  show(event) {
    if (event.type === "begin") return this.divide(this.bubbleOf(event.text, event.attached.map((label) => ({ name: label }))));
    if (event.type === "context") return this.meter.show(event);
    if (event.type === "compacted") return this.divide(h("p.note", visible(event.text)));
    if (event.type !== "task") return this.current().take(event);
    const node = taskMessage(event);
    if (this.bubble && !this.reply) this.bubble.before(node);
    else this.log.append(node);
    this.reply = null;
  }

  // A message of the user with what is attached to it; edited or retried, it begins a branch.
  bubbleOf(text, items) {
    const act = (label, run) => action(label, async () => run(await this.place(node)), { class: "small quiet" });
    const retry = async (branch) => this.follow((await post("/chat", { text, branch, ...this.composer.how() })).conversation);
    const node = userMessage(text, items.map((item) => attached(item)), h("div.acts", act("Edit", (branch) => this.composer.edit(branch, text)), act("Retry", retry)));
    return node;
  }

  drawMessage(message) {
    const { role, text, calls, results, task } = message;
    if (role === "attachment") return void (this.attached ??= []).push(message);
    if (task || (role === "user" && !results?.length)) {
      this.divide(task ? taskMessage({ ...task, text }) : this.bubbleOf(text, this.attached ?? []));
      this.attached = null;
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

  // Sends a message; returns whether it was taken. It is drawn at once where it is the next one.
  async send(message, items) {
    const { branch } = message;
    const bubble = this.isRunning || branch ? null : (this.bubble = this.bubbleOf(message.text.replace(/[^\n\t]+/g, marked), items));
    if (bubble) {
      if (this.id === null) fill(this.log);
      this.divide(bubble);
      this.running(true);
      this.scroll(true);
      this.mine = true;
    }
    const place = this.id === null || branch ? {} : { conversation: this.id, queue: true };
    try {
      await this.resuming;
      const { conversation, queued } = await post("/chat", { ...message, ...place });
      if (branch) this.follow(conversation);
      else if (!queued) this.begun(conversation);
      else if (bubble) this.notNow(bubble);
      return true;
    } catch (error) {
      toast(error.message, "bad", error.hint);
      if (bubble) {
        this.notNow(bubble);
        this.running(false);
        if (this.id === null) this.blank();
      }
      return false;
    }
  }

  notNow(bubble) {
    this.mine = false;
    this.bubble = null;
    bubble.remove();
  }

  // Where a branch begins that has a message anew: the page counts messages of the user from the end.
  async place(node) {
    const after = [...this.log.querySelectorAll(".turn.user")].reverse().indexOf(node);
    const { messages } = await get(`/conversations/${encodeURIComponent(this.id)}`);
    const own = messages.filter(({ role, results }) => role === "user" && !results?.length);
    return { conversation: this.id, before: own.at(-1 - after).seq };
  }

  // Opens a branch, whose turn began.
  follow(conversation) {
    started(conversation);
    location.hash = `#/chat/${conversation}`;
    this.list.later();
  }

  begun(conversation) {
    started(conversation);
    if (this.id === conversation) return;
    this.id = conversation;
    this.drawn = conversation;
    this.meter.set({ id: conversation });
    for (const event of turnOf(conversation)?.events ?? []) this.take({ event, isFirst: false, whole: true });
    history.replaceState(null, "", `#/chat/${encodeURIComponent(conversation)}`);
    this.list.mark(conversation);
    this.list.later();
    this.composer.draw();
    this.placed();
  }

  take({ event, isFirst, whole }) {
    if (event.type === "begin") this.changes += 1;
    if (event.type === "begin" && (this.mine || this.hasBegun)) return;
    if (isFirst && !this.mine && event.type !== "begin") return this.load();
    const near = this.isNearEnd();
    this.show(event);
    if (event.type === "end" || event.type === "error") this.ended(event, whole);
    else this.running(true);
    if (near) this.scroll(true);
    this.placed();
  }

  // A turn that was not seen from its beginning is read again.
  ended(event, whole) {
    this.changes += 1;
    this.mine = false;
    this.hasBegun = false;
    this.bubble = null;
    this.reply = null;
    this.running(false);
    fill(this.said, event.type === "end" ? "The reply is complete." : "The turn failed.");
    if (event.type === "error") this.offerRetry();
    else if (!whole) this.load();
  }

  async cancel() {
    this.composer.stop.disabled = true;
    await post(`${this.path}/cancel`).catch((error) => toast(error.message, "bad", error.hint));
    this.composer.stop.disabled = false;
  }

  running(isRunning) {
    this.isRunning = isRunning;
    this.composer.running(isRunning);
    this.log.classList.toggle("working", isRunning);
  }

  // === scrolling ===

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

// By mode, or by the approval of an assistant.
const ASKED = {
  ask: "You are asked before every call.",
  writes: "You are asked before it changes something.",
  allow: "You are asked only where a rule does.",
  "always-ask": "You are asked before every call.",
  "trusted-only": "You are asked before every call but those of trusted tools.",
  auto: "You are asked only where mode or rules do.",
};

// What the model can use, and what is asked about; null until the servers have been read.
function aboutTools(assistant, mode) {
  if (state.servers === null) return null;
  const isOffered = ({ name, state: now }) => now === "connected" && (assistant?.servers?.includes(name) ?? true);
  const servers = state.servers.filter(isOffered);
  const tools = servers.reduce((sum, server) => sum + (server.counts?.tools ?? 0), 0);
  const asked = assistant && mode ? "You are asked where its approval or your choice asks." : ASKED[mode || assistant?.approval] ?? "";
  return servers.length ? `The model can use ${assistant ? "up to " : ""}${count(tools, "tool")} of ${count(servers.length, "server")}. ${asked}` : NO_SERVER;
}

function welcome(about, suggest) {
  if (about === null) return empty("chat", "Talk to a model");
  const ideas = SUGGESTIONS.map((text) => h("button.idea", { onclick: () => suggest(text) }, text));
  return empty("chat", "Talk to a model", h("p", about), about === NO_SERVER ? h("p", h("a.button", { href: "#/add" }, icon("plus"), "Add a server")) : h("div.ideas", ideas));
}

function noModel() {
  return empty(
    "chat",
    "No model is configured",
    h("p", "A chat needs a model of a vendor, or one that runs on this computer. Set a key such as ", command("ANTHROPIC_API_KEY"), " or ", command("OPENAI_API_KEY"), " where Toolway runs, or name a model under ", command("models"), " in the configuration, and start Toolway again."),
    h("p.sub", command("toolway models"), " lists what is usable."),
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
    this.rows = h("ul.conversation-list");
    this.node = h("section.pane.master", { "aria-label": "Conversations", onclick: (event) => event.target.closest("a") && this.node.parentNode.classList.remove("show-list") }, h("header.pane-head", h("p.title", { "aria-hidden": "true" }, "Chat"), h("a.button", { href: "#/chat" }, icon("plus"), "New")), h("div.pad", this.search), this.rows);
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
      fill(this.rows, h("li.pad", problem(error)));
    }
  }

  mark(id) {
    this.marked = id;
    this.draw();
  }

  draw() {
    const row = (item) => h("li", h("a.conversation", { href: `#/chat/${encodeURIComponent(item.id)}`, "aria-current": item.id === this.marked ? "true" : false }, name(item.title || "Untitled"), h("span.sub", `${ago(item.updatedAt)}${WHERE[item.surface] ?? ""}`)));
    fill(this.rows, this.items.slice(0, 200).map(row));
    if (this.items.length === 0) fill(this.rows, h("li.sub.pad", this.search.value ? "No conversation matches." : "Conversations are kept here, those of the terminal as well."));
  }
}
