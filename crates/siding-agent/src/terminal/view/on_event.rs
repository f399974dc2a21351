//! How the view shows the events of an agent.

use std::time::Duration;

use siding_model::duration::format_duration;

use super::{Activity, PendingQuestion, RunningCall, TextStyle, View};
use crate::conversation::IdleReason;
use crate::message::{AssistantContent, FinishReason, Message, ToolCall, ToolResult, UserContent};
use crate::provider::ResponsePart;
use crate::ui_event::UiEvent;

/// Maximum number of messages of a resumed conversation that are shown.
const MAX_RECALLED_MESSAGES: usize = 12;

impl View {
    /// Shows the end of a resumed conversation and adds its prompts to the history.
    pub fn recall(&mut self, messages: &[Message]) {
        let from = messages.len().saturating_sub(MAX_RECALLED_MESSAGES);
        if from > 0 {
            self.push_line(TextStyle::Faint, "… earlier messages are in the transcript");
        }
        for (number, message) in messages.iter().enumerate() {
            match message {
                Message::User { content, .. } => self.recall_prompts(content, number >= from),
                Message::Assistant(content) if number >= from => self.print_response(content),
                Message::Assistant(_) => {}
            }
        }
    }

    /// Adds prompts to the history, and shows them if `is_shown`.
    fn recall_prompts(&mut self, content: &[UserContent], is_shown: bool) {
        for one in content {
            let UserContent::Prompt { text } = one else { continue };
            self.input.add_to_history(text);
            if is_shown {
                self.print_prompt(text);
            }
        }
    }

    /// Applies an event of the agent: prints output, or changes the status and the questions.
    pub fn on_event(&mut self, event: UiEvent<'_>) {
        let since = self.now;
        match event {
            UiEvent::Started(session) => {
                let line = format!("siding agent {session}; resume it with --resume");
                self.push_line(TextStyle::Faint, line);
            }
            UiEvent::RequestSent => {
                self.partial_response.clear();
                self.activity = Activity::WaitingForModel { since };
            }
            UiEvent::Summarizing => {
                self.push_line(TextStyle::Faint, "  the conversation is being summarized");
                self.activity = Activity::Summarizing { since };
            }
            UiEvent::ResponsePart(part) => self.on_response_part(part),
            UiEvent::Response(content) => {
                self.partial_response.clear();
                self.print_response(content);
                self.activity = Activity::RunningCalls;
            }
            UiEvent::CallStarted(call) => self.on_call_started(call),
            UiEvent::CallFinished(result) => self.on_call_finished(result),
            UiEvent::Input(content) => self.on_user_content(content),
            UiEvent::RequestFailed(why) => self.push_text(TextStyle::Error, "! ", why),
            UiEvent::Label(label) => self.push_line(TextStyle::Faint, format!("= {}", label.text)),
            UiEvent::Usage(usage) => self.total_usage = self.total_usage.plus(usage),
            UiEvent::ApprovalRequested { call, command, reason: why } => {
                self.pending_questions.push_back(PendingQuestion {
                    call: call.clone(),
                    command: command.to_owned(),
                    reason: why.to_owned(),
                })
            }
            UiEvent::Idle(rest) => self.on_idle(rest),
        }
    }

    fn on_response_part(&mut self, part: ResponsePart<'_>) {
        match (part, self.activity) {
            (ResponsePart::Text(text), _) => {
                self.partial_response.push_str(text);
                if let Activity::Thinking { since } = self.activity {
                    self.activity = Activity::WaitingForModel { since };
                }
            }
            (ResponsePart::Thinking(_), Activity::WaitingForModel { since }) => {
                self.activity = Activity::Thinking { since }
            }
            (ResponsePart::Thinking(_), _) => {}
            (ResponsePart::Retry { reason: why, pause_ms }, _) => {
                self.partial_response.clear();
                let pause = format_duration(Duration::from_millis(pause_ms));
                self.push_line(TextStyle::Error, format!("! retry in {pause}: {why}"));
            }
        }
    }

