//! `siding wait`: waits for tasks to end or for other conditions, with a bound. Only ports, HTTP
//! servers and files are polled.

mod progress;
pub(super) mod terminal;

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use siding_core::settings::Environment;
use siding_core::store::StateDir;
use siding_core::sys::descriptor;
use siding_core::task::port_conflict::port_conflict_advice;
use siding_core::task::view::ViewDetail;
use siding_core::task::wait::{MetCondition, WaitResult, Waiter};
use siding_model::advice::Dialect;
use siding_model::duration;
use siding_model::mirror::InputLoss;
use siding_model::notice::Coverage;
use siding_model::settings::{Key, RawValue, Settings};
use siding_model::text::one_line;
use siding_model::wait::{BadCondition, Condition, Quantifier, WaitDetail, WaitVerdict};
use siding_terminal::TerminalCondition;

use super::remote_call::RemoteCall;
use crate::context::{self, LAST_TASK, SHIM_PROGRAM, Task};
use crate::exit;
use crate::failure::Failure;
use crate::render::{self, out};
use crate::stdout;

use self::progress::WaitProgress;

/// Waits for tasks to end, or for other conditions.
///
/// Returns the exit code of the task, so that `siding wait ID && NEXT` runs NEXT only after a
/// success. Returns soon after the event (within milliseconds of a task's end), at the bound, or
/// immediately if a task ends and the condition can no longer become true. A condition that was
/// true once stays met. Works on running and ended tasks of every session. At the terminal of a
/// person one line shows the progress.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding wait                               until the last task has ended
  siding wait b-4k7q && ./deploy            deploy once it has succeeded
  siding wait --any b-4k7q b-9x2m           until one of them has ended
  siding wait --timeout 10m b-4k7q          for ten minutes at most
  siding wait b-4k7q --for port:3000        until its server listens
  siding wait b-4k7q --for 'output:ready in [0-9]+ ms'
  siding wait b-4k7q --for http://localhost:3000/health
  siding wait b-4k7q --for file:target/report.xml
  siding wait b-4k7q --any --for output:FAIL --for exit
  siding wait b-4k7q --for input            until its terminal waits for keys

Conditions of --for:
  exit          all its processes have ended (the default)
  output:REGEX  a line of its output matches, including earlier ones
  port:N        a process of this task listens on TCP port N
  http:URL      a GET of http://... returns 2xx or 3xx
  file:PATH     the file exists; PATH is relative to the task's directory
of one task with a terminal (siding run --pty), without another condition:
  input         a program in the foreground waits for input, and has read
                everything that was typed
  idle          no output for 0.5 s
  screen:REGEX  the rows of its screen match

Exit codes: the task's own, as siding run returns it (128+n if signal n ended
it, 124 at its deadline); of several tasks, 0 if all succeeded, otherwise that
of the first in the order of the arguments that failed. 124 also at the bound,
where standard error says so and --json has the reason timeout. With --for,
--any or --all: 0 if the conditions are met, 1 if a task ended first, 124 at the
bound.")]
pub(crate) struct Args {
    /// Tasks: ids, unique prefixes, names, or `@` for the last one
    #[arg(value_name = "ID", default_value = LAST_TASK)]
    ids: Vec<String>,
    /// Condition to wait for; may be repeated
    #[arg(long = "for", value_name = "WHAT", value_parser = parse_wait_condition)]
    conditions: Vec<WaitCondition>,
    /// Wait until one of the conditions is true for one of the tasks; return 0 then
    #[arg(long, conflicts_with = "all")]
    any: bool,
    /// Wait until all conditions are true for all tasks (the default); return 0 then
    #[arg(long)]
    all: bool,
    /// Maximum wait (default: wait_bound, 4h)
    #[arg(long, value_name = "D", value_parser = super::parse_duration)]
    timeout: Option<Duration>,
    #[command(flatten)]
    remote: RemoteCall,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// A condition of `--for`.
#[derive(Debug, Clone)]
enum WaitCondition {
    /// A condition that every task can satisfy.
    Task(Condition),
    /// A condition that a task with a terminal can satisfy.
    Terminal(TerminalCondition),
}

impl fmt::Display for WaitCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Task(condition) => write!(f, "{condition}"),
            Self::Terminal(condition) => write!(f, "{condition}"),
        }
    }
}

