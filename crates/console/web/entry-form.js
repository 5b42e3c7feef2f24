// A form about an entry of the configuration, of a server or an assistant: what saving would write is asked while the user
// types. What was typed stays on every failure: a wrong value, a lost connection, an entry that has changed or gone meanwhile.

import { get, judge, on, post } from "./api.js";
import { difference } from "./difference.js";
import { fill, h, icon, name, visible, words } from "./dom.js";
import { action, loading, problem, toast, warnings } from "./parts.js";

export class EntryForm {
  // noun: "server" or "assistant"; adding: words of the button; path: of the API and of the list; fields: an `EntryFields`; the rest is of one kind only.
  constructor({ noun, adding, path, label, fields, before = [], consent = null, buttons = [] }) {
    Object.assign(this, { noun, adding, path, fields });
    this.shown = null;
    this.version = null;
    this.touched = false;
    this.planned = null;
    this.asked = 0;
    this.heading = h("p.title", { "aria-hidden": "true" });
    this.about = h("p.sub");
    this.back = h("a.back.always", { href: `#${path}` }, icon("back"), label);
    this.notices = h("div.stack");
    this.trouble = h("div.stack", { "aria-live": "polite" });
    this.review = h("div.stack");
    this.outcome = h("div.stack", { "aria-live": "polite" });
    this.saveButton = h("button", { type: "submit", class: "primary" });
    this.buttons = [this.saveButton, ...buttons];
    this.form = h(
      "form",
      { class: "stack", onsubmit: (event) => { event.preventDefault(); this.save(); }, novalidate: true },
      before,
      this.notices,
      fields.node,
      this.trouble,
      this.review,
      consent,
      h("div.actions.form-actions", this.buttons, h("a.button.quiet", { href: `#${path}` }, "Cancel")),
      this.outcome,
    );
    this.body = h("div.stack");
    this.node = h("div.page", this.back, h("header.page-head", this.heading, this.about), this.body);
    // The file may have been edited elsewhere.
    const look = () => this.version !== null && !this.saving && this.later();
    addEventListener("focus", look);
    this.stops = [on("online", () => this.touched && this.later()), () => removeEventListener("focus", look)];
  }

  close() {
    clearTimeout(this.timer);
    this.stops.forEach((stop) => stop());
  }

  // `wanted`: the name of the entry; without it the form is for a new one.
  async route(wanted) {
    this.shown = wanted ?? null;
    this.touched = false;
    this.saving = false;
    fill(this.outcome);
    fill(this.trouble);
    if (this.shown === null) return this.begin();
    fill(this.heading, "Edit ", name(this.shown));
    fill(this.about, "");
    fill(this.body, loading(5));
    await this.load();
  }

  // A new entry.
  begin() {
    this.becomeNew();
    this.fields.set("", {});
    fill(this.body, this.form);
    this.plan();
  }

  // The entry as it is in its file.
  async load() {
    try {
      const { label, entry, place, version, notices } = await get(`${this.of(this.shown)}/entry`);
      this.version = version;
      this.touched = false;
      fill(this.about, "In ", h("code", visible(place)));
      fill(this.notices, notices.map((notice) => h("p.note", words(notice))));
      fill(this.saveButton, "Save changes");
      this.fields.set(label, entry);
      this.fields.name.input.readOnly = true;
      fill(this.trouble);
      fill(this.body, this.form);
      this.plan();
    } catch (error) {
      fill(this.body, problem(error, "The entry could not be read"));
    }
  }

  of(entry) {
    return `${this.path}/${encodeURIComponent(entry)}`;
  }

  // === what would be written ===

  changed() {
    this.touched = true;
    fill(this.outcome);
    this.later();
  }

  later() {
    clearTimeout(this.timer);
    // Not while the whole form is judged: that would take its turn.
    this.timer = setTimeout(() => (this.judging ? this.later() : this.plan()), 200);
  }

  get draft() {
    return { name: this.fields.name.value ?? "", entry: this.fields.entry, ...(this.version === null ? {} : { version: this.version }) };
  }

  // Asks what saving would write. Problems of fields that the user has not come to are not shown yet.
  async plan({ all = false } = {}) {
    const turn = ++this.asked;
    const { draft } = this;
    if (this.isBlank(draft) && !all) return this.nothing();
    try {
      const planned = await judge(`${this.path}/plan`, draft);
      if (turn !== this.asked) return false;
      this.fields.clearProblems();
      fill(this.trouble);
      this.show(planned, draft);
      return true;
    } catch (error) {
      if (turn !== this.asked) return false;
      this.fail(error, all);
      return false;
    }
  }

