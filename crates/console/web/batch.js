// The bar above several approvals: one answer to all of them. It answers the calls that it was drawn for; one that comes
// later is left out until the user includes it.

import { fill, h, visible } from "./dom.js";
import { count } from "./format.js";
import { SETTLE_MS } from "./item.js";

const MOST_NAMES = 5;

export class Batch {
  // onanswered(words): after all were answered.
  constructor(onanswered) {
    this.onanswered = onanswered;
    this.views = [];
    this.members = [];
    this.isFixed = false;
    this.isBusy = false;
    this.text = h("div.grow", { role: "status", tabindex: "-1" });
    this.allow = h("button.primary", { onclick: () => this.answer({ answer: "once" }, "allowed once") }, "Allow all once");
    this.decline = h("button.danger", { onclick: () => this.answer({ answer: "no" }, "declined") }, "Decline all");
    this.include = h("button", { hidden: true, onclick: () => {
      this.begin();
      this.text.focus();
    } }, "Include all");
    this.node = h("section.batch", { "aria-label": "All calls that wait", hidden: true }, this.text, h("div.actions", this.allow, this.decline, this.include));
  }

  // views: the cards of all approvals, in their order.
  update(views) {
    const isSame = views.length === this.views.length && views.every((view, index) => view === this.views[index]);
    this.views = views;
    views.forEach((view, index) => view.place(index + 1, views.length));
    this.members = this.members.filter((view) => views.includes(view));
    if (views.length < 2) this.end();
    else if (!isSame && !this.isFixed) this.begin();
    this.draw();
  }

  // Takes all that wait now. From the moment at which the buttons can be used, no other is added.
  begin() {
    this.end();
    this.members = this.views;
    this.timer = setTimeout(() => {
      this.isFixed = true;
      this.draw();
    }, SETTLE_MS);
    this.draw();
  }

  end() {
    clearTimeout(this.timer);
    this.isFixed = false;
  }

  draw() {
    this.node.hidden = this.views.length < 2;
    const folded = this.members.filter((view) => view.isFolded());
    const hidden = this.members.filter((view) => view.item.approval.hidden);
    const isLocked = this.isBusy || !this.isFixed || this.members.length < 2 || this.members.some((view) => view.locked);
    this.allow.disabled = isLocked || folded.length > 0 || hidden.length > 0;
    this.decline.disabled = isLocked;
    const later = this.views.length - this.members.length;
    this.include.hidden = later === 0;
    this.include.disabled = this.isBusy;
    const lines = [
      h("p.strong", `${this.views.length} calls wait`),
      folded.length ? h("p.sub", "Open everything that is folded in ", this.names(folded), " before you allow all.") : null,
      hidden.length ? h("p.sub", "Answer ", this.names(hidden), " alone because of hidden characters.") : null,
      later ? h("p.sub", `${later} of them came since and ${later === 1 ? "is" : "are"} not included.`) : null,
    ];
    // Said again only if it changed.
    const said = lines.map((line) => line?.textContent).join("\n");
    if (said !== this.said) fill(this.text, lines);
    this.said = said;
  }

  // The numbers on the cards and the tools.
  names(views) {
    const first = views.slice(0, MOST_NAMES).map((view, index) => [index ? ", " : "", `${this.views.indexOf(view) + 1} (`, h("code", visible(view.item.approval.name)), ")"]);
    return views.length > MOST_NAMES ? [first, ` and ${count(views.length - MOST_NAMES, "other")}`] : first;
  }

  async answer(body, words) {
    const answered = [...this.members];
    this.isBusy = true;
    this.draw();
    const sent = await Promise.all(answered.map((view) => view.send(body, null)));
    this.isBusy = false;
    this.update(this.views);
    const done = sent.filter(Boolean).length;
    if (done) this.onanswered(`${count(done, "call")} ${words}`);
  }
}
