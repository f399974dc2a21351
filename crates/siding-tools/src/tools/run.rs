//! `run`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::launch::IdleShim;
use siding_core::run::request::{self, TaskRequest};
use siding_core::run::{self, Duplicates, LaunchEnv, LaunchResult, RunError};
use siding_core::settings::{self, Environment};
use siding_core::shim_client::ShimConnection;
use siding_core::watch::TaskWatch;
use siding_model::duration::format_duration;
use siding_model::history::{self, AutoBackground, PlacementRequest};
use siding_model::id::TaskKind;
use siding_model::lifecycle::Phase;
use siding_model::outcome::Placement;
use siding_model::settings::{Key, Origin, RawValue};
use siding_model::spec::{StdinMode, TaskCommand, TaskSpec};
use siding_model::wait::Condition;

use super::wait;
use crate::answer::{Answer, Refusal};
use crate::caller::{Caller, bearable};
use crate::follow;
use crate::host::{Host, PROGRAM, Standing};
use crate::receipt::Receipt;
use crate::sleep::block;
use crate::structured::{self, RunDetails};
use crate::text::{self, millis};

pub(super) const ABOUT: &str = "\
Run a shell command. Answers with how it ended and its output. A command that takes longer than \
`budget` is not lost: it goes on in the background, and the answer has its task id for `wait`, \
`output` and `stop`. For servers and watchers set `background`, and `wait_for` to learn when they \
are ready. Every task is ended with all it started at its `timeout`, and when this client ends.";

/// How long an early failure is waited for of a command that goes to the background, unless the
/// setting says more (SPEC 1.3).
pub(super) const SETTLE: Duration = Duration::from_millis(200);

/// What `run` takes.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Text for bash.
    pub command: String,
    /// Start in the background and answer at once with the task id.
    #[serde(default)]
    pub background: bool,
    /// Seconds to wait before it goes on in the background (default 15).
    #[serde(default)]
    pub budget: Option<f64>,
    /// Deadline in seconds: how long it may live (default 1800).
    #[serde(default)]
    pub timeout: Option<f64>,
    /// Directory to run in.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// Variables to set for it.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Start in the background and answer when all of these hold, at the latest after `budget`:
    /// `output:REGEX`, `port:N`, `http:URL`, `file:PATH`. What comes later is reported with a later
    /// answer.
    #[serde(default)]
    pub wait_for: Vec<String>,
    /// Let `input` write to it; otherwise it reads nothing.
    #[serde(default)]
    pub stdin: bool,
    /// Start even though the same command runs already in the same directory.
    #[serde(default)]
    pub allow_duplicate: bool,
    /// Whether a command that is known to take longer than the budget starts in the background where
    /// no setting says so. Not for a model: whoever offers the tool decides.
    #[serde(skip)]
    #[schemars(skip)]
    pub may_start_away: bool,
}

/// What was decided before anything was started.
struct Plan {
    spec: TaskSpec,
    /// The variables that the call sets.
    env: Vec<(String, String)>,
    /// How long the caller waits; `None` until the end.
    budget: Option<Duration>,
    output_max: usize,
    /// What the caller should know about what was decided.
    notes: Vec<String>,
    /// What it should know when the budget has passed.
    capped: Option<String>,
}

pub(super) async fn call<C: Caller>(
    host: &Host,
    call: &mut C,
    args: Args,
) -> Result<Answer, Refusal> {
    let (plan, begun) = block(|| {
        let plan = plan(host, call, &args)?;
        if !call.begins(plan.spec.task_id) {
            return Err(Refusal::Cancelled);
        }
        let duplicates =
            if args.allow_duplicate { Duplicates::Allowed } else { Duplicates::Refused };
        let given = LaunchEnv { env: &plan.env, env_clear: false, duplicates };
        let begun = run::start_task(&host.root, &plan.spec, &given, IdleShim::start(PROGRAM))?;
        Ok::<_, Refusal>((plan, begun))
    })?;
    let link = match begun {
        LaunchResult::Started(link) => link,
        LaunchResult::Duplicate(first) => {
            let details =
                RunDetails { task: None, duplicate_of: Some(first), output_truncated: false };
            let said = format!(
                "not started: the same command runs already in the same directory as {first}; \
                 {} waits for it, `allow_duplicate` starts another",
                host.dialect.format_tool("wait")
            );
            return Ok(Answer { details: structured::details(&details), ..Answer::say(said) });
        }
    };
    let standing = followed(host, call, &plan.spec, link, plan.budget).await?;
    if !plan.spec.wait_for.is_empty() && standing.state.is_live() {
        let waited = plan.budget.unwrap_or(Duration::from_millis(plan.spec.deadline_ms));
        return block(|| wait::ready(host, standing, waited));
    }
    let mut answer = block(|| answered(host, standing, plan.output_max))?;
    answer.said.extend(plan.notes);
    answer.said.extend(plan.capped.filter(|_| answer.goes_on.is_some()));
    Ok(answer)
}

/// Waits for a task that has begun, as far as its caller does.
pub(super) async fn followed<C: Caller>(
    host: &Host,
    call: &mut C,
    spec: &TaskSpec,
    link: ShimConnection,
    budget: Option<Duration>,
) -> Result<Standing, Refusal> {
    let mut watch = TaskWatch::from_connection(&host.root, PROGRAM, spec.task_id, link);
    follow::follow(host, call, &mut watch, spec, budget).await.inspect_err(|_| {
        drop(watch);
        block(|| run::clear_unrecorded(&host.root, spec));
    })
}