  isBlank(draft) {
    return !draft.name;
  }

  nothing() {
    this.planned = null;
    fill(this.review);
    fill(this.trouble);
    return false;
  }

  show(planned) {
    this.planned = planned;
    const isSame = planned.difference.length === 0 && !planned.byHand;
    const title = isSame ? "Nothing changes" : "What is written";
    fill(this.review, h("section.panel", { "aria-label": "What is written" }, h("h2.panel-title", title), isSame ? null : h("p.sub", "To ", h("code", visible(planned.file))), warnings(planned.warnings), isSame ? null : written(planned)));
  }

  fail(error, all) {
    this.planned = null;
    fill(this.review);
    this.fields.clearProblems();
    if (error.code === "conflict" && this.version !== null) return this.conflict(error);
    const found = Object.entries(error.fields ?? {});
    // A field that is still empty is not wrong yet.
    const isShown = (control) => all || !control || control.value !== undefined;
    const rest = this.fields.show(found.filter(([path]) => isShown(this.fields.controlOf(path))), { focus: all });
    fill(this.trouble, found.length === 0 ? problem(error) : rest.length ? problem({ message: rest.join("; "), hint: error.hint }) : null);
  }

  // The entry is another one than this page has read, or gone.
  async conflict(error) {
    const now = await get(`${this.of(this.shown)}/entry`).catch(() => null);
    const button = (label, act) => h("button", { onclick: act }, label);
    const keep = () => {
      if (now) this.version = now.version;
      else this.becomeNew();
      this.plan();
    };
    fill(this.trouble, problem({ message: error.message, hint: "what you typed is still here" }), h("div.actions", button(now ? "Keep what I typed" : `Keep it as a new ${this.noun}`, keep), now ? button("Load it as it is now", () => this.load()) : null));
  }

  becomeNew() {
    this.version = null;
    this.fields.name.input.readOnly = false;
    fill(this.saveButton, this.adding);
    fill(this.notices);
  }

  // === save ===

  // Whether all is there: else the first field that is wrong has the focus.
  async ready() {
    clearTimeout(this.timer);
    this.judging = true;
    const isReady = await this.plan({ all: true });
    this.judging = false;
    return isReady;
  }

  busy(sentence) {
    // A button that is disabled loses the focus.
    this.before = document.activeElement;
    for (const button of this.buttons) button.disabled = true;
    fill(this.outcome, h("p.sub.busy-line", { role: "status" }, sentence));
  }

  rest() {
    for (const button of this.buttons) button.disabled = false;
    if (document.activeElement === document.body) this.before?.focus?.();
  }

  // Writes the entry; returns its name, or null if that failed. `body`: what is sent.
  async write(body) {
    this.busy("Saving…");
    this.saving = true;
    try {
      const { name: saved, notices = [] } = await post(this.path, body);
      this.touched = false;
      toast([`${this.noun === "server" ? "Server" : "Assistant"} ${saved} is ${this.version === null ? "added" : "saved"}.`, ...notices].join("\n"), "good");
      return saved;
    } catch (error) {
      this.saving = false;
      fill(this.outcome);
      this.fail(error, true);
      return null;
    } finally {
      this.rest();
    }
  }
}

// Asks before an entry is removed, with what is taken out of its file. `said`: what else happens.
export async function confirmRemoval({ noun, path, entry, label, said = null, onremoved }) {
  const of = `${path}/${encodeURIComponent(entry)}`;
  const planned = await get(`${of}/removal`);
  const outcome = h("div");
  const remove = action("Remove", async () => {
    try {
      await post(`${of}/remove`, { version: planned.version });
      dialog.close();
      toast(`${noun} ${label} is removed.`, "good");
      onremoved();
    } catch (error) {
      fill(outcome, problem(error));
    }
  }, { class: "danger" });
  const dialog = h(
    "dialog",
    { class: "ask", "aria-labelledby": "removal", onclose: () => dialog.remove() },
    h("div.item", h("header", h("h2", { id: "removal" }, "Remove ", name(label), "?")), planned.byHand ? null : h("p", said, "These lines are taken out of ", h("code", visible(planned.file)), "."), written(planned), outcome, h("div.answers", h("div.actions", planned.byHand ? null : remove, h("button", { onclick: () => dialog.close() }, "Cancel")))),
  );
  document.body.append(dialog);
  dialog.showModal();
}

// The difference of the file, or what the user has to write.
function written({ byHand, difference: lines }) {
  return byHand ? [h("p", "YAML files are not edited by Toolway."), h("pre.plain", { tabindex: "0" }, visible(byHand))] : difference(lines);
}
