// The screen that copies servers from other applications: a list to choose from, and what became of each.

import { get, post } from "./api.js";
import { fill, h, icon, name, visible, words } from "./dom.js";
import { count } from "./format.js";
import { empty, loading, problem, warnings } from "./parts.js";
import { refreshServers } from "./state.js";

export function create() {
  const screen = new ImportScreen();
  return { node: screen.node, route: () => screen.load(), close: () => {}, holdsInput: () => screen.boxes?.some(({ box }) => box.checked) ?? false };
}

class ImportScreen {
  constructor() {
    this.body = h("div.stack");
    this.node = h(
      "div",
      { class: "page" },
      h("a.back.always", { href: "#/servers" }, icon("back"), "Servers"),
      h("header.page-head", h("p.title", { "aria-hidden": "true" }, "Import servers"), h("p.sub", "Servers in the files of other applications. Those you choose are copied to your own file; their secrets go to the vault. The other files are not changed.")),
      this.body,
    );
  }

  async load() {
    fill(this.body, loading(4));
    try {
      this.draw(await get("/import"));
    } catch (error) {
      fill(this.body, problem(error, "The files of other applications could not be read"));
    }
  }

  draw(found) {
    const { servers } = found;
    const unread = warnings(found.warnings);
    if (servers.length === 0) return void fill(this.body, unread, empty("search", "Nothing found", h("p", "No other application on this computer has servers in its configuration that can be read."), h("p", h("a.button", { href: "#/add" }, "Add a server"))));
    this.boxes = [];
    this.button = h("button", { type: "submit", class: "primary" });
    this.outcome = h("div.stack", { "aria-live": "polite" });
    const hosts = [...new Set(servers.map((server) => server.host))];
    const group = (host) => h("fieldset.field.import-group", h("legend", host), servers.filter((server) => server.host === host).map((server) => this.row(server)));
    fill(this.body, unread, h("form.stack", { onsubmit: (event) => this.submit(event) }, hosts.map(group), h("p.note", "What you choose is started at once, with your rights."), h("div.actions", this.button, h("button.quiet", { onclick: () => this.choose(true) }, "Choose all"), h("button.quiet", { onclick: () => this.choose(false) }, "Choose none")), this.outcome));
    this.count();
  }

  row(server) {
    const { host, label, place } = server;
    const box = h("input", { type: "checkbox", disabled: server.skipped !== null, onchange: () => this.count() });
    if (server.skipped === null) this.boxes.push({ box, key: { host, label, place } });
    const notes = [server.secrets ? `${count(server.secrets, "secret")} to the vault` : null, server.inputs.length ? `needs ${server.inputs.join(", ")}` : null].filter(Boolean).join(" · ");
    return h(
      "label",
      { class: `check import-row ${server.skipped === null ? "" : "off"}` },
      box,
      h("span.grow", h("span", name(label, { class: "name strong" }), " ", notes ? h("span.sub", visible(notes)) : null), h("code.import-command", visible(server.command)), h("span.sub", visible(place)), server.skipped === null ? null : h("span.sub", "Not copied: ", words(server.skipped))),
    );
  }

  choose(all) {
    for (const { box } of this.boxes) box.checked = all;
    this.count();
  }

  count() {
    const chosen = this.boxes.filter(({ box }) => box.checked).length;
    fill(this.button, chosen ? `Import ${count(chosen, "server")}` : "Import");
    this.button.disabled = chosen === 0;
  }

  async submit(event) {
    event.preventDefault();
    const servers = this.boxes.filter(({ box }) => box.checked).map(({ key }) => key);
    this.button.disabled = true;
    try {
      const results = await post("/import", { servers });
      refreshServers();
      this.boxes = [];
      fill(this.body, h("section.panel", { role: "status" }, h("h2.panel-title", { tabindex: "-1" }, `${count(results.filter((one) => one.copied).length, "server")} imported`), h("ul.stack", results.map(result))), h("div.actions", h("a.button.primary", { href: "#/servers" }, "To the servers"), h("button", { onclick: () => this.load() }, "Import more")));
      this.body.querySelector("h2").focus();
    } catch (error) {
      fill(this.outcome, problem(error));
      this.count();
    }
  }
}

function result({ name: server, copied, notices }) {
  const link = copied ? h("a", { href: `#/servers/${encodeURIComponent(server)}` }, name(server)) : name(server);
  return h("li", h("p", link, copied ? "" : ": not copied"), notices.map((notice) => h("p.sub", words(notice))));
}
