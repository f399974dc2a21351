//! The tool `remote_agent`: sends a task to an agent on another server by starting `siding a2a
//! send`.

use std::path::Path;
use std::sync::Arc;

use reqwest::Url;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};
use siding_core::task::stop::{self, StopOptions};
use siding_http::client::is_loopback_url;
use siding_model::id::{TaskId, TaskKind};
use siding_model::shell_words::quote_word;
use siding_model::task_reference::parse_task_name;
use siding_model::text::one_line;
use siding_tools::async_fd::run_blocking;
use siding_tools::tools;
use siding_tools::{CallContext, CancelReason, SHIM_PROGRAM, ToolAnswer, ToolContext, ToolError};

use super::self_task::{new_recorded_id, start_task};

pub(super) const TOOL_NAME: &str = "remote_agent";
pub(super) const TOOL_DESCRIPTION: &str = "\
Send a task to an agent on an A2A 1.0 server. It sees neither this conversation nor these files, \
so say everything it needs to know. Returns a task id immediately; you are notified of the result, \
and when the agent waits for an answer: give that with `task`. `task_stop` has the server cancel \
it.";
/// Maximum columns of an address and of a text in a question to a person.
const SHOWN_COLUMNS: usize = 200;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RemoteAgentArgs {
    /// The agent's address: `http://HOST:PORT` or `https://HOST`.
    url: String,
    /// The request to the agent, or the answer that it waits for.
    text: String,
    /// The id of the conversation on that server to continue.
    #[serde(default)]
    context: Option<String>,
    /// The id of the task on that server that waits for this answer.
    #[serde(default)]
    task: Option<String>,
    /// The name of the environment variable that holds the server's token; never the token itself.
    #[serde(default)]
    bearer_env: Option<String>,
    /// A short description for people.
    #[serde(default)]
    name: Option<String>,
    /// If false, wait for the result for at most `budget`, then continue in the background (default
    /// true).
    #[serde(default = "yes")]
    background: bool,
    /// Seconds to wait if `background` is false (default 15).
    #[serde(default)]
    budget: Option<f64>,
    /// Deadline in seconds, after which the task is stopped (default 1800).
    #[serde(default)]
    timeout: Option<f64>,
}

const fn yes() -> bool {
    true
}

impl RemoteAgentArgs {
    /// Checks the rules for arguments that the schema cannot express.
    pub(super) fn validate(&self) -> Result<(), ToolError> {
        let wrong = |why: &str| Err(ToolError::Arguments(why.to_owned()));
        if self.text.trim().is_empty() {
            return wrong("`text` is empty; describe the task of the agent");
        }
        if let Some(name) = &self.name {
            parse_task_name(name).map_err(|why| ToolError::Arguments(format!("`name`: {why}")))?;
        }
        // A model may pass the token itself instead of the variable's name. The token must not
        // become a command-line argument, which other users can read in /proc/PID/cmdline
        // (proc(5)).
        let is_variable = |name: &String| {
            let mut letters = name.chars();
            letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
                && letters.all(|one| one.is_ascii_alphanumeric() || one == '_')
        };
        if !self.bearer_env.as_ref().is_none_or(is_variable) {
            return wrong("`bearer_env` is the name of an environment variable, not a token");
        }
        Ok(())
    }

    /// Returns the command line that a person and the guard's rules see. The address and the text
    /// in it are shortened, and quoted, so that text from a model cannot become another part of the
    /// command.
    pub(super) fn display_command(&self) -> String {
        let [url, text] =
            [&self.url, &self.text].map(|one| quote_word(&one_line(one, SHOWN_COLUMNS)));
        format!("siding a2a send {url} {text}")
    }

    /// Returns why a person must approve the call: its text leaves this machine and cannot be
    /// recalled. Returns `None` for an address of this machine, and for an invalid address.
    pub(super) fn approval_concern(&self) -> Option<String> {
        // The command itself rejects an invalid address.
        let url = Url::parse(&self.url).ok().filter(|url| !is_loopback_url(url))?;
        let host = one_line(url.host_str()?, SHOWN_COLUMNS);
        Some(format!("it sends text to another machine, {host}"))
    }

    /// Returns the arguments of the `siding` command line, which starts the task `id`.
    fn command_args(&self, id: TaskId) -> Vec<String> {
        let flags = [
            ("new-task-id", Some(id.to_string())),
            ("context", self.context.clone()),
            ("task", self.task.clone()),
            ("bearer-env", self.bearer_env.clone()),
            ("name", self.name.clone()),
            ("timeout", self.timeout.map(|seconds| format!("{seconds}s"))),
        ];
        let given = flags.into_iter().filter_map(|(flag, value)| Some((flag, value?)));
        let mut words: Vec<String> =
            ["a2a", "send", "--json", "--background"].map(str::to_owned).into();
        words.extend(given.map(|(flag, value)| format!("--{flag}={value}")));
        words.extend(["--".to_owned(), self.url.clone(), self.text.clone()]);
        words
    }

