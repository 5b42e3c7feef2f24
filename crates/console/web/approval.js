// An approval on its card: the call, what answers to it cover, and the answers.

import { ArgumentRows } from "./argument-rows.js";
import { Coverage, isOneHost } from "./coverage.js";
import { fill, h, name, visible, words } from "./dom.js";
import { ruleWords, TRUST } from "./format.js";
import { json } from "./json.js";
import { hints, labelled, MUST_OPEN, warnings } from "./parts.js";

const TAKEN_BACK = "Belongs to the server as it is configured now; `toolway trust` takes it back.";
// Answers for longer than the call, by what it belongs to.
const TERMS = {
  conversation: { allow: "Allow in this conversation", host: "This host, this conversation", hosts: "These hosts, this conversation", anyHost: "Any host, this conversation", said: "Allowed in this conversation" },
  session: { allow: "Allow in this session", host: "This host, this session", hosts: "These hosts, this session", anyHost: "Any host, this session", said: "Allowed in this session" },
};

export class Approval {
  // view: the card, which sends answers and locks the buttons that are added to it.
  constructor(view) {
    this.view = view;
    this.item = view.item;
    const { approval } = this.item;
    this.rows = new ArgumentRows(this.item.id, approval, () => view.lock(view.locked));
    this.coverage = new Coverage(this.item, () => this.back());
    this.folded = h("p", { class: "sub", role: "status", hidden: true }, MUST_OPEN);
    this.reason = h("input", { id: `reason-${this.item.id}`, placeholder: "Reason, if you like", "aria-label": "Reason for a no", autocomplete: "off", maxlength: 500 });
    this.question = h("div", { class: "confirm", role: "group", "aria-label": "Confirm the answer", hidden: true });
    this.answers = [h("div", { class: "actions" }, this.approvals(), view.options.extra ?? null), h("div", { class: "actions refuse" }, this.refusals(), this.reason)];
    this.node = h(
      "div",
      { class: "stack" },
      warnings(approval.warnings ?? []),
      this.rows.node,
      h(
        "dl",
        { class: "facts small-facts" },
        labelled("Server", [name(this.item.server), approval.trust ? `, ${TRUST[approval.trust] ?? approval.trust}` : ""]),
        labelled("Rule", approval.rule ? words(ruleWords(approval.rule)) : null),
        labelled("Why", approval.reason ? words(approval.reason) : null),
      ),
      this.details(approval),
      h("div", { class: "answers" }, this.folded, this.coverage.node, this.answers, this.question),
    );
  }

  // Whether a part was not opened yet.
  isFolded() {
    return this.rows.isFolded();
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
          labelled("Hints", hints(approval).length ? h("span", { class: "tags" }, hints(approval)) : null),
          labelled("Caller", this.item.caller ? h("code", {}, visible(this.item.caller)) : null),
          labelled("Command to allow it", approval.remedy ? h("code", { class: "wrap" }, visible(approval.remedy)) : null),
        ),
        approval.arguments ? h("div", {}, h("h3", {}, "All arguments as JSON"), json(approval.arguments)) : null,
      ),
    );
  }

  // === answers ===

  approvals() {
    const { asksForHosts, proposal } = this.item.approval;
    const term = TERMS[this.item.conversation ? "conversation" : this.item.session ? "session" : "none"];
    const longer = (label, covers) => (term ? this.approve(label, () => ({ answer: "conversation", ...covers() }), term.said) : null);
    const once = this.approve("Allow once", () => ({ answer: "once" }), "Allowed once", { class: "primary" });
    if (!asksForHosts) return [once, longer(term?.allow, () => this.coverage.request()), this.always("Always allow")];
    const isOne = isOneHost(proposal);
    return [
      once,
      longer(isOne ? term?.host : term?.hosts, () => ({})),
      longer(term?.anyHost, () => ({ scope: "any-host" })),
      this.always(isOne ? "This host, always" : "These hosts, always"),
    ];
  }

  refusals() {
    const no = (answer) => {
      const reason = this.reason.value.trim();
      return { answer, ...(reason ? { reason } : {}) };
    };
    return [
      this.view.button("No", () => no("no"), "Refused", { class: "danger" }),
      this.asking("Never", { class: "danger quiet" }, () => ({
        text: ["Refuse ", this.tool(), " from now on? Covers: ", h("span", { class: "covered" }, "any arguments")],
        yes: this.view.button("Yes, never", () => no("never"), "Refused from now on; `toolway trust` takes it back", { class: "danger" }),
      })),
    ];
  }

  // A button that approves. Hidden characters need a second click.
  approve(label, request, said, props) {
    const { hidden } = this.item.approval;
    let confirmed = !hidden;
    const node = h("button", { type: "button", ...props, onclick: () => {
      if (confirmed) return this.view.send({ ...request(), ...this.confirmation() }, said);
      confirmed = true;
      fill(node, `${label} despite hidden characters`);
    } }, label);
    return this.view.add(node, "approves");
  }

  always(label) {
    const button = this.asking(label, {}, () => ({
      text: [this.item.approval.asksForHosts ? ["Always allow, with every tool of ", this.server()] : ["Always allow ", this.tool()], "? Covers: ", this.coverage.sentence("always")],
      yes: this.view.add(this.view.button("Yes, always", () => ({ answer: "always", ...this.coverage.request(), ...this.confirmation() }), "Always allowed; `toolway trust` takes it back", { class: "primary" }), "approves"),
    }));
    return this.view.add(button, "approves");
  }

  confirmation() {
    return this.item.approval.hidden ? { allowHidden: true } : {};
  }

  tool() {
    return [h("code", {}, visible(this.item.approval.name)), " of ", this.server()];
  }

  server() {
    return h("code", {}, visible(this.item.server));
  }

  // === answers that are saved ===

  // A button that first says what its answer covers.
  asking(label, props, question) {
    const node = h("button", { type: "button", ...props, onclick: () => this.ask(question(), node) }, label);
    return this.view.add(node, "asks");
  }

  ask({ text, yes }, button) {
    const line = h("p", { class: "question", tabindex: "0" }, text);
    const hidden = this.view.approvals.has(yes) && this.item.approval.hidden ? h("p", { class: "warning" }, "The call contains hidden characters.") : null;
    const back = h("button", { type: "button", class: "quiet", onclick: () => {
      this.back();
      button.focus();
    } }, "Back");
    fill(this.question, line, hidden, h("p", { class: "sub" }, words(TAKEN_BACK)), h("div", { class: "actions" }, yes, back));
    this.show(true);
    // The click that asked must not be the one that confirms.
    this.view.settle();
    line.focus();
  }

  back() {
    for (const button of this.question.querySelectorAll("button")) this.view.remove(button);
    fill(this.question);
    this.show(false);
  }

  show(isAsking) {
    this.question.hidden = !isAsking;
    for (const part of this.answers) part.hidden = isAsking;
  }
}
