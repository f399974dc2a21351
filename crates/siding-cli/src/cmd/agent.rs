//! `siding agent`: a coding agent that slow commands do not block.

mod json_stream;
mod text_output;

use std::path::{PathBuf, absolute};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use siding_agent::agent::{
    AgentBuilder, AgentError, ApprovalDecision, AskPolicy, CommandGuard, ConversationSource,
    ProxyExit, StreamLine, SubagentLimits, run_headless, run_interactive, run_teammate_proxy,
};
use siding_agent::provider::{self, Model, Provider};
use siding_agent::terminal::Console;
use siding_agent::transcript;
use siding_core::store::StateDir;
use siding_guard::{ExecMode, GuardVerdict, judge_with_environment};
use siding_model::id::{SessionId, TaskId};
use siding_model::text::one_line;

use self::json_stream::LineWriter;
use crate::cmd::{dream, reap};
use crate::context;
use crate::exit;
use crate::failure::Failure;
use crate::guard_rules;
use crate::render::json;
use crate::stdout;

/// Default maximum number of requests to the model for one prompt.
const MAX_TURNS: u32 = 100;
/// Default maximum number of read-only tool calls that run concurrently (promise P129).
const MAX_CONCURRENT_TOOLS: usize = 10;
/// Environment variable that overrides `MAX_CONCURRENT_TOOLS`.
const CONCURRENT_TOOLS_VARIABLE: &str = "SIDING_MAX_TOOL_CONCURRENCY";
/// Environment variable that names the small model if `--small-model` is not given.
pub(super) const SMALL_MODEL_VARIABLE: &str = "SIDING_SMALL_MODEL";
/// Default size of a model's context in tokens. It is the smallest context of the current large
/// models. The conversation is summarized at three quarters of this size. `SIDING_CONTEXT_TOKENS`
/// overrides the default with a value of at least `MIN_CONTEXT_TOKENS`.
const CONTEXT_TOKENS: usize = 200_000;
const CONTEXT_TOKENS_VARIABLE: &str = "SIDING_CONTEXT_TOKENS";
const MIN_CONTEXT_TOKENS: usize = 4_000;
/// Default maximum nesting depth of subagents, and the variable that overrides it.
const MAX_SUBAGENT_DEPTH: usize = 3;
const SUBAGENT_DEPTH_VARIABLE: &str = "SIDING_MAX_SUBAGENT_DEPTH";
/// Default maximum number of concurrent subagents of one session, and the variable that overrides
/// it.
const MAX_SUBAGENTS: usize = 8;
const SUBAGENTS_VARIABLE: &str = "SIDING_MAX_SUBAGENTS";
/// Maximum width in columns of the line that shows a tool call.
const CALL_COLUMNS: usize = stdout::TEXT_COLUMNS;

/// Lets a model work on prompts with tools: at a terminal, or on a single prompt with -p.
///
/// Slow commands continue in the background, and the model gets a notice when they end or need
/// something. At a terminal, Ctrl-B moves the running command to the background, Esc interrupts the
/// current wait, and Ctrl-D quits and stops every task that still runs.
///
/// With -p, the agent waits at most --drain-timeout for the tasks that still run when the model has
/// ended its turn. If tasks still run after that time, the agent stops them and exits with 124. The
/// model's answers go to standard output, its tool calls to standard error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding agent --model anthropic:NAME       conversation at this terminal
  siding agent --model anthropic:NAME -p 'fix the failing test'
  siding agent --model openai:NAME -p '...'   any server with that API
  siding agent --model script:FILE -p '...'   answers from a file, no key needed
  siding agent --resume agent-4711-99 -p 'continue'
  siding agent -p '...' --output-format stream-json   for a program

Keys: $ANTHROPIC_API_KEY or $ANTHROPIC_AUTH_TOKEN, $OPENAI_API_KEY. Addresses
of other servers: $ANTHROPIC_BASE_URL, $OPENAI_BASE_URL. With --resume the
default model is that of the conversation.

