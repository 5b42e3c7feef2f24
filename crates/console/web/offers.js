// The frame of the screens Tools, Resources and Prompts: a list over all servers with a search, and one item beside it. The
// address has the item, the search and the last call.

import { get, on } from "./api.js";
import { fill, h, icon, name, unmarked, visible } from "./dom.js";
import { count } from "./format.js";
import { empty, loading, problem, serverIcon } from "./parts.js";
import { state } from "./state.js";
import { WindowedList } from "./window.js";

// options: { path, title, one, many, welcome, read: answer → items, nameOf, unlisted, row: item → nodes, detail: (item, screen) →
// { node, close, route, set, listed, touched } }
export class OfferScreen {
  constructor(options) {
    this.options = options;
    this.items = null;
    this.shown = null;
    this.view = null;
    this.query = new URLSearchParams();
    this.search = h("input", { type: "search", placeholder: `Search ${options.many}`, "aria-label": `Search ${options.many}`, oninput: () => this.searched(), onkeydown: (event) => this.fromSearch(event) });
    this.total = h("p", { class: "sub", role: "status" });
    this.list = new WindowedList({ label: options.title, rowHeight: 54, key: (item) => `${item.server}/${options.nameOf(item)}`, row: (item) => this.row(item), onopen: (item) => (location.hash = this.addressOf(item)) });
    this.blank = h("div", {}, loading());
    this.detail = h("section", { class: "pane detail", "aria-label": options.one });
    this.node = h(
      "div",
      { class: "split offers" },
      h("section", { class: "pane master", "aria-label": options.title }, h("header", { class: "offers-head" }, h("div", {}, h("p", { class: "title", "aria-hidden": "true" }, options.title), this.total), this.search), this.list.node, this.blank),
      this.detail,
    );
    this.stops = [
      on("servers", () => this.later()),
      on("changed:servers", () => this.items === null && this.load()),
      on("reset", () => this.later()),
      on("online", ({ resumed }) => resumed && this.later()),
    ];
    this.load();
  }

  close() {
    clearTimeout(this.timer);
    this.stops.forEach((stop) => stop());
    this.list.close();
    this.view?.close();
  }

  holdsInput() {
    return this.view?.touched ?? false;
  }

