// The screen Tasks: calls that their servers continue, with how far they are; a drawer with one of them and its result.

import { get, on } from "./api.js";
import { argumentsOf, body, cutNote, isBare, result } from "./content.js";
import { cut, fill, h, name, visible } from "./dom.js";
import { ago, callerWords, CALL_STATES, fullTime, isOpenTask, splitTool, TASK_STATES } from "./format.js";
import { command, Drawer, empty, labelled, loading, pill, problem, section, stateOf } from "./parts.js";
import { state } from "./state.js";
import { ProgressBar, TaskLine } from "./task-line.js";

export const KEYS = [["↑ ↓", "Task before, next task"], ["Enter", "Open it beside the list"], ["Escape", "Close it"]];

export function create() {
  const screen = new TasksScreen();
  return { node: screen.node, route: (parts) => screen.route(parts), close: () => screen.close() };
}

class TasksScreen {
  constructor() {
    this.tasks = null;
    this.rows = new Map();
    this.summary = h("p.sub", { role: "status" });
    this.opened = null;
    this.body = h("div.stack", { onkeydown: (event) => this.key(event) }, loading(3));
    this.detail = new TaskDetail(() => (location.hash = "#/tasks"));
    this.node = h("div.calls", h("div.page.scrolls", h("header.page-head", h("p.title", { "aria-hidden": "true" }, "Tasks"), this.summary), this.body), this.detail.drawer.node);
    this.stops = [on("task", (task) => this.take(task)), on("reset", () => this.load()), on("online", ({ resumed }) => resumed && this.load())];
    this.load();
  }

  route([id]) {
    this.opened = id ?? null;
    this.markOpened();
    if (id) this.detail.open(id);
    else this.detail.drawer.close();
  }

  close() {
    this.stops.forEach((stop) => stop());
  }

  async load() {
    try {
      const tasks = await get("/tasks");
      this.tasks = new Map(tasks.map((task) => [task.id, task]));
      this.draw();
    } catch (error) {
      fill(this.body, problem(error, "The tasks could not be read"));
    }
  }

  // A task changed. One that is in its list stays where it is, so that nothing moves under the pointer.
  take(task) {
    this.detail.take(task);
    if (this.tasks === null) return;
    const before = this.tasks.get(task.id);
    this.tasks.set(task.id, { ...before, ...task });
    if (before && isOpenTask(before.status) === isOpenTask(task.status)) return void this.rows.get(task.id).set(task);
    const focused = document.activeElement?.closest?.(".task-row")?.dataset.task;
    this.draw();
    this.rows.get(focused)?.link.focus();
  }

  // Arrow keys go from row to row.
  key(event) {
    if (event.key === "Escape") return this.detail.drawer.close();
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const rows = [...this.body.querySelectorAll(".task-row")];
    const next = step && rows[rows.indexOf(document.activeElement) + step];
    if (!next) return;
    event.preventDefault();
    next.focus();
    if (this.opened !== null) location.hash = next.getAttribute("href");
  }

  markOpened() {
    for (const [id, row] of this.rows) row.link.setAttribute("aria-current", String(id === this.opened));
  }

  draw() {
    const all = [...this.tasks.values()].sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
    const open = all.filter((task) => isOpenTask(task.status));
    const ended = all.filter((task) => !isOpenTask(task.status));
    fill(this.summary, open.length ? `${open.length} in progress` : "");
    this.rows = new Map();
    if (all.length === 0) return void fill(this.body, nothing());
    fill(this.body, this.part("In progress", open), this.part("Ended", ended));
    this.markOpened();
  }

  part(title, tasks) {
    if (tasks.length === 0) return null;
    const item = (task) => {
      const row = new TaskRow(task);
      this.rows.set(task.id, row);
      return h("li", row.link);
    };
    return h("section.part", h("h2.part-title", title), h("ul.task-list", tasks.map(item)));
  }
}

