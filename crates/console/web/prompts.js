// The screen Prompts: the prompts of all servers, their arguments with completion, and a preview of their messages.

import { ArgumentView } from "./argument-view.js";
import { fill, h, icon, unmarked } from "./dom.js";
import { OfferScreen, rowWords } from "./offers.js";
import { write } from "./schema.js";

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
    this.chat = h("a.button", { onclick: (event) => this.missing() && event.preventDefault() }, icon("chat"), "Use in chat");
    this.actions.append(this.chat);
    if (prompt.arguments.length === 0) fill(this.news, h("p.sub", "It takes no arguments."));
    this.draw();
  }

  // The address that the screen Chat takes a prompt from.
  draw() {
    const { server, name } = this.item;
    const query = Object.entries(this.state).map(([key, value]) => `&${encodeURIComponent(key)}=${encodeURIComponent(value)}`);
    this.chat.setAttribute("href", `#/chat?prompt=${encodeURIComponent(server)}/${encodeURIComponent(unmarked(name))}${query.join("")}`);
  }

  call() {
    return this.panel.start("prompt", this.item.server, this.item.name, write(this.values));
  }
}
