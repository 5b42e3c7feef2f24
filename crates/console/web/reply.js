// What a model does in one turn: text, thoughts, tool calls with their results. Fed by stored messages or live events.

import { get } from "./api.js";
import { add, cut, fill, h, icon, name, visible } from "./dom.js";
import { picture } from "./content.js";
import { CALL_STATES, TASK_STATES, duration, isOpenTask, splitTool } from "./format.js";
import { json, plain } from "./json.js";
import { taskOf } from "./live.js";
import { Markdown, markdown } from "./markdown.js";
import { pill, problem, stateOf } from "./parts.js";
import { state as known } from "./state.js";
import { TaskLine } from "./task-line.js";

const BACKGROUND = ["In background", "busy"];
const WAITING = ["Waits for you", "wait"];
const MOST_PICTURES = 8;
const SHOWN = ["text", "reasoning", "call", "progress", "result", "usage", "notice", "error", "end"];
const STOPS = { cancelled: "Stopped by you.", refused: "The model declined to answer.", loop: "Stopped: the model repeated the same call." };
const LIMITS = ["output_tokens", "turns", "tokens", "tool_calls", "time"];

export function userMessage(text, attachments, acts) {
  return h("div.turn.user", h("h2.hidden", "You"), attachments.length ? h("div.attachments", attachments) : null, h("div.bubble", { dir: "auto" }, visible(cut(text, 100_000))), acts);
}

// Where the model has less than the transcript.
export function compaction({ summarised, summary }) {
  if (!summarised) return h("p.note", "Long results above are shortened for the model, to keep the context window.");
  return h("details.note", h("summary", "The model has a summary of the messages above, to keep the context window. They stay here."), markdown(summary));
}

// The end of a background task as the model was told of it: neither the user's words nor the model's.
export function taskMessage({ id, tool, end, state, text }) {
  const body = h("div.card-body", h("h3", "Result"), text ? plain(text) : h("p.sub", "No text."));
  const card = h("details.card", { "data-state": state }, h("summary", { title: tool }, icon("forward"), toolName(tool), h("span.card-brief.sub", `Background task ${end}`), pill(stateOf(TASK_STATES, state))), body, record(id));
  return h("div.turn.model.told", { "data-task": id }, h("h2.hidden", "Background task"), card);
}

function record(callId) {
  return h("a.card-record", { href: `#/calls/${encodeURIComponent(callId)}` }, "Open the record");
}

export class Reply {
  constructor() {
    this.cards = new Map();
    this.writing = null;
    this.body = h("div.reply-body");
    this.foot = h("div.reply-foot.sub");
    this.node = h("div.turn.model", h("h2.hidden", "Model"), this.body, this.foot);
  }

  take(event) {
    if (SHOWN.includes(event.type)) this[event.type](event);
  }

  text({ text }) {
    if (!text) return;
    if (this.writing?.kind !== "text") this.begin("text", new Markdown());
    this.write(text);
  }

  reasoning({ text }) {
    if (!text) return;
    if (this.writing?.kind !== "reasoning") {
      const view = new Markdown();
      this.begin("reasoning", view, h("details.thought", h("summary", "Thought"), view.node));
    }
    this.write(text);
  }

  begin(kind, view, node = view.node) {
    this.settle();
    this.writing = { kind, view, text: "", frame: null };
    this.body.append(node);
  }

  // Many deltas are drawn once per frame.
  write(text) {
    const { writing } = this;
    writing.text += text;
    writing.frame ??= requestAnimationFrame(() => {
      writing.frame = null;
      writing.view.set(writing.text);
      this.ondraw?.();
    });
  }

  settle() {
    if (!this.writing) return;
    if (this.writing.frame !== null) cancelAnimationFrame(this.writing.frame);
    this.writing.view.set(this.writing.text);
    this.writing = null;
  }

  call({ id, name: tool, title, arguments: values, callId }) {
    this.settle();
    if (this.cards.has(id)) return this.cards.get(id).know(callId);
    const card = new CallCard(tool, title, values, callId);
    this.cards.set(id, card);
    this.body.append(card.node);
  }

  progress(event) {
    this.cards.get(event.id)?.progress(event);
  }

  result(event) {
    if (!this.cards.has(event.id)) this.call(event);
    this.cards.get(event.id).finish(event);
  }

  notice({ text, message }) {
    this.settle();
    this.body.append(h("p.note", visible(cut(text ?? message, 2000))));
  }

  usage({ inputTokens, outputTokens, cachedTokens, cost }) {
    // Figures of the whole turn so far.
    const [input, out, cached] = [inputTokens ?? 0, outputTokens ?? 0, cachedTokens ?? 0];
    fill(this.foot, `${input.toLocaleString()} tokens in, ${out.toLocaleString()} out${cached ? `, ${cached.toLocaleString()} cached` : ""}${typeof cost === "number" ? `, cost ${cost.toFixed(4)}` : ""}`);
  }

  error(error) {
    this.settle();
    this.body.append(problem(error, "The turn failed"));
    this.close();
  }

  end({ stopReason }) {
    this.settle();
    const limit = LIMITS.find((limit) => stopReason === `max_${limit}`);
    const why = limit ? `Stopped: the limit of ${limit.replace("_", " ")} is reached.` : STOPS[stopReason];
    if (why) this.body.append(h("p.note", why));
    this.close();
  }

