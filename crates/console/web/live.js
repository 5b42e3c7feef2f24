// The turns that are under way, by conversation: their events are kept so that a screen opened later can show them. So are
// the last changes of tasks.

import { emit, on } from "./api.js";

const MOST_EVENTS = 4000;
const MOST_TURNS = 40;
const MOST_TASKS = 200;
const turns = new Map();
// The last change of each task: it may come before the card that shows it.
const tasks = new Map();
// Conversations known to be at rest: the next event of one is the first of its turn.
const idle = new Set();

export function watch() {
  on("chat", take);
  on("task", keepTask);
  on("reset", forget);
  on("online", ({ resumed }) => !resumed && forget());
}

function forget() {
  turns.clear();
  tasks.clear();
  idle.clear();
}

function take(event) {
  const id = event.conversation;
  const isFirst = turns.get(id)?.ended !== false;
  if (isFirst) begin(id);
  const turn = turns.get(id);
  keep(turn, event);
  turn.ended = event.type === "end" || event.type === "error";
  if (turn.ended) idle.add(id);
  emit("turn", { conversation: id, event, isFirst, whole: turn.whole });
}

// An ended turn is kept for a while: a short one may end before the answer to the request that began it.
function begin(id) {
  turns.delete(id);
  turns.set(id, { events: [], whole: idle.has(id), ended: false });
  idle.delete(id);
  for (const [old, turn] of turns) if (turns.size > MOST_TURNS && turn.ended) turns.delete(old);
}

// Deltas of one kind become one event.
function keep(turn, event) {
  const last = turn.events.at(-1);
  if (last && last.type === event.type && (event.type === "text" || event.type === "reasoning")) last.text += event.text;
  else if (turn.events.length < MOST_EVENTS) turn.events.push({ ...event });
  else turn.whole = false;
}

function keepTask(task) {
  tasks.delete(task.id);
  tasks.set(task.id, task);
  if (tasks.size > MOST_TASKS) tasks.delete(tasks.keys().next().value);
}

// A task as it changed last; null if that was not seen.
export function taskOf(id) {
  return tasks.get(id) ?? null;
}

export function turnOf(conversation) {
  return turns.get(conversation) ?? null;
}

export function isIdle(conversation) {
  if (turns.get(conversation)?.ended !== false) idle.add(conversation);
}

// A turn was started from here; its events may have come before the answer to the request.
export function started(conversation) {
  const turn = turns.get(conversation);
  if (turn) turn.whole = true;
  else idle.add(conversation);
}
