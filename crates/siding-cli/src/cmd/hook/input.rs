//! Parses the events that a host sends.

use std::io::Read;

use serde::Deserialize;
use serde_json::{Map, Value};
use siding_guard::ExecMode;
use siding_model::size::size_in_words;
use siding_model::typed_command::typed_command;

use super::host::HookEvent;
use crate::failure::Failure;

/// Maximum size of the input, in bytes. An event after a tool call contains the tool's complete
/// result, which hosts limit to a few MiB.
const MAX_INPUT_BYTES: u64 = 64 << 20;

/// The beginning of the names that Claude Code gives to siding's tools.
const OWN_TOOL_PREFIX: &str = "mcp__siding__";

/// Maximum number of commands to record from one batch.
const MAX_BATCH_COMMANDS: usize = 256;

/// An event as sent by the host. Unknown fields are ignored, because new versions of a host add
/// fields.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct HookInput {
    /// The host's id of the conversation.
    pub(super) session_id: Option<String>,
    cwd: Option<String>,
    /// Why a conversation starts: `startup`, `resume`, `clear`, `compact`, `fork`.
    pub(super) source: Option<String>,
    /// The id of the subagent that caused the event; `None` for the main agent.
    pub(super) agent_id: Option<String>,
    pub(super) tool_name: Option<String>,
    pub(super) tool_input: Option<Map<String, Value>>,
    /// The result of a tool call, in the tool's own format.
    pub(super) tool_response: Option<Value>,
    /// The calls of a finished batch, each with a `tool_input`.
    tool_calls: Option<Value>,
    /// The host's permission mode, which decides which tool calls need approval: `default`, `plan`,
    /// `acceptEdits`, `auto`, `dontAsk`, `bypassPermissions`.
    pub(super) permission_mode: Option<String>,
    /// Whether the turn continues only because a hook held it.
    pub(super) stop_hook_active: bool,
}

impl HookInput {
    /// Reads an event from standard input.
    pub(super) fn from_stdin(event: HookEvent) -> Result<Self, Failure> {
        let mut text = Vec::new();
        std::io::stdin()
            .lock()
            .take(MAX_INPUT_BYTES + 1)
            .read_to_end(&mut text)
            .map_err(|error| Failure::new(format!("could not read standard input: {error}")))?;
        if text.len() as u64 > MAX_INPUT_BYTES {
            return Err(Failure::new(format!(
                "the event on standard input has more than {}; no decision",
                size_in_words(MAX_INPUT_BYTES)
            )));
        }
        Self::parse(&text).map_err(|error| {
            let name = event.name(super::HookHost::ClaudeCode);
            Failure::new(format!(
                "the event on standard input cannot be read: {error}; no decision"
            ))
            .with_hint(format!("a host sends a JSON object, with the fields of {name}"))
        })
    }