/// Parses a condition of `--for`, so that a mistake is reported with the usage.
fn parse_wait_condition(text: &str) -> Result<WaitCondition, String> {
    if TerminalCondition::is_form(text) {
        let condition = text.parse::<TerminalCondition>();
        return condition.map(WaitCondition::Terminal).map_err(|error| error.to_string());
    }
    let hint = match text.parse::<Condition>() {
        Err(BadCondition::Unknown(_)) => {
            "; of a task with a terminal also input, idle or screen:REGEX"
        }
        Ok(_) | Err(_) => "",
    };
    parse_condition(text).map(WaitCondition::Task).map_err(|error| format!("{error}{hint}"))
}

/// Parses a condition and checks its pattern, so that a mistake is reported with the usage.
fn parse_condition(text: &str) -> Result<Condition, String> {
    let condition: Condition = text.parse().map_err(|error| format!("{error}"))?;
    if let Condition::Output(pattern) = &condition {
        regex::Regex::new(pattern).map_err(|error| error.to_string())?;
    }
    Ok(condition)
}

/// Parses a condition of `run --wait-for`, for a task that does not run yet. `exit` is rejected,
/// because the end of a task is always reported.
pub(super) fn parse_readiness_condition(text: &str) -> Result<Condition, String> {
    if TerminalCondition::is_form(text) {
        return Err(format!(
            "`{text}` is a condition of `siding wait --for` and `siding keys --wait-for`; use \
             output:REGEX, port:N, http:URL or file:PATH"
        ));
    }
    let condition = parse_condition(text)?;
    if condition == Condition::Exit {
        return Err("the end is always reported; use output:REGEX, port:N, http:URL or file:PATH"
            .to_owned());
    }
    Ok(condition)
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(code) = self.remote.run()? {
            return Ok(code);
        }
        let root = context::open_state_dir()?;
        let settings = load_bounded_settings(self.timeout)?;
        let bound = settings.as_ref().map_or(Duration::ZERO, |settings| settings.wait_bound);
        let bound_ms = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
        // A wait opens about one descriptor for each task.
        descriptor::raise_open_limit();
        let ids = context::resolve_distinct(&root, &self.ids, self.json)
            .collect::<Result<Vec<_>, _>>()?;
        if let Some((id, condition)) = terminal::sole_condition(&ids, &self.conditions)? {
            return terminal::run(&root, id, condition, bound, self.json);
        }
        let conditions = self.task_conditions();
        let quantifier = if self.any { Quantifier::Any } else { Quantifier::All };
        let mode = settings.filter(|_| !self.json).map(|settings| settings.assistant_mode);
        // This must precede the start of the waiter's threads, which must inherit the signals
        // blocked here.
        let progress = mode.and_then(|mode| WaitProgress::for_person(&root, mode, ids.len()));
        let waiter = Waiter::new(&root, SHIM_PROGRAM, &ids, conditions, quantifier, bound_ms)?;
        let answer = match progress {
            Some(progress) => progress.run(waiter)?,
            None => waiter.run()?,
        };
        let ended = answer.met.iter().filter(|hit| is_end(hit));
        let ended =
            ended.map(|hit| Task::read(&root, hit.task_id)).collect::<Result<Vec<_>, _>>()?;
        let code = self.exit_code(answer.verdict, &ended);
        let reader = if self.json {
            render::json::print_to_reader(&answer.view(bound_ms))?
        } else {
            self.print_text(&root, &answer, &ended, bound)?
        };
        if reader == out::ReaderState::Connected {
            for task in ended {
                context::mark_consumed(&root, &task.state, Coverage::Status);
            }
        }
        Ok(ExitCode::from(code))
    }

    /// Returns the conditions that every task can satisfy; without any, the end of the task.
    fn task_conditions(&self) -> Vec<Condition> {
        if self.conditions.is_empty() {
            return vec![Condition::Exit];
        }
        let of_tasks = self.conditions.iter().filter_map(|condition| match condition {
            WaitCondition::Task(condition) => Some(condition.clone()),
            WaitCondition::Terminal(_) => None,
        });
        of_tasks.collect()
    }

    /// Returns the exit code. `ended` contains the tasks that have ended, in the order of the
    /// arguments: all tasks, if the wait for their end was satisfied.
    fn exit_code(&self, verdict: WaitVerdict, ended: &[Task]) -> u8 {
        let waits_for_commands = self.conditions.is_empty() && !self.any && !self.all;
        match verdict {
            WaitVerdict::Satisfied if waits_for_commands => {
                exit::first_failure(ended.iter().map(|task| exit::code_for_task(&task.state)))
            }
            WaitVerdict::Satisfied => 0,
            WaitVerdict::Ended => exit::TASK_ENDED_FIRST,
            WaitVerdict::Timeout => exit::TIMED_OUT,
        }
    }

    /// Prints a line for each met condition. `ended` contains the task of each condition that was
    /// met by the task's end, in the order of the conditions.
    fn print_text(
        &self,
        root: &StateDir,
        answer: &WaitResult,
        ended: &[Task],
        bound: Duration,
    ) -> Result<out::ReaderState, Failure> {
        let mut text = String::new();
        let mut ended = ended.iter();
        for hit in &answer.met {
            let task = if is_end(hit) { ended.next() } else { None };
            let line = match (task, &hit.detail) {
                (Some(task), _) => format_end(root, task),
                (None, Some(detail)) => format_hit(hit, detail),
                (None, None) => continue,
            };
            text.push_str(&line);
            text.push('\n');
        }
        let reader = out::print(&stdout::wrap_for_terminal(&text))?;
        match answer.verdict {
            WaitVerdict::Satisfied => {}
            WaitVerdict::Ended => {
                errln!(
                    "siding: ended first; {} can no longer become true",
                    self.format_conditions()
                );
            }
            WaitVerdict::Timeout => {
                let bound = duration::format_duration(bound);
                let wanted = if self.conditions.is_empty() {
                    "not ended".to_owned()
                } else {
                    format!("no {}", self.format_conditions())
                };
                errln!("siding: {wanted} within the bound of {bound}; the tasks continue");
            }
        }
        Ok(reader)
    }

    /// Formats the conditions in one line.
    fn format_conditions(&self) -> String {
        let all: Vec<String> = self.conditions.iter().map(ToString::to_string).collect();
        one_line(&format!("`{}`", all.join("`, `")), stdout::text_columns())
    }
}

