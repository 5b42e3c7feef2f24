// How far a task is, on one line: its state, a bar, the words of its server, and a button that cancels it.

import { post } from "./api.js";
import { cut, fill, h, icon, visible } from "./dom.js";
import { TASK_STATES } from "./format.js";
import { action, pill, stateOf } from "./parts.js";

export class TaskLine {
  constructor(task) {
    this.state = h("span", {});
    this.text = h("span", { class: "task-text", dir: "auto" });
    this.cancel = action([icon("close"), "Cancel"], () => this.end(), { class: "small" });
    this.node = h("div", { class: "task-line", role: "group", "aria-label": "Background task" }, this.state, this.text, this.cancel);
    this.set(task);
  }

  set(task) {
    this.id = task.id;
    fill(this.state, pill(stateOf(TASK_STATES, task.status)));
    fill(this.text, progressBar(task.progress), visible(cut(task.message ?? "", 400)));
  }

  async end() {
    await post(`/tasks/${encodeURIComponent(this.id)}/cancel`);
    fill(this.text, "Cancelling");
  }
}

// A bar where the server says how much there is to do, else the number that it gives.
export function progressBar(progress) {
  if (!progress || typeof progress.done !== "number") return null;
  if (!(progress.total > 0)) return h("span", { class: "number" }, `${progress.done} `);
  const share = Math.max(0, Math.min(1, progress.done / progress.total));
  return [h("progress", { max: "1", value: share, "aria-label": "Progress" }), h("span", { class: "number" }, `${Math.round(share * 100)} % `)];
}