    fn on_call_started(&mut self, call: &ToolCall) {
        let command = call.input.get("command").and_then(serde_json::Value::as_str);
        let what = match (call.name.as_str(), command) {
            ("bash", Some(command)) => format!("$ {command}"),
            (name, _) => format!("> {name} {}", call.input),
        };
        self.push_line(TextStyle::Active, what);
        let running = RunningCall { id: call.id.clone(), tool: call.name.clone(), since: self.now };
        self.running_calls.push(running);
    }

    fn on_call_finished(&mut self, result: &ToolResult) {
        self.running_calls.retain(|call| call.id != result.call);
        self.pending_questions.retain(|doubt| doubt.call != result.call);
        let first = result.text.lines().next().unwrap_or_default();
        if result.is_error {
            self.push_line(TextStyle::Error, format!("! {first}"));
        } else {
            self.push_line(TextStyle::Faint, format!("  {first}"));
        }
    }

    fn on_user_content(&mut self, content: &UserContent) {
        match content {
            UserContent::Prompt { text } => {
                if let Some(at) = self.queued_prompts.iter().position(|queued| queued == text) {
                    self.queued_prompts.remove(at);
                }
                self.print_prompt(text);
            }
            UserContent::Notice { id, text } => {
                let news = notice_summary(text).unwrap_or_default();
                self.push_line(TextStyle::Success, format!("* {}  {news}", id.task));
            }
            UserContent::Message { from, text } => {
                let words = element_text(text, "text").unwrap_or_default();
                self.push_text(TextStyle::Success, "< ", &format!("{from}: {words}"));
            }
            UserContent::Reminder { .. } | UserContent::Summary { .. } => {}
        }
    }

    fn on_idle(&mut self, reason: &IdleReason) {
        let is_known = !self.is_busy();
        self.activity = Activity::Idle;
        // An idle agent reports its idle state again after every event, so only the first report is
        // printed.
        if is_known {
            return;
        }
        match reason {
            IdleReason::Interrupted => {
                self.print_partial_response();
                self.push_line(TextStyle::Error, "! interrupted; background tasks continue");
            }
            IdleReason::RequestLimit { limit: most } => self.push_line(
                TextStyle::Error,
                format!(
                    "! the limit of {most} requests (--max-turns) is reached; enter a prompt to \
                     continue"
                ),
            ),
            IdleReason::TurnEnded(FinishReason::Refusal) => {
                self.push_line(
                    TextStyle::Error,
                    "! the provider refused to let the model continue",
                );
            }
            IdleReason::TurnEnded(FinishReason::MaxTokens) => {
                self.push_line(
                    TextStyle::Error,
                    "! the model's answer reached its length limit and was cut",
                );
            }
            IdleReason::TurnEnded(FinishReason::ToolUse | FinishReason::Other) => {
                self.push_line(TextStyle::Error, "! the model was stopped by its provider");
            }
            IdleReason::TurnEnded(FinishReason::EndTurn)
            | IdleReason::Empty
            | IdleReason::RequestFailed { .. } => {}
        }
    }

    /// Prints the received part of an answer that was canceled.
    fn print_partial_response(&mut self) {
        let partial = std::mem::take(&mut self.partial_response);
        if !partial.trim().is_empty() {
            self.push_text(TextStyle::Plain, "", &format!("{partial} …"));
        }
    }

    fn print_prompt(&mut self, text: &str) {
        self.push_text(TextStyle::Plain, "", "");
        self.push_text(TextStyle::Strong, "> ", text);
    }

    fn print_response(&mut self, content: &[AssistantContent]) {
        for one in content {
            if let AssistantContent::Text { text } = one {
                self.push_text(TextStyle::Plain, "", "");
                self.push_text(TextStyle::Plain, "", text);
            }
        }
    }
}

/// Returns the summary of a notice, such as `failed (7)  npm test`; `None` if the notice has no
/// status or no command.
fn notice_summary(notice: &str) -> Option<String> {
    let element = |name: &str| element_text(notice, name);
    let code = element("exit_code").map_or_else(String::new, |code| format!(" ({code})"));
    Some(format!("{}{code}  {}", element("status")?, element("command")?))
}

/// Returns the text of an element of an XML block; `None` if the block has no such element.
fn element_text(block: &str, name: &str) -> Option<String> {
    let (_, rest) = block.split_once(&format!("\n  <{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    // Undoes the escaping of the text (failure F27).
    Some(text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
}
