// A sampling request on its card: what the server asks a model, or what the model answered, and the answers.

import { fill, h, name, visible } from "./dom.js";
import { longText } from "./json.js";
import { labelled, MUST_OPEN, warnings } from "./parts.js";

export class Sampling {
  // view: the card, which sends answers and locks the buttons that are added to it.
  constructor(view) {
    this.view = view;
    const { sampling } = view.item;
    this.hidden = sampling.hidden;
    this.folded = h("p", { class: "sub", role: "status", hidden: true }, MUST_OPEN);
    this.node = h(
      "div",
      { class: "stack", onclick: () => this.folded.hidden || view.lock(view.locked) },
      warnings(sampling.hidden ? ["the text contains hidden characters"] : []),
      sampling.answer === null ? request(sampling) : block("Answer of the model", sampling.answer),
      h(
        "dl",
        { class: "facts small-facts" },
        labelled("Server", name(view.item.server)),
        labelled("Call", h("code", {}, visible(sampling.called))),
        labelled("Model", [h("code", {}, visible(sampling.model)), ", ", visible(sampling.reason)]),
        labelled("Tokens", `at most ${sampling.maxTokens}`),
        labelled("Quota", sampling.quota.length ? sampling.quota.map(({ text }) => h("div", {}, `${text} left after this`)) : null),
      ),
      this.folded,
      h("div", { class: "actions" }, this.answers(sampling), view.options.extra ?? null),
    );
  }

  // Whether a text was not opened to its end yet.
  isFolded() {
    return this.node.querySelector(".sampled button") !== null;
  }

  answers({ answer }) {
    const no = this.view.button("No", { answer: "no" }, "Refused", { class: "danger" });
    if (answer !== null) return [this.allow("Send this answer", "once", "Sent", { class: "primary" }), no];
    return [
      this.allow("Let the model answer once", "once", "Allowed once", { class: "primary" }),
      this.allow("Always for this server", "always", "Always allowed; `toolway trust` takes it back"),
      no,
    ];
  }

  // A button that allows. Hidden characters need a second click.
  allow(label, answer, said, props) {
    let confirmed = !this.hidden;
    const node = h("button", { type: "button", ...props, onclick: () => {
      if (confirmed) return this.view.send({ answer, ...(this.hidden ? { allowHidden: true } : {}) }, said);
      confirmed = true;
      fill(node, `${label} despite hidden characters`);
    } }, label);
    return this.view.add(node, "approves");
  }
}

function request(sampling) {
  return [
    sampling.system === null ? null : block("System prompt", sampling.system),
    sampling.messages.map(({ role, text }) => block(role === "assistant" ? "Assistant" : "User", text)),
    sampling.tools.map((tool) => block(["Tool ", h("code", {}, visible(tool.name))], `${tool.description}\n${tool.schema}`)),
    sampling.toolChoice === null ? null : block("Tool choice", sampling.toolChoice),
    sampling.stopSequences.map((stop) => block("Stops at", stop)),
    sampling.temperature === null ? null : block("Temperature", sampling.temperature),
  ];
}

// A text of others, whole and line by line.
function block(heading, text) {
  return h("div", {}, h("h3", {}, heading), h("blockquote", { class: "quoted sampled", dir: "auto" }, longText(String(text), 4000)));
}