  later() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), 250);
  }

  async load() {
    try {
      this.answer = await get(`/${this.options.path}`);
      this.items = this.options.read(this.answer);
      this.failure = null;
    } catch (error) {
      if (this.items === null) this.failure = error;
    }
    this.draw();
    this.open();
    this.view?.listed?.(this.answer);
  }

  route(parts, query) {
    this.query = query ?? new URLSearchParams();
    const words = this.query.get("q") ?? "";
    if (this.search.value !== words) this.search.value = words;
    const wanted = parts.length >= 2 ? { server: parts[0], name: parts[1] } : null;
    if (!this.detail.hasChildNodes() || wanted?.server !== this.shown?.server || wanted?.name !== this.shown?.name) {
      this.view?.close();
      this.view = null;
      this.shown = wanted;
      fill(this.detail, wanted ? loading(3) : this.welcome());
    }
    this.draw();
    this.open();
    this.view?.route?.(this.query);
  }

  // The address of an item, with the search.
  addressOf(item, more = {}) {
    const query = new URLSearchParams({ ...(this.search.value ? { q: this.search.value } : {}), ...more });
    const place = item ? `/${encodeURIComponent(item.server)}/${encodeURIComponent(this.options.nameOf(item))}` : "";
    return `#/${this.options.path}${place}${query.size ? `?${query}` : ""}`;
  }

  // Replaces the address: the same item in another state.
  replace(more) {
    history.replaceState(null, "", this.addressOf(this.view?.item ?? null, more));
  }

  searched() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => {
      const run = this.query.get("run");
      this.replace(run ? { run } : {});
    }, 200);
    this.draw();
    if (this.view === null && this.shown === null) fill(this.detail, this.welcome());
  }

  fromSearch(event) {
    if (event.key === "Escape" && this.search.value) {
      event.stopPropagation();
      this.search.value = "";
      this.searched();
    }
    if (event.key !== "ArrowDown" && event.key !== "Enter") return;
    event.preventDefault();
    this.list.node.focus();
    if (this.list.active < 0) this.list.select(0);
    if (event.key === "Enter" && this.list.items.length) this.list.select(Math.max(0, this.list.active), { open: true });
  }

  draw() {
    this.node.classList.toggle("has-detail", this.shown !== null);
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = (this.items ?? []).filter((item) => {
      const text = `${item.server} ${this.options.nameOf(item)} ${item.name} ${item.title ?? ""} ${item.description ?? ""}`.toLowerCase();
      return words.every((word) => text.includes(word));
    });
    // Before a row is scrolled to, which needs the height of the list.
    this.list.node.hidden = found.length === 0;
    this.blank.hidden = found.length > 0;
    this.list.set(found);
    const at = found.findIndex((item) => this.isShown(item));
    if (at >= 0 && at !== this.list.active) this.list.select(at);
    const { one, many } = this.options;
    const servers = new Set(found.map((item) => item.server)).size;
    fill(this.total, this.items === null ? "" : words.length ? `${found.length} of ${count(this.items.length, one.toLowerCase(), many)}` : `${count(found.length, one.toLowerCase(), many)} of ${count(servers, "server")}`);
    if (this.failure) fill(this.blank, problem(this.failure));
    else if (this.items !== null && found.length === 0) fill(this.blank, words.length ? h("p", { class: "sub pad" }, `No ${one.toLowerCase()} matches.`) : h("p", { class: "sub pad" }, `No server that is connected offers ${many}.`));
  }

  isShown(item) {
    return item.server === this.shown?.server && unmarked(this.options.nameOf(item)) === unmarked(this.shown.name);
  }

  open() {
    if (this.shown === null || this.items === null) return;
    const listed = this.items.find((candidate) => this.isShown(candidate)) ?? null;
    const { isUnlisted } = this.view?.item ?? {};
    // What was opened before it was listed is shown again as what it is.
    if (this.view && !(isUnlisted && listed)) return this.view.set?.(isUnlisted ? this.view.item : listed);
    const item = listed ?? this.options.unlisted?.(this.shown, this.query) ?? null;
    if (item === null) return fill(this.detail, this.frame(empty(this.options.path, `This ${this.options.one.toLowerCase()} is not offered`, h("p", {}, "The server ", name(this.shown.server), " does not offer it now: ", name(this.shown.name), "."), this.serverState())));
    this.view?.close();
    this.view = this.options.detail(item, this);
    fill(this.detail, this.frame(this.view.node));
    this.view.route?.(this.query);
  }

  serverState() {
    const server = (state.servers ?? []).find((known) => known.name === this.shown.server);
    return server ? h("p", {}, h("a", { class: "button", href: `#/servers/${encodeURIComponent(server.name)}` }, "Show the server")) : null;
  }

  frame(node) {
    return h("div", { class: "offer" }, h("a", { class: "back", href: this.addressOf(null) }, icon("back"), this.options.title), node);
  }

  welcome() {
    return empty(this.options.path, `Choose a ${this.options.one.toLowerCase()}`, h("p", {}, this.options.welcome));
  }

  row(item) {
    return h("div", { class: "tool-row" }, item.icon ? serverIcon(item) : null, this.options.row(item));
  }
}

// The two lines of a row.
export function rowWords(item, label, about) {
  return h("span", { class: "tool-words" }, h("span", { class: "tool-name" }, name(label)), h("span", { class: "sub one-line" }, name(item.server), about ? [" · ", visible(about.slice(0, 200))] : null));
}

export function offerHead(item, title, own, tags) {
  return h("header", { class: "offer-head" }, item.icon ? serverIcon(item) : null, h("div", { class: "grow" }, h("h2", {}, name(title)), h("p", { class: "sub" }, own && own !== title ? [h("code", { class: "wrap" }, visible(own)), " · "] : "", "of ", h("a", { href: `#/servers/${encodeURIComponent(item.server)}` }, name(item.server)))), tags);
}
