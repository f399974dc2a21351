// Types into the terminal of a task: the keys of a field, and the answer to a program that hides what
// is typed. Keys are sent in their order, and never twice. The size of the terminal stays.

import { post, showSentence } from "./act.js";
import { keyHeaders, readPageKey, storePageKey } from "./page-key.js";

/** Names of keys, in the spelling of `siding keys`. */
const KEY_NAMES = {
  Enter: "Enter", Escape: "Escape", Tab: "Tab", Backspace: "BSpace", Delete: "Delete",
  Insert: "Insert", Home: "Home", End: "End", PageUp: "PageUp", PageDown: "PageDown",
  ArrowUp: "Up", ArrowDown: "Down", ArrowLeft: "Left", ArrowRight: "Right",
};
/** The shortest time between two requests for the screen while a person types. */
const SCREEN_PAUSE_MS = 100;
/** The time between two requests without a key and without output that this page follows. */
const SCREEN_INTERVAL_MS = 1000;

/** Returns the name of a key, or null for text and for the keys of the browser. */
function keyName(event) {
  const { key, ctrlKey, altKey, shiftKey, metaKey, isComposing } = event;
  // AltGr makes characters, and some systems report it as Ctrl with Alt.
  if (metaKey || isComposing || event.getModifierState("AltGraph")) return null;
  // Ctrl+Shift+V and Shift+Insert paste, as in other terminals.
  if (shiftKey && (ctrlKey || key === "Insert")) return null;
  const named = KEY_NAMES[key] ?? (/^F([1-9]|1[0-2])$/.test(key) ? key : null);
  const isCharacter = [...key].length === 1;
  if (!named && !(isCharacter && (ctrlKey || altKey))) return null;
  const modifiers = [[ctrlKey, "C-"], [altKey, "M-"], [shiftKey && named, "S-"]];
  const prefix = modifiers.map(([isPressed, text]) => (isPressed ? text : "")).join("");
  return prefix + (named ?? (key === " " ? "Space" : key));
}

function makePageName() {
  const numbers = crypto.getRandomValues(new Uint32Array(2));
  return [...numbers].map((number) => number.toString(36)).join("");
}

/** Sends requests one after another. `report` shows an error, after which nothing more is sent.
 * `sent` receives each answer, or null after an error. */
function makeQueue(path, report, sent) {
  const waiting = [];
  let isSending = false;
  const send = async () => {
    isSending = true;
    while (waiting.length > 0) {
      const { act, body } = waiting.shift();
      let answer = null;
      try {
        answer = await post(`${path}/${act}`, body, keyHeaders());
        report("");
      } catch (error) {
        waiting.length = 0;
        report(error.message);
      }
      sent(answer);
    }
    isSending = false;
  };
  return (act, body, canJoin = false) => {
    const last = waiting.at(-1);
    if (canJoin && last?.canJoin && last.body.literal === body.literal) {
      // Single characters become one text.
      if (body.literal) last.body.keys[0] += body.keys[0]; else last.body.keys.push(...body.keys);
    } else {
      waiting.push({ act, body, canJoin });
    }
    if (!isSending) send();
  };
}

