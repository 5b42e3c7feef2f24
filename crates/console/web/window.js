// A list of rows of one height, of which only those in view exist. Focus stays on the list, so rows may come and go.

import { h } from "./dom.js";

const MARGIN = 8;
let lists = 0;

// options: { label, rowHeight, row(item, index) → node, key(item), onopen(item, index), onend(), empty }
export class WindowedList {
  constructor(options) {
    this.options = options;
    this.items = [];
    this.active = -1;
    this.id = `list${++lists}`;
    this.rows = new Map();
    this.space = h("div", { class: "window-space", role: "presentation" });
    this.node = h(
      "div",
      { class: "window", role: "listbox", tabindex: "0", "aria-label": options.label, onscroll: () => this.draw(), onkeydown: (event) => this.key(event), onclick: (event) => this.click(event) },
      this.space,
    );
    this.observer = new ResizeObserver(() => this.draw());
    this.observer.observe(this.node);
  }

  close() {
    this.observer.disconnect();
  }

  // Replaces the items. With `anchor`, rows added above do not move those in view.
  set(items, { anchor = false } = {}) {
    const { key, rowHeight } = this.options;
    const activeKey = this.items[this.active] === undefined ? null : key(this.items[this.active]);
    const top = Math.floor(this.node.scrollTop / rowHeight);
    const topKey = anchor && top > 0 && this.items[top] !== undefined ? key(this.items[top]) : null;
    this.items = items;
    this.active = activeKey === null ? -1 : items.findIndex((item) => key(item) === activeKey);
    this.space.style.height = `${items.length * rowHeight}px`;
    if (topKey !== null) {
      const now = items.findIndex((item) => key(item) === topKey);
      if (now > top) this.node.scrollTop += (now - top) * rowHeight;
    }
    this.clear();
    this.draw();
  }

  // Draws one item again after it changed in place.
  update(index) {
    this.rows.get(index)?.remove();
    this.rows.delete(index);
    this.draw();
  }

  clear() {
    for (const row of this.rows.values()) row.remove();
    this.rows.clear();
  }

  draw() {
    const { rowHeight } = this.options;
    const height = this.node.clientHeight || 600;
    const first = Math.max(0, Math.floor(this.node.scrollTop / rowHeight) - MARGIN);
    const last = Math.min(this.items.length, Math.ceil((this.node.scrollTop + height) / rowHeight) + MARGIN);
    for (const [index, row] of this.rows) {
      if (index < first || index >= last) {
        row.remove();
        this.rows.delete(index);
      }
    }
    for (let index = first; index < last; index += 1) if (!this.rows.has(index)) this.place(index);
    this.highlight();
    if (last >= this.items.length - MARGIN && this.items.length > 0) this.options.onend?.();
  }

  place(index) {
    const row = this.options.row(this.items[index], index);
    row.id = `${this.id}-${index}`;
    row.setAttribute("role", "option");
    row.setAttribute("aria-setsize", this.items.length);
    row.setAttribute("aria-posinset", index + 1);
    row.dataset.index = index;
    row.classList.add("window-row");
    row.style.transform = `translateY(${index * this.options.rowHeight}px)`;
    row.style.height = `${this.options.rowHeight}px`;
    this.rows.set(index, row);
    this.space.append(row);
  }

  highlight() {
    for (const [index, row] of this.rows) row.setAttribute("aria-selected", String(index === this.active));
    if (this.rows.has(this.active)) this.node.setAttribute("aria-activedescendant", `${this.id}-${this.active}`);
    else this.node.removeAttribute("aria-activedescendant");
  }

  select(index, { open = false } = {}) {
    this.active = Math.max(-1, Math.min(this.items.length - 1, index));
    this.reveal(this.active);
    this.draw();
    if (open && this.active >= 0) this.options.onopen?.(this.items[this.active], this.active);
  }

  reveal(index) {
    if (index < 0) return;
    const { rowHeight } = this.options;
    const top = index * rowHeight;
    const bottom = top + rowHeight - this.node.clientHeight;
    if (this.node.scrollTop > top) this.node.scrollTop = top;
    else if (this.node.scrollTop < bottom) this.node.scrollTop = bottom;
  }

  key(event) {
    const page = Math.max(1, Math.floor(this.node.clientHeight / this.options.rowHeight) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in moves && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      const target = Math.max(0, Math.min(this.items.length - 1, this.active + moves[event.key]));
      this.select(target, { open: this.options.followSelection?.() ?? false });
    } else if ((event.key === "Enter" || event.key === " ") && this.active >= 0) {
      event.preventDefault();
      this.options.onopen?.(this.items[this.active], this.active);
    }
  }

  click(event) {
    // A row that was drawn again under the pointer is not the target.
    const row = [event.target, document.elementFromPoint(event.clientX, event.clientY)].map((node) => node?.closest(".window-row")).find(Boolean);
    if (row) this.select(Number(row.dataset.index), { open: true });
  }
}
