// Keeps the marked parts of a page up to date: when the server reports a change, the page is
// fetched again, and the parts that differ are replaced. The server has escaped all text.

const parts = () => [...document.querySelectorAll("[data-live]")];
const connection = document.getElementById("connection");
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
    if (answer.status === 401) { connection.textContent = "signed out"; return; }
    if (!answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
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

if (parts().length) {
  const task = document.querySelector("ol.output")?.dataset.task;
  const events = new EventSource("/api/v1/events");
  const changed = (event) => {
    if (!task || JSON.parse(event.data).task_id === task) refresh();
  };
  events.addEventListener("task", changed);
  events.addEventListener("removed", changed);
  events.addEventListener("session", () => refresh());
  // The first event of a new connection; after a lost one, the page may be old.
  let isFirst = true;
  events.addEventListener("reset", () => { if (!isFirst) refresh(); isFirst = false; });
  events.onopen = () => { connection.textContent = ""; };
  events.onerror = () => { connection.textContent = "no connection, trying again"; };
  setInterval(tick, 1000);
  // What changes without an event: bars, processor, memory.
  setInterval(() => {
    const hasRunning = document.querySelector("[data-elapsed], [data-refresh]");
    if (hasRunning && !document.hidden) refresh();
  }, 5000);
  document.addEventListener("visibilitychange", () => { if (due && !document.hidden) refresh(); });
}