/// Says how a task stands that was waited for, to whoever has called it.
pub(super) fn answered(
    host: &Host,
    standing: Standing,
    output_max: usize,
) -> Result<Answer, Refusal> {
    let is_running = matches!(standing.state.lifecycle.phase(), Phase::Running { .. });
    let placement = standing.state.lifecycle.placement();
    let handed_over = matches!(placement, Placement::Background { why } if why.is_hand_over());
    let mut answer = text::with_output(host, &standing, output_max)?;
    answer.goes_on = (is_running && handed_over).then_some(standing.state.spec.task_id);
    answer.receipts.push(Receipt::Returned(Box::new(standing.state)));
    Ok(answer)
}

fn plan<C: Caller>(host: &Host, call: &C, args: &Args) -> Result<Plan, Refusal> {
    let settings = settings::load(&sources(args.budget, args.timeout)?)?;
    let conditions = wait::conditions(&args.wait_for)?;
    siding_core::wait::check_patterns(&conditions)?;
    if conditions.contains(&Condition::Exit) {
        return Err(Refusal::Arguments(
            "`wait_for` is what makes it ready: `output:REGEX`, `port:N`, `http:URL` or \
             `file:PATH`; its end is answered anyway"
                .to_owned(),
        ));
    }
    let asks = args.background || !conditions.is_empty();
    if asks && !settings.background_tasks {
        return Err(Refusal::Arguments(format!(
            "background tasks are turned off here; run it without {} and `wait_for`",
            host.dialect.format_option("background")
        )));
    }
    let command = TaskCommand::Shell { text: args.command.clone(), shell: settings.shell.clone() };
    let cwd = request::resolve_directory(args.cwd.as_deref())?;
    let wanted = host.budget(&settings, args.budget.is_some());
    let decides = settings.auto_background
        || args.may_start_away && *settings.origin(Key::AutoBackground) == Origin::BuiltIn;
    // Where no budget applies the caller waits, however long a command is known to take.
    let asked = match (asks, wanted.filter(|_| decides && settings.background_tasks)) {
        (true, _) => PlacementRequest::Background,
        (false, Some(_)) => PlacementRequest::Unspecified,
        (false, None) => PlacementRequest::Foreground,
    };
    let limit = wanted.unwrap_or(settings.blocking_budget);
    let found = at_once(host, (&command, &cwd), asked, limit);
    let note = found.as_ref().and_then(|found| found.explanation(limit));
    let (placement, budget) = match &found {
        // What makes it ready is waited for, for the budget at most.
        Some(_) if !conditions.is_empty() => (Placement::Foreground, bearable(call, Some(limit))),
        Some(found) => (
            Placement::Background { why: found.background_reason() },
            Some(settings.settle.max(SETTLE)),
        ),
        None => (Placement::Foreground, bearable(call, wanted)),
    };
    let is_capped = found.is_none() && budget != wanted;
    let capped = budget.filter(|_| is_capped).map(|budget| {
        format!(
            "waited {} at most, since this client may give up on a longer call",
            format_duration(budget)
        )
    });
    let order = TaskRequest {
        kind: TaskKind::LocalBash,
        command,
        cwd,
        session_id: host.live_session().map_err(RunError::from)?,
        name: None,
        stdin: if args.stdin { StdinMode::Pipe } else { StdinMode::Null },
        placement,
        deadline: settings.max_elapsed.min(settings.max_elapsed_hard_cap),
        keep: false,
        monitor: None,
        wait_for: conditions,
    };
    let env: Vec<(String, String)> = args.env.clone().into_iter().collect();
    let mut spec = request::task_spec(&host.root, &settings, order)?;
    request::distinguish_same_key(&mut spec, &env, false);
    Ok(Plan {
        spec,
        env,
        budget,
        output_max: usize::try_from(settings.output_max_bytes.0).unwrap_or(usize::MAX),
        notes: settings.warnings().iter().map(ToString::to_string).chain(note).collect(),
        capped,
    })
}

/// Returns the settings' sources with what the call says on top, in seconds.
pub(super) fn sources(budget: Option<f64>, timeout: Option<f64>) -> Result<Environment, Refusal> {
    let times = [(Key::BlockingBudget, "budget", budget), (Key::MaxElapsed, "timeout", timeout)];
    let mut sources = Environment::from_process();
    for (key, name, value) in times {
        if let Some(value) = value {
            let text = format!("{}ms", millis(text::seconds(name, value)?));
            sources = sources.with_call(key, name, RawValue::Text(text));
        }
    }
    Ok(sources)
}

/// Decides whether a command goes to the background at once.
fn at_once(
    host: &Host,
    (command, cwd): (&TaskCommand, &str),
    asked: PlacementRequest,
    budget: Duration,
) -> Option<AutoBackground> {
    let words = match asked {
        PlacementRequest::Unspecified => siding_guard::words_of(command),
        PlacementRequest::Background | PlacementRequest::Foreground => Vec::new(),
    };
    let known = || {
        let ask =
            |history: &siding_history::History| history.expectation(&command.display_text(), cwd);
        siding_history::in_passing(&host.root, ask)?.value
    };
    history::decide_auto_background(asked, budget, known, &words)
}
