//! `siding agent`: a coding agent that no slow command holds up.

use std::path::{PathBuf, absolute};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use siding_agent::agent::{AgentError, Begin, End, Guard, Permit, Report, Sight, Whose, one_shot};
use siding_agent::message::{Said, Told, Usage};
use siding_agent::provider::{self, Model, Part, Provider};
use siding_agent::transcript;
use siding_guard::{How, Verdict, judge};
use siding_model::advice;
use siding_model::id::SessionId;
use siding_model::span::human;
use siding_model::text::{one_line, visible};

use crate::cmd::reap;
use crate::context;
use crate::exit;
use crate::failure::Failure;
use crate::guarding;
use crate::print;
use crate::render::json;

/// Requests to the model that may follow one prompt.
const MAX_TURNS: u32 = 100;
/// Read-only tools that run at once (SPEC 11).
const AT_ONCE: usize = 10;
/// The variable that says otherwise.
const AT_ONCE_VARIABLE: &str = "SIDING_MAX_TOOL_CONCURRENCY";
/// The variable that names the small model where the call does not.
const SMALL_VARIABLE: &str = "SIDING_SMALL_MODEL";
/// Columns of a line about a call.
const LINE: usize = print::WIDTH;

/// Works on a prompt with a model and tools, and waits for everything that was started.
///
/// Slow commands go on in the background, and the model is told when they end, or ask for
/// something. When it has ended its turn and tasks still run, they are waited for, for --wait-bound
/// at most; then they are ended, and the exit code says so. What it says goes to standard output,
/// what it does to standard error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding agent --model anthropic:NAME -p 'fix the failing test'
  siding agent --model openai:NAME -p '…'       any server with that API
  siding agent --model script:FILE -p '…'       answers from a file, no key
  siding agent --resume agent-4711-99 -p 'go on'

Keys: $ANTHROPIC_API_KEY or $ANTHROPIC_AUTH_TOKEN, $OPENAI_API_KEY. Addresses
of other servers: $ANTHROPIC_BASE_URL, $OPENAI_BASE_URL. Without --model it is
$SIDING_MODEL; with --resume it is the model the conversation began with.
$SIDING_SMALL_MODEL is the default of --small-model.

Exit codes: 0 when it is done, 1 when it could not go on, 124 when tasks had
to be ended.")]
pub(crate) struct Args {
    /// What it is to do; with --resume it may be left out, to go on with what was begun
    #[arg(short, long, value_name = "TEXT", required_unless_present = "resume", value_parser = words)]
    prompt: Option<String>,
    /// The model: PROVIDER:NAME
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// A small, fast model that labels what was done: PROVIDER:NAME
    #[arg(long, value_name = "MODEL")]
    small_model: Option<String>,
    /// Work in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    cwd: Option<PathBuf>,
    /// Go on with this conversation
    #[arg(long, value_name = "ID")]
    resume: Option<SessionId>,
    /// Requests to the model that may follow the prompt
    #[arg(long, value_name = "N", default_value_t = MAX_TURNS)]
    max_turns: u32,
    /// How long tasks are waited for at the end
    #[arg(long, value_name = "D", default_value = "10m", value_parser = super::span)]
    wait_bound: Duration,
    /// Run what the guard would ask a person about
    #[arg(long, value_name = "ask", value_parser = ["ask"])]
    yes_to: Option<String>,
    /// A directory beside its own in which it may read and write files; may be repeated
    #[arg(long, value_name = "DIR")]
    allow_path: Vec<PathBuf>,
    /// Print what came of it as JSON, and nothing of what it does
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::root()?;
        let settings = context::settings()?;
        let variable = |name: &str| std::env::var(name).ok();
        let begun = self.resume.as_ref().map(|session| transcript::opened(&root, session));
        let begun = begun.transpose().map_err(Failure::new)?.map(|begun| begun.model);
        let given = self.model.or(begun);
        let named = variable(provider::VARIABLE);
        let model = Model::choose(given.as_deref(), named.as_deref()).map_err(Failure::new)?;
        let open = |model: &Model| {
            let opened = provider::open(model, &variable).map_err(Failure::new)?;
            Ok::<Arc<dyn Provider>, Failure>(Arc::from(opened))
        };
        let provider = open(&model)?;
        let small = self.small_model.or_else(|| variable(SMALL_VARIABLE));
        let small = small.filter(|name| !name.trim().is_empty());
        let labeller = small.map(|name| open(&name.parse().map_err(Failure::new)?)).transpose()?;
        let whose = match self.resume {
            // At once: its tasks are about to be ended.
            Some(session) => Whose::Resumed(session),
            None => {
                // A session begins.
                reap::quietly(&root, &settings)?;
                Whose::New { cwd: self.cwd }
            }
        };
        let begin = Begin {
            root,
            whose,
            provider,
            labeller,
            model: from_anywhere(model)?.to_string(),
            guard: guard()?,
            yes_to_ask: self.yes_to.is_some(),
            allow_paths: self.allow_path,
            at_once: at_once(variable(AT_ONCE_VARIABLE).as_deref())?,
            most_requests: self.max_turns,
        };
        let shows = !self.json;
        let report = one_shot(begin, self.prompt, self.wait_bound, &mut |sight| {
            if shows {
                show(sight);
            }
        })?;
        if self.json {
            json::print(&report)?;
        } else {
            tell_end(&report);
        }
        Ok(ExitCode::from(code(&report.end)))
    }
}

