// A link of a model or a server. The page has no address that a browser could look up before the user has clicked on the
// words and has seen the host that the link leads to.

import { fill, h, visible } from "./dom.js";

export function externalLink(words, target) {
  const place = h("span.link-place", { role: "status", hidden: true });
  const button = h("button.link-words", { "aria-expanded": "false", onclick: toggle }, words);

  function toggle() {
    if (!place.hidden) return close();
    const open = h("a.link-open", { href: target, rel: "noreferrer noopener", target: "_blank", onclick: close }, "Open ", h("strong", visible(new URL(target).host)));
    fill(place, open, " ", h("code", visible(target)));
    place.hidden = false;
    button.setAttribute("aria-expanded", "true");
    open.focus();
  }

  function close() {
    place.hidden = true;
    button.setAttribute("aria-expanded", "false");
    // After the click was followed.
    setTimeout(() => place.hidden && fill(place));
  }

  return h("span", button, place);
}
