//! The tools `spawn_teammate` and `send_message`, which start teammates and deliver messages
//! between agents.

use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use siding_core::session;
use siding_core::store::StateDir;
use siding_core::sys::procfs;
use siding_core::task::run::{RunError, TaskStdin};
use siding_core::task::stop::{self, StopOptions};
use siding_model::id::{TaskId, TaskKind};
use siding_model::notice::format_teammate_xml;
use siding_tools::async_fd::run_blocking;
use siding_tools::tools::{self, SelfTask};
use siding_tools::{SHIM_PROGRAM, ToolAnswer, ToolContext, ToolError};

use super::approval::AskPolicy;
use super::builder::{AgentBuilder, ConversationSource};
use super::call_control::AgentCallContext;
use super::subagent;
use super::teammate_proxy::agent_argument;
use super::teammates::{LEAD_NAME, ReceiverState, ReservedName, Team, TeammateStatus, Teammates};
use super::tool_dispatch::ToolDispatcher;
use crate::provider::{self, Model, Provider};

pub(super) const SPAWN_TEAMMATE: &str = "spawn_teammate";
pub(super) const SEND_MESSAGE: &str = "send_message";

pub(super) const SPAWN_DESCRIPTION: &str = "\
Have another agent work alongside you for as long as you run, with the tools you have. It does not \
see this conversation, so say everything it needs to know. You receive its last message each time \
it has nothing more to do; it is idle then, remembers everything, and continues when you write to \
it with `send_message`. For a single piece of work `spawn_agent` is better. `task_stop` ends it.";

pub(super) const SEND_DESCRIPTION: &str = "\
Write to a teammate. An idle teammate starts with it immediately; a busy one reads it with its \
next request. You receive its answer when it arrives.";

