//! What is shown of what an agent does.

use std::time::Duration;

use siding_model::duration::format_duration;

use super::{Doing, Doubt, Paint, Running, View};
use crate::agent::Sight;
use crate::conversation::Rest;
use crate::message::{Message, Said, Stop, Told, ToolCall, ToolResult};
use crate::provider::Part;

/// Messages of an earlier conversation that are shown when it is taken up.
const RECALLED: usize = 12;

impl View {
    /// Shows the end of a conversation that is taken up, and has its prompts at hand.
    pub fn recall(&mut self, messages: &[Message]) {
        let from = messages.len().saturating_sub(RECALLED);
        if from > 0 {
            self.line(Paint::Faint, "… what was said before is in the transcript");
        }
        for (number, message) in messages.iter().enumerate() {
            match message {
                Message::User { told, .. } => {
                    for one in told {
                        let Told::Prompt { text } = one else { continue };
                        self.input.remember(text);
                        if number >= from {
                            self.prompt(text);
                        }
                    }
                }
                Message::Assistant(said) if number >= from => self.words(said),
                Message::Assistant(_) => {}
            }
        }
    }

    /// Takes in what is to be seen.
    pub fn sees(&mut self, sight: Sight<'_>) {
        let since = self.now;
        match sight {
            Sight::Began(session) => {
                let line = format!("siding agent {session}; --resume takes it up again");
                self.line(Paint::Faint, line);
            }
            Sight::Asking => {
                self.heard.clear();
                self.doing = Doing::Asks { since };
            }
            Sight::Summarising => {
                self.line(Paint::Faint, "  what was said is put in short");
                self.doing = Doing::Summarises { since };
            }
            Sight::Part(part) => self.part(part),
            Sight::Said(said) => {
                self.heard.clear();
                self.words(said);
                self.doing = Doing::Runs;
            }
            Sight::Calls(call) => self.call(call),
            Sight::Done(result) => self.done(result),
            Sight::Told(told) => self.told(told),
            Sight::Failed(why) => self.text(Paint::Bad, "! ", why),
            Sight::Label(label) => self.line(Paint::Faint, format!("= {}", label.text)),
            Sight::Spent(usage) => self.spent = self.spent.and(usage),
            Sight::Question { call, command, why } => self.questions.push_back(Doubt {
                call: call.clone(),
                command: command.to_owned(),
                why: why.to_owned(),
            }),
            Sight::Rests(rest) => self.rests(rest),
        }
    }

    fn part(&mut self, part: Part<'_>) {
        match (part, self.doing) {
            (Part::Text(text), _) => {
                self.heard.push_str(text);
                if let Doing::Thinks { since } = self.doing {
                    self.doing = Doing::Asks { since };
                }
            }
            (Part::Thinking(_), Doing::Asks { since }) => self.doing = Doing::Thinks { since },
            (Part::Thinking(_), _) => {}
            (Part::Again { why, pause_ms }, _) => {
                self.heard.clear();
                let pause = format_duration(Duration::from_millis(pause_ms));
                self.line(Paint::Bad, format!("! again in {pause}: {why}"));
            }
        }
    }

    fn call(&mut self, call: &ToolCall) {
        let command = call.input.get("command").and_then(serde_json::Value::as_str);
        let what = match (call.name.as_str(), command) {
            ("bash", Some(command)) => format!("$ {command}"),
            (name, _) => format!("> {name} {}", call.input),
        };
        self.line(Paint::Busy, what);
        let running = Running { id: call.id.clone(), tool: call.name.clone(), since: self.now };
        self.calls.push(running);
    }

    fn done(&mut self, result: &ToolResult) {
        self.calls.retain(|call| call.id != result.call);
        self.questions.retain(|doubt| doubt.call != result.call);
        let first = result.text.lines().next().unwrap_or_default();
        if result.is_error {
            self.line(Paint::Bad, format!("! {first}"));
        } else {
            self.line(Paint::Faint, format!("  {first}"));
        }
    }

    fn told(&mut self, told: &Told) {
        match told {
            Told::Prompt { text } => {
                if let Some(at) = self.queued.iter().position(|queued| queued == text) {
                    self.queued.remove(at);
                }
                self.prompt(text);
            }
            Told::Notice { id, text } => {
                let news = news(text).unwrap_or_default();
                self.line(Paint::Good, format!("* {}  {news}", id.task));
            }
            Told::Message { from, text } => {
                let words = element(text, "text").unwrap_or_default();
                self.text(Paint::Good, "< ", &format!("{from}: {words}"));
            }
            Told::Reminder { .. } | Told::Summary { .. } => {}
        }
    }

    fn rests(&mut self, rest: &Rest) {
        let is_known = !self.is_busy();
        self.doing = Doing::Rests;
        // It rests again whenever something has come that changes nothing.
        if is_known {
            return;
        }
        match rest {
            Rest::Interrupted => {
                self.keep_heard();
                self.line(Paint::Bad, "! interrupted; what runs in the background goes on");
            }
            Rest::Requests { most } => self.line(
                Paint::Bad,
                format!(
                    "! the model was asked {most} times (--max-turns); say what is to be done now"
                ),
            ),
            Rest::Turn(Stop::Refusal) => {
                self.line(Paint::Bad, "! the provider has refused to let the model go on");
            }
            Rest::Turn(Stop::MaxTokens) => {
                self.line(
                    Paint::Bad,
                    "! the model's answer was longer than it may be, and was cut",
                );
            }
            Rest::Turn(Stop::ToolUse | Stop::Other) => {
                self.line(Paint::Bad, "! the model was stopped by its provider");
            }
            Rest::Turn(Stop::EndTurn) | Rest::Nothing | Rest::Failed { .. } => {}
        }
    }

    /// Prints what came of an answer that will have no end.
    fn keep_heard(&mut self) {
        let heard = std::mem::take(&mut self.heard);
        if !heard.trim().is_empty() {
            self.text(Paint::Plain, "", &format!("{heard} …"));
        }
    }

    fn prompt(&mut self, text: &str) {
        self.text(Paint::Plain, "", "");
        self.text(Paint::Strong, "> ", text);
    }

    fn words(&mut self, said: &[Said]) {
        for one in said {
            if let Said::Text { text } = one {
                self.text(Paint::Plain, "", "");
                self.text(Paint::Plain, "", text);
            }
        }
    }
}

/// Returns what a notice says happened: `failed (7)  npm test`.
fn news(notice: &str) -> Option<String> {
    let element = |name: &str| element(notice, name);
    let code = element("exit_code").map_or_else(String::new, |code| format!(" ({code})"));
    Some(format!("{}{code}  {}", element("status")?, element("command")?))
}

/// Returns the text of an element of a block.
fn element(block: &str, name: &str) -> Option<String> {
    let (_, rest) = block.split_once(&format!("\n  <{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    // As it was before it was an element (PAINS C11).
    Some(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
}