function setUp(controls) {
  const find = (selector) => controls.querySelector(selector);
  const start = find("[data-type-start]");
  const area = find("[data-type-area]");
  const field = find("textarea");
  const secretPart = find("[data-secret]");
  // There is no field if the network could read the secret.
  const secret = find("#secret");
  const agentHint = find("[data-agent-hint]");
  const task = controls.dataset.typing;
  const path = `/api/v1/tasks/${task}`;
  const page = makePageName();
  const status = find("[data-type-status]");
  const report = (text) => showSentence(status, text);
  let hasTyped = false;

  /** Shows the fields for the input that the terminal accepts. */
  const update = () => {
    const input = document.querySelector("pre.screen")?.dataset.input;
    if (!input) area.hidden = true;
    start.hidden = !input || !area.hidden;
    const isPerson = readPageKey() !== null;
    const isSecret = input === "secret";
    if (secret && !isSecret) secret.value = "";
    secretPart.hidden = !isSecret || (secret !== null && !isPerson);
    agentHint.hidden = !input || isPerson;
  };

  let isLoading = false;
  let isDue = false;
  const showScreen = async () => {
    if (isLoading) { isDue = true; return; }
    isLoading = true;
    isDue = false;
    try {
      const answer = await fetch(`/tasks/${task}/screen`);
      const text = answer.ok ? await answer.text() : "";
      const fresh = new DOMParser().parseFromString(text, "text/html").querySelector("pre.screen");
      const screen = document.querySelector("pre.screen");
      if (fresh && screen) {
        screen.replaceChildren(...[...fresh.childNodes].map((node) => document.adoptNode(node)));
        if (fresh.dataset.input) screen.dataset.input = fresh.dataset.input;
        else delete screen.dataset.input;
      }
      update();
    } catch {
      // The event stream of page.js reports a server that has ended.
    } finally {
      setTimeout(() => { isLoading = false; if (isDue) showScreen(); }, SCREEN_PAUSE_MS);
    }
  };

  const send = makeQueue(path, report, (answer) => {
    // The server does not know the stored key: it is of another server, or of a session that ended.
    if (answer?.user === "agent") storePageKey(null);
    showScreen();
  });
  const type = (keys, literal, canJoin) => {
    hasTyped = true;
    send("keys", { keys, literal, page }, canJoin);
  };

  const setTyping = (isTyping) => {
    area.hidden = !isTyping;
    update();
    if (isTyping) { report(""); field.focus(); }
  };
  const stop = () => {
    setTyping(false);
    if (hasTyped) send("return", { page });
    hasTyped = false;
    start.focus();
  };

  start.addEventListener("click", () => setTyping(true));
  const stopButton = find("[data-type-stop]");
  // Otherwise the field would lose the focus, which hides the button before the click.
  stopButton.addEventListener("mousedown", (event) => event.preventDefault());
  stopButton.addEventListener("click", stop);
  // A window that loses the focus keeps its active element, and typing continues when it is back.
  area.addEventListener("focusout", (event) => {
    if (!area.contains(event.relatedTarget) && document.activeElement !== field) setTyping(false);
  });

  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && event.ctrlKey) {
      event.preventDefault();
      stop();
      return;
    }
    const name = keyName(event);
    if (name === null) return;
    event.preventDefault();
    type([name], false, true);
  });
  const takeText = () => {
    const text = field.value;
    field.value = "";
    // The Enter of a keyboard on the screen of a phone arrives as text.
    if (text === "\n") type(["Enter"], false, true);
    else if (text) type([text], true, true);
  };
  field.addEventListener("input", (event) => { if (!event.isComposing) takeText(); });
  field.addEventListener("compositionend", takeText);
  field.addEventListener("paste", (event) => {
    event.preventDefault();
    const text = event.clipboardData.getData("text/plain");
    if (text) type([text], true, false);
  });

  secretPart.addEventListener("submit", async (event) => {
    event.preventDefault();
    const body = { secret: secret.value };
    secret.value = "";
    try {
      await post(`${path}/answer`, body, keyHeaders());
      report("typed; it was shown nowhere");
    } catch (error) {
      report(error.message);
    }
    showScreen();
  });

  // The server gives the terminal back after a while if this request is lost.
  addEventListener("pagehide", () => {
    if (!hasTyped) return;
    hasTyped = false;
    fetch(`${path}/return`, {
      method: "POST",
      headers: { "content-type": "application/json", ...keyHeaders() },
      body: JSON.stringify({ page }),
      keepalive: true,
    });
  });

  const showWhileTyping = () => { if (!area.hidden && !document.hidden) showScreen(); };
  document.addEventListener("siding:output", showWhileTyping);
  setInterval(showWhileTyping, SCREEN_INTERVAL_MS);
  document.addEventListener("siding:refreshed", update);
  update();
}

const controls = document.querySelector("[data-typing]");
if (controls) setUp(controls);
