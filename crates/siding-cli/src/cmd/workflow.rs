//! `siding workflow`: runs, resumes, shows and checks workflows.

mod check;
pub(crate) mod exec;
mod resume;
mod run;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use siding_core::store::StateDir;
use siding_core::task::launch::IdleShim;
use siding_model::id::{TaskId, TaskKind};
use siding_model::journal::TaskState;
use siding_model::spec::TaskCommand as Words;
use siding_workflow::{WorkflowError, read_journal, task};

use crate::context::{self, SHIM_PROGRAM, Task};
use crate::failure::Failure;

/// Runs, resumes and shows workflows: files of steps that depend on each other.
///
/// A workflow is a task, and so is each of its steps: `siding ps`, `output`, `wait` and `stop` work
/// on them. Steps whose dependencies are done run concurrently. When a step fails, the others are
/// stopped, unless the file or the call requests otherwise. After a crash or a kill, `resume`
/// continues the workflow and repeats no finished step.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding workflow check ci.toml
  siding workflow run --background ci.toml
  siding workflow show w-4k7q --svg=ci.svg
  siding workflow resume w-4k7q

A file is TOML. Each step has an id, and either run, a shell command, or prompt,
a text for siding's agent:

  [[step]]
  id = \"build\"
  run = \"cargo build\"

  [[step]]
  id = \"test\"
  needs = [\"build\"]
  run = \"cargo test\"
  timeout = \"15m\"
  retries = 1

`siding workflow check` names the allowed keys and values.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Args>),
    Resume(resume::Args),
    Show(show::Args),
    Check(check::Args),
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            Command::Run(args) => args.run(),
            Command::Resume(args) => args.run(),
            Command::Show(args) => args.run(),
            Command::Check(args) => args.run(),
        }
    }
}

/// Options for the task that runs a workflow.
#[derive(Debug, clap::Args)]
struct WorkflowRunArgs {
    /// Start in the background and return immediately
    #[arg(long)]
    background: bool,
    /// How long to wait before the workflow moves to the background (`15s`, `2m`, `none`)
    #[arg(long, value_name = "D")]
    budget: Option<String>,
    /// Maximum duration of the workflow (default: `timeout` of the file, otherwise
    /// max_elapsed_hard_cap)
    #[arg(long, value_name = "D")]
    timeout: Option<String>,
    /// Session that owns the workflow (default: $SIDING_SESSION, otherwise the implicit one)
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print the task as JSON instead of its output
    #[arg(long)]
    json: bool,
}

impl WorkflowRunArgs {
    /// Starts the task of a workflow, which calls this program with the arguments `words`.
    fn start(
        self,
        name: String,
        words: Vec<String>,
        cwd: Option<PathBuf>,
        timeout: Option<Duration>,
    ) -> Result<ExitCode, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::new(format!("could not find siding's own path: {error}")))?;
        let settings = context::load_valid_settings();
        let life = timeout.unwrap_or(settings.max_elapsed_hard_cap);
        let mut run = super::run::Args::default();
        run.kind = TaskKind::LocalWorkflow;
        run.background = self.background;
        run.budget = self.budget;
        run.timeout = Some(self.timeout.unwrap_or_else(|| format_millis(life)));
        run.grace = Some(format_millis(task::stop_grace(&settings)));
        // The workflow's process catches only this signal, so the setting for the signal does not
        // apply.
        run.signal = Some(task::STOP_SIGNAL.to_string());
        // Stall detection is off, because a workflow is silent while its steps run; each step has
        // its own detection.
        run.stall_after = Some("0s".to_owned());
        run.session = self.session;
        run.cwd = cwd;
        // Two runs of a file are two workflows, so the second run is not refused as a duplicate.
        // The caller receives a note instead.
        run.allow_duplicate = true;
        run.name = Some(name);
        run.json = self.json;
        let words = words.into_iter().map(Into::into);
        run.command =
            [program.into(), task::WORKFLOW_SUBCOMMAND.into()].into_iter().chain(words).collect();
        run.run(IdleShim::start(SHIM_PROGRAM))
    }
}

fn format_millis(time: Duration) -> String {
    format!("{}ms", time.as_millis())
}

/// Returns the id of the workflow that a task runs or resumes; `text` refers to the task.
fn find_workflow(root: &StateDir, text: &str, is_json: bool) -> Result<TaskId, Failure> {
    let id = match (context::resolve_task(root, text, is_json), text.parse::<TaskId>()) {
        (Ok(id), _) => id,
        // The task was removed, but the directory of its session may still have the workflow's
        // journal.
        (Err(_), Ok(id)) => id,
        (Err(failure), Err(_)) => return Err(failure),
    };
    if id.kind() != TaskKind::LocalWorkflow {
        let kind = id.kind().label();
        return Err(Failure::new(format!("{id} is not a workflow but a {kind}"))
            .with_hint(format!("`siding show {id}` shows it")));
    }
    Ok(Task::read(root, id).map_or(id, |task| workflow_of_task(&task.state)))
}

/// Returns the id of a task's workflow: the id of the workflow that the task resumes, otherwise the
/// task's own id.
fn workflow_of_task(state: &TaskState) -> TaskId {
    let id = argument_after(state, task::RESUME_FLAG).and_then(|text| text.parse().ok());
    id.unwrap_or(state.spec.task_id)
}

fn argument_after<'s>(state: &'s TaskState, flag: &str) -> Option<&'s str> {
    let Words::Argv { argv } = &state.spec.command else { return None };
    let at = argv.iter().position(|word| word == flag)?;
    argv.get(at + 1).map(String::as_str)
}

/// Returns the live tasks that run or resume a workflow of this file.
fn running_workflows_of_file(root: &StateDir, file: &str) -> Result<Vec<TaskId>, Failure> {
    let is_of_file = |id: &TaskId| {
        let Ok(task) = Task::read(root, *id) else { return false };
        let matches_argument = argument_after(&task.state, task::FILE_FLAG).map(|of| of == file);
        let matches_journal = || {
            let workflow = read_journal(root, workflow_of_task(&task.state));
            workflow.is_ok_and(|workflow| workflow.header.file == file)
        };
        task.state.is_live() && matches_argument.unwrap_or_else(matches_journal)
    };
    let live = root.live_tasks()?.into_iter();
    Ok(live.filter(|id| id.kind() == TaskKind::LocalWorkflow).filter(is_of_file).collect())
}

impl From<WorkflowError> for Failure {
    fn from(error: WorkflowError) -> Self {
        match error {
            WorkflowError::Store(error) => error.into(),
            WorkflowError::Session(error) => error.into(),
            WorkflowError::Run(error) => error.into(),
            error @ (WorkflowError::File(_)
            | WorkflowError::Missing { .. }
            | WorkflowError::Busy { .. }
            | WorkflowError::Finished { .. }
            | WorkflowError::Journal { .. }
            | WorkflowError::InvalidRecord { .. }
            | WorkflowError::Io { .. }) => Self::new(error),
        }
    }
}
