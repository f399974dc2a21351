//! The tool `spawn_agent`: starts a subagent as a separate task.
//!
//! The prompt is first written to a transcript, in the format of any other conversation, and only
//! then is the task started. Therefore the prompt does not appear among the arguments of a process,
//! a crash in between loses nothing, and a person can resume the conversation later.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use siding_core::session;
use siding_core::task::run::{RunError, TaskStdin};
use siding_model::id::{TaskId, TaskKind};
use siding_model::text::one_line;
use siding_tools::tools::{self, SelfTask};
use siding_tools::{CallContext, ToolAnswer, ToolContext, ToolError};

use super::teammate_tools;
use super::tool_dispatch::ToolDispatcher;
use crate::conversation::Entry;
use crate::message::UserContent;
use crate::provider::Model;
use crate::transcript::{Transcript, TranscriptError, TranscriptHeader};

/// Maximum columns of a subagent's display name.
const NAME_COLUMNS: usize = 48;

pub(super) const TOOL_NAME: &str = "spawn_agent";

pub(super) const TOOL_DESCRIPTION: &str = "\
Have another agent work on a separate task, with the tools you have. It does not see this \
conversation, so say everything it needs to know, and what it should report. Returns its task id \
immediately; you receive its last message when it is done, and can do other work meanwhile. \
`task_list` shows it and the tasks it starts. Tasks that still run when it is done become yours; \
`task_stop` ends it with all its tasks.";

/// Limits on the nesting and number of subagents and teammates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SubagentLimits {
    /// Maximum nesting depth: 1 allows subagents that cannot start further subagents.
    pub max_depth: usize,
    /// Maximum number of subagents and teammates that run concurrently below the root session.
    pub max_running: usize,
}

impl SubagentLimits {
    /// Checks whether an agent at `depth` may start another subagent while `running` subagents and
    /// teammates run. The error is the message for the model.
    pub(super) fn check(self, depth: usize, running: usize) -> Result<(), String> {
        if depth >= self.max_depth {
            return Err(format!(
                "not started: subagents may be nested {} deep, and this one would be deeper; do it \
                 yourself",
                self.max_depth
            ));
        }
        if running >= self.max_running {
            return Err(format!(
                "not started: the limit of {} running subagents and teammates is reached; wait for \
                 one with `task_wait`, or stop one with `task_stop`",
                self.max_running
            ));
        }
        Ok(())
    }
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SpawnAgentArgs {
    /// The task for the subagent, with all it needs to know.
    prompt: String,
    /// A short description for people.
    #[serde(default)]
    name: Option<String>,
    /// The subagent's model, such as `anthropic:NAME` (default: yours).
    #[serde(default)]
    model: Option<String>,
    /// The names of the tools that the subagent may call; each must be one of yours (default: all
    /// of them).
    #[serde(default)]
    tools: Option<Vec<String>>,
    /// Requests that the subagent may send to its model (default 100).
    #[serde(default)]
    max_turns: Option<u32>,
    /// Deadline in seconds, after which the subagent is stopped (default 1800).
    #[serde(default)]
    timeout: Option<f64>,
    /// If false, wait for the answer for at most `budget`, then continue in the background (default
    /// true).
    #[serde(default = "yes")]
    background: bool,
    /// Seconds to wait if `background` is false (default 15).
    #[serde(default)]
    budget: Option<f64>,
}

const fn yes() -> bool {
    true
}

/// The settings that subagents and teammates inherit from this agent, and the limits on their
/// nesting and number. Subagents and teammates never have more permissions than this agent.
#[derive(Debug)]
pub(super) struct SubagentSpawner {
    pub(super) model: String,
    pub(super) cwd: PathBuf,
    pub(super) yes_to_ask: bool,
    pub(super) allow_paths: Vec<PathBuf>,
    pub(super) limits: SubagentLimits,
    /// The names of the tools that this agent offers and may pass on; `None` means all.
    pub(super) tools: Option<Vec<String>>,
    /// Size of a teammate's context in tokens at which its conversation is summarized.
    pub(super) compact_at: u64,
    /// Maximum number of read-only tools that a teammate runs concurrently.
    pub(super) max_parallel_reads: usize,
    /// Maximum number of requests to a teammate's model for one message, unless the call sets
    /// another limit.
    pub(super) max_requests: u32,
}

impl ToolDispatcher {
    /// Starts a subagent, whose tools must be among those of this agent.
    pub(super) async fn spawn_agent<C: CallContext>(
        &self,
        host: &ToolContext,
        call: &mut C,
        input: Map<String, Value>,
    ) -> Result<ToolAnswer, ToolError> {
        let args: SpawnAgentArgs = tools::parse_arguments(input)?;
        if let Some(tools) = &args.tools {
            let alone = teammate_tools::without_tools(
                tools,
                &[teammate_tools::SPAWN_TEAMMATE, teammate_tools::SEND_MESSAGE],
            );
            if alone.len() < tools.len() {
                let why = "`tools`: a subagent has no teammates; omit `spawn_teammate` and \
                           `send_message`";
                return Err(ToolError::Arguments(why.to_owned()));
            }
            self.check_tools(tools)
                .map_err(|why| ToolError::Arguments(format!("`tools`: {why}")))?;
        }
        self.spawner.start(host, call, args).await
    }
}

impl SubagentSpawner {
    async fn start<C: CallContext>(
        &self,
        host: &ToolContext,
        call: &mut C,
        args: SpawnAgentArgs,
    ) -> Result<ToolAnswer, ToolError> {
        if args.prompt.trim().is_empty() {
            return Err(ToolError::Arguments("`prompt` is empty; describe its task".to_owned()));
        }
        let model = args.model.as_deref().unwrap_or(&self.model);
        let model = model
            .parse::<Model>()
            .map_err(|error| ToolError::Arguments(format!("`model`: {error}")))?;
        let own = SelfTask {
            kind: TaskKind::LocalAgent,
            name: display_name(args.name.as_deref(), &args.prompt),
            stdin: TaskStdin::Null,
            background: args.background,
            budget: args.budget,
            timeout: args.timeout,
        };
        let prepare = |id: TaskId| {
            let right =
                session::lock_spawning(&host.root, &host.session).map_err(RunError::from)?;
            let depth = session::depth(&host.root, &host.session);
            self.limits.check(depth, count_running(host)?).map_err(ToolError::Arguments)?;
            let tools = args.tools.as_ref().or(self.tools.as_ref());
            let tools = tools.map(|tools| {
                teammate_tools::without_tools(
                    tools,
                    &[teammate_tools::SPAWN_TEAMMATE, teammate_tools::SEND_MESSAGE],
                )
            });
            let arguments = self.command_args(id, &model, args.max_turns, tools)?;
            self.create_conversation(host, id, &model, Some(args.prompt)).map_err(|error| {
                ToolError::Arguments(format!("the subagent could not be prepared: {error}"))
            })?;
            Ok::<_, ToolError>((arguments, right))
        };
        tools::begin_own(host, call, own, prepare).await
    }