// A row that stays the same element while its task goes on, so that its bar moves and the focus stays.
class TaskRow {
  constructor(task) {
    const [, tool] = splitTool(task.tool, state.servers);
    this.state = h("span");
    this.bar = new ProgressBar();
    this.words = h("span");
    this.link = h(
      "a",
      { class: "task-row", href: `#/tasks/${encodeURIComponent(task.id)}`, "data-task": task.id },
      h("span.one-line", name(task.server, { class: "name sub" }), h("span.sub", " / "), name(tool, { class: "name strong" })),
      this.state,
      h("span.one-line.sub.task-progress", this.bar.node, this.words),
      h("span.sub.when", ago(task.createdAt)),
    );
    this.set(task);
  }

  set(task) {
    this.link.dataset.status = task.status;
    fill(this.state, pill(stateOf(TASK_STATES, task.status)));
    this.bar.set(isOpenTask(task.status) ? task.progress : null);
    fill(this.words, visible(cut(task.message ?? "", 200)));
  }
}

function nothing() {
  if (state.session?.store === false) return empty("tasks", "Tasks are not recorded", h("p", "Toolway runs without a store. Start it without ", command("--no-store"), " to see them here."));
  return empty("tasks", "No tasks", h("p", "A server may continue a long call as a task. It is shown here with its progress until it has ended, and afterwards with its result."), h("p.sub", "In a terminal: ", command("toolway tasks"), "."));
}

// === one task ===

class TaskDetail {
  constructor(onclose) {
    this.task = null;
    this.drawer = new Drawer("Task", () => {
      this.task = null;
      onclose();
    });
  }

  async open(id) {
    if (this.task?.id === id) return;
    this.task = { id };
    await this.load(id);
  }

  async load(id) {
    try {
      const path = encodeURIComponent(id);
      const [task, call] = await Promise.all([get(`/tasks/${path}`), get(`/calls/${path}`)]);
      if (this.task?.id !== id) return;
      this.task = task;
      this.draw(task, call);
    } catch (error) {
      if (this.task?.id === id) this.drawer.show("Task", problem(error));
    }
  }

  take(task) {
    if (this.task?.id !== task.id) return;
    const isSame = (this.task.status === "input-required") === (task.status === "input-required");
    if (this.line && isOpenTask(task.status) && isSame) this.line.set(task);
    else this.load(task.id);
  }

  draw(task, call) {
    const isOpen = isOpenTask(task.status);
    const values = argumentsOf(call);
    this.line = isOpen ? new TaskLine(task) : null;
    this.drawer.show(
      [name(splitTool(task.tool, state.servers)[1]), " ", isOpen ? null : pill(stateOf(TASK_STATES, task.status))],
      this.line?.node,
      task.status === "input-required" ? h("p", "It goes on when its server has an answer: ", h("a", { href: "#/inbox" }, "in the inbox"), ".") : null,
      h(
        "dl",
        { class: "facts" },
        labelled("Server", h("a", { href: `#/servers/${encodeURIComponent(task.server)}` }, name(task.server))),
        labelled("Caller", name(callerWords(task.caller, call.surface))),
        labelled("Conversation", task.conversation ? h("a", { href: `#/chat/${encodeURIComponent(task.conversation)}` }, "open it") : null),
        labelled("Began", fullTime(task.createdAt)),
        labelled(isOpen ? "Changed" : "Ended", fullTime(task.updatedAt)),
        labelled("Last message", isOpen || !task.message ? null : visible(task.message)),
        labelled("Call", [pill(stateOf(CALL_STATES, call.state)), " ", h("a", { href: `#/calls/${encodeURIComponent(task.id)}` }, "its record")]),
      ),
      call.error ? problem({ message: call.error }) : null,
      values === null || isBare(values) ? null : section("Arguments", null, cutNote(call, "arguments"), body(values)),
      isOpen ? null : section("Result", null, cutNote(call, "result"), call.result === null ? h("p.sub", "None, or not kept.") : result(call.result)),
    );
  }
}
