//! A scripted agent that drives programs in a terminal with siding's MCP tools, and counts the
//! tokens that a model writes and reads.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use siding_core::task::terminal::TerminalClient;
use siding_model::id::TaskId;
use siding_model::terminal::TerminalUser;

use super::client::BenchClient;
use super::dialog::{Dialog, TerminalAgent};
use super::token_count::TokenCount;
use super::workspace::RowDir;

const PROTOCOL_VERSION: &str = "2025-11-25";
/// Longest time until the program asks the person for the secret.
const SECRET_TIMEOUT: Duration = Duration::from_secs(10);
/// Meets a shell's prompt, which follows the login.
const PROMPT_CONDITION: &str = "screen:[#$]$";

/// The session of one agent. Without it, all servers that this process starts would share a
/// session, in which a name refers to the newest task with this name, whichever agent started it.
#[derive(Debug)]
pub(super) struct AgentSession<'p> {
    place: &'p RowDir,
    id: String,
    /// The person at the same machine.
    pub(super) person: BenchClient,
}

impl<'p> AgentSession<'p> {
    pub(super) fn open(place: &'p RowDir, id: String) -> Result<Self> {
        let mut person = place.client()?;
        person.open_session(&id, std::process::id())?;
        Ok(Self { place, id, person })
    }

    /// Returns the command of a server whose tasks belong to this session.
    pub(super) fn server_command(&self) -> Command {
        self.place.siding_command(["mcp", "--session", &self.id])
    }
}

impl Drop for AgentSession<'_> {
    /// Closes the session, and thereby stops a program that the agent has not finished with.
    fn drop(&mut self) {
        let mut close = self.place.siding_command(["session", "close", &self.id]);
        let _best_effort = close.stderr(Stdio::null()).status();
    }
}

/// An agent with an MCP server of its own.
#[derive(Debug)]
pub(super) struct McpAgent<'p> {
    server: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    requests: u64,
    /// The person at the same machine.
    person: &'p BenchClient,
    name: &'static str,
    task: Option<TaskId>,
    /// Tokens of the calls and of their answers, as Claude Code and Codex show them to the model: the
    /// structured content, or the text of a tool without it.
    pub(super) tokens: TokenCount,
    /// Tokens of the same calls and of the text, which other clients show.
    pub(super) text_tokens: TokenCount,
}

impl<'p> McpAgent<'p> {
    /// Starts a server with `command`, which is that of the agent's session, in the directory
    /// `work`.
    pub(super) fn start_server(
        mut command: Command,
        work: &Path,
        person: &'p BenchClient,
    ) -> Result<Self> {
        command.current_dir(work).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = command.stderr(Stdio::null()).spawn()?;
        let stdin = server.stdin.take();
        let stdout = BufReader::new(server.stdout.take().context("the output is piped")?);
        let (tokens, text_tokens) = (TokenCount::default(), TokenCount::default());
        let mut agent = Self {
            server,
            stdin,
            stdout,
            requests: 0,
            person,
            name: "",
            task: None,
            tokens,
            text_tokens,
        };
        let info = json!({ "name": "siding-bench", "version": "1" });
        agent.request(
            "initialize",
            &json!({ "protocolVersion": PROTOCOL_VERSION, "capabilities": {}, "clientInfo": info }),
        )?;
        agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        Ok(agent)
    }

