//! Starts, finds and cancels the tasks of an A2A server. The state of the tasks is on disk, not in
//! this module.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use siding_core::store::TaskDir;
use siding_core::sys::{self, file};
use siding_core::task::launch::IdleShim;
use siding_core::task::run::request::{TaskRequest, WorkingDirectory};
use siding_core::task::run::{self, PreparedTask, RunError};
use siding_core::task::stop::{self, StopOptions};
use siding_core::task::watch::TaskWatch;
use siding_core::{notices, output};
use siding_model::foreground_call::CallPolicy;
use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::journal::TaskState;
use siding_model::notice::Coverage;
use siding_model::settings::Settings;
use siding_model::spec::TaskCommand;
use siding_model::text::one_line;
use siding_tools::async_fd::run_blocking;
use siding_tools::{
    AsyncCaller, SHIM_PROGRAM, TaskSnapshot, ToolContext, ToolError, wait_in_foreground,
};

use super::AgentProgram;
use super::convert::{self, RESUME_FLAG};
use super::prompt::{check_context_id, prompt_text};
use super::transcript::TranscriptCursor;
use crate::wire::{A2aState, Message, RpcError, Task, code};

/// The name of the requester that is recorded when a client stops a task.
pub(super) const A2A_CALLER_NAME: &str = "a2a";
/// Number of bytes at the end of an agent's output that are searched for the agent's report.
const REPORT_TAIL_BYTES: u64 = 4 << 20;
/// Maximum columns of an unknown task id in an error message.
const ID_COLUMNS: usize = 100;

/// Starts, reads and stops the tasks of the server's session.
pub(super) struct TaskStore {
    tool_context: ToolContext,
    agent: AgentProgram,
    settings: Settings,
    /// Maximum number of tasks that may run concurrently.
    max_running: usize,
    /// Held while a task starts: two tasks must not resume the same conversation.
    start_lock: Mutex<()>,
}

impl TaskStore {
    pub(super) const fn new(
        tool_context: ToolContext,
        agent: AgentProgram,
        settings: Settings,
        max_running: usize,
    ) -> Self {
        Self { tool_context, agent, settings, max_running, start_lock: Mutex::new(()) }
    }

    /// Starts a task for a message. Returns the task's id, and the position in the transcript where
    /// the agent's steps begin.
    pub(super) fn start_task(
        &self,
        message: &Message,
    ) -> Result<(TaskId, TranscriptCursor), RpcError> {
        let text = prompt_text(message)?;
        let given = |id: &Option<String>| id.clone().filter(|id| !id.is_empty());
        if let Some(task) = given(&message.task_id) {
            return Err(self.follow_up_error(&task, given(&message.context_id).as_deref())?);
        }
        let context = match given(&message.context_id) {
            Some(given) => check_context_id(given)?,
            None => format!("c-{:016x}", sys::random_u64().map_err(internal_error)?),
        };
        let _keeps_alive = self.start_lock.lock().unwrap_or_else(PoisonError::into_inner);
        let states = self.list_states()?;
        let running = states.iter().filter(|state| state.is_live()).count();
        if running >= self.max_running {
            let why = format!("{running} tasks are already running, the maximum (--max-tasks)");
            return Err(RpcError::new(code::INTERNAL_ERROR, why));
        }
        let of_context = |state: &&TaskState| state.spec.name.as_deref() == Some(&context);
        let before = states.iter().filter(of_context).max_by_key(|state| state.started_wall);
        if let Some(running) = before.filter(|state| state.is_live()) {
            let id = running.spec.task_id;
            let why = format!("task {id} of this conversation has not ended; cancel it, or wait");
            return Err(RpcError::new(code::UNSUPPORTED_OPERATION, why));
        }
        // An agent that failed to start has left no transcript, so there is nothing to resume.
        let is_there = |conversation: &SessionId| {
            TranscriptCursor::exists(&self.tool_context.root, conversation)
        };
        let conversation = before.and_then(convert::conversation_id).filter(is_there);
        let progress = match &conversation {
            Some(conversation) => TranscriptCursor::at_end(&self.tool_context.root, conversation),
            None => TranscriptCursor::default(),
        };
        let task =
            self.prepare_task(text, context, conversation.as_ref()).map_err(internal_error)?;
        self.launch(&task)?;
        Ok((task.id(), progress))
    }

