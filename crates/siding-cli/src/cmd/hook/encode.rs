//! Encodes a hook's answer in the format that each host reads.
//!
//! | answer | Claude Code | Codex | Gemini CLI |
//! |---|---|---|---|
//! | facts | `additionalContext` | as Claude Code | as Claude Code |
//! | a line for the person | `systemMessage` | as Claude Code | as Claude Code |
//! | ask | `permissionDecision: ask` | a `systemMessage` | a `systemMessage` |
//! | deny | JSON, and exit code 2 with the reason on stderr | without the JSON | without the JSON |
//! | hold the turn | `decision: block` | as Claude Code | never, see `HookHost::can_hold_turns` |
//!
//! Codex rejects an answer with a field that the event does not list, so each host gets only the
//! fields that it reads. Claude Code has ignored a `deny` in JSON before (failure F63); exit code 2
//! always blocks.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::host::{HookEvent, HookHost};
use super::{HookAnswer, block_exit_code};
use crate::failure::Failure;
use crate::render;
use crate::render::out::ReaderState;

/// The output of the hook for the host, and whether the hook's exit code blocks the tool call.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct EncodedAnswer {
    stdout: Option<Value>,
    stderr: Option<String>,
    blocks: bool,
}

/// Encodes an answer in the fields that the host reads for this event.
pub(super) fn encode_answer(
    answer: &HookAnswer,
    host: HookHost,
    event: HookEvent,
) -> EncodedAnswer {
    let stdout_only = |value| EncodedAnswer { stdout: Some(value), stderr: None, blocks: false };
    let person_line = |text: &str| stdout_only(json!({ "systemMessage": text }));
    let specific = |mut fields: Value| {
        fields["hookEventName"] = event.name(host).into();
        json!({ "hookSpecificOutput": fields })
    };
    match (answer, host) {
        (HookAnswer::Nothing, _) => EncodedAnswer { stdout: None, stderr: None, blocks: false },
        (HookAnswer::Context(text), _) => {
            stdout_only(specific(json!({ "additionalContext": text })))
        }
        (HookAnswer::ContextAndPerson { context, person }, _) => {
            let mut both = specific(json!({ "additionalContext": context }));
            both["systemMessage"] = person.as_str().into();
            stdout_only(both)
        }
        (HookAnswer::Person(text), _) => person_line(text),
        (HookAnswer::Ask(why), HookHost::ClaudeCode) => stdout_only(specific(
            json!({ "permissionDecision": "ask", "permissionDecisionReason": why }),
        )),
        (HookAnswer::Ask(why), HookHost::Codex | HookHost::Gemini) => person_line(why),
        (HookAnswer::Deny(why), HookHost::ClaudeCode) => EncodedAnswer {
            stdout: Some(specific(
                json!({ "permissionDecision": "deny", "permissionDecisionReason": why }),
            )),
            stderr: Some(why.clone()),
            blocks: true,
        },
        (HookAnswer::Deny(why), HookHost::Codex | HookHost::Gemini) => {
            EncodedAnswer { stdout: None, stderr: Some(why.clone()), blocks: true }
        }
        (HookAnswer::Hold(text), _) => stdout_only(json!({ "decision": "block", "reason": text })),
    }
}

impl EncodedAnswer {
    /// Adds the input with which the host replaces the complete input of the tool call.
    pub(super) fn with_updated_input(self, input: Option<Value>, event: &str) -> Self {
        match input {
            Some(input) => self.with_specific("updatedInput", |_| input, event),
            None => self,
        }
    }

    /// Adds a fact for the agent before the existing facts.
    pub(super) fn with_fact(self, fact: Option<String>, event: &str) -> Self {
        let Some(fact) = fact else { return self };
        let before = |facts: Option<&Value>| match facts.and_then(Value::as_str) {
            Some(facts) => format!("{fact}\n{facts}").into(),
            None => fact.into(),
        };
        self.with_specific("additionalContext", before, event)
    }

    fn with_specific(
        mut self,
        name: &str,
        value: impl FnOnce(Option<&Value>) -> Value,
        event: &str,
    ) -> Self {
        let mut stdout = self.stdout.take().unwrap_or_else(|| json!({}));
        let specific = &mut stdout["hookSpecificOutput"];
        let value = value(specific.get(name));
        specific["hookEventName"] = event.into();
        specific[name] = value;
        self.stdout = Some(stdout);
        self
    }

    /// Writes the answer, and returns whether the reader is still connected.
    pub(super) fn print(&self) -> Result<ReaderState, Failure> {
        if let Some(text) = &self.stderr {
            errln!("{text}");
        }
        match &self.stdout {
            Some(value) => render::json::print_to_reader(value),
            None => Ok(ReaderState::Connected),
        }
    }

    /// Returns the blocking exit code for a denial, and success for any other answer.
    pub(super) fn exit_code(&self) -> ExitCode {
        if self.blocks { block_exit_code() } else { ExitCode::SUCCESS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded_stdout(answer: &HookAnswer, host: HookHost, event: HookEvent) -> String {
        encode_answer(answer, host, event).stdout.map(|value| value.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_denial_blocks_hosts_that_ignore_the_json() {
        for host in [HookHost::ClaudeCode, HookHost::Codex, HookHost::Gemini] {
            let encoded =
                encode_answer(&HookAnswer::Deny("no".to_owned()), host, HookEvent::PreToolUse);
            assert!(encoded.blocks && encoded.stderr.as_deref() == Some("no"), "{host:?}");
        }
    }

    #[test]
    fn each_host_gets_its_own_json_fields() {
        let facts = HookAnswer::Context("x".to_owned());
        let event = HookEvent::PostToolUse;
        assert_eq!(
            encoded_stdout(&facts, HookHost::ClaudeCode, event),
            r#"{"hookSpecificOutput":{"additionalContext":"x","hookEventName":"PostToolUse"}}"#
        );
        assert!(encoded_stdout(&facts, HookHost::Gemini, event).contains("AfterTool"));
        let ask = HookAnswer::Ask("why".to_owned());
        assert!(
            encoded_stdout(&ask, HookHost::ClaudeCode, HookEvent::PreToolUse).contains(r#""ask""#)
        );
        let warned = r#"{"systemMessage":"why"}"#;
        assert_eq!(encoded_stdout(&ask, HookHost::Codex, HookEvent::PreToolUse), warned);
        assert_eq!(encoded_stdout(&ask, HookHost::Gemini, HookEvent::PreToolUse), warned);
        assert_eq!(
            encoded_stdout(&HookAnswer::Hold("x".to_owned()), HookHost::Codex, HookEvent::Stop),
            r#"{"decision":"block","reason":"x"}"#
        );
        assert_eq!(encoded_stdout(&HookAnswer::Nothing, HookHost::ClaudeCode, event), "");
    }
}