  // Calls without a result did not end in this turn.
  close() {
    for (const card of this.cards.values()) card.abandon();
  }

  // A background task began, changed or ended.
  task(task) {
    for (const card of this.cards.values()) if (card.callId === task.id) card.task(task);
  }

  // Which calls wait for a person, by the ids of their records.
  waiting(callIds) {
    for (const card of this.cards.values()) card.wait(callIds);
  }
}

class CallCard {
  constructor(tool, title, values, callId) {
    this.callId = callId ?? null;
    this.done = false;
    this.line = null;
    this.hasEnded = false;
    this.state = h("span", pill(CALL_STATES.running));
    this.record = h("span");
    this.body = h("div.card-body", h("h3", "Arguments"), Object.keys(values ?? {}).length ? json(values) : h("p.sub", "None."));
    this.words = brief(values);
    this.brief = h("span.card-brief.sub", { dir: "auto" }, visible(this.words));
    this.time = h("span.number.sub");
    this.node = h("details.card", { "data-state": "running", ontoggle: () => this.open() }, h("summary", { title: tool }, icon("forward"), toolName(tool, title), this.brief, this.time, this.state), this.body, this.record);
    this.link();
    // A call that ends at once has no line.
    this.timer = setTimeout(() => this.run(), 400);
  }

  // The line under a call that goes on: how far it is, and a button that cancels it.
  run() {
    if (this.done || this.line || !this.callId) return;
    this.line = new TaskLine({ id: this.callId, status: "working" }, "calls");
    this.node.after(this.line.node);
  }

  // Structured content is in the record.
  async open() {
    if (!this.node.open || !this.done || !this.callId || this.isRead) return;
    this.isRead = true;
    const { result } = await get(`/calls/${encodeURIComponent(this.callId)}`).catch(() => ({}));
    if (result?.structuredContent !== undefined) add(this.body, h("h3", "Structured content"), json(result.structuredContent));
  }

  // The record of a call that was drawn from its message, while it goes on.
  know(callId) {
    this.callId ??= callId ?? null;
    this.link();
  }

  link() {
    if (this.callId) fill(this.record, record(this.callId));
  }

  wait(callIds) {
    if (this.done) return;
    const waits = this.callId !== null && callIds.has(this.callId);
    fill(this.state, pill(waits ? WAITING : CALL_STATES.running));
    this.node.dataset.state = waits ? "waiting" : "running";
  }

  progress({ progress, total, text }) {
    if (this.done) return;
    this.run();
    this.line?.set({ id: this.callId, status: "working", progress: { done: progress, total }, message: text });
  }

  finish({ state, isError, callId, text, images, problem: why, durationMs }) {
    if (this.done) return;
    this.done = true;
    this.endRun();
    this.callId = callId ?? this.callId;
    const word = state ?? (isError ? "tool-error" : "succeeded");
    add(this.body, h("h3", "Result"), text ? plain(text) : h("p.sub", "No text."), why ? problem({ message: why }) : null);
    this.link();
    this.open();
    if (word === "running" && this.callId) return this.goOn();
    this.line?.node.remove();
    fill(this.state, pill(stateOf(CALL_STATES, word)));
    this.node.dataset.state = word;
    fill(this.time, duration(durationMs));
    const pictures = (images ?? []).slice(0, MOST_PICTURES).map((address) => picture(address));
    if (pictures.length) this.node.after(h("div.pictures", pictures));
  }

  endRun() {
    clearTimeout(this.timer);
    if (this.line?.of !== "calls") return;
    this.line.node.remove();
    this.line = null;
  }

  // The server goes on with it as a task, which may have ended already.
  goOn() {
    if (!this.line && !this.hasEnded) this.task(taskOf(this.callId) ?? { id: this.callId, status: "working" });
    if (this.hasEnded) return;
    fill(this.state, pill(BACKGROUND));
    fill(this.brief, visible(this.words));
    this.node.dataset.state = "background";
  }

  // A change of the task of this call.
  task(task) {
    if (!isOpenTask(task.status)) return this.endTask(task);
    this.endRun();
    if (!this.line) {
      this.line = new TaskLine(task);
      this.node.after(this.line.node);
    }
    this.line.set(task);
  }

  // A stored task says no more than the stored call, unless the card was drawn while the task ran.
  endTask({ status, state, message }) {
    if (!this.line && !state) return;
    this.hasEnded = true;
    this.line?.node.remove();
    this.line = null;
    const word = state ?? (status === "completed" ? "succeeded" : status);
    fill(this.state, pill(status === "lost" ? TASK_STATES.lost : stateOf(CALL_STATES, word)));
    if (status === "lost" && message) fill(this.brief, visible(cut(message, 400)));
    this.node.dataset.state = word;
  }

  abandon() {
    if (this.done) return;
    this.done = true;
    this.endRun();
    fill(this.state, pill(["No result", "off"]));
    this.node.dataset.state = "interrupted";
  }
}

function toolName(publicName, title) {
  const [server, tool] = splitTool(publicName, known.servers);
  return h("span.card-name", server ? [name(server, { class: "name sub" }), h("span.sub", " / ")] : null, name(title ?? tool));
}

function brief(values) {
  if (values === null || typeof values !== "object") return "";
  return Object.entries(values).slice(0, 4).map(([key, value]) => `${cut(key, 30)}: ${cut(typeof value === "object" ? "…" : value, 60)}`).join(", ");
}
