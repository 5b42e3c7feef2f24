// One inbox item with everything needed to decide, and the buttons that answer it. Used by the inbox and the chat.

import { post } from "./api.js";
import { fill, h, icon, link, name, visible, words } from "./dom.js";
import { callerSubject, clock, remaining, ruleWords, TRUST } from "./format.js";
import { FormView } from "./form.js";
import { json } from "./json.js";
import { hints, labelled, problem, warnings } from "./parts.js";

// A card that appears under a click or a key that was meant for something else must not take it.
const SETTLE_MS = 400;

const ICONS = { approval: "key", form: "list", url: "open" };
const KINDS = { approval: "Approval", form: "Form", url: "Address to open" };

export class ItemView {
  // options: { onanswered(words), heading: "h2" | "h3", extra: a node beside the answers }
  constructor(item, options) {
    this.item = item;
    this.options = options;
    this.buttons = [];
    this.outcome = h("div", {});
    this.expiry = h("span", { class: "sub" });
    this.title = h(options.heading, { tabindex: "-1", id: `item-${item.id}` }, titleOf(item));
    this.node = h(
      "article",
      { class: `item ${item.kind}`, "aria-labelledby": `item-${item.id}`, "data-item": item.id },
      h("header", {}, h("span", { class: "kind" }, icon(ICONS[item.kind] ?? "inbox"), KINDS[item.kind] ?? item.kind), this.title, h("span", { class: "sub" }, asker(item)), this.expiry),
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

  lock(locked) {
    for (const button of this.buttons) button.disabled = locked;
  }

  tick() {
    fill(this.expiry, this.item.expiresAt ? remaining(this.item.expiresAt) : "");
  }

  content() {
    const { item } = this;
    if (item.approval) return this.approval(item.approval);
    if (item.form) return this.form(item.form);
    if (item.url) return this.url(item.url);
    return h("p", { class: "sub" }, "This kind of item cannot be answered here.");
  }

  button(label, body, words, props) {
    const node = h("button", { type: "button", ...props, onclick: () => this.send(typeof body === "function" ? body() : body, words) }, label);
    this.buttons.push(node);
    return node;
  }

  // === approvals ===

  approval(approval) {
    this.reason = h("input", { id: `reason-${this.item.id}`, placeholder: "Reason, if you like", "aria-label": "Reason for a no", autocomplete: "off", maxlength: 500 });
    return h(
      "div",
      { class: "stack" },
      warnings(approval.warnings ?? []),
      rows(approval.rows ?? []),
      h(
        "dl",
        { class: "facts small-facts" },
        labelled("Server", [name(this.item.server), approval.trust ? `, ${TRUST[approval.trust] ?? approval.trust}` : ""]),
        labelled("Rule", approval.rule ? words(ruleWords(approval.rule)) : null),
        labelled("Why", approval.reason ? words(approval.reason) : null),
        labelled("“Always” holds", approval.covers ? ["for later calls with ", visible(approval.covers, "prose")] : null),
      ),
      this.details(approval),
      this.answers(),
    );
  }

  details(approval) {
    return h(
      "details",
      { class: "raw" },
      h("summary", {}, "Details"),
      h(
        "div",
        { class: "stack" },
        h(
          "dl",
          { class: "facts small-facts" },
          labelled("Tool", h("span", { class: "tags" }, h("code", {}, visible(approval.tool)), hints(approval))),
          labelled("Caller", this.item.caller ? h("code", {}, visible(this.item.caller)) : null),
          labelled("Rule to allow it", approval.remedy ? h("code", { class: "wrap" }, visible(approval.remedy)) : null),
        ),
        h("div", {}, h("h3", {}, "All arguments as JSON"), json(approval.arguments ?? {})),
      ),
    );
  }

  // Two rows: yes, and no with its reason.
  answers() {
    const no = (answer) => () => {
      const reason = this.reason.value.trim();
      return { answer, ...(reason ? { reason } : {}) };
    };
    return h(
      "div",
      { class: "answers" },
      h("div", { class: "actions" }, [
        this.button("Allow once", { answer: "once" }, "Allowed once", { class: "primary" }),
        this.item.conversation ? this.button("Allow in this conversation", { answer: "conversation" }, "Allowed in this conversation") : null,
        !this.item.conversation && this.item.session ? this.button("Allow in this session", { answer: "conversation" }, "Allowed in this session") : null,
        this.button("Always allow", { answer: "always" }, "Always allowed; `toolway trust` takes it back"),
        this.options.extra ?? null,
      ]),
      h("div", { class: "actions refuse" }, [this.button("No", no("no"), "Refused", { class: "danger" }), this.button("Never", no("never"), "Refused from now on; `toolway trust` takes it back", { class: "danger quiet" }), this.reason]),
    );
  }

  // === server requests ===

  form({ fields }) {
    this.fields = new FormView(fields ?? []);
    const send = () => {
      const content = this.fields.read();
      return content === null ? null : { action: "accept", content };
    };
    const node = h("form", { class: "stack", onsubmit: (event) => {
      event.preventDefault();
      if (!this.buttons[0].disabled) this.buttons[0].click();
    } });
    fill(node, message(this.item), this.fields.node, h("div", { class: "actions" }, this.button("Send", send, "Sent", { class: "primary" }), this.dismissals(), this.options.extra ?? null, h("button", { type: "submit", hidden: true })));
    return node;
  }

  url({ url, host }) {
    const target = link(url);
    const open = target ? h("a", { class: "button primary", href: target, rel: "noreferrer noopener", target: "_blank" }, "Open ", visible(host ?? new URL(target).host)) : h("p", { class: "warning" }, "This address is not http or https and cannot be opened.");
    return h(
      "div",
      { class: "stack" },
      message(this.item),
      h("p", {}, h("code", { class: "wrap" }, visible(String(url).slice(0, 2000)))),
      h("p", { class: "sub" }, "The server chose this address. Open it only if you expect this, then say that you are done."),
      h("div", { class: "actions" }, open, target ? this.button("Done", { action: "accept" }, "Accepted") : null, this.dismissals(), this.options.extra ?? null),
    );
  }

  dismissals() {
    return [this.button("Decline", { action: "decline" }, "Declined"), this.button("Cancel", { action: "cancel" }, "Cancelled", { class: "quiet" })];
  }

  // === answering ===

  async send(body, words) {
    if (body === null) return;
    this.lock(true);
    fill(this.outcome);
    this.answering = true;
    try {
      await post(`/inbox/${encodeURIComponent(this.item.id)}/answer`, body);
      this.options.onanswered(words);
    } catch (error) {
      this.answering = false;
      if (error.status === 409 || error.status === 404) return this.options.onanswered("Already answered elsewhere");
      if (error.fields && this.fields) this.fields.show(error.fields);
      fill(this.outcome, problem(error));
      this.lock(false);
    }
  }
}

export function titleOf(item) {
  if (item.approval) {
    const { title, tool } = item.approval;
    return ["Run “", name(title || tool), "”?"];
  }
  return [name(item.server), item.kind === "url" ? " wants you to open an address" : " asks for information"];
}

function asker(item) {
  const caller = item.caller ? name(callerSubject(item.caller, item.surface)) : "A caller";
  return h("span", {}, item.approval ? [caller, " wants to use ", name(item.server)] : [caller, " is using it"], ` · ${clock(item.createdAt)}`);
}

function message(item) {
  return item.message ? h("blockquote", { class: "quoted", dir: "auto" }, visible(String(item.message).slice(0, 4000), "prose")) : null;
}

function rows(list) {
  if (list.length === 0) return h("p", { class: "sub" }, "No arguments.");
  return h(
    "dl",
    { class: "argument-rows" },
    list.slice(0, 40).map((row) => h("div", { class: row.important ? "important" : "" }, h("dt", {}, visible(String(row.label).slice(0, 200))), h("dd", {}, visible(String(row.value).slice(0, 4000), "prose")))),
  );
}
