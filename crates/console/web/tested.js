// What a test of a connection found: handshake, session, capabilities, tools with their icons.

import { cut, h, name, visible } from "./dom.js";
import { count, duration } from "./format.js";
import { hints, labelled, problem, serverIcon, warnings } from "./parts.js";
import { setAside } from "./server-parts.js";

const ERAS = { legacy: "with a session", modern: "stateless" };
const MOST_TOOLS = 60;

// `label` is the name that the user gave; `authorize` a button for a server that requires a sign-in.
export function tested(answer, label, authorize) {
  if (answer.signIn) {
    return h("div.success.stack", { role: "status" }, h("p", h("strong", "It answers, and requires a sign-in. "), "Save it, then sign in at its own page."), h("div.actions", authorize));
  }
  if (!answer.ok) return problem(answer.error ?? { message: "the test failed" }, "The test failed");
  const tools = answer.tools ?? [];
  const rest = tools.length - MOST_TOOLS;
  return h(
    "section",
    { class: "panel tested", role: "status", "aria-label": "Result of the test" },
    h("div.tested-head", serverIcon({ name: label, icon: answer.icon }), h("div.grow", h("p.panel-title", "It works"), h("p.sub", answer.title ? name(answer.title) : null, answer.version ? [" ", name(answer.version)] : null))),
    warnings((answer.setAside ?? []).map(setAside)),
    h(
      "dl",
      { class: "facts" },
      labelled("Handshake", `${answer.revision ?? "unknown"}${answer.era ? ` (${ERAS[answer.era] ?? answer.era})` : ""}, in ${duration(answer.durationMs)}`),
      labelled("Session id", answer.sessionId ? h("code", visible(answer.sessionId)) : "none"),
      labelled("Capabilities", answer.capabilities?.length ? h("span.chips", answer.capabilities.map((word) => h("code.chip", visible(word)))) : "none"),
      labelled("Offers", [count(tools.length, "tool"), ", ", count(answer.prompts, "prompt"), ", ", count(answer.resources, "resource")]),
      labelled("Instructions", answer.instructions ? h("span.prose", visible(cut(answer.instructions, 600))) : null),
    ),
    tools.length ? h("ul.tested-tools", { tabindex: "0", "aria-label": "Tools" }, tools.slice(0, MOST_TOOLS).map((tool) => toolItem(tool))) : null,
    rest > 0 ? h("p.sub", `and ${rest} more`) : null,
  );
}

// A tool in a list; `controls` stand at its end.
export function toolItem(tool, ...controls) {
  return h("li.tested-tool", serverIcon(tool), h("span.grow", h("code", visible(tool.name)), tool.title && tool.title !== tool.name ? [" ", name(tool.title, { class: "name sub" })] : null, tool.description ? h("span.sub.one-line", { dir: "auto" }, visible(cut(tool.description, 200))) : null), h("span.tags", hints(tool)), controls);
}