Exit codes: 0 when the agent is done, 1 when it could not continue, 124 when
tasks were stopped after --drain-timeout.")]
pub(crate) struct Args {
    /// Prompt for the agent; without one, the agent reads prompts at the terminal
    #[arg(short, long, value_name = "TEXT", value_parser = parse_prompt)]
    prompt: Option<String>,
    /// Model: PROVIDER:NAME (default: $SIDING_MODEL)
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Small, fast model that labels finished work: PROVIDER:NAME (default: $SIDING_SMALL_MODEL)
    #[arg(long, value_name = "MODEL")]
    small_model: Option<String>,
    /// Working directory (default: the current one)
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    cwd: Option<PathBuf>,
    /// Id of the conversation to continue
    #[arg(long, value_name = "ID")]
    resume: Option<SessionId>,
    /// Run as the subagent of this task
    #[arg(long, value_name = "TASK", hide = true, conflicts_with_all = ["prompt", "resume", "cwd"])]
    subagent: Option<TaskId>,
    /// Run as the proxy task of a teammate in the process HOST
    #[arg(long, value_name = "HOST", hide = true, exclusive = true)]
    stand_in: Option<String>,
    /// Maximum number of requests to the model for one prompt
    #[arg(long, value_name = "N", default_value_t = MAX_TURNS)]
    max_turns: u32,
    /// Maximum time to wait for running tasks after the model has ended its turn
    #[arg(long, alias = "wait-bound", value_name = "D", default_value = "10m", value_parser = super::parse_duration)]
    drain_timeout: Duration,
    /// Run commands for which the guard would ask a person
    #[arg(long, value_name = "ask", value_parser = ["ask"])]
    yes_to: Option<String>,
    /// Directory, in addition to the working directory, where the agent may read and write files;
    /// may be repeated
    #[arg(long, value_name = "DIR")]
    allow_path: Vec<PathBuf>,
    /// Tools that the agent may use, separated by commas (default: all)
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// Print only the result, as JSON: the same as --output-format json
    #[arg(long, conflicts_with = "output_format")]
    json: bool,
    /// Output format of -p
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    output_format: OutputFormat,
}

/// Output format of an agent that runs without a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum OutputFormat {
    /// The model's answers on standard output, its tool calls on standard error
    Text,
    /// One JSON object at the end
    Json,
    /// One line with a JSON object for each event: text, calls, results, notices, labels, usage,
    /// the end
    StreamJson,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(host) = &self.stand_in {
            return run_proxy(host);
        }
        let format = self.effective_format();
        let is_subagent = self.subagent.is_some();
        // The console must be opened before the first thread starts. An earlier thread would not
        // inherit the blocked signals, and would receive these signals instead of the console's
        // signalfd.
        let console = self.open_console()?;
        let root = context::open_state_dir()?;
        let settings = context::load_settings()?;
        let AgentModels { provider, labeller, main, small } = self.open_models(&root)?;
        let idle_dreams = match &console {
            Some(_) => dream::idle_dreams(small.as_ref().unwrap_or(&main))?,
            None => None,
        };
        let ask_policy = self.ask_policy(console.is_some());
        let source = match (self.subagent, self.resume) {
            // The reaper does not run here: it would delay the stop of the tasks that the resumed
            // session left running.
            (None, Some(session)) => ConversationSource::Resumed(session),
            (subagent, _) => {
                // As before every start of a session, the reaper removes what earlier sessions
                // left.
                reap::run_quietly(&root, &settings)?;
                subagent
                    .map_or(ConversationSource::New { cwd: self.cwd }, ConversationSource::Subagent)
            }
        };
        let number = |name: &str, usual, least| {
            read_count_variable(name, environment_variable(name).as_deref(), usual, least)
        };
        let context = number(CONTEXT_TOKENS_VARIABLE, CONTEXT_TOKENS, MIN_CONTEXT_TOKENS)?;
        let builder = AgentBuilder {
            root,
            source,
            provider,
            labeller,
            model: main.to_string(),
            guard: load_guard()?,
            ask_policy,
            allow_paths: self.allow_path,
            tools: self.tools,
            compact_at: u64::try_from(context / 4 * 3).unwrap_or(u64::MAX),
            max_parallel_reads: number(CONCURRENT_TOOLS_VARIABLE, MAX_CONCURRENT_TOOLS, 1)?,
            max_requests: self.max_turns,
            subagent_limits: SubagentLimits {
                max_depth: number(SUBAGENT_DEPTH_VARIABLE, MAX_SUBAGENT_DEPTH, 0)?,
                max_running: number(SUBAGENTS_VARIABLE, MAX_SUBAGENTS, 0)?,
            },
            idle_consolidation: idle_dreams,
        };
        let stream = LineWriter::default();
        let result = match console {
            Some(console) => run_interactive(builder, console),
            None => {
                run_headless(builder, self.prompt, self.drain_timeout, &mut |sight| match format {
                    OutputFormat::Json => {}
                    OutputFormat::StreamJson => stream.print_lines(&StreamLine::from_event(sight)),
                    OutputFormat::Text if is_subagent => text_output::show_subagent_event(sight),
                    OutputFormat::Text => text_output::show_event(sight),
                })
            }
        };
        let report = result.map_err(Failure::from).inspect_err(|failure| {
            if format == OutputFormat::StreamJson {
                stream.print_lines(&[StreamLine::Error { message: &failure.message() }]);
            }
        })?;
        match format {
            OutputFormat::Json => json::print(&report)?,
            OutputFormat::StreamJson => stream.print_lines(&[StreamLine::End(&report)]),
            OutputFormat::Text if is_subagent => text_output::print_subagent_end(&report)?,
            OutputFormat::Text => text_output::print_end(&report),
        }
        Ok(ExitCode::from(text_output::exit_code(&report.end)))
    }
}

