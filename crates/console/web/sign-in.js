// Signing in to a server: what will be opened and why, the address, and waiting for the result.

import { post } from "./api.js";
import { fill, h, icon, link, visible, words } from "./dom.js";
import { command, problem } from "./parts.js";

// One panel for one server; it stays as it is while the server's state is drawn again.
export class SignInPanel {
  // title: what stands above the button.
  constructor(server, title = "This server requires a sign-in") {
    this.server = server;
    this.title = title;
    this.said = null;
    this.node = h("section.panel.sign-in", { "aria-label": "Sign-in" });
    this.ask();
  }

  ask() {
    const start = h("button.primary", { onclick: () => this.begin(start) }, icon("key"), "Authorize");
    this.start = start;
    fill(
      this.node,
      this.title ? h("h3.panel-title", this.title) : null,
      h("p", "Sign in at its own page, in a new tab. Toolway keeps the credentials, and uses the server with your account."),
      h("div.actions", start),
    );
  }

  // Begins at once, where nothing is under way.
  authorize() {
    if (!this.start.disabled && this.start.isConnected) this.begin(this.start);
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
    const open = h("a.button.primary", { href: target ?? "#/servers", rel: "noreferrer noopener", target: "_blank", onclick: () => (this.waiting.hidden = false) }, icon("open"), "Open the sign-in page");
    this.waiting = h("p.sub.busy-line", { role: "status", hidden: true }, "Waiting for you to finish there. This page goes on by itself.");
    fill(
      this.node,
      h("h3.panel-title", "Check the address, then sign in there"),
      notices.map((notice) => h("p", { class: notice.startsWith("Warning") ? "warning" : "" }, words(notice))),
      h("p", h("code.address", visible(String(url).split("?")[0]))),
      h("div.actions", open, h("button.quiet", { onclick: () => this.ask() }, "Start again")),
      this.waiting,
      h("p.sub", "If this browser runs on another computer than Toolway, use ", command(`toolway login ${this.server} --no-browser`), " there."),
    );
    open.focus();
  }
}
