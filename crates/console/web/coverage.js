// What the answers to an approval cover: the sentence, and the switches that change it for all answers that hold longer.

import { fill, h, visible, words } from "./dom.js";
import { labelled } from "./parts.js";

export class Coverage {
  // onchange: called when the user changed what is covered.
  constructor(item, onchange) {
    const { proposal, hidden, asksForHosts } = item.approval;
    this.item = item;
    this.proposal = proposal;
    this.onchange = onchange;
    this.isChanged = false;
    this.sentences = h("div", { role: "status" });
    // What has hidden characters is covered only as it is.
    const canChange = proposal.arguments.length > 0 && !hidden && !asksForHosts;
    this.node = h("div.covers", { tabindex: canChange ? null : "0" }, this.sentences, canChange ? this.switches() : null);
    this.draw();
  }

  // The part of a request that says what is covered; nothing if that is what was proposed.
  request() {
    if (!this.isChanged) return {};
    return this.any.checked ? { scope: "any" } : { options: this.selects.map((select) => Number(select.value)) };
  }

  // What an answer ("conversation", "always", "any-host") covers, as nodes.
  sentence(answer) {
    if (answer === "any-host") return words(this.proposal.anyHost);
    if (this.item.approval.asksForHosts) return words(this.proposal[answer].covers);
    return h("span.covered", visible(this.isChanged ? this.chosen() : this.proposal[answer].covers));
  }

  chosen() {
    if (this.any.checked) return "any arguments";
    const { arguments: all, others } = this.proposal;
    const parts = all.map(({ name, options }, index) => ({ name, phrase: options[Number(this.selects[index].value)].phrase }));
    const sorted = [...parts, ...others].sort((one, other) => (one.name < other.name ? -1 : 1));
    // What is free stands last, as in the sentences of the program.
    const isFixed = ({ phrase }) => phrase.includes(" = ") || phrase.startsWith("the same ");
    return [...sorted.filter(isFixed), ...sorted.filter((part) => !isFixed(part))].map(({ phrase }) => phrase).join(", ");
  }

  draw() {
    const { conversation, always } = this.proposal;
    const holdsLonger = this.item.conversation || this.item.session;
    const lines = () => {
      if (this.item.approval.asksForHosts) return [labelled(isOneHost(this.proposal) ? "This host" : "These hosts", this.sentence("always")), holdsLonger ? labelled("Any host", this.sentence("any-host")) : []];
      if (this.isChanged || !holdsLonger || conversation.covers === always.covers) return labelled("Covers", this.sentence("always"));
      return [labelled(this.item.conversation ? "This conversation covers" : "This session covers", this.sentence("conversation")), labelled("Always covers", this.sentence("always"))];
    };
    fill(this.sentences, h("dl.facts.small-facts", lines()));
  }

  // === switches ===

  switches() {
    const id = `covers-${this.item.id}`;
    this.selects = this.proposal.arguments.map(({ options, proposed }, index) => {
      const choices = options.map(({ covers }, position) => h("option", { value: String(position), selected: position === proposed }, visible(covers)));
      return h("select", { id: `${id}-${index}`, onchange: () => this.change() }, choices);
    });
    this.any = h("input", { type: "checkbox", id: `${id}-any`, checked: this.proposal.always.scope === "any", onchange: () => this.change() });
    const rows = this.proposal.arguments.map(({ name }, index) => [h("label", { for: `${id}-${index}` }, visible(name)), this.selects[index]]);
    this.show();
    return h(
      "details",
      { class: "raw" },
      h("summary", "Change what it covers"),
      h("fieldset.switches", h("legend.hidden", "What answers for longer cover"), rows, h("label.check", { for: this.any.id }, this.any, h("span", "Any arguments"))),
    );
  }

  change() {
    this.isChanged = true;
    this.show();
    this.draw();
    this.onchange();
  }

  show() {
    for (const select of this.selects) select.disabled = this.any.checked;
  }
}

// Whether a call that asks for hosts reaches one.
export function isOneHost(proposal) {
  return proposal.always.scope.hosts.length === 1;
}
