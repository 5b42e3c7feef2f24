// What a model does in one turn: text, thoughts, tool calls with their results. Fed by stored messages or live events.

import { add, cut, fill, h, icon, name, visible } from "./dom.js";
import { picture } from "./content.js";
import { CALL_STATES, TASK_STATES, duration, isOpenTask, splitTool } from "./format.js";
import { json, plain } from "./json.js";
import { taskOf } from "./live.js";
import { Markdown } from "./markdown.js";
import { pill, problem, stateOf } from "./parts.js";
import { state as known } from "./state.js";
import { TaskLine } from "./task-line.js";

const BACKGROUND = ["In background", "busy"];
const WAITING = ["Waits for you", "wait"];
const MOST_PICTURES = 8;
const STOPS = {
  cancelled: "Stopped by you.",
  refused: "The model declined to answer.",
  max_output_tokens: "Stopped: the model reached its limit of output tokens.",
  max_turns: "Stopped: the limit of turns is reached.",
  max_tokens: "Stopped: the limit of tokens is reached.",
  max_tool_calls: "Stopped: the limit of tool calls is reached.",
  max_time: "Stopped: the limit of time is reached.",
  loop: "Stopped: the model repeated the same call.",
};

export function userMessage(text) {
  return h("div", { class: "turn user" }, h("h2", { class: "hidden" }, "You"), h("div", { class: "bubble", dir: "auto" }, visible(cut(text, 100_000))));
}

// The end of a background task as the model was told of it: neither the user's words nor the model's.
export function taskMessage({ id, tool, end, state, text }) {
  const body = h("div", { class: "card-body" }, h("h3", {}, "Result"), text ? plain(text) : h("p", { class: "sub" }, "No text."));
  const card = h("details", { class: "card", "data-state": state }, h("summary", { title: tool }, icon("forward"), toolName(tool), h("span", { class: "card-brief sub" }, `Background task ${end}`), pill(stateOf(TASK_STATES, state))), body, record(id));
  return h("div", { class: "turn model told", "data-task": id }, h("h2", { class: "hidden" }, "Background task"), card);
}

function record(callId) {
  return h("a", { class: "card-record", href: `#/calls/${encodeURIComponent(callId)}` }, "Open the record");
}

export class Reply {
  constructor() {
    this.cards = new Map();
    this.writing = null;
    this.body = h("div", { class: "reply-body" });
    this.foot = h("div", { class: "reply-foot sub" });
    this.node = h("div", { class: "turn model" }, h("h2", { class: "hidden" }, "Model"), this.body, this.foot);
  }

  take(event) {
    const handlers = { text: "text", reasoning: "reasoning", call: "call", progress: "progress", result: "result", usage: "usage", notice: "notice", error: "fail", end: "end" };
    if (Object.hasOwn(handlers, event.type)) this[handlers[event.type]](event);
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
      this.begin("reasoning", view, h("details", { class: "thought" }, h("summary", {}, "Thought"), view.node));
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

  call({ id, name: tool, arguments: values, callId }) {
    this.settle();
    if (this.cards.has(id)) return;
    const card = new CallCard(tool, values, callId);
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
    this.body.append(h("p", { class: "note" }, visible(cut(text ?? message, 2000))));
  }

  usage({ inputTokens, outputTokens, cachedTokens }) {
    // Figures of the whole turn so far.
    const [input, out, cached] = [inputTokens ?? 0, outputTokens ?? 0, cachedTokens ?? 0];
    fill(this.foot, `${input.toLocaleString()} tokens in, ${out.toLocaleString()} out${cached ? `, ${cached.toLocaleString()} cached` : ""}`);
  }

  fail(error) {
    this.settle();
    this.body.append(problem(error, "The turn failed"));
    this.close();
  }

  end({ stopReason }) {
    this.settle();
    if (STOPS[stopReason]) this.body.append(h("p", { class: "note" }, STOPS[stopReason]));
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
  constructor(tool, values, callId) {
    this.callId = callId ?? null;
    this.done = false;
    this.line = null;
    this.hasEnded = false;
    this.state = h("span", {}, pill(CALL_STATES.running));
    this.record = h("span", {});
    this.body = h("div", { class: "card-body" }, h("h3", {}, "Arguments"), Object.keys(values ?? {}).length ? json(values) : h("p", { class: "sub" }, "None."));
    this.words = brief(values);
    this.brief = h("span", { class: "card-brief sub", dir: "auto" }, visible(this.words));
    this.node = h("details", { class: "card", "data-state": "running" }, h("summary", { title: tool }, icon("forward"), toolName(tool), this.brief, this.state), this.body, this.record);
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
    const share = typeof progress === "number" && total > 0 ? h("progress", { max: total, value: Math.min(progress, total), "aria-label": "Progress" }) : null;
    fill(this.brief, share, visible(cut(text ?? (share ? "" : `step ${progress}`), 120)));
  }

  finish({ state, isError, callId, text, images, problem: why, durationMs }) {
    if (this.done) return;
    this.done = true;
    this.callId = callId ?? this.callId;
    const word = state ?? (isError ? "tool-error" : "succeeded");
    add(this.body, h("h3", {}, "Result"), text ? plain(text) : h("p", { class: "sub" }, "No text."), why ? problem({ message: why }) : null);
    this.link();
    if (word === "running" && this.callId) return this.goOn();
    this.line?.node.remove();
    fill(this.state, pill(stateOf(CALL_STATES, word)));
    this.node.dataset.state = word;
    fill(this.brief, visible(this.words), durationMs === undefined || durationMs === null ? "" : ` ${this.words ? "· " : ""}${duration(durationMs)}`);
    const pictures = (images ?? []).slice(0, MOST_PICTURES).map((address) => picture(address));
    if (pictures.length) this.node.after(h("div", { class: "pictures" }, pictures));
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
    fill(this.state, pill(["No result", "off"]));
    this.node.dataset.state = "interrupted";
  }
}

function toolName(publicName) {
  const [server, tool] = splitTool(publicName, known.servers);
  return h("span", { class: "card-name" }, server ? [name(server, { class: "name sub" }), h("span", { class: "sub" }, " / ")] : null, name(tool));
}

function brief(values) {
  if (values === null || typeof values !== "object") return "";
  return Object.entries(values).slice(0, 4).map(([key, value]) => `${cut(key, 30)}: ${cut(typeof value === "object" ? "…" : value, 60)}`).join(", ");
}