/// Runs the proxy task of a teammate that runs on a thread of the process `host`.
fn run_proxy(host: &str) -> Result<ExitCode, Failure> {
    Ok(match run_teammate_proxy(host).map_err(Failure::new)? {
        ProxyExit::Done => ExitCode::SUCCESS,
        ProxyExit::AgentEnded => ExitCode::from(exit::INCOMPLETE),
    })
}

/// The models that the arguments, the environment or the resumed conversation select.
struct AgentModels {
    provider: Arc<dyn Provider>,
    /// Provider of the small model, which labels the finished work; `None` in a subagent, or if no
    /// small model is selected.
    labeller: Option<Arc<dyn Provider>>,
    main: Model,
    small: Option<Model>,
}

impl Args {
    fn open_models(&self, root: &StateDir) -> Result<AgentModels, Failure> {
        let begun = self.resume.as_ref().map(|session| transcript::read_header(root, session));
        let resumed_model = begun.transpose().map_err(Failure::new)?.map(|begun| begun.model);
        let requested_model = self.model.clone().or(resumed_model);
        let default_model = environment_variable(provider::MODEL_VARIABLE);
        let main = Model::choose(requested_model.as_deref(), default_model.as_deref())
            .map_err(Failure::new)?;
        let open = |model: &Model| {
            let opened = provider::open(model, &environment_variable).map_err(Failure::new)?;
            Ok::<Arc<dyn Provider>, Failure>(Arc::from(opened))
        };
        let provider = open(&main)?;
        let small = self.small_model.clone().or_else(|| environment_variable(SMALL_MODEL_VARIABLE));
        // A subagent gets no small model, because its labels would not be shown.
        let small = small.filter(|name| !name.trim().is_empty() && self.subagent.is_none());
        let small: Option<Model> =
            small.map(|name| name.parse().map_err(Failure::new)).transpose()?;
        let labeller = small.as_ref().map(open).transpose()?;
        let main = with_absolute_script_path(main)?;
        let small = small.map(with_absolute_script_path).transpose()?;
        Ok(AgentModels { provider, labeller, main, small })
    }

    const fn ask_policy(&self, has_console: bool) -> AskPolicy {
        match (&self.yes_to, has_console) {
            (Some(_), _) => AskPolicy::Allow,
            (None, true) => AskPolicy::AskPerson,
            (None, false) => AskPolicy::Deny,
        }
    }

    const fn effective_format(&self) -> OutputFormat {
        if self.json { OutputFormat::Json } else { self.output_format }
    }