/// Reads a prompt.
fn words(given: &str) -> Result<String, &'static str> {
    if given.trim().is_empty() {
        return Err("say what it is to do");
    }
    Ok(given.to_owned())
}

/// Returns a model that is the same in every directory.
fn from_anywhere(model: Model) -> Result<Model, Failure> {
    Ok(match model {
        Model::Script(file) => Model::Script(absolute(file).map_err(Failure::new)?),
        other @ (Model::Anthropic(_) | Model::OpenAi(_)) => other,
    })
}

/// Reads how many read-only tools run at once.
fn at_once(given: Option<&str>) -> Result<usize, Failure> {
    let Some(text) = given.filter(|text| !text.is_empty()) else { return Ok(AT_ONCE) };
    text.trim().parse().ok().filter(|count| *count > 0).ok_or_else(|| {
        Failure::new(format!(
            "{AT_ONCE_VARIABLE}: `{}` is no number of tools; write one from 1 on",
            one_line(text, LINE)
        ))
    })
}

/// Returns the guard with the rules in force here.
fn guard() -> Result<Guard, Failure> {
    let rules = guarding::rules()?;
    Ok(Arc::new(move |command, background| {
        let how = if background { How::Background } else { How::Foreground };
        let judgement = judge(command, &rules, how);
        let why = guarding::reason(&judgement);
        match judgement.verdict {
            Verdict::Allow => Permit::Yes,
            Verdict::Ask => Permit::Ask { why },
            Verdict::Deny => Permit::No { why },
        }
    }))
}

/// Shows what the agent does.
fn show(sight: Sight<'_>) {
    match sight {
        Sight::Began(session) => errln!("siding: conversation {session}"),
        Sight::Said(said) => {
            for one in said {
                if let Said::Text { text } = one {
                    // Nobody need read it.
                    let _unread = print::text(&format!("{}\n", visible(text)));
                }
            }
        }
        Sight::Calls(call) => {
            errln!("{}", one_line(&format!("> {} {}", call.name, gist(&call.input)), LINE));
        }
        Sight::Done(result) => {
            let mark = if result.is_error { "! " } else { "  " };
            let first = result.text.lines().next().unwrap_or_default().replace('\t', " ");
            errln!("{}", one_line(&format!("{mark}{first}"), LINE));
        }
        Sight::Label(label) => errln!("= {label}"),
        Sight::Told(Told::Notice { id, .. }) => errln!("* news of {}", id.task),
        Sight::Part(Part::Again { why, pause_ms }) => {
            let pause = human(Duration::from_millis(pause_ms));
            errln!("{}", one_line(&format!("! again in {pause}: {why}"), LINE * 4));
        }
        Sight::Summarising => errln!("  what was said is put in short"),
        Sight::Part(Part::Text(_) | Part::Thinking(_))
        | Sight::Told(Told::Prompt { .. } | Told::Reminder { .. } | Told::Summary { .. })
        | Sight::Spent(_)
        // It ends with this, and that is told.
        | Sight::Failed(_) => {}
    }
}

