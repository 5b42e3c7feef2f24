// A call whose outcome is unknown, on its card: what is known of it, and what the user found out.

import { h, name, visible } from "./dom.js";
import { CALL_STATES } from "./format.js";
import { labelled, pill, stateOf } from "./parts.js";

export class Outcome {
  // view: the card, which sends answers and locks the buttons that are added to it.
  constructor(view) {
    const { server, callId, outcome } = view.item;
    this.note = h("input", { type: "text", maxlength: "1000", autocomplete: "off" });
    const found = (finding) => () => ({ finding, note: this.note.value.trim() || null });
    this.node = h(
      "div",
      { class: "stack" },
      h("p", "It was sent, and no answer came: the server may have acted on it. Look there, and say what you found. A repetition under the same key is sent only if it did not happen."),
      h(
        "dl",
        { class: "facts small-facts" },
        labelled("Server", server ? name(server) : null),
        labelled("State", pill(stateOf(CALL_STATES, outcome.state))),
        labelled("Error", outcome.error ? visible(outcome.error) : null),
        labelled("Record", h("a", { href: `#/calls/${encodeURIComponent(callId)}` }, "Arguments and times")),
      ),
      h("label.field", h("span.sub", "Note (optional): how you know"), this.note),
      h("div.actions", view.button("It happened", found("happened"), "Settled: it happened"), view.button("It did not happen", found("did-not-happen"), "Settled: it did not happen")),
    );
  }
}