    /// Returns the terminal for an interactive conversation, or `None` if the agent is a subagent
    /// or has a prompt. If the standard streams are not terminals, or the output is JSON, a resumed
    /// conversation continues without a terminal, and a new conversation fails.
    fn open_console(&self) -> Result<Option<Console>, Failure> {
        if self.prompt.is_some() || self.subagent.is_some() {
            return Ok(None);
        }
        if self.effective_format() != OutputFormat::Text {
            let is_alone = "JSON output needs a prompt: give it with -p TEXT";
            return self.resume.as_ref().map(|_| None).ok_or_else(|| Failure::new(is_alone));
        }
        match Console::open() {
            Ok(console) => Ok(Some(console)),
            Err(_) if self.resume.is_some() => Ok(None),
            Err(error) => Err(Failure::new(error)),
        }
    }
}

/// Returns the value of an environment variable, or `None` if it is unset or not UTF-8.
fn environment_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Returns the prompt unchanged, or an error if it is blank.
fn parse_prompt(given: &str) -> Result<String, &'static str> {
    if given.trim().is_empty() {
        return Err("the prompt is empty; give the task as text");
    }
    Ok(given.to_owned())
}

/// Makes a script's path absolute, so that the model does not depend on the working directory.
fn with_absolute_script_path(model: Model) -> Result<Model, Failure> {
    Ok(match model {
        Model::Script(file) => Model::Script(absolute(file).map_err(Failure::new)?),
        other @ (Model::Anthropic(_) | Model::OpenAi(_)) => other,
    })
}

/// Parses the value of an environment variable as a count of at least `least`. Returns `usual` if
/// the variable is unset or empty.
fn read_count_variable(
    name: &str,
    given: Option<&str>,
    usual: usize,
    least: usize,
) -> Result<usize, Failure> {
    let Some(text) = given.filter(|text| !text.is_empty()) else { return Ok(usual) };
    text.trim().parse().ok().filter(|count| *count >= least).ok_or_else(|| {
        Failure::new(format!(
            "{name}: `{}` is not a valid count; use a number of {least} or more",
            one_line(text, CALL_COLUMNS)
        ))
    })
}

/// Returns a function that judges the agent's commands by the rules that apply in this directory.
fn load_guard() -> Result<CommandGuard, Failure> {
    let rules = guard_rules::load_rules()?;
    Ok(Arc::new(move |command, environment, background| {
        let how = if background { ExecMode::Background } else { ExecMode::Foreground };
        let judgement = judge_with_environment(command, environment, &rules, how);
        let why = guard_rules::format_reason(&judgement);
        match judgement.verdict {
            GuardVerdict::Allow => ApprovalDecision::Allow,
            GuardVerdict::Ask => ApprovalDecision::Ask { why },
            GuardVerdict::Deny => ApprovalDecision::Deny { why },
        }
    }))
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Session(error) => error.into(),
            AgentError::Run(error) => error.into(),
            AgentError::Notices(error) => error.into(),
            AgentError::Tasks(error) => error.into(),
            error @ (AgentError::Transcript(_)
            | AgentError::InvalidTranscript { .. }
            | AgentError::Task { .. }
            | AgentError::Workspace { .. }
            | AgentError::Terminal(_)
            | AgentError::Io { .. }) => Self::new(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_prompt_is_rejected() {
        assert!(parse_prompt(" \n").is_err());
        assert_eq!(parse_prompt(" go ").as_deref(), Ok(" go "));
    }

    #[test]
    fn count_variables_accept_only_numbers_in_range() {
        assert_eq!(read_count_variable("N", None, 10, 1).ok(), Some(10));
        assert_eq!(read_count_variable("N", Some(""), 10, 1).ok(), Some(10));
        assert_eq!(read_count_variable("N", Some(" 3 "), 10, 1).ok(), Some(3));
        assert_eq!(read_count_variable("N", Some("0"), 10, 0).ok(), Some(0));
        for wrong in ["0", "-1", "many"] {
            let why = read_count_variable("N", Some(wrong), 10, 1).expect_err("is none").message();
            assert!(why.starts_with("N: ") && why.contains(wrong), "{why}");
        }
    }
}
