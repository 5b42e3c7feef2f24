// The screen Tasks: calls that their servers continue, with how far they are; a drawer with one of them and its result.

import { get, on } from "./api.js";
import { result } from "./content.js";
import { cut, fill, h, name, visible } from "./dom.js";
import { ago, callerWords, CALL_STATES, fullTime, isOpenTask, splitTool, TASK_STATES } from "./format.js";
import { command, Drawer, empty, labelled, loading, pill, problem, section, stateOf } from "./parts.js";
import { state } from "./state.js";
import { progressBar, TaskLine } from "./task-line.js";

export function create() {
  const screen = new TasksScreen();
  return { node: screen.node, route: (parts) => screen.route(parts), close: () => screen.close() };
}

class TasksScreen {
  constructor() {
    this.tasks = null;
    this.rows = new Map();
    this.summary = h("p", { class: "sub", role: "status" });
    this.body = h("div", { class: "stack" }, loading(3));
    this.detail = new TaskDetail(() => (location.hash = "#/tasks"));
    this.node = h("div", { class: "calls" }, h("div", { class: "page scrolls" }, h("header", { class: "page-head" }, h("p", { class: "title", "aria-hidden": "true" }, "Tasks"), this.summary), this.body), this.detail.drawer.node);
    this.stops = [on("task", (task) => this.take(task)), on("reset", () => this.load()), on("online", ({ resumed }) => resumed && this.load())];
    this.load();
  }

  route([id]) {
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
    if (before && isOpenTask(before.status) === isOpenTask(task.status)) {
      fill(this.rows.get(task.id), row(task));
      return;
    }
    this.draw();
  }

  draw() {
    const all = [...this.tasks.values()].sort((a, b) => (a.createdAt < b.createdAt ? 1 : -1));
    const open = all.filter((task) => isOpenTask(task.status));
    const ended = all.filter((task) => !isOpenTask(task.status));
    fill(this.summary, open.length ? `${open.length} in progress` : "");
    this.rows = new Map();
    if (all.length === 0) return void fill(this.body, nothing());
    fill(this.body, this.part("In progress", open), this.part("Ended", ended));
  }

  part(title, tasks) {
    if (tasks.length === 0) return null;
    const item = (task) => {
      const node = h("li", {}, row(task));
      this.rows.set(task.id, node);
      return node;
    };
    return h("section", { class: "part" }, h("h2", { class: "part-title" }, title), h("ul", { class: "task-list" }, tasks.map(item)));
  }
}

function row(task) {
  const [, tool] = splitTool(task.tool, state.servers);
  return h(
    "a",
    { class: "task-row", href: `#/tasks/${encodeURIComponent(task.id)}`, "data-status": task.status },
    h("span", { class: "one-line" }, name(task.server, { class: "name sub" }), h("span", { class: "sub" }, " / "), name(tool, { class: "name strong" })),
    pill(stateOf(TASK_STATES, task.status)),
    h("span", { class: "one-line sub task-progress" }, isOpenTask(task.status) ? progressBar(task.progress) : null, visible(cut(task.message ?? "", 200))),
    h("span", { class: "sub when" }, ago(task.createdAt)),
  );
}

function nothing() {
  return empty("tasks", "No tasks", h("p", {}, "A server may continue a long call as a task. It is shown here with its progress until it has ended, and afterwards with its result."), h("p", { class: "sub" }, "In a terminal: ", command("toolway tasks"), "."));
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
    if (this.line && isOpenTask(task.status)) this.line.set(task);
    else this.load(task.id);
  }

  draw(task, call) {
    const isOpen = isOpenTask(task.status);
    this.line = isOpen ? new TaskLine(task) : null;
    this.drawer.show(
      [name(splitTool(task.tool, state.servers)[1]), " ", isOpen ? null : pill(stateOf(TASK_STATES, task.status))],
      this.line?.node,
      h(
        "dl",
        { class: "facts" },
        labelled("Server", h("a", { href: `#/servers/${encodeURIComponent(task.server)}` }, name(task.server))),
        labelled("Caller", [name(callerWords(task.caller, call.surface)), task.conversation ? [" (", h("a", { href: `#/chat/${encodeURIComponent(task.conversation)}` }, "open the conversation"), ")"] : ""]),
        labelled("Began", fullTime(task.createdAt)),
        labelled(isOpen ? "Changed" : "Ended", fullTime(task.updatedAt)),
        labelled("Last message", isOpen || !task.message ? null : visible(task.message)),
        labelled("Call", [pill(stateOf(CALL_STATES, call.state)), " ", h("a", { href: `#/calls/${encodeURIComponent(task.id)}` }, "its record")]),
      ),
      call.error ? problem({ message: call.error }) : null,
      isOpen ? null : section("Result", null, call.result === null ? h("p", { class: "sub" }, "None, or not kept.") : result(call.result)),
    );
  }
}
