// At the top of a conversation: how full the context window is, by part, what was used, its assistant, the conversation that it
// branches off, and its export.

import { get } from "./api.js";
import { fill, h, name } from "./dom.js";
import { labelled } from "./parts.js";

const number = (count) => count.toLocaleString();
const percent = (part, whole) => `${Math.round((100 * part) / whole)} %`;
const EMPTY = { window: 0, used: 0, parts: [], total: {} };

export class Meter {
  constructor() {
    this.bar = h("progress", { max: "1", value: 0, "aria-label": "Context window" });
    this.share = h("span");
    this.body = h("div.meter-body.popup");
    this.node = h("details.meter", { hidden: true, onkeydown: ({ key }) => key === "Escape" && (this.node.open = false), onfocusout: ({ relatedTarget: to }) => to && !this.node.contains(to) && (this.node.open = false) }, h("summary", { title: "Context, use and export" }, this.bar, this.share, h("span.hidden", " of the context; details and export")), this.body);
  }

  // A conversation as it was read; null for a new one. The API says how full the window of a model is.
  async set(conversation, model) {
    this.conversation = conversation;
    this.node.hidden = !conversation;
    this.node.open = false;
    this.show(EMPTY);
    const context = model && (await get(`/conversations/${conversation.id}/context?model=${encodeURIComponent(model)}`).catch(() => null));
    if (context && this.conversation === conversation) this.show(context);
  }

  show({ window, used, parts, total: { inputTokens, outputTokens, cachedTokens, cost } }) {
    const { id, branch, assistant } = this.conversation ?? {};
    this.bar.value = window ? Math.min(1, used / window) : 0;
    fill(this.share, window ? percent(used, window) : "");
    const file = (format, label) => h("a", { href: `${location.origin}/api/v1/conversations/${id}/export?format=${format}`, download: true }, label);
    const about = [
      ["assistant", assistant && name(assistant.name)],
      ["branch of", branch && h("a", { href: `#/chat/${branch.conversation}` }, "this conversation")],
      ["tokens in", inputTokens ? `${number(inputTokens)}, ${percent(cachedTokens, inputTokens)} from the cache` : null],
      ["tokens out", outputTokens ? number(outputTokens) : null],
      ["cost", cost?.toFixed(4)],
      ["export", [file("markdown", "Markdown"), " · ", file("json", "JSON")]],
    ];
    const list = (rows) => h("dl.facts", rows.map((row) => labelled(...row)));
    fill(this.body, h("h3", "Context of the next request"), h("p.sub", window ? `About ${number(used)} of ${number(window)} tokens` : "Not known yet"), list(parts.map(({ part, tokens }) => [part, number(tokens)])), h("h3", "Conversation"), list(about));
  }
}
