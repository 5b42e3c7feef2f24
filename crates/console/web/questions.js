// What waits for a person in the conversation that is open: a dialog, and a line to come back to it.

import { fill, h } from "./dom.js";
import { count } from "./format.js";
import { ItemView } from "./item.js";
import { toast } from "./parts.js";
import { refreshInbox, state } from "./state.js";

export class Questions {
  // onwaiting(ids): the records of calls that wait.
  constructor(onwaiting) {
    this.onwaiting = onwaiting;
    this.conversation = null;
    this.put = new Set();
    // Answered since the last moment at which nothing waited.
    this.answers = 0;
    this.view = null;
    this.node = h("div.waiting-line", { role: "status" });
    this.dialog = h("dialog.ask", { "aria-label": "A question before the model goes on", oncancel: () => this.later(), onclick: (event) => event.target === this.dialog && this.later() });
    this.ticker = setInterval(() => this.view?.tick(), 1000);
    document.body.append(this.dialog);
  }

  close() {
    clearInterval(this.ticker);
    this.dialog.remove();
  }

  update(conversation) {
    if (conversation !== this.conversation) this.answers = 0;
    this.conversation = conversation;
    // What became of an earlier call is found out elsewhere, and holds up nothing.
    const items = (state.inbox ?? []).filter((item) => conversation !== null && item.conversation === conversation && !item.outcome);
    this.onwaiting(new Set(items.map((item) => item.callId)));
    if (this.view && !items.some((item) => item.id === this.view.item.id)) this.gone();
    const next = items.find((item) => !this.put.has(item.id));
    if (next && !this.view) this.show(next);
    if (items.length === 0) this.answers = 0;
    const position = items.findIndex((item) => item.id === this.view?.item.id);
    this.view?.place(this.answers + position + 1, this.answers + items.length);
    const rest = items.filter((item) => item.id !== this.view?.item.id);
    fill(this.node, rest.length ? [`${count(rest.length, "question")} waiting. `, h("button.small", { onclick: () => this.again() }, "Review")] : []);
  }

  show(item) {
    const later = h("button.quiet.later", { onclick: () => this.later() }, "Decide later");
    this.view = new ItemView(item, { heading: "h2", extra: later, onanswered: (words) => this.answered(words) });
    fill(this.dialog, this.view.node);
    if (!this.dialog.open) this.dialog.showModal();
    this.view.title.focus();
  }

  answered(words) {
    const { id } = this.view.item;
    if (words.startsWith("Already")) toast(`${words}.`);
    this.dismiss();
    this.answers += 1;
    state.inbox = (state.inbox ?? []).filter((item) => item.id !== id);
    this.update(this.conversation);
    refreshInbox();
  }

  // Answered in another place, expired, or its call ended.
  gone() {
    if (!this.view.answering) toast("The question was answered elsewhere, or its call ended.");
    this.dismiss();
  }

  later() {
    if (!this.view) return;
    this.put.add(this.view.item.id);
    this.dismiss();
    this.update(this.conversation);
  }

  again() {
    this.put.clear();
    this.update(this.conversation);
  }

  dismiss() {
    this.view = null;
    this.dialog.close();
    fill(this.dialog);
  }
}
