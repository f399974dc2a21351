// Keeps the marked parts of a page up to date: when the server reports a change, the page is
// fetched again, and the parts that differ are replaced. The server has escaped all text.

/** Formats a time as the server does, in the time zone of this browser. */
export function formatTime(date) {
  const two = (number) => String(number).padStart(2, "0");
  const day = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
  const time = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return day(date) === day(new Date()) ? time : `${day(date)} ${time}`;
}

function showLocalTimes(root) {
  for (const element of root.querySelectorAll("time[datetime]")) {
    const date = new Date(element.dateTime);
    if (!Number.isNaN(date.getTime())) element.textContent = formatTime(date);
  }
}

/** The difference between the time zone of this browser and UTC, in minutes. */
const utcOffset = () => -new Date().getTimezoneOffset();

const parts = () => [...document.querySelectorAll("[data-live]")];
const connection = document.getElementById("connection");
const SIGNED_OUT = "signed out: open the last link that siding web printed";
let due = false;
let busy = false;

/** Replaces what differs, from the outside to the inside, so that focus and selection stay. */
function morph(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  const sameKind = old.nodeType === Node.ELEMENT_NODE && fresh.nodeType === Node.ELEMENT_NODE
    && old.tagName === fresh.tagName && old.id === fresh.id;
  if (!sameKind) { old.replaceWith(fresh); return; }
  for (const { name } of [...old.attributes]) {
    // A person may have opened the details.
    const isOpened = name === "open" && old.tagName === "DETAILS";
    if (!fresh.hasAttribute(name) && !isOpened) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    // A script has shown the buttons.
    if (!(name === "hidden" && old.tagName === "BUTTON")) old.setAttribute(name, value);
  }
  // What is gone is removed first, so that what stays is not moved: a move would take the focus.
  const kept = new Set([...fresh.children].map((child) => child.id));
  for (const child of [...old.children]) if (child.id && !kept.has(child.id)) child.remove();
  const byId = new Map([...old.children].filter((c) => c.id).map((c) => [c.id, c]));
  let at = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const known = child.id && byId.get(child.id);
    if (known) {
      if (known !== at) old.insertBefore(known, at); else at = at.nextSibling;
      morph(known, child);
    } else if (at && !at.id && at.nodeType === child.nodeType) {
      const next = at.nextSibling;
      morph(at, child);
      at = next;
    } else {
      old.insertBefore(child, at);
    }
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

/** The address of what changes by itself: not the output, a search or the evidence. */
function address() {
  const url = new URL(location.href);
  url.hash = "";
  if (document.querySelector("ol.output")) url.search = "?part=state";
  // The server makes the labels of a timeline.
  if (document.querySelector("[data-utc-offset]")) url.searchParams.set("offset", utcOffset());
  return url;
}

/** The shortest time between two requests, however much changes. */
const pause = () => Math.max(1000, ...parts().map((part) => Number(part.dataset.pause ?? 0)));

async function refresh() {
  // A page that nobody sees is fetched when it becomes visible.
  if (busy || document.hidden) { due = true; return; }
  busy = true;
  due = false;
  try {
    const answer = await fetch(address(), { headers: { accept: "text/html" } });
    if (answer.status === 401) { connection.textContent = SIGNED_OUT; return; }
    if (answer.status === 404) { connection.textContent = "this page no longer exists"; return; }
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    showLocalTimes(fresh);
    for (const part of parts()) {
      const other = fresh.querySelector(`[data-live="${part.dataset.live}"]`);
      // The processes of a task that has ended, for example, are not part of the page any more.
      if (other) morph(part, document.adoptNode(other)); else part.replaceChildren();
    }
    document.dispatchEvent(new Event("siding:refreshed"));
  } catch {
    // The event stream reports a server that has ended.
  } finally {
    setTimeout(() => { busy = false; if (due) refresh(); }, pause());
  }
}

function tick() {
  for (const element of document.querySelectorAll("[data-elapsed]")) {
    if (!element.sidingSince) element.sidingSince = Date.now() - Number(element.dataset.elapsed);
    const shown = formatDuration(Date.now() - element.sidingSince);
    if (element.textContent !== shown) element.textContent = shown;
  }
}

function formatDuration(ms) {
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s}s`;
  const two = (a, au, b, bu) => (b ? `${a}${au} ${b}${bu}` : `${a}${au}`);
  if (s < 3600) return two(Math.floor(s / 60), "m", s % 60, "s");
  if (s < 86400) return two(Math.floor(s / 3600), "h", Math.floor((s % 3600) / 60), "m");
  return two(Math.floor(s / 86400), "d", Math.floor((s % 86400) / 3600), "h");
}

showLocalTimes(document);
if (parts().length) {
  const zone = document.querySelector("[data-utc-offset]");
  if (zone && Number(zone.dataset.utcOffset) !== utcOffset()) refresh();
  const task = document.querySelector("ol.output")?.dataset.task;
  // The last event that this page contains, at first the one before the server read the page.
  let lastEvent = document.body.dataset.lastEvent;
  const received = (event) => {
    lastEvent = event.lastEventId;
    const id = task && event.type !== "session" && JSON.parse(event.data).task_id;
    // `reset` has no task: events are missing.
    if (!id || id === task) refresh();
  };
  let events = null;
  const connect = () => {
    const opened = new EventSource(`/api/v1/events?after=${encodeURIComponent(lastEvent)}`);
    for (const name of ["task", "removed", "session", "reset"]) {
      opened.addEventListener(name, received);
    }
    opened.onopen = () => { connection.textContent = ""; };
    // The browser tries again after a lost connection, and not after a refusal.
    opened.onerror = () => {
      connection.textContent = opened.readyState === EventSource.CLOSED ? SIGNED_OUT
        : "no connection, trying again";
    };
    events = opened;
  };
  if (!document.hidden) connect();
  // The screen of a terminal changes with the output, which output.js follows.
  document.addEventListener("siding:output", () => {
    if (document.querySelector("pre.screen")) refresh();
  });
  setInterval(tick, 1000);
  // What changes without an event: bars, processor, memory.
  setInterval(() => {
    const hasRunning = document.querySelector("[data-elapsed], [data-refresh]");
    if (hasRunning && !document.hidden) refresh();
  }, 5000);
  // A browser opens at most six connections to a server, for all its pages together, so a page that
  // nobody sees keeps none.
  document.addEventListener("visibilitychange", () => {
    events?.close();
    events = null;
    if (document.hidden) return;
    connect();
    if (due) refresh();
  });
}