/// Maximum bytes of a message's text; a longer text belongs in a file.
const MAX_MESSAGE_BYTES: usize = 32 << 10;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SpawnTeammateArgs {
    /// The teammate's name: lowercase letters, digits and dashes.
    name: String,
    /// The teammate's role and first task, with all it needs to know.
    prompt: String,
    /// The teammate's model, such as `anthropic:NAME` (default: yours).
    #[serde(default)]
    model: Option<String>,
    /// Requests that the teammate may send to its model for one message of yours (default: your own
    /// limit).
    #[serde(default)]
    max_turns: Option<u32>,
    /// Deadline in seconds, after which the teammate is stopped (default 1800).
    #[serde(default)]
    timeout: Option<f64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SendMessageArgs {
    /// The name of a teammate, or `lead`.
    to: String,
    /// The text that the recipient reads, at most 32768 bytes.
    text: String,
}

/// The task, the model and the first prompt of a teammate that is about to start.
struct TeammateSpec {
    task: TaskId,
    provider: Arc<dyn Provider>,
    model: Model,
    max_turns: Option<u32>,
    /// The first message from the lead: the teammate's role and first task.
    prompt: String,
}

impl ToolDispatcher {
    /// Starts a teammate: first its task, then the thread of its agent.
    pub(super) async fn spawn_teammate(
        &self,
        host: &ToolContext,
        call: &mut AgentCallContext,
        input: Map<String, Value>,
    ) -> Result<ToolAnswer, ToolError> {
        let Team::Lead(mates) = &self.team else {
            return Err(ToolError::Arguments("only the lead can spawn teammates".to_owned()));
        };
        let args: SpawnTeammateArgs = tools::parse_arguments(input)?;
        if args.prompt.trim().is_empty() {
            return Err(ToolError::Arguments("`prompt` is empty; describe its task".to_owned()));
        }
        let reserved = mates.reserve(args.name.trim()).map_err(ToolError::Arguments)?;
        let wrong =
            |error: &dyn std::fmt::Display| ToolError::Arguments(format!("`model`: {error}"));
        let model = args.model.as_deref().unwrap_or(&self.spawner.model);
        let model = model.parse::<Model>().map_err(|error| wrong(&error))?;
        let opened = provider::open(&model, &|name| std::env::var(name).ok());
        let provider: Arc<dyn Provider> = Arc::from(opened.map_err(|error| wrong(&error))?);
        let own = SelfTask {
            kind: TaskKind::InProcessTeammate,
            name: format!("teammate: {}", args.name.trim()),
            stdin: TaskStdin::Pipe,
            background: true,
            budget: None,
            timeout: args.timeout,
        };
        let mut task = None;
        let prepare = |id: TaskId| {
            let right =
                session::lock_spawning(&host.root, &host.session).map_err(RunError::from)?;
            let running = subagent::count_running(host)?;
            self.spawner.limits.check(0, running).map_err(ToolError::Arguments)?;
            let source = std::io::ErrorKind::NotFound.into();
            let this = i32::try_from(std::process::id()).ok().and_then(procfs::identify);
            let this = this.ok_or(ToolError::Io { doing: "identify this process", source })?;
            self.spawner.create_conversation(host, id, &model, None).map_err(|error| {
                ToolError::Arguments(format!("the teammate could not be prepared: {error}"))
            })?;
            task = Some(id);
            let arguments = ["agent".to_owned(), format!("--stand-in={}", agent_argument(this))];
            Ok::<_, ToolError>((arguments.to_vec(), right))
        };
        let started = tools::begin_own(host, call, own, prepare).await;
        let Ok(mut answer) = started else {
            // The task may have been started even though the call was canceled. Such a task has no
            // teammate thread, so it is stopped.
            if let Some(task) = task {
                run_blocking(|| stop_task(host, task));
            }
            return started;
        };
        if let Some(task) = task {
            let SpawnTeammateArgs { prompt, max_turns, .. } = args;
            let made = TeammateSpec { task, provider, model, max_turns, prompt };
            let sits = run_blocking(|| self.start_teammate(host, mates, reserved, made))?;
            answer.lines.extend(sits);
        }
        Ok(answer)
    }

    /// Starts the thread of a teammate whose task is running. Returns a line for the model; `None`
    /// when the task has already ended.
    fn start_teammate(
        &self,
        host: &ToolContext,
        teammates: &Arc<Teammates>,
        reserved: ReservedName<'_>,
        made: TeammateSpec,
    ) -> Result<Option<String>, ToolError> {
        let TeammateSpec { task, provider, model, max_turns, prompt } = made;
        let not_begun = |error: &dyn std::fmt::Display| {
            stop_task(host, task);
            ToolError::Arguments(format!("the teammate could not be started: {error}"))
        };
        let state = host.snapshot(task).map_err(|error| not_begun(&error))?.state;
        // If the task has ended, no thread is started: the answer of the call already reports how
        // it ended.
        let Some(leader) = state.leader.filter(|_| state.is_live()) else { return Ok(None) };
        let spawner = &self.spawner;
        let begin = AgentBuilder {
            root: StateDir::open(host.root.path()).map_err(|error| not_begun(&error))?,
            source: ConversationSource::Teammate { task, proxy_pid: leader.pid() },
            provider,
            labeller: None,
            model: model.to_string(),
            guard: Arc::clone(&self.approver.guard),
            // A teammate cannot ask a person, even when the lead has a terminal.
            ask_policy: if spawner.yes_to_ask { AskPolicy::Allow } else { AskPolicy::Deny },
            allow_paths: spawner.allow_paths.clone(),
            tools: spawner.tools.as_ref().map(|tools| without_tools(tools, &[SPAWN_TEAMMATE])),
            compact_at: spawner.compact_at,
            max_parallel_reads: spawner.max_parallel_reads,
            max_requests: max_turns.unwrap_or(spawner.max_requests),
            subagent_limits: spawner.limits,
            idle_consolidation: None,
        };
        let name = reserved.name().to_owned();
        let status = Arc::new(TeammateStatus::new(name.clone(), task));
        let company =
            |_| Team::Teammate { status: Arc::clone(&status), teammates: Arc::clone(teammates) };
        let agent = begin.build_in_team(company).map_err(|error| not_begun(&error))?;
        let sender = agent.sender.clone();
        let (go, may_go) = sync_channel::<()>(1);
        let thread = thread::Builder::new().name(format!("siding-{name}")).spawn(move || {
            // The thread waits until the slot is occupied; messages to the teammate would otherwise
            // have no receiver.
            if may_go.recv().is_ok() {
                agent.serve();
            }
        });
        let thread = thread.map_err(|error| not_begun(&error))?;
        reserved.occupy(Arc::clone(&status), sender, thread);
        let _peer_gone = go.send(());
        teammates.deliver(LEAD_NAME, &name, prompt).map_err(ToolError::Arguments)?;
        Ok(Some(format!(
            "`{name}` is working; you receive its last message when it is idle, and \
             `{SEND_MESSAGE}` writes to it"
        )))
    }

    /// Delivers a message to another agent of this process. The answer says when the receiver will
    /// read the message.
    pub(super) fn send_message(&self, input: Map<String, Value>) -> Result<ToolAnswer, ToolError> {
        let SendMessageArgs { to, text } = tools::parse_arguments(input)?;
        if text.trim().is_empty() {
            return Err(ToolError::Arguments("`text` is empty; write a message".to_owned()));
        }
        if text.len() > MAX_MESSAGE_BYTES {
            return Err(ToolError::Arguments(format!(
                "`text` has {} bytes, and {MAX_MESSAGE_BYTES} is the limit; write it to a file, and send its path",
                text.len()
            )));
        }
        let (mates, from, text) = match &self.team {
            Team::Alone => {
                return Err(ToolError::Arguments(
                    "a subagent has no teammates to write to".to_owned(),
                ));
            }
            Team::Lead(mates) => (mates, LEAD_NAME, text),
            Team::Teammate { status: desk, teammates: mates } => {
                let name = desk.name.as_str();
                (mates, name, format_teammate_xml(name, desk.task, None, &text))
            }
        };
        let to = to.trim();
        let delivered =
            run_blocking(|| mates.deliver(from, to, text)).map_err(ToolError::Arguments)?;
        Ok(ToolAnswer::from_line(match delivered {
            ReceiverState::Started => format!("delivered; {to} was idle and starts with it"),
            ReceiverState::Busy => {
                format!("delivered; {to} is busy and reads it with the next request")
            }
            ReceiverState::Halted => {
                format!("delivered; {to} has stopped, and reads it when it is resumed")
            }
        }))
    }
}

/// Stops the task of a teammate that has no thread.
fn stop_task(host: &ToolContext, task: TaskId) {
    let how = StopOptions { requested_by: "agent", grace: None, signal: None };
    // A task that could not be stopped here is stopped at the end of the session.
    let _best_effort = stop::stop(&host.root, SHIM_PROGRAM, task, how);
}

/// Returns `tools` without those in `not`.
pub(super) fn without_tools(tools: &[String], not: &[&str]) -> Vec<String> {
    tools.iter().filter(|tool| !not.contains(&tool.as_str())).cloned().collect()
}
