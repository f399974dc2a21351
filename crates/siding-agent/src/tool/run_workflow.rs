//! The tool `run_workflow`, which starts a workflow as a background task.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use siding_core::settings::{self, Environment};
use siding_tools::ToolContext;

use super::definition::{Access, Tool};
use super::{AgentToolContext, ToolOutcome};
use crate::cancel_flag::CancelFlag;
use crate::command_guard::{ApprovalDecision, CommandGuard};
use siding_workflow::{Plan, StepAction, WorkflowStep, task};

/// The tool that starts a workflow as a background task.
pub struct RunWorkflow {
    /// The context whose session owns the task.
    pub host: Arc<ToolContext>,
    /// The working directory of the workflow.
    pub cwd: PathBuf,
    /// Decides whether the command of a step may run.
    pub guard: CommandGuard,
    /// Whether commands that need a person's approval may run without it.
    pub yes_to_ask: bool,
}

/// Arguments of `run_workflow`: the file that describes the workflow.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunWorkflowArgs {
    /// Path of the workflow's file, relative to the working directory or absolute.
    file: String,
}

impl Tool for RunWorkflow {
    type Args = RunWorkflowArgs;
    const NAME: &'static str = "run_workflow";
    const DESCRIPTION: &'static str = "\
Run a workflow in the background: a TOML file with `[[step]]` tables, each with `id`, `run` (a shell \
command) or `prompt` (for an agent), and if wanted `needs` (ids of steps that must finish first), \
`if`, `timeout`, `retries`, `matrix`. Steps whose needs are finished run concurrently; when one \
fails, the others are stopped. Returns its task id: `task_output` has a line for each step, \
`task_stop` ends it with all its steps, and you are notified when it ends.";
    const ACCESS: Access = Access::Modifying;

    fn call(
        &self,
        context: &AgentToolContext,
        args: RunWorkflowArgs,
        _cancel: &CancelFlag,
    ) -> ToolOutcome {
        let spot = context.allowed_roots.find_existing(&args.file)?;
        let text = String::from_utf8(spot.read_all()?)
            .map_err(|_| format!("`{}` is not UTF-8 text, so it is not a workflow", args.file))?;
        let failed = |error: &dyn fmt::Display| format!("the workflow was not started: {error}");
        let settings =
            settings::load(&Environment::from_process()).map_err(|error| failed(&error))?;
        let check = |name: &str| siding_workflow::check_executor(name, &settings);
        let plan = Plan::parse_with_executors(Path::new(&args.file), &text, check);
        let plan = plan.map_err(|error| error.to_string())?;
        for step in plan.steps() {
            self.check_step(step)?;
        }
        if !settings.background_tasks {
            return Err("background tasks are turned off here, and a workflow is one".to_owned());
        }
        let session = self.host.live_session().map_err(|error| failed(&error))?;
        let file = self.cwd.join(&args.file).display().to_string();
        let of = (file.as_str(), text.as_str(), &plan);
        let id = task::start(&self.host.root, &settings, session, &self.cwd, of)
            .map_err(|error| failed(&error))?;
        let count = plan.steps().len();
        let noun = if count == 1 { "step" } else { "steps" };
        Ok(format!(
            "the workflow `{}` with {count} {noun} runs in the background as {id}; `task_output` \
             shows its steps, `task_wait` waits for its end",
            args.file
        ))
    }
}

impl RunWorkflow {
    /// Checks the command and the variables of a step with the guard. A step that needs a person's
    /// approval is refused unless `yes_to_ask` is set, because no person is asked here.
    fn check_step(&self, step: &WorkflowStep) -> Result<(), String> {
        let command = match &step.action {
            StepAction::Command(command) => command.as_str(),
            // The agent checks its commands itself, but not the variables that they inherit.
            StepAction::Prompt { .. } => "",
        };
        let step_id = &step.id;
        match (self.guard)(command, &step.env, true) {
            ApprovalDecision::Allow => Ok(()),
            ApprovalDecision::Ask { .. } if self.yes_to_ask => Ok(()),
            ApprovalDecision::Ask { why } => Err(format!(
                "not run: a person must approve step `{step_id}` first, and no person can answer here: \
                 {why}"
            )),
            ApprovalDecision::Deny { why } => Err(format!("not run: step `{step_id}`: {why}")),
        }
    }
}

impl fmt::Debug for RunWorkflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunWorkflow").field("cwd", &self.cwd).finish_non_exhaustive()
    }
}