/// Returns what a call is about: what a person looks for first, or all of its arguments.
fn gist(input: &Value) -> String {
    let first = ["command", "path", "subject", "id"].iter().find_map(|name| input[*name].as_str());
    first.map_or_else(|| input.to_string(), str::to_owned)
}

/// Says how it ended, and where to go on.
fn tell_end(report: &Report) {
    let usage = report.usage;
    let how = match &report.end {
        End::Done => "done".to_owned(),
        End::WaitBound { bound_ms } => {
            format!("its tasks did not end within {}", human(Duration::from_millis(*bound_ms)))
        }
        End::Refused => "the provider has refused to let the model go on".to_owned(),
        End::Cut => "the model's answer was longer than it may be, and was cut".to_owned(),
        End::Stopped => "the model was stopped by its provider, which does not say why".to_owned(),
        End::Requests { most } => {
            format!("the model was asked {most} times (--max-turns) and is not done")
        }
        End::Failed { why } => format!("it cannot go on: {}", one_line(why, LINE * 6)),
        End::Interrupted => "interrupted".to_owned(),
    };
    errln!("siding: {how}");
    // A model from a file costs nothing.
    if usage != Usage::default() {
        let read = usage.context() - usage.output;
        let (cached, written) = (usage.cache_read, usage.output);
        errln!("        {read} tokens read ({cached} from the cache), {written} written");
    }
    errln!("        go on: siding agent --resume {} -p TEXT", report.session_id);
    for view in &report.ended {
        errln!("  ended  {}", advice::line(view, LINE - 9));
    }
}

const fn code(end: &End) -> u8 {
    match end {
        End::Done => 0,
        End::WaitBound { .. } => exit::TIMED_OUT,
        End::Refused
        | End::Cut
        | End::Stopped
        | End::Requests { .. }
        | End::Failed { .. }
        | End::Interrupted => exit::NOT_DONE,
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        match error {
            AgentError::Session(error) => error.into(),
            AgentError::Run(error) => error.into(),
            AgentError::Notices(error) => error.into(),
            AgentError::Tasks(error) => error.into(),
            error @ (AgentError::Transcript(_)
            | AgentError::Fault { .. }
            | AgentError::Scene { .. }
            | AgentError::Io { .. }) => Self::new(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render::schema;

    #[test]
    fn the_committed_schema_is_the_code() {
        schema::assert_committed::<Report>("agent");
    }

    #[test]
    fn a_prompt_has_words() {
        assert!(words(" \n").is_err());
        assert_eq!(words(" go ").as_deref(), Ok(" go "));
    }

    #[test]
    fn a_number_of_tools_is_one_from_1_on() {
        assert_eq!(at_once(None).ok(), Some(AT_ONCE));
        assert_eq!(at_once(Some("")).ok(), Some(AT_ONCE));
        assert_eq!(at_once(Some(" 3 ")).ok(), Some(3));
        for wrong in ["0", "-1", "many"] {
            let why = at_once(Some(wrong)).expect_err("is none").message();
            assert!(why.contains(AT_ONCE_VARIABLE) && why.contains(wrong), "{why}");
        }
    }
}
