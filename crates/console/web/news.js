// What begins to wait for the user while another screen or another window has their attention: a line on the page, and a
// notification of the browser where the user permitted it.

import { callerSubject } from "./format.js";
import { toast } from "./parts.js";
import { state } from "./state.js";

const WANTED = "toolway-notify";

// One sentence about an item; without text of a server.
export function newsOf(item) {
  if (item.outcome) return `It is not known whether a call of ${item.server} happened`;
  if (item.approval) return `${callerSubject(item.caller, item.surface)} wants to use ${item.server}`;
  if (item.signIn) return `${item.server} requires a sign-in`;
  return item.sampling ? `${item.server} asks a model` : `${item.server} asks for information`;
}

export class News {
  // isShown(item): the screen that is open shows it.
  constructor(isShown) {
    this.isShown = isShown;
    this.seen = null;
    this.shown = new Map();
  }

  // Called with every change of the inbox.
  take() {
    const items = state.inbox ?? [];
    const ids = new Set(items.map((item) => item.id));
    const added = this.seen === null ? [] : items.filter((item) => !this.seen.has(item.id));
    this.seen = ids;
    for (const [id, notification] of this.shown) {
      if (ids.has(id)) continue;
      notification.close();
      this.shown.delete(id);
    }
    if (state.signedOut) return;
    if (isNotifying() && !document.hasFocus()) added.forEach((item) => this.notify(item));
    const [item, ...others] = added.filter((one) => !this.isShown(one));
    if (item) toast(others.length ? `${others.length + 1} questions wait for you` : newsOf(item), "", null, { href: others.length ? "#/inbox" : `#/inbox/${encodeURIComponent(item.id)}`, label: "Review" });
  }

  // Tabs use one tag for an item, so that the browser shows it once.
  notify(item) {
    try {
      const notification = new Notification("Toolway", { body: newsOf(item), tag: item.id, icon: "/icon.svg" });
      notification.onclick = () => {
        focus();
        location.hash = `#/inbox/${encodeURIComponent(item.id)}`;
        notification.close();
      };
      this.shown.set(item.id, notification);
    } catch {
      // Some browsers permit notifications to service workers only.
    }
  }
}

// Whether this browser can notify at all, and the user has not refused it.
export function canNotify() {
  return "Notification" in self && isSecureContext && Notification.permission !== "denied";
}

export function isNotifying() {
  try {
    return canNotify() && Notification.permission === "granted" && localStorage.getItem(WANTED) === "on";
  } catch {
    return false;
  }
}

// Asks the browser for the permission where it is needed; returns whether it notifies now.
export async function setNotifying(isWanted) {
  const isAllowed = !isWanted || Notification.permission === "granted" || (await Notification.requestPermission()) === "granted";
  try {
    localStorage.setItem(WANTED, isWanted && isAllowed ? "on" : "off");
  } catch {
    // Without storage there are none.
  }
  return isNotifying();
}
