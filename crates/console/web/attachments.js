// What is attached to a message: files that are chosen, dropped or pasted, and what `@` proposes: resources and prompts of servers.

import { get, post } from "./api.js";
import { cut, fill, h, icon, isImage, marked, name } from "./dom.js";
import { count } from "./format.js";
import { toast } from "./parts.js";

// The largest file that the API takes; texts have a smaller bound of their own.
const MOST_BYTES = 3_932_160;
const MOST_PROPOSALS = 8;

// An attachment: its picture, name and size.
export function attached({ name: label, tokens, images = [] }, ...more) {
  return h("span.attached", isImage(images[0]) ? h("img.thumb", { src: images[0], alt: "" }) : icon("resources"), name(label), tokens === undefined ? null : h("span.sub", `about ${count(tokens, "token")}`), more);
}

export class Attachments {
  // place(): the conversation, or null for a new one; how(): model and mode; onplace(): a new one has an id now.
  constructor(place, how, onplace) {
    Object.assign(this, { place, how, onplace, items: [], draft: null });
    this.node = h("ul.attachments", { "aria-label": "Attachments" });
  }

  // The conversation that the next message belongs to.
  async conversation() {
    if (this.place()) return this.place();
    this.begun ??= post("/chat/draft");
    this.draft = (await this.begun).conversation;
    this.onplace();
    return this.draft;
  }

  put(items, draft = this.draft) {
    Object.assign(this, { items, draft, begun: draft && { conversation: draft } });
    this.draw();
  }

  files(list) {
    for (const file of list) this.add(marked(file.name), (id) => this.upload(file, id));
  }

  offer({ label, ...what }) {
    this.add(label, (id) => post(`/chat/${id}/attach`, { ...what, ...this.how() }));
  }

  async upload(file, id) {
    const said = `\`${cut(file.name, 80)}\``;
    if (file.size > MOST_BYTES) throw new Error(`${said} is larger than ${count(MOST_BYTES, "byte")}; attach a part of it`);
    const address = await new Promise((resolve, reject) => {
      const reader = new FileReader();
      reader.onload = () => resolve(reader.result);
      reader.onerror = () => reject(new Error(`${said} cannot be read; folders cannot be attached`));
      reader.readAsDataURL(file);
    });
    return { ...(await post(`/chat/${id}/upload?name=${encodeURIComponent(file.name)}`, file)), images: [address] };
  }

  add(label, read) {
    const item = { name: label };
    const reading = async () => {
      try {
        Object.assign(item, await read(await this.conversation()));
        this.draw();
      } catch (error) {
        this.drop(item);
        toast(error.message, "bad", error.hint);
      }
    };
    this.items.push(item);
    this.draw();
    item.reading = reading();
  }

  drop(item) {
    this.items = this.items.filter((other) => other !== item);
    this.draw();
  }

  async remove(item) {
    this.drop(item);
    if (item.id) post(`/chat/${await this.conversation()}/detach`, { id: item.id }).catch(() => {});
  }

  draw() {
    fill(this.node, this.items.map((item) => h("li", attached(item, item.id ? null : h("span.sub", { role: "status" }, "Reading…"), h("button.quiet.icon-button", { "aria-label": `Remove ${cut(item.name, 80)}`, onclick: () => this.remove(item) }, icon("close"))))));
  }
}

// === what `@` proposes ===

async function offers() {
  const [{ resources }, { prompts }] = await Promise.all([get("/resources"), get("/prompts")]);
  return [...resources.map((item) => ({ ...item, label: item.uri })), ...prompts.map((item) => ({ ...item, label: item.name, isOpen: item.arguments.some(({ required }) => required) }))];
}

// The list that opens under `@` in a text.
export class Proposals {
  constructor(text, onchoose) {
    Object.assign(this, { text, onchoose, found: [], at: 0 });
    this.node = h("ul.proposals.popup", { id: "proposals", role: "listbox", "aria-label": "Resources and prompts", hidden: true });
  }

  // What was typed behind an `@` that begins a word, at the cursor.
  typed() {
    return /(?:^|[\s(["'])@([^\s@]{0,200})$/.exec(this.text.value.slice(0, this.text.selectionStart))?.[1] ?? null;
  }

  // What is offered is read when an `@` is typed.
  async update() {
    const typed = this.typed();
    if (typed === null) return this.close();
    this.offers ??= offers().catch(() => []);
    const list = await this.offers;
    if (typed !== this.typed()) return;
    this.found = list.filter(({ server, label, title, name: own }) => `${server}.${label} ${title ?? ""} ${own}`.toLowerCase().includes(typed.toLowerCase())).slice(0, MOST_PROPOSALS);
    this.at = 0;
    this.draw();
  }

  draw() {
    const option = (index, props, ...words) => h("li", { id: `proposal${index}`, role: "option", "aria-selected": String(index === this.at), ...props }, words);
    const row = (item, index) => option(index, { onmousedown: (event) => event.preventDefault(), onclick: () => this.choose(index) }, h("span.tag", item.uri ? "resource" : "prompt"), name(item.label), h("span.sub.one-line", name(item.server), item.title ? [" · ", name(item.title)] : null, item.isOpen ? " · needs arguments" : null));
    fill(this.node, this.found.length ? this.found.map(row) : option(0, { "aria-disabled": "true" }, "No resource or prompt matches."));
    this.node.hidden = false;
    this.text.setAttribute("aria-activedescendant", `proposal${this.at}`);
    this.node.children[this.at].scrollIntoView({ block: "nearest" });
  }

  close() {
    this.node.hidden = true;
    this.offers = null;
    this.text.removeAttribute("aria-activedescendant");
  }

  // Whether the key was for the list.
  key({ key, shiftKey }) {
    if (this.node.hidden) return false;
    const step = { ArrowDown: 1, ArrowUp: this.found.length - 1 }[key];
    if (key === "Escape") this.close();
    else if (this.found.length === 0 || shiftKey) return false;
    else if (key === "Enter" || key === "Tab") this.choose(this.at);
    else if (step === undefined) return false;
    else {
      this.at = (this.at + step) % this.found.length;
      this.draw();
    }
    return true;
  }

  choose(index) {
    const end = this.text.selectionStart;
    this.text.setRangeText("", end - this.typed().length - 1, end, "end");
    this.close();
    this.text.focus();
    const { server, uri, name: prompt, label, isOpen } = this.found[index];
    if (isOpen) location.hash = `#/prompts/${encodeURIComponent(server)}/${encodeURIComponent(prompt)}`;
    else this.onchoose({ server, label, ...(uri ? { uri } : { prompt }) });
  }
}