    fn send(&mut self, message: &Value) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the server was closed")?;
        Ok(writeln!(stdin, "{message}")?)
    }

    /// Sends a request and returns its result. Other messages of the server are ignored.
    fn request(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.requests += 1;
        let id = self.requests;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))?;
        loop {
            let mut line = String::new();
            if self.stdout.read_line(&mut line)? == 0 {
                bail!("the server has ended");
            }
            let mut message: Value = serde_json::from_str(&line)?;
            if message["id"] != id {
                continue;
            }
            if message["result"].is_null() {
                bail!("{method} failed: {message}");
            }
            return Ok(message["result"].take());
        }
    }

    /// Calls a tool and counts the tokens. Returns the result.
    fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value> {
        let result =
            self.request("tools/call", &json!({ "name": tool, "arguments": arguments }))?;
        let call = json!({ "name": format!("mcp__siding__{tool}"), "input": arguments });
        let call = TokenCount::from_text(&call.to_string());
        let text = TokenCount::from_text(&result_text(&result));
        self.text_tokens += call;
        self.text_tokens += text;
        self.tokens += call;
        self.tokens += match result.get("structuredContent") {
            Some(structured) => TokenCount::from_text(&structured.to_string()),
            None => text,
        };
        Ok(result)
    }

    fn keys(&mut self, arguments: &Value) -> Result<String> {
        Ok(result_text(&self.call("keys", arguments)?))
    }

    /// Types a secret as `siding answer` does for a person, once the program asks.
    fn type_as_person(&self, id: TaskId, secret: &str) -> Result<()> {
        let (root, program) = self.person.root_and_program();
        let user = TerminalUser::Person;
        let mut client = TerminalClient::open(root, program, id, user, "siding answer")?;
        let until = Instant::now() + SECRET_TIMEOUT;
        loop {
            match client.write_secret(format!("{secret}\n").as_bytes()) {
                Ok(()) => return Ok(()),
                Err(_) if Instant::now() < until => {}
                Err(error) => return Err(error).context("the person could not answer"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl TerminalAgent for McpAgent<'_> {
    fn start(&mut self, dialog: &Dialog) -> Result<String> {
        self.name = dialog.name;
        let run = json!({ "command": dialog.command, "pty": true, "name": dialog.name });
        let result = self.call("run", &run)?;
        let id = result["structuredContent"]["task_id"].as_str();
        self.task = id.map(str::parse).transpose()?;
        Ok(result_text(&result))
    }

    fn type_keys(&mut self, keys: &[&str]) -> Result<String> {
        self.keys(&json!({ "id": self.name, "keys": keys }))
    }

    fn answer_secret(&mut self, secret: &str) -> Result<String> {
        let id = self.task.context("the program does not run")?;
        self.type_as_person(id, secret)?;
        self.keys(&json!({ "id": self.name, "wait_for": PROMPT_CONDITION }))
    }

    fn look(&mut self) -> Result<String> {
        self.keys(&json!({ "id": self.name }))
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Drop for McpAgent<'_> {
    /// Closes the server's input, at whose end the server exits.
    fn drop(&mut self) {
        drop(self.stdin.take());
        let _best_effort = self.server.wait();
    }
}

/// Returns the text blocks of a tool's result.
fn result_text(result: &Value) -> String {
    let blocks = result["content"].as_array().into_iter().flatten();
    blocks.filter_map(|block| block["text"].as_str()).map(|text| format!("{text}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use siding_e2e::Sandbox;

    use super::*;

    const QUESTION: Dialog = Dialog {
        name: "question",
        programs: &[],
        command: "read -p 'name? ' name; echo \"$name\" > answer; read -p 'more? ' more",
        steps: &[],
        prepare: |_| Ok(()),
        verify: |_, _| Ok(()),
    };

    /// Starts an agent whose program asks, in a directory with the name of its session.
    fn start_agent<'s>(session: &'s AgentSession<'_>, home: &Path) -> McpAgent<'s> {
        let work = session.place.work.join(&session.id);
        fs::create_dir(&work).expect("test directory");
        let mut command = session.server_command();
        command.env("HOME", home);
        let mut agent =
            McpAgent::start_server(command, &work, &session.person).expect("a server starts");
        let asked = agent.start(&QUESTION).expect("the program starts");
        assert!(asked.contains("name? ▮"), "{asked}");
        agent
    }

    #[test]
    fn each_agent_types_into_its_own_task_and_leaves_none() {
        let sandbox = Sandbox::new();
        let dir = sandbox.path("row");
        fs::create_dir(&dir).expect("test directory");
        let place = RowDir::create(dir, sandbox.siding_program()).expect("a row");
        {
            let open = |id: &str| AgentSession::open(&place, id.to_owned()).expect("a session");
            let sessions = [open("first"), open("second")];
            // The task of the second agent is the newest one with this name.
            let agents = sessions.each_ref().map(|session| start_agent(session, &sandbox.home()));
            for (mut agent, name) in agents.into_iter().zip(["Ada", "Bob"]) {
                let shown = agent.type_keys(&[name, "Enter"]).expect("the keys are typed");
                assert!(shown.contains("more? ▮"), "{shown}");
            }
        }
        for (id, expected) in [("first", "Ada\n"), ("second", "Bob\n")] {
            let answer = fs::read_to_string(place.work.join(id).join("answer"));
            assert_eq!(answer.expect("an answer"), expected);
        }
        place.wait_until_idle().expect("the unfinished dialogs are stopped");
    }
}
