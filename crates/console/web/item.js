// One inbox item with everything needed to decide, and the buttons that answer it. Used by the inbox and the chat.

import { post } from "./api.js";
import { Approval } from "./approval.js";
import { fill, h, icon, link, name, visible } from "./dom.js";
import { callerSubject, clock, ordinal, remaining } from "./format.js";
import { FormView } from "./form.js";
import { longText } from "./json.js";
import { Outcome } from "./outcome.js";
import { problem } from "./parts.js";
import { Sampling } from "./sampling.js";
import { SignInPanel } from "./sign-in.js";

// A card that appears under a click or a key that was meant for something else must not take it.
export const SETTLE_MS = 400;

const ICONS = { approval: "key", form: "list", url: "open", sampling: "chat", "sign-in": "key", "unknown-outcome": "warning" };
const KINDS = { approval: "Approval", form: "Form", url: "Address to open", sampling: "Request to a model", "sign-in": "Sign-in", "unknown-outcome": "Unknown outcome" };

export class ItemView {
  // options: { onanswered(words, body), onlock(), heading: "h2" | "h3", extra: a node beside the answers }
  constructor(item, options) {
    this.item = item;
    this.options = options;
    this.buttons = new Set();
    this.approvals = new Set();
    this.locked = false;
    this.outcome = h("div", {});
    this.position = h("span", {});
    this.expiry = h("span", { class: "sub" });
    this.title = h(options.heading, { tabindex: "-1", id: `item-${item.id}` }, titleOf(item));
    this.node = h(
      "article",
      { class: `item ${item.kind}`, "aria-labelledby": `item-${item.id}`, "data-item": item.id },
      h("header", {}, h("span", { class: "kind" }, icon(ICONS[item.kind] ?? "inbox"), KINDS[item.kind] ?? item.kind, this.position), this.title, h("span", { class: "sub" }, asker(item)), this.expiry),
      this.content(),
      this.outcome,
    );
    this.tick();
    this.settle();
  }

  settle() {
    this.lock(true);
    setTimeout(() => this.lock(false), SETTLE_MS);
  }

  // What is folded has to be opened once before a call can be approved.
  lock(locked) {
    this.locked = locked;
    const folded = this.isFolded();
    for (const button of this.buttons) button.disabled = locked || (folded && this.approvals.has(button));
    if (this.decided) this.decided.folded.hidden = !folded;
    this.options.onlock?.();
  }

  isFolded() {
    return this.decided?.isFolded() ?? false;
  }

  // A sign-in changes while it waits.
  update({ signIn }) {
    if (signIn) this.signIn?.failed(signIn.failure);
  }

  // Says which of several items it is.
  place(number, total) {
    fill(this.position, total > 1 ? ` · ${number} of ${total}` : "");
  }

  tick() {
    fill(this.expiry, this.item.expiresAt ? remaining(this.item.expiresAt) : "");
  }

  content() {
    const { item } = this;
    if (item.approval) return (this.decided = new Approval(this)).node;
    if (item.form) return this.form(item.form);
    if (item.url) return this.url(item.url);
    if (item.sampling) return (this.decided = new Sampling(this)).node;
    if (item.outcome) return new Outcome(this).node;
    if (item.signIn) return this.signInPanel();
    return h("p", { class: "sub" }, "This kind of item cannot be answered here.");
  }

  // Answered on a page of the server; the item goes when that is done.
  signInPanel() {
    this.signIn = new SignInPanel(this.item.server, null);
    this.update(this.item);
    return this.signIn.node;
  }

  button(label, body, words, props) {
    return this.add(h("button", { type: "button", ...props, onclick: () => this.send(typeof body === "function" ? body() : body, words) }, label), "answers");
  }

  // Adds a button that is locked with the card; one that "approves" also while a part is folded.
  add(button, kind) {
    this.buttons.add(button);
    if (kind === "approves") this.approvals.add(button);
    return button;
  }

