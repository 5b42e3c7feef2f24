// The screen Assistants: each with its approval, model and servers; the form is in assistant-form.js.

import { get, on } from "./api.js";
import { APPROVALS } from "./assistant-form.js";
import { cut, fill, h, icon, name, visible } from "./dom.js";
import { confirmRemoval } from "./entry-form.js";
import { SERVER_STATES } from "./format.js";
import { action, command, empty, loading, pill, problem, serverIcon, stateOf } from "./parts.js";
import { state } from "./state.js";

export function create() {
  const add = h("a.button", { href: "#/add-assistant" }, icon("plus"), "Add");
  const body = h("div.stack", loading(3));
  const node = h("div.page", h("header.tested-head", h("div.grow", h("p.title", { "aria-hidden": "true" }, "Assistants"), h("p.sub", "A model with a prompt, servers and an approval, under one name")), add), body);
  let list = null;
  const controls = () => [...body.querySelectorAll("a, button")];
  const draw = () => {
    if (list === null) return;
    const focused = controls().indexOf(document.activeElement);
    fill(body, list.length ? list.map((assistant) => card(assistant, load)) : nothing());
    controls()[focused]?.focus();
  };
  const load = async () => {
    try {
      list = await get("/assistants");
      draw();
    } catch (error) {
      fill(body, problem(error, "The assistants could not be read"));
    }
  };
  // The file may have been edited elsewhere.
  addEventListener("focus", load);
  const stops = [on("changed:servers", draw), on("reset", load), on("online", load), () => removeEventListener("focus", load)];
  return { node, route: load, close: () => stops.forEach((stop) => stop()) };
}

function card(assistant, load) {
  const entry = assistant.name;
  const link = (href, label) => h("a.button.small", { href }, label);
  const remove = () => confirmRemoval({ noun: "Assistant", path: "/assistants", entry, label: entry, onremoved: load });
  return h(
    "section",
    { class: "panel", "aria-label": entry },
    h("div.tested-head", h("h2.grow", name(entry)), h("div.actions", link(`#/chat?assistant=${entry}`, "Chat"), link(`#/edit-assistant/${entry}`, "Edit"), action("Remove", remove, { class: "quiet danger small" }))),
    assistant.description ? h("p.prose", { dir: "auto" }, visible(cut(assistant.description, 600))) : null,
    h("p.sub", `Approval: ${APPROVALS.find(([approval]) => approval === assistant.approval)?.[1]}. Model: `, assistant.model ? name(assistant.model) : "as without an assistant"),
    assistant.servers ? h("ul.tags", assistant.servers.map(serverTag), assistant.servers.length ? null : h("li.sub", "No servers")) : h("p.sub", "All servers"),
  );
}

function serverTag(wanted) {
  const server = state.servers?.find((known) => known.name === wanted);
  const standing = server ? stateOf(SERVER_STATES, server.state) : ["Not configured", "bad"];
  return h("li.tags", serverIcon(server ?? { name: wanted }), name(server?.label ?? wanted), state.servers ? pill(standing) : null);
}

function nothing() {
  return empty("assistants", "No assistants yet", h("p", "A name for a model, a prompt, the servers and tools that it gets, and which of its calls are asked about."), h("p", h("a.button.primary", { href: "#/add-assistant" }, icon("plus"), "Add an assistant")), h("p.sub", "In a terminal: ", command("toolway assistants add"), "."));
}