    fn prepare_task(
        &self,
        text: String,
        context: String,
        conversation: Option<&SessionId>,
    ) -> Result<PreparedTask, RunError> {
        let AgentProgram { program, args, cwd } = &self.agent;
        let mut argv = vec![program.clone(), "agent".to_owned(), "--json".to_owned()];
        argv.extend(args.iter().cloned());
        if let Some(conversation) = conversation {
            argv.extend([RESUME_FLAG.to_owned(), conversation.to_string()]);
        }
        // The flag and the text are one argument, because the text may begin with a dash.
        argv.push(format!("--prompt={text}"));
        let root = &self.tool_context.root;
        let command = TaskCommand::Argv { argv };
        let cwd = WorkingDirectory::resolve(Some(cwd.as_ref()))?;
        TaskRequest::in_background(command, cwd, self.tool_context.live_session()?)
            .kind(TaskKind::LocalAgent)
            .name(context)
            // The task outlives the session, so that a restarted server finds it again.
            .keep(true)
            .prepare(root, &self.settings)
    }

    /// Passes a task to a shim, and waits until its agent runs or has failed to start.
    fn launch(&self, task: &PreparedTask) -> Result<(), RpcError> {
        let root = &self.tool_context.root;
        let link = task.start(root, IdleShim::start(SHIM_PROGRAM)).map_err(internal_error)?;
        run::wait_until_started(root, SHIM_PROGRAM, task, link).map_err(internal_error)
    }

    /// Waits for the end of a task. Returns `None` if the caller has disconnected.
    pub(super) async fn wait_until_end<C: AsyncCaller>(
        &self,
        id: TaskId,
        caller: &mut C,
    ) -> Result<Option<TaskSnapshot>, RpcError> {
        let open = || TaskWatch::open(&self.tool_context.root, SHIM_PROGRAM, id);
        let mut watch = run_blocking(open).map_err(internal_error)?;
        let spec = run_blocking(|| watch.state()).map_err(internal_error)?.1.spec;
        let policy = CallPolicy::until_task_end(&spec);
        match wait_in_foreground(&self.tool_context, caller, &mut watch, &spec, policy).await {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(ToolError::Cancelled) => Ok(None),
            Err(error) => Err(internal_error(error)),
        }
    }

    /// Returns the error for a message to an existing task: no task accepts a second message. Fails
    /// if there is no such task.
    fn follow_up_error(&self, id: &str, context: Option<&str>) -> Result<RpcError, RpcError> {
        let state = self.read_state(self.find_task(id)?)?.1;
        let (id, context_id) = convert::task_and_context_ids(&state);
        if context.is_some_and(|context| context != context_id) {
            let why = format!("task {id} belongs to context `{context_id}`");
            return Ok(RpcError::new(code::INVALID_PARAMS, why));
        }
        let why = match state.is_live() {
            true => format!("task {id} takes no messages while it works"),
            false => format!("task {id} has ended; send to context `{context_id}` without a task"),
        };
        Ok(RpcError::new(code::UNSUPPORTED_OPERATION, why))
    }

    /// Parses a task's id. A task that does not belong to this server, or cannot be read, is
    /// reported as missing.
    pub(super) fn find_task(&self, id: &str) -> Result<TaskId, RpcError> {
        let missing = || {
            let shown = one_line(id, ID_COLUMNS);
            RpcError::new(code::TASK_NOT_FOUND, format!("there is no task `{shown}`"))
        };
        let found: TaskId = id.parse().map_err(|_| missing())?;
        let dir = self.tool_context.root.task_dir(found).map_err(|_| missing())?;
        let state = dir.read().map_err(|_| missing())?.state;
        self.owns(&state).then_some(found).ok_or_else(missing)
    }

    fn owns(&self, state: &TaskState) -> bool {
        state.spec.session_id == self.tool_context.session
            && state.spec.task_id.kind() == TaskKind::LocalAgent
    }

