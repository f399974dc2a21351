//! The program that runs in the task of a workflow. Its flags have no help, because only
//! `siding workflow` starts it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser as _;
use siding_core::sys::birthmark;
use siding_core::task::run::request::WorkingDirectory;
use siding_model::id::{TaskId, TaskKind};
use siding_workflow::{
    self, OnFailure, Plan, RunOptions, WorkflowError, WorkflowHeader, WorkflowSource,
    WorkflowVerdict, run_workflow, task,
};

use crate::context;
use crate::exit;
use crate::failure::{self, Failure};
use crate::stdout;

/// Default number of concurrent steps if the number of processors is unknown.
const DEFAULT_MAX_PARALLEL: usize = 4;

#[derive(Debug, clap::Parser)]
#[command(name = task::WORKFLOW_SUBCOMMAND)]
struct Args {
    #[arg(long, required_unless_present = "resume", conflicts_with = "resume")]
    file: Option<PathBuf>,
    #[arg(long)]
    keep_going: bool,
    #[arg(long)]
    max_parallel: Option<usize>,
    #[arg(long)]
    resume: Option<TaskId>,
    #[arg(long)]
    checked: Option<u32>,
}

/// Runs a new or resumed workflow in the task that this process belongs to.
pub(crate) fn main() -> ExitCode {
    match Args::try_parse_from(std::env::args_os().skip(1)) {
        Ok(args) => args.run().unwrap_or_else(|failure| failure.report()),
        Err(error) => failure::report_clap_error(&error),
    }
}

impl Args {
    fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let settings = context::load_settings()?;
        let this_task = birthmark::own_birthmark().and_then(|mark| mark.task_id());
        let this_task =
            this_task.filter(|own| own.kind() == TaskKind::LocalWorkflow).ok_or_else(|| {
                Failure::new(format!(
                    "`{}` can be started only by `siding workflow run`",
                    task::WORKFLOW_SUBCOMMAND
                ))
            })?;
        let source = match (self.resume, &self.file) {
            (Some(id), _) => WorkflowSource::Resumed(id),
            (None, Some(file)) => WorkflowSource::New(self.open_workflow(file)?),
            (None, None) => return Err(Failure::new(format!("{} is missing", task::FILE_FLAG))),
        };
        let verdict = run_workflow(&root, &settings, source, this_task, &mut |line| {
            // The journal records the workflow, so a closed standard output does not stop the
            // workflow.
            let _peer_gone = stdout::print_text(line);
        })?;
        Ok(match verdict {
            WorkflowVerdict::Ok => ExitCode::SUCCESS,
            WorkflowVerdict::Failed | WorkflowVerdict::Stopped => ExitCode::from(exit::INCOMPLETE),
        })
    }

    fn open_workflow(&self, file: &Path) -> Result<WorkflowHeader, Failure> {
        let text = siding_workflow::read_text(file).map_err(WorkflowError::from)?;
        if self.checked.is_some_and(|number| number != task::content_checksum(&text)) {
            return Err(Failure::new(format!(
                "`{}` has changed since it was checked; nothing was run",
                file.display()
            ))
            .with_hint("run it again"));
        }
        let plan = Plan::parse(file, &text).map_err(WorkflowError::from)?;
        let processors =
            || std::thread::available_parallelism().map_or(DEFAULT_MAX_PARALLEL, usize::from);
        let max_parallel = self.max_parallel.or(plan.max_parallel);
        let rules = RunOptions {
            keep_going: self.keep_going || plan.on_failure == OnFailure::Continue,
            max_parallel: max_parallel.unwrap_or_else(processors),
        };
        let cwd = String::from(WorkingDirectory::resolve(None)?);
        Ok(WorkflowHeader { file: file.display().to_string(), text, cwd, rules })
    }
}
