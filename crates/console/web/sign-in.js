// Signing in to a server: what will be opened and why, the address, and waiting for the result.

import { post } from "./api.js";
import { fill, h, icon, link, visible, words } from "./dom.js";
import { command, problem } from "./parts.js";

// One panel for one server; it stays as it is while the server's state is drawn again.
export class SignInPanel {
  constructor(server) {
    this.server = server;
    this.said = null;
    this.node = h("section", { class: "panel sign-in", "aria-label": "Sign-in" });
    this.ask();
  }

  ask() {
    const start = h("button", { type: "button", class: "primary", onclick: () => this.begin(start) }, icon("key"), "Sign in");
    fill(
      this.node,
      h("h3", { class: "panel-title" }, "This server requires a sign-in"),
      h("p", {}, "Sign in at its own page, in a new tab. Toolway keeps the credentials, and uses the server with your account."),
      h("div", { class: "actions" }, start),
    );
  }

  async begin(start) {
    start.disabled = true;
    this.said = null;
    fill(start, "Looking for the sign-in page…");
    try {
      this.show(await post(`/servers/${encodeURIComponent(this.server)}/sign-in`));
    } catch (error) {
      this.ask();
      this.node.append(problem(error, "The sign-in could not begin"));
    }
  }

  // The last sign-in has ended without success; said once.
  failed(why) {
    if (why === null || why === this.said) return;
    this.said = why;
    this.ask();
    this.node.append(problem({ message: why }, "The sign-in failed"));
  }

  show({ url, notices }) {
    const target = link(url);
    const open = h("a", { class: "button primary", href: target ?? "#/servers", rel: "noreferrer noopener", target: "_blank", onclick: () => (this.waiting.hidden = false) }, icon("open"), "Open the sign-in page");
    this.waiting = h("p", { class: "sub busy-line", role: "status", hidden: true }, "Waiting for you to finish there. This page goes on by itself.");
    fill(
      this.node,
      h("h3", { class: "panel-title" }, "Check the address, then sign in there"),
      notices.map((notice) => h("p", { class: notice.startsWith("Warning") ? "warning" : "" }, words(notice))),
      h("p", {}, h("code", { class: "address" }, visible(String(url).split("?")[0]))),
      h("div", { class: "actions" }, open, h("button", { type: "button", class: "quiet", onclick: () => this.ask() }, "Start again")),
      this.waiting,
      h("p", { class: "sub" }, "If this browser runs on another computer than Toolway, use ", command(`toolway login ${this.server} --no-browser`), " there."),
    );
    open.focus();
  }
}