    /// Reads the state of a task. A task whose shim is dead or stopped is repaired first.
    pub(super) fn read_state(&self, id: TaskId) -> Result<(TaskDir, TaskState), RpcError> {
        let snapshot = self.tool_context.snapshot(id).map_err(internal_error)?;
        Ok((snapshot.dir, snapshot.state))
    }

    /// Reads a task of siding and converts it to a task of A2A.
    pub(super) fn read_task(&self, id: TaskId) -> Result<Task, RpcError> {
        let (dir, state) = self.read_state(id)?;
        Ok(self.to_a2a_task(&dir, &state))
    }

    /// Converts a task of siding to a task of A2A. If the task has ended, the notice of the end is
    /// acknowledged.
    pub(super) fn to_a2a_task(&self, dir: &TaskDir, state: &TaskState) -> Task {
        if state.is_live() {
            return convert::to_a2a_task(state, "");
        }
        // The client receives the result here, and can request it again, so it needs no notice.
        let session = &self.tool_context.session;
        let _best_effort =
            notices::ack_shown(&self.tool_context.root, state, session, Coverage::Status);
        convert::to_a2a_task(state, &output_tail(dir).unwrap_or_default())
    }

    /// Returns the agent's steps after the position `progress`, which moves past them.
    pub(super) fn new_steps(
        &self,
        state: &TaskState,
        progress: &mut TranscriptCursor,
    ) -> Vec<String> {
        let conversation = convert::conversation_id(state);
        conversation
            .map_or_else(Vec::new, |name| progress.read_steps(&self.tool_context.root, &name))
    }

    /// Returns the current end of a task's transcript.
    pub(super) fn transcript_end(&self, state: &TaskState) -> TranscriptCursor {
        let conversation = convert::conversation_id(state);
        conversation.map_or_else(TranscriptCursor::default, |name| {
            TranscriptCursor::at_end(&self.tool_context.root, &name)
        })
    }

    /// Stops a task with its process tree, and returns the task. Fails if the task has already
    /// ended.
    pub(super) fn cancel(&self, id: TaskId) -> Result<Task, RpcError> {
        let (_, state) = self.read_state(id)?;
        let a2a_state = convert::to_a2a_state(&state);
        if a2a_state.is_terminal() {
            let word = A2aState::label(&a2a_state).unwrap_or_default();
            let why = format!("task {id} is already {word}");
            return Err(RpcError::new(code::NOT_CANCELABLE, why));
        }
        let options = StopOptions { requested_by: A2A_CALLER_NAME, grace: None, signal: None };
        stop::stop(&self.tool_context.root, SHIM_PROGRAM, id, options).map_err(internal_error)?;
        self.read_task(id)
    }

    /// Reads the states of this server's tasks. Tasks that cannot be read are omitted.
    pub(super) fn list_states(&self) -> Result<Vec<TaskState>, RpcError> {
        let root = &self.tool_context.root;
        let ids = root.all_tasks().map_err(internal_error)?;
        let agents = ids.into_iter().filter(|id| id.kind() == TaskKind::LocalAgent);
        let read = |id| Some(root.task_dir(id).ok()?.read().ok()?.state);
        Ok(agents.filter_map(read).filter(|state| self.owns(state)).collect())
    }
}

/// Converts an error of this server to a JSON-RPC error.
pub(super) fn internal_error(error: impl std::fmt::Display) -> RpcError {
    RpcError::new(code::INTERNAL_ERROR, error.to_string())
}

/// Returns at most [`REPORT_TAIL_BYTES`] from the end of a task's output.
fn output_tail(dir: &TaskDir) -> std::io::Result<String> {
    let fd: OwnedFd = output::open(dir)?;
    let len = file::metadata(&fd)?.len;
    let from = len.saturating_sub(REPORT_TAIL_BYTES);
    let mut bytes = vec![0; usize::try_from(len - from).unwrap_or(0)];
    let mut filled = 0;
    while filled < bytes.len() {
        match file::read_at(&fd, &mut bytes[filled..], from + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