/// Returns the settings with the maximum wait: `timeout`, otherwise the setting `wait_bound`. A bound
/// that the administrator has locked takes precedence over a nonzero `timeout`. `None` for a zero
/// timeout.
fn load_bounded_settings(timeout: Option<Duration>) -> Result<Option<Settings>, Failure> {
    let sources = match timeout {
        // A zero timeout only checks the conditions; no bound is needed.
        Some(Duration::ZERO) => return Ok(None),
        Some(bound) => {
            let text = RawValue::Text(format!("{}ms", bound.as_millis().max(1)));
            Environment::from_process().with_call(Key::WaitBound, "--timeout", text)
        }
        None => Environment::from_process(),
    };
    Ok(Some(context::load_settings_from(&sources)?))
}

/// Formats how a task ended, whether a part of its input was lost, and the holder of the port on
/// which it could not listen.
fn format_end(root: &StateDir, task: &Task) -> String {
    let view = task.view(root, ViewDetail::Brief);
    let conflict = port_conflict_advice(root, &task.dir, &task.state, Dialect::Commands);
    let remarks = view.input_loss.map(InputLoss::describe).into_iter().chain(conflict);
    remarks.fold(render::ended_line(&view), |line, remark| format!("{line}; {remark}"))
}

/// Returns whether a met condition describes how the task ended.
const fn is_end(hit: &MetCondition) -> bool {
    matches!(hit.detail, Some(WaitDetail::Outcome(_)) | None)
}

/// Formats a met condition in one line: `b-4k7q0n2m8x5t  port:3000  process 4711 listens`.
fn format_hit(hit: &MetCondition, detail: &WaitDetail) -> String {
    one_line(&format!("{}  {}  {detail}", hit.task_id, hit.condition), stdout::text_columns())
}
