// How far a task is, on one line: its state, a bar, the words of its server, and a button that cancels it.

import { post } from "./api.js";
import { cut, fill, h, icon, visible } from "./dom.js";
import { TASK_STATES } from "./format.js";
import { action, pill, stateOf, toast } from "./parts.js";

export class TaskLine {
  // of: `tasks`, or `calls` for a call that is not one.
  constructor(task, of = "tasks") {
    this.of = of;
    this.state = h("span");
    this.progress = new ProgressBar();
    this.words = h("span");
    this.text = h("span.task-text", { dir: "auto" }, this.progress.node, this.words);
    this.check = action("Check now", () => this.poll(), { class: "small quiet" });
    this.cancel = action([icon("close"), "Cancel"], () => this.end(), { class: "small" });
    this.node = h("div.task-line", { role: "group", "aria-label": of === "tasks" ? "Background task" : "Running call" }, this.state, this.text, this.check, this.cancel);
    this.state.hidden = this.check.hidden = of !== "tasks";
    this.set(task);
  }

  set(task) {
    this.id = task.id;
    fill(this.state, pill(stateOf(TASK_STATES, task.status)));
    this.progress.set(task.progress);
    fill(this.words, visible(cut(task.message ?? "", 400)));
  }

  // Asks the server at once; what changed comes as an event.
  async poll() {
    await post(`/tasks/${encodeURIComponent(this.id)}/poll`);
    toast("The server is asked how far it is.");
  }

  async end() {
    await post(`/${this.of}/${encodeURIComponent(this.id)}/cancel`);
    fill(this.words, "Cancelling");
  }
}

// A bar where the server says how much there is to do, else the number that it gives. It stays the same element, so that
// it moves.
export class ProgressBar {
  constructor() {
    this.bar = h("progress", { max: "1", value: 0, "aria-label": "Progress" });
    this.number = h("span.number");
    this.node = h("span.task-bar", this.bar, this.number);
    this.set(null);
  }

  set(progress) {
    const isKnown = typeof progress?.done === "number";
    const hasTotal = isKnown && progress.total > 0;
    this.node.hidden = !isKnown;
    this.bar.hidden = !hasTotal;
    if (!isKnown) return;
    const share = hasTotal ? Math.max(0, Math.min(1, progress.done / progress.total)) : 0;
    this.bar.value = share;
    fill(this.number, hasTotal ? `${Math.round(share * 100)} % ` : `${progress.done} `);
  }
}
