// The acts on a task, each after a question. A request has the type application/json, which no
// form can send.

import { formatTime } from "./page.js";

const TEXTS = {
  stop: { question: "Stop this task, with everything that it started?", field: null },
  extend: { question: "Move the deadline by this duration:", field: { name: "by", value: "30m" } },
  input: { question: "Write this line to the input of the task:", field: { name: "text", value: "" } },
  release: { question: "End the supervision? The process continues, and siding no longer stops it.", field: null },
};

export async function post(path, body, headers = {}) {
  const answer = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });
  const result = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(result.error ?? `the request failed (${answer.status})`);
  return result;
}

/** Asks, and returns the text of the field, an empty text without one, or null after a refusal. */
function ask({ question, field }, label) {
  return new Promise((resolve) => {
    const dialog = document.createElement("dialog");
    const form = document.createElement("form");
    form.method = "dialog";
    const text = document.createElement(field ? "label" : "p");
    text.id = "question";
    text.textContent = question;
    dialog.setAttribute("aria-labelledby", text.id);
    const input = field && document.createElement("input");
    if (input) { input.value = field.value; text.append(input); }
    const buttons = document.createElement("div");
    buttons.className = "buttons";
    for (const [value, name] of [["no", "Cancel"], ["yes", label]]) {
      const button = document.createElement("button");
      button.value = value;
      button.textContent = name;
      // Enter in the field confirms, Escape cancels.
      if (value === "no") { button.type = "button"; button.onclick = () => dialog.close("no"); }
      buttons.append(button);
    }
    form.append(text, buttons);
    dialog.append(form);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes" ? (input ? input.value : "") : null);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** Shows a sentence of the server. Its parts between backticks are code. */
export function showSentence(element, sentence) {
  element.replaceChildren(...sentence.split("`").map((part, index) => {
    if (index % 2 === 0) return part;
    const code = document.createElement("code");
    code.textContent = part;
    return code;
  }));
}

function describe(act, view) {
  if (act === "stop") {
    const ended = view.stop_report?.ended_total;
    return ended === undefined ? "ended" : `ended, with ${ended} processes`;
  }
  const deadline = view.deadline_at ? formatTime(new Date(view.deadline_at)) : "not set";
  return act === "extend" ? `the deadline is ${deadline}` : "done";
}

async function run(button) {
  const act = button.dataset.act;
  const group = button.closest("[data-task]");
  const given = await ask(TEXTS[act], button.textContent);
  if (given === null) return;
  const body = { stop: {}, release: {}, extend: { by: given }, input: { text: `${given}\n` } }[act];
  const report = (text) => showSentence(document.querySelector("[data-act-result]"), text);
  report("…");
  try {
    report(describe(act, await post(`/api/v1/tasks/${group.dataset.task}/${act}`, body)));
  } catch (error) {
    report(error.message);
  }
}

async function acknowledge(button) {
  const question = "Mark this notice as read? The session's agent may still receive it.";
  if (await ask({ question, field: null }, button.textContent) === null) return;
  try {
    await post("/api/v1/notices/acknowledge", { notice_ids: [button.dataset.acknowledge] });
    button.previousElementSibling?.remove();
    button.remove();
  } catch (error) {
    showSentence(button, error.message);
  }
}

function show() {
  for (const button of document.querySelectorAll("[data-act], [data-acknowledge]")) button.hidden = false;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.act) run(button);
  if (button?.dataset.acknowledge) acknowledge(button);
});
document.addEventListener("siding:refreshed", show);
show();
