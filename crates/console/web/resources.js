// The screen Resources: resources and templates of all servers; one is read and shown, and its updates are followed.

import { on, post } from "./api.js";
import { ArgumentView } from "./argument-view.js";
import { fill, h, icon, unmarked, visible } from "./dom.js";
import { bytes, clock } from "./format.js";
import { OfferScreen, rowWords } from "./offers.js";
import { action, labelled } from "./parts.js";
import { expand, variables } from "./uri-template.js";

export function create() {
  return new OfferScreen({
    path: "resources",
    title: "Resources",
    one: "Resource",
    many: "resources",
    welcome: "Its content is shown here, and its updates if you follow it.",
    read: (answer) => [...answer.resources, ...answer.templates],
    nameOf: addressOf,
    row: (item) => [rowWords(item, item.title ?? item.name, addressOf(item)), item.uriTemplate ? h("span.tag", "template") : null],
    // A link may lead to a resource that no list has.
    unlisted: ({ server, name }) => ({ server, uri: name, name, isUnlisted: true }),
    detail: (item, frame) => new ResourceView(item, frame),
  });
}

function addressOf(item) {
  return item.uriTemplate ?? item.uri;
}

const CHANGES = { updated: "It has changed", resumed: "The connection was interrupted; it may have changed", ended: "Its updates are no longer followed" };

class ResourceView extends ArgumentView {
  constructor(item, frame) {
    const names = item.uriTemplate ? variables(unmarked(item.uriTemplate)) : [];
    super(item, frame, { of: "template", own: addressOf(item), list: names.map((name) => ({ name })), prefix: "v", verb: "Read" });
    this.uri = h("code.wrap");
    this.follow = frame.answer.servers[item.server]?.watches ? action("Follow updates", () => this.toggle(), { "aria-pressed": "false" }) : null;
    if (this.follow) this.actions.append(this.follow);
    fill(this.facts, labelled("Type", item.mimeType ? h("code", visible(item.mimeType)) : null), labelled("Size", typeof item.size === "number" ? bytes(item.size) : null), item.uriTemplate ? labelled("Address", this.uri) : null, item.isUnlisted ? labelled("Listed", "no: its server may have it all the same") : null);
    this.stop = on("resource", (event) => this.updated(event));
    this.listed(frame.answer);
  }

  close() {
    this.stop();
    clearTimeout(this.timer);
    super.close();
  }

  get address() {
    return this.item.uriTemplate ? expand(unmarked(this.item.uriTemplate), this.values) : this.item.uri;
  }

  get key() {
    return `${this.item.server} ${unmarked(this.address)}`;
  }

  listed({ watched }) {
    this.watched = new Set(watched.map(({ server, uri }) => `${server} ${unmarked(uri)}`));
    this.draw();
  }

  draw() {
    fill(this.uri, visible(this.address));
    if (!this.follow) return;
    const isFollowed = this.watched.has(this.key);
    this.follow.setAttribute("aria-pressed", String(isFollowed));
    fill(this.follow, isFollowed ? [icon("check"), "Following updates"] : "Follow updates");
  }

  call() {
    return this.panel.start("resource", this.item.server, this.address, null);
  }

  async toggle() {
    const { key, address } = this;
    const isFollowed = this.watched.has(key);
    await post(`/resources/${isFollowed ? "unwatch" : "watch"}`, { server: this.item.server, uri: address });
    if (isFollowed) this.watched.delete(key);
    else this.watched.add(key);
    fill(this.news, isFollowed ? [] : h("p.news", "Its updates are shown here."));
    this.draw();
  }

  updated({ server, uri, change, at }) {
    if (`${server} ${unmarked(uri)}` !== this.key) return;
    fill(this.news, h("p.news", `${CHANGES[change]}: ${clock(at)}`));
    if (change === "ended") {
      this.watched.delete(this.key);
      return this.draw();
    }
    // What is shown is read again, once for several changes.
    if (this.panel.id === null) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.panel.isRunning || this.call(), 300);
  }
}
