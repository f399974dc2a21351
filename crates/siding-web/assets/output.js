// The output of a task: follows new lines, loads earlier and later windows without leaving the
// page. The lines are made by the server, which has escaped all text.

const list = document.querySelector("ol.output");
const MAX_LINES = 5000;

if (list) {
  const base = `/tasks/${list.dataset.task}`;
  const button = document.querySelector("[data-follow]");
  let stream = null;

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
      list.dataset.from = offset(list.firstElementChild);
      list.scrollTop = list.scrollHeight;
    }
  };

  const stop = () => {
    stream?.close();
    stream = null;
    button.setAttribute("aria-pressed", "false");
    button.textContent = "Follow";
  };

  const follow = () => {
    button.setAttribute("aria-pressed", "true");
    button.textContent = "Pause";
    const open = list.querySelector("li[data-open]");
    const from = open ? offset(open) : list.dataset.next;
    stream = new EventSource(`${base}/follow?from=${from}`);
    stream.addEventListener("lines", (event) => {
      const { from: start, skipped, html } = JSON.parse(event.data);
      if (skipped > 0) list.replaceChildren();
      append(html, start);
      list.dataset.next = event.lastEventId;
    });
    stream.addEventListener("end", stop);
  };

  button.hidden = !("liveOutput" in list.dataset);
  button.addEventListener("click", () => (stream ? stop() : follow()));
  if ("liveOutput" in list.dataset && "atEnd" in list.dataset) follow();
  if (!location.hash && "atEnd" in list.dataset) list.scrollTop = list.scrollHeight;

  const load = async (query) => {
    const answer = await fetch(`${base}/lines?${query}`);
    if (!answer.ok) return null;
    return new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("ol");
  };

  const before = document.querySelector("[data-before]");
  before?.addEventListener("click", async (event) => {
    event.preventDefault();
    const window = await load(`before=${list.dataset.from}`);
    if (!window) return;
    // The lines that are visible stay where they are.
    const height = list.scrollHeight;
    list.prepend(...[...window.children].map((line) => document.adoptNode(line)));
    list.scrollTop += list.scrollHeight - height;
    list.dataset.from = window.dataset.from;
    if (window.dataset.from === "0") before.hidden = true;
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