    /// Creates the transcript of a subagent or teammate, with its prompt if one is given.
    pub(super) fn create_conversation(
        &self,
        host: &ToolContext,
        id: TaskId,
        model: &Model,
        prompt: Option<String>,
    ) -> Result<(), TranscriptError> {
        let cwd = self.cwd.to_string_lossy().into_owned();
        let opened = TranscriptHeader { cwd, model: model.to_string() };
        let session = session::subagent_session_id(id);
        let mut transcript = Transcript::create(&host.root, &session, opened)?;
        if let Some(text) = prompt {
            transcript.add_entry(&Entry::Input { content: vec![UserContent::Prompt { text }] })?;
        }
        transcript.sync()
    }

    /// Returns the arguments that start this program as the subagent.
    fn command_args(
        &self,
        id: TaskId,
        model: &Model,
        max_turns: Option<u32>,
        tools: Option<Vec<String>>,
    ) -> Result<Vec<String>, ToolError> {
        let mut arguments = vec!["agent".to_owned(), "--subagent".to_owned(), id.to_string()];
        arguments.extend(["--model".to_owned(), model.to_string()]);
        arguments.extend(max_turns.map(|most| format!("--max-turns={most}")));
        arguments.extend(tools.map(|tools| format!("--tools={}", tools.join(","))));
        if self.yes_to_ask {
            arguments.push("--yes-to=ask".to_owned());
        }
        for path in &self.allow_paths {
            arguments.push(format!("--allow-path={}", utf8_path(path)?));
        }
        Ok(arguments)
    }
}

fn utf8_path(path: &Path) -> Result<&str, ToolError> {
    path.to_str().ok_or_else(|| {
        let path = one_line(&path.to_string_lossy(), NAME_COLUMNS);
        ToolError::Arguments(format!("not started: the allowed path `{path}` is not UTF-8"))
    })
}

/// Returns how many subagents and teammates are running below the root session.
pub(super) fn count_running(host: &ToolContext) -> Result<usize, ToolError> {
    let top = session::root_session(&host.root, &host.session);
    let family = session::session_tree(&host.root, &top)?;
    let agents = host.root.live_tasks()?.into_iter().filter(|id| id.kind().has_session());
    // Taking a snapshot repairs a task whose shim was killed: a new shim is started, or the end of
    // the task is recorded.
    let states = agents.filter_map(|id| host.snapshot(id).ok()).map(|standing| standing.state);
    Ok(states.filter(|it| it.is_live() && family.contains(&it.spec.session_id)).count())
}

/// Returns the display name: `agent: `, and the given name or, if that is missing or blank, the
/// prompt, as one line that is cut if it is long.
fn display_name(value: Option<&str>, prompt: &str) -> String {
    let given = value.filter(|name| !name.trim().is_empty()).unwrap_or(prompt);
    let words: Vec<&str> = given.split_whitespace().collect();
    format!("agent: {}", one_line(&words.join(" "), NAME_COLUMNS))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn subagent_depth_and_count_never_exceed_their_limits(
            (max_depth, max_running) in (0..4_usize, 0..6_usize),
            starts in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..60),
        ) {
            let bounds = SubagentLimits { max_depth, max_running };
            // The depths of the running agents. The first is the agent that a person started.
            let mut agents = vec![0];
            for (which, ends) in starts {
                let which = which.index(agents.len());
                if ends && which > 0 {
                    agents.swap_remove(which);
                } else if bounds.check(agents[which], agents.len() - 1).is_ok() {
                    agents.push(agents[which] + 1);
                }
                prop_assert!(agents.len() - 1 <= max_running);
                prop_assert!(agents.iter().all(|one| *one <= max_depth));
            }
        }
    }

    #[test]
    fn a_refusal_names_the_limit_and_the_alternative() {
        let bounds = SubagentLimits { max_depth: 3, max_running: 8 };
        let why = bounds.check(3, 0).expect_err("the depth limit is reached");
        assert!(why.contains("3 deep") && why.contains("yourself"), "{why}");
        let why = bounds.check(0, 8).expect_err("the limit of running agents is reached");
        assert!(why.contains("limit of 8") && why.contains("`task_stop`"), "{why}");
    }

    #[test]
    fn a_display_name_is_one_line() {
        assert_eq!(display_name(Some("fix the tests"), "x"), "agent: fix the tests");
        assert_eq!(display_name(Some(" "), " look\nat it \u{1b}[2J"), "agent: look at it \\e[2J");
    }
}
