//! How an answer is said to a host.
//!
//! | answer | Claude Code | Codex | Gemini CLI |
//! |---|---|---|---|
//! | facts | `additionalContext` | the same | the same |
//! | a line for the person | `systemMessage` | the same | the same |
//! | ask | `permissionDecision: ask` | it refuses that word: a `systemMessage` | a `systemMessage` |
//! | deny | the JSON, and exit code 2 with the reason on stderr | exit code 2 | exit code 2 |
//! | hold the turn | `decision: block` | the same | a retry would read as a person's prompt: never |
//!
//! Codex refuses fields that an event does not list, so nothing is said twice. Claude Code has
//! ignored a `deny` in JSON before (PAINS H4); exit code 2 always blocks.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::host::{Event, Host};
use super::{Answer, block};
use crate::failure::Failure;
use crate::render;
use crate::render::out::Reader;

/// What is written, and where.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    stdout: Option<Value>,
    stderr: Option<String>,
    blocks: bool,
}

/// Returns how an answer to an event is said.
pub(super) fn said(answer: &Answer, host: Host, event: Event) -> Said {
    let json = |value| Said { stdout: Some(value), stderr: None, blocks: false };
    let person = |text: &str| json(json!({ "systemMessage": text }));
    let specific = |mut fields: Value| {
        fields["hookEventName"] = event.name(host).into();
        json!({ "hookSpecificOutput": fields })
    };
    match (answer, host) {
        (Answer::Nothing, _) => Said { stdout: None, stderr: None, blocks: false },
        (Answer::Context(text), _) => json(specific(json!({ "additionalContext": text }))),
        (Answer::ContextAndPerson { context, person }, _) => {
            let mut both = specific(json!({ "additionalContext": context }));
            both["systemMessage"] = person.as_str().into();
            json(both)
        }
        (Answer::Person(text), _) => person(text),
        (Answer::Ask(why), Host::ClaudeCode) => {
            json(specific(json!({ "permissionDecision": "ask", "permissionDecisionReason": why })))
        }
        (Answer::Ask(why), Host::Codex | Host::Gemini) => person(why),
        (Answer::Deny(why), Host::ClaudeCode) => Said {
            stdout: Some(specific(
                json!({ "permissionDecision": "deny", "permissionDecisionReason": why }),
            )),
            stderr: Some(why.clone()),
            blocks: true,
        },
        (Answer::Deny(why), Host::Codex | Host::Gemini) => {
            Said { stdout: None, stderr: Some(why.clone()), blocks: true }
        }
        (Answer::Hold(text), _) => json(json!({ "decision": "block", "reason": text })),
    }
}

impl Said {
    /// Adds the input with which a tool is called instead.
    pub(super) fn with_updated_input(self, input: Option<Value>, event: &str) -> Self {
        match input {
            Some(input) => self.with_specific("updatedInput", |_| input, event),
            None => self,
        }
    }

    /// Adds a fact for the agent before those that are there.
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

    /// Writes it, and tells whether somebody read it.
    pub(super) fn print(&self) -> Result<Reader, Failure> {
        if let Some(text) = &self.stderr {
            errln!("{text}");
        }
        match &self.stdout {
            Some(value) => render::json::print_to_reader(value),
            None => Ok(Reader::There),
        }
    }

    /// Returns the exit code that says it too.
    pub(super) fn code(&self) -> ExitCode {
        if self.blocks { block() } else { ExitCode::SUCCESS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stdout(answer: &Answer, host: Host, event: Event) -> String {
        said(answer, host, event).stdout.map(|value| value.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_denial_blocks_whoever_ignores_json() {
        for host in [Host::ClaudeCode, Host::Codex, Host::Gemini] {
            let said = said(&Answer::Deny("no".to_owned()), host, Event::PreToolUse);
            assert!(said.blocks && said.stderr.as_deref() == Some("no"), "{host:?}");
        }
    }

    #[test]
    fn each_host_hears_its_own_words() {
        let facts = Answer::Context("x".to_owned());
        let event = Event::PostToolUse;
        assert_eq!(
            stdout(&facts, Host::ClaudeCode, event),
            r#"{"hookSpecificOutput":{"additionalContext":"x","hookEventName":"PostToolUse"}}"#
        );
        assert!(stdout(&facts, Host::Gemini, event).contains("AfterTool"));
        let ask = Answer::Ask("why".to_owned());
        assert!(stdout(&ask, Host::ClaudeCode, Event::PreToolUse).contains(r#""ask""#));
        let warned = r#"{"systemMessage":"why"}"#;
        assert_eq!(stdout(&ask, Host::Codex, Event::PreToolUse), warned);
        assert_eq!(stdout(&ask, Host::Gemini, Event::PreToolUse), warned);
        assert_eq!(
            stdout(&Answer::Hold("x".to_owned()), Host::Codex, Event::Stop),
            r#"{"decision":"block","reason":"x"}"#
        );
        assert_eq!(stdout(&Answer::Nothing, Host::ClaudeCode, event), "");
    }
}
