// The output of a task: follows new lines, loads earlier and later windows without leaving the
// page. The lines are made by the server, which has escaped all text.

const list = document.querySelector("ol.output");
const MAX_LINES = 5000;

if (list) {
  const base = `/tasks/${list.dataset.task}`;
  const button = document.querySelector("[data-follow]");
  const before = document.querySelector("[data-before]");
  let stream = null;
  let isFollowing = false;

  const parse = (html) => [...new DOMParser().parseFromString(html, "text/html").querySelectorAll("li")]
    .map((line) => document.adoptNode(line));
  const offset = (line) => (line ? line.id.slice(1) : "0");
  const isAtEnd = () => list.scrollTop + list.clientHeight >= list.scrollHeight - 30;

  const append = (html, from) => {
    const stays = isAtEnd();
    // An incomplete line is sent again when it has grown.
    while (list.lastElementChild && Number(offset(list.lastElementChild)) >= from) {
      list.lastElementChild.remove();
    }
    list.append(...parse(html));
    document.querySelector("[data-empty]")?.remove();
    if (stays) {
      while (list.childElementCount > MAX_LINES) list.firstElementChild.remove();
      setStart(offset(list.firstElementChild));
      list.scrollTop = list.scrollHeight;
    } else if (list.childElementCount > 2 * MAX_LINES) {
      // A person reads earlier lines, which therefore stay; later ones are loaded on request.
      stop();
    }
  };

  const setStart = (from) => {
    list.dataset.from = from;
    before.parentElement.hidden = from === "0";
  };

  const disconnect = () => {
    stream?.close();
    stream = null;
  };

  const stop = () => {
    disconnect();
    isFollowing = false;
    button.setAttribute("aria-pressed", "false");
    button.textContent = "Follow";
  };

  const connect = () => {
    const open = list.querySelector("li[data-open]");
    const from = open ? offset(open) : list.dataset.next;
    const opened = new EventSource(`${base}/follow?from=${from}`);
    opened.addEventListener("lines", (event) => {
      const { from: start, skipped, html } = JSON.parse(event.data);
      if (skipped > 0) list.replaceChildren();
      list.dataset.next = event.lastEventId;
      append(html, start);
      document.dispatchEvent(new Event("siding:output"));
    });
    opened.addEventListener("end", stop);
    // The browser tries again after a lost connection, and not after a refusal.
    opened.onerror = () => { if (opened.readyState === EventSource.CLOSED) stop(); };
    stream = opened;
  };

  const follow = () => {
    isFollowing = true;
    button.setAttribute("aria-pressed", "true");
    button.textContent = "Pause";
    if (!document.hidden) connect();
  };

  // A page that nobody sees keeps no connection, as in page.js.
  document.addEventListener("visibilitychange", () => {
    disconnect();
    if (isFollowing && !document.hidden) connect();
  });

  button.hidden = !("liveOutput" in list.dataset);
  button.addEventListener("click", () => {
    if (isFollowing) { stop(); return; }
    list.scrollTop = list.scrollHeight;
    follow();
  });
  if ("liveOutput" in list.dataset && "atEnd" in list.dataset) follow();
  if (!location.hash && "atEnd" in list.dataset) list.scrollTop = list.scrollHeight;

  const load = async (query) => {
    const answer = await fetch(`${base}/lines?${query}`);
    if (!answer.ok) return null;
    return new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("ol");
  };

  before.addEventListener("click", async (event) => {
    event.preventDefault();
    const window = await load(`before=${list.dataset.from}`);
    if (!window) return;
    // The lines that are visible stay where they are.
    const height = list.scrollHeight;
    const lines = [...window.children];
    list.prepend(...lines.map((line) => document.adoptNode(line)));
    list.scrollTop += list.scrollHeight - height;
    setStart(window.dataset.from);
    if (lines.length === 0) before.parentElement.hidden = true;
  });

  const after = document.querySelector("[data-after]");
  after?.addEventListener("click", async (event) => {
    event.preventDefault();
    const window = await load(`from=${list.dataset.next}`);
    if (!window) return;
    list.append(...[...window.children].map((line) => document.adoptNode(line)));
    list.dataset.next = window.dataset.next;
    if (Number(window.dataset.next) >= Number(window.dataset.bytes)) after.hidden = true;
  });
}
