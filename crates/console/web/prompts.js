// The screen Prompts: the prompts of all servers, their arguments with completion, and a preview of their messages.

import { ArgumentView } from "./argument-view.js";
import { fill, h, icon, unmarked } from "./dom.js";
import { OfferScreen, rowWords } from "./offers.js";
import { write } from "./schema.js";
import { open } from "./state.js";

export function create() {
  return new OfferScreen({
    path: "prompts",
    title: "Prompts",
    one: "Prompt",
    many: "prompts",
    welcome: "Its arguments and its messages are shown here.",
    read: (answer) => answer.prompts,
    nameOf: (prompt) => prompt.name,
    row: (prompt) => rowWords(prompt, prompt.name, prompt.title ?? prompt.description),
    detail: (prompt, frame) => new PromptView(prompt, frame),
  });
}

class PromptView extends ArgumentView {
  constructor(prompt, frame) {
    super(prompt, frame, { of: "prompt", own: prompt.name, list: prompt.arguments, prefix: "arg", verb: "Preview" });
    this.actions.append(h("button", { onclick: () => this.missing() || this.use() }, icon("chat"), "Use in chat"));
    if (prompt.arguments.length === 0) fill(this.news, h("p.sub", "It takes no arguments."));
  }

  use() {
    const { server, name } = this.item;
    open("#/chat", { prompt: { server, prompt: unmarked(name), label: name, arguments: this.values } });
  }

  call() {
    return this.panel.start("prompt", this.item.server, this.item.name, write(this.values));
  }
}