  remove(button) {
    this.buttons.delete(button);
    this.approvals.delete(button);
  }

  // === server requests ===

  form({ fields }) {
    this.fields = new FormView(fields ?? []);
    const send = () => {
      const content = this.fields.read();
      return content === null ? null : { action: "accept", content };
    };
    const button = this.button("Send", send, "Sent", { class: "primary" });
    const node = h("form", { class: "stack", onsubmit: (event) => {
      event.preventDefault();
      if (!button.disabled) button.click();
    } });
    fill(node, message(this.item), this.fields.node, h("div", { class: "actions" }, button, this.dismissals(), this.options.extra ?? null, h("button", { type: "submit", hidden: true })));
    return node;
  }

  url({ url, host }) {
    const target = link(url);
    const open = target ? h("a", { class: "button primary", href: target, rel: "noreferrer noopener", target: "_blank" }, "Open ", visible(host ?? new URL(target).host)) : h("p", { class: "warning" }, "This address is not http or https and cannot be opened.");
    return h(
      "div",
      { class: "stack" },
      message(this.item),
      h("p", {}, h("code", { class: "wrap" }, visible(url))),
      h("p", { class: "sub" }, "The server chose this address. Open it only if you expect this, then say that you are done."),
      h("div", { class: "actions" }, open, target ? this.button("Done", { action: "accept" }, "Accepted") : null, this.dismissals(), this.options.extra ?? null),
    );
  }

  dismissals() {
    return [this.button("Decline", { action: "decline" }, "Declined"), this.button("Cancel", { action: "cancel" }, "Cancelled", { class: "quiet" })];
  }

  // === answering ===

  // Returns whether this was the answer.
  async send(body, words) {
    if (body === null) return false;
    this.lock(true);
    fill(this.outcome);
    this.answering = true;
    try {
      const { id, outcome } = this.item;
      await post(outcome ? `/calls/${encodeURIComponent(id)}/settle` : `/inbox/${encodeURIComponent(id)}/answer`, body);
      this.options.onanswered(words, body);
      return true;
    } catch (error) {
      this.answering = false;
      if (error.status === 409 || error.status === 404) {
        this.options.onanswered("Already answered elsewhere", null);
        return false;
      }
      if (error.fields && this.fields) this.fields.show(error.fields);
      fill(this.outcome, problem(error));
      this.lock(false);
      return false;
    }
  }
}

export function titleOf(item) {
  if (item.approval) {
    // The name has look-alike characters escaped.
    const { title, tool, name: shown, proposal } = item.approval;
    const time = proposal.number > 1 ? [" ", h("span", { class: "tag" }, `${ordinal(proposal.number)} time`)] : null;
    return ["Run ", h("code", {}, visible(shown)), " of ", h("code", {}, visible(item.server)), "?", title && title !== tool ? [" ", h("span", { class: "sub" }, "“", name(title), "”")] : null, time];
  }
  if (item.outcome) return ["Did ", h("code", {}, visible(item.outcome.tool)), " happen?"];
  if (item.signIn) return [name(item.server), " requires a sign-in"];
  if (item.sampling) return item.sampling.answer === null ? [name(item.server), " asks a model"] : ["A model answers ", name(item.server)];
  return [name(item.server), item.kind === "url" ? " wants you to open an address" : " asks for information"];
}

function asker(item) {
  if (item.signIn) return `Its tools cannot be used before · ${clock(item.createdAt)}`;
  const caller = item.caller ? name(callerSubject(item.caller, item.surface)) : "A caller";
  return h("span", {}, item.approval ? [caller, " wants to use ", name(item.server)] : item.outcome ? [caller, " called it"] : [caller, " is using it"], ` · ${clock(item.createdAt)}`);
}

function message(item) {
  return item.message ? h("blockquote", { class: "quoted", dir: "auto" }, longText(item.message, 4000)) : null;
}