    /// Parses an event. The error says why the text is not a JSON object with valid fields.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        // A JSON array must be rejected here, because serde would read its elements as the fields
        // in their order.
        if !text.trim_ascii_start().starts_with(b"{") {
            return Err("it is not a JSON object".to_owned());
        }
        serde_json::from_slice(text).map_err(|error| error.to_string())
    }

    /// Changes to the host's working directory, whose project settings and rules apply.
    pub(super) fn enter_directory(&self) {
        if let Some(cwd) = &self.cwd {
            // If the directory was removed, this process keeps the working directory that it
            // inherited from the host.
            let _best_effort = std::env::set_current_dir(cwd);
        }
    }

    /// Returns the command in the tool's arguments; `None` if there is none or it is not a string.
    pub(super) fn command(&self) -> Option<&str> {
        self.tool_input.as_ref()?.get("command")?.as_str()
    }

    /// Returns the call of siding that types the same as siding's own tool; `None` for other tools.
    pub(super) fn typed_command(&self) -> Option<String> {
        let tool = self.tool_name.as_deref()?.strip_prefix(OWN_TOOL_PREFIX)?;
        typed_command(tool, self.tool_input.as_ref()?)
    }

    /// Returns the variables in the tool's arguments, as siding's tool `run` reads them: the object
    /// may be a JSON text, and the values numbers or truth values. `run` refuses other values.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let parsed = match self.tool_input.as_ref().and_then(|input| input.get("env")) {
            Some(Value::String(text)) => serde_json::from_str(text).unwrap_or_default(),
            given => given.cloned().unwrap_or_default(),
        };
        let Value::Object(variables) = parsed else { return Vec::new() };
        let to_text = |value: Value| match value {
            Value::String(text) => Some(text),
            Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        };
        variables.into_iter().filter_map(|(name, value)| Some((name, to_text(value)?))).collect()
    }

    /// Returns the commands of the tool calls that have returned: those of a finished batch, or the
    /// one of the event's own call. Commands after the first `MAX_BATCH_COMMANDS` are omitted.
    pub(super) fn returned_commands(&self) -> Vec<&str> {
        let calls = self.tool_calls.as_ref().and_then(Value::as_array).into_iter().flatten();
        let of_batch = calls.filter_map(|call| call["tool_input"]["command"].as_str());
        of_batch.chain(self.command()).take(MAX_BATCH_COMMANDS).collect()
    }

    /// Returns whether the tool runs its command in the foreground or in the background.
    pub(super) fn exec_mode(&self) -> ExecMode {
        // The flags that request the background in Claude Code, siding's tools and Gemini CLI.
        let flags = ["run_in_background", "background", "is_background"];
        let is_set = |flag| match self.tool_input.as_ref().and_then(|input| input.get(flag)) {
            Some(Value::Bool(is_set)) => *is_set,
            // siding's tools also accept the object as text.
            Some(Value::String(text)) => text.trim().eq_ignore_ascii_case("true"),
            Some(Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_)) | None => {
                false
            }
        };
        let is_monitor = self.tool_name.as_deref() == Some("Monitor");
        if is_monitor || flags.into_iter().any(is_set) {
            ExecMode::Background
        } else {
            ExecMode::Foreground
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse_event(text: &str) -> HookInput {
        HookInput::parse(text.as_bytes()).expect("an event")
    }

    #[test]
    fn unknown_fields_of_an_event_are_ignored() {
        let event = parse_event(
            r#"{"session_id":"s","tool_name":"Bash","tool_use_id":"t","cwd":"/","new":[{}],
                "tool_input":{"command":"npm test","run_in_background":true,"timeout":1},
                "tool_response":{"stdout":"…","more":{"deep":[1,2]}}}"#,
        );
        assert_eq!(event.command(), Some("npm test"));
        assert_eq!(event.exec_mode(), ExecMode::Background);
        assert_eq!(parse_event("{}"), HookInput::default());
        assert_eq!(
            parse_event(r#"{"tool_name":"Monitor","tool_input":{}}"#).exec_mode(),
            ExecMode::Background
        );
        assert_eq!(
            parse_event(r#"{"tool_input":{"background":false}}"#).exec_mode(),
            ExecMode::Foreground
        );
        assert_eq!(parse_event(r#"{"tool_input":{"command":["a","b"]}}"#).command(), None);
    }

    #[test]
    fn the_mode_of_a_call_is_read_as_its_tool_reads_it() {
        for (flag, mode) in [
            ("true", ExecMode::Background),
            (r#"" True""#, ExecMode::Background),
            (r#""false""#, ExecMode::Foreground),
            ("1", ExecMode::Foreground),
            ("null", ExecMode::Foreground),
        ] {
            let event = parse_event(&format!(r#"{{"tool_input":{{"background":{flag}}}}}"#));
            assert_eq!(event.exec_mode(), mode, "{flag}");
        }
    }

    #[test]
    fn the_variables_of_a_call_are_read_as_its_tool_reads_them() {
        let variables = |env: &str| -> Vec<String> {
            let event = parse_event(&format!(r#"{{"tool_input":{{"command":"x","env":{env}}}}}"#));
            event.environment().into_iter().map(|(name, value)| format!("{name}={value}")).collect()
        };
        for env in
            [r#"{"A":"x y","B":0,"C":true,"D":[]}"#, r#""{\"A\":\"x y\",\"B\":0,\"C\":true}""#]
        {
            assert_eq!(variables(env), ["A=x y", "B=0", "C=true"], "{env}");
        }
        for env in ["null", "7", r#""A=1""#, "[]", "{}"] {
            assert_eq!(variables(env), [""; 0], "{env}");
        }
        assert!(parse_event("{}").environment().is_empty());
    }

    #[test]
    fn batch_commands_are_read_past_malformed_calls() {
        let event = parse_event(
            r#"{"tool_calls":[{"tool_name":"Bash","tool_input":{"command":"make"}},
                {"tool_name":"Read","tool_input":{"file_path":"/x"}}, 7, {"tool_input":[]},
                {"tool_name":"Bash","tool_input":{"command":"make test"},"tool_response":[{}]}]}"#,
        );
        assert_eq!(event.returned_commands(), ["make", "make test"]);
        assert_eq!(parse_event(r#"{"tool_calls":{"a":1}}"#).returned_commands(), [""; 0]);
        let one = parse_event(r#"{"tool_name":"shell","tool_input":{"command":"make"}}"#);
        assert_eq!(one.returned_commands(), ["make"]);
    }

    #[test]
    fn input_that_is_not_an_event_is_rejected() {
        for bad in ["", "null", "[]", "7", "{", r#"{"session_id":7}"#, "\u{feff}{}", "{}{}"] {
            assert!(HookInput::parse(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic_the_parser(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _best_effort = HookInput::parse(&bytes);
        }

        #[test]
        fn a_truncated_event_is_rejected(at in 1usize..40) {
            let whole = r#"{"session_id":"s","stop_hook_active":true}"#;
            prop_assert!(HookInput::parse(&whole.as_bytes()[..at]).is_err());
        }
    }
}