    /// Starts the command as a task of the agent's session and waits for it if `background` is
    /// false.
    pub(super) async fn start<C: CallContext>(
        &self,
        host: &Arc<ToolContext>,
        call: &mut C,
        cwd: &Path,
    ) -> Result<ToolAnswer, ToolError> {
        let started = run_blocking(|| {
            let id = new_recorded_id(host, call, TaskKind::RemoteAgent)?;
            start_task(host, cwd, &self.command_args(id))
        })?;
        let id = started.id;
        if started.has_ended {
            return Ok(ToolAnswer::from_line(format!(
                "{id} has already ended: task_output says why"
            )));
        }
        if self.background {
            return Ok(ToolAnswer::from_line(format!(
                "{id} has sent it; you are notified of the result, and when it waits for an answer"
            )));
        }
        // Without a budget, the wait ends with the task or after the time in the setting
        // `wait_bound`.
        let budget = run_blocking(|| host.current_budget(self.budget.is_some()))?;
        let seconds = self.budget.or(budget.map(|budget| budget.as_secs_f64()));
        let waited =
            call_task_tool(host, call, "wait", json!({ "ids": [id], "timeout": seconds })).await;
        // Only a canceled call stops its task, as for `bash`. When the whole agent has ended, the
        // task is left to the code that ends the session's other tasks.
        if matches!(waited, Err(ToolError::Cancelled))
            && call.cancelled().await == CancelReason::ResultUnwanted
        {
            let how = StopOptions { requested_by: "user", grace: None, signal: None };
            let _best_effort = run_blocking(|| stop::stop(&host.root, SHIM_PROGRAM, id, how));
        }
        let waited = waited?;
        match run_blocking(|| host.snapshot(id))?.state.is_live() {
            true => Ok(waited),
            false => call_task_tool(host, call, "output", json!({ "id": id })).await,
        }
    }
}

/// Calls one of the shared task tools.
async fn call_task_tool<C: CallContext>(
    host: &Arc<ToolContext>,
    call: &mut C,
    tool: &str,
    input: serde_json::Value,
) -> Result<ToolAnswer, ToolError> {
    let input: Map<_, _> = input.as_object().cloned().unwrap_or_default();
    let answer = tools::call(host, call, tool, input).await;
    answer.unwrap_or_else(|| Err(ToolError::Arguments(format!("there is no tool `{tool}`"))))
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn parse_args(given: Value) -> RemoteAgentArgs {
        serde_json::from_value(given).expect("valid arguments")
    }

    #[test]
    fn arguments_become_command_line_arguments() {
        let args = parse_args(json!({
            "url": "http://h", "text": "--do it", "context": "-c", "task": "t", "bearer_env": "PEER",
            "name": "n", "timeout": 1.5,
        }));
        let id = TaskId::from_random(TaskKind::RemoteAgent, 7, TaskId::MAX_BITS).expect("an id");
        let new_task_id = format!("--new-task-id={id}");
        let wanted = [
            "a2a",
            "send",
            "--json",
            "--background",
            new_task_id.as_str(),
            "--context=-c",
            "--task=t",
            "--bearer-env=PEER",
            "--name=n",
            "--timeout=1.5s",
            "--",
            "http://h",
            "--do it",
        ];
        assert_eq!(args.command_args(id), wanted);
        assert!(args.background && args.validate().is_ok());
    }

    #[test]
    fn a_token_and_an_empty_text_are_refused() {
        for (bearer, text) in [("sk-1234", "x"), ("", "x"), ("1A", "x"), ("PEER", " \n")] {
            let args = parse_args(json!({ "url": "http://h", "text": text, "bearer_env": bearer }));
            let why = args.validate().expect_err("the arguments are invalid").to_string();
            assert!(!why.contains("sk-1234"), "{why}");
        }
    }

    #[test]
    fn sending_to_another_machine_needs_approval() {
        let doubt = |url: &str| parse_args(json!({ "url": url, "text": "x" })).approval_concern();
        for here in ["http://127.0.0.1:1", "http://127.9.9.9", "http://[::1]:1", "http://LOCALHOST"]
        {
            assert_eq!(doubt(here), None, "{here}");
        }
        for away in [
            "http://10.0.0.5",
            "https://build.example",
            "http://127.0.0.1.example",
            "http://localhost@build.example",
            "http://[::2]",
        ] {
            assert!(doubt(away).is_some_and(|why| why.contains("another machine")), "{away}");
        }
    }

    #[test]
    fn text_cannot_break_out_of_the_displayed_command() {
        let args = parse_args(json!({ "url": "http://h", "text": "it's\n; rm -rf /" }));
        assert_eq!(args.display_command(), r"siding a2a send http://h 'it'\''s\n; rm -rf /'");
    }
}
