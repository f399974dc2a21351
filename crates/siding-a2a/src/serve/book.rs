//! The tasks of a server: begun, found, ended. All of it is on record; nothing is remembered here.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

use siding_core::launch::IdleShim;
use siding_core::run::request::{self, TaskRequest};
use siding_core::run::{self, Duplicates, LaunchEnv, LaunchResult};
use siding_core::stop::{self, StopOptions};
use siding_core::store::TaskDir;
use siding_core::sys::{self, file};
use siding_core::watch::TaskWatch;
use siding_core::{notices, output};
use siding_model::id::{SessionId, TaskId, TaskKind};
use siding_model::journal::TaskState;
use siding_model::notice::Coverage;
use siding_model::outcome::{BackgroundReason, Placement};
use siding_model::settings::Settings;
use siding_model::spec::{StdinMode, TaskCommand, TaskSpec};
use siding_model::text::one_line;
use siding_tools::{Host, PROGRAM};

use super::AgentProgram;
use super::progress::Progress;
use super::prompt::{context, text};
use super::report::{self, RESUME};
use crate::wire::{Message, RpcError, State, Task, code};

/// Bytes at the end of what an agent wrote in which its report is looked for.
const TAIL: u64 = 4 << 20;
/// How long a shim may take for a word, in milliseconds.
const START_MS: u64 = 10_000;
/// Columns of a name that is none.
const SHOWN: usize = 100;

/// The tasks of a server.
pub(super) struct Book {
    host: Host,
    agent: AgentProgram,
    settings: Settings,
    /// Tasks that may run at once.
    most: usize,
    /// Held while one begins: two must not go on with the same conversation.
    beginning: Mutex<()>,
}

impl Book {
    pub(super) const fn new(
        host: Host,
        agent: AgentProgram,
        settings: Settings,
        most: usize,
    ) -> Self {
        Self { host, agent, settings, most, beginning: Mutex::new(()) }
    }

    /// Begins a task for a message. What its agent does can be read from there on.
    pub(super) fn begin(&self, message: &Message) -> Result<(TaskId, Progress), RpcError> {
        let text = text(message)?;
        let given = |id: &Option<String>| id.clone().filter(|id| !id.is_empty());
        if let Some(task) = given(&message.task_id) {
            return Err(self.cannot_go_on(&task, given(&message.context_id).as_deref())?);
        }
        let context = match given(&message.context_id) {
            Some(given) => context(given)?,
            None => format!("c-{:016x}", sys::random_u64().map_err(internal)?),
        };
        let _one_at_a_time = self.beginning.lock().unwrap_or_else(PoisonError::into_inner);
        let own = self.all()?;
        let running = own.iter().filter(|state| state.is_live()).count();
        if running >= self.most {
            let why = format!("{running} tasks run already, which is as many as may (--max-tasks)");
            return Err(RpcError::new(code::INTERNAL, why));
        }
        let of_context = |state: &&TaskState| state.spec.name.as_deref() == Some(&context);
        let before = own.iter().filter(of_context).max_by_key(|state| state.started_wall);
        if let Some(running) = before.filter(|state| state.is_live()) {
            let id = running.spec.task_id;
            let why = format!("task {id} of this conversation is not over; cancel it, or wait");
            return Err(RpcError::new(code::UNSUPPORTED, why));
        }
        // An agent that could not even begin has left none.
        let is_there = |conversation: &SessionId| Progress::is_there(&self.host.root, conversation);
        let conversation = before.and_then(report::conversation).filter(is_there);
        let progress = match &conversation {
            Some(conversation) => Progress::after(&self.host.root, conversation),
            None => Progress::default(),
        };
        let spec = self.spec(text, context, conversation.as_ref()).map_err(internal)?;
        self.start(&spec)?;
        Ok((spec.task_id, progress))
    }

    fn spec(
        &self,
        text: String,
        context: String,
        conversation: Option<&SessionId>,
    ) -> Result<TaskSpec, run::RunError> {
        let AgentProgram { program, args, cwd } = &self.agent;
        let mut argv = vec![program.clone(), "agent".to_owned(), "--json".to_owned()];
        argv.extend(args.iter().cloned());
        if let Some(conversation) = conversation {
            argv.extend([RESUME.to_owned(), conversation.to_string()]);
        }
        // In one word, since it may begin with a dash.
        argv.push(format!("--prompt={text}"));
        let order = TaskRequest {
            kind: TaskKind::LocalAgent,
            command: TaskCommand::Argv { argv },
            cwd: request::resolve_directory(Some(cwd.as_ref()))?,
            session_id: self.host.live_session()?,
            name: Some(context),
            stdin: StdinMode::Null,
            placement: Placement::Background { why: BackgroundReason::Asked },
            deadline: self.settings.max_elapsed.min(self.settings.max_elapsed_hard_cap),
            // A server that is started anew takes it up.
            keep: true,
            monitor: None,
            wait_for: Vec::new(),
        };
        request::task_spec(&self.host.root, &self.settings, order)
    }

    /// Gives a task to a shim, and waits until it is on record.
    fn start(&self, spec: &TaskSpec) -> Result<(), RpcError> {
        let root = &self.host.root;
        let given = LaunchEnv { env: &[], env_clear: false, duplicates: Duplicates::Allowed };
        let begun =
            run::start_task(root, spec, &given, IdleShim::start(PROGRAM)).map_err(internal)?;
        let link = match begun {
            LaunchResult::Started(link) => link,
            LaunchResult::Duplicate(first) => {
                return Err(internal(format!("the same runs already as {first}")));
            }
        };
        let mut watch = TaskWatch::from_connection(root, PROGRAM, spec.task_id, link);
        while let Some(source) = watch.source() {
            sys::poll::wait_readable(&[source], Some(START_MS)).map_err(internal)?;
            let heard =
                run::recv_event(&mut watch).inspect_err(|_| run::clear_unrecorded(root, spec));
            heard.map_err(internal)?;
            if watch.state().is_ok() {
                break;
            }
        }
        Ok(())
    }

    /// Returns why a message to a task cannot be taken.
    fn cannot_go_on(&self, id: &str, context: Option<&str>) -> Result<RpcError, RpcError> {
        let state = self.state(self.find(id)?)?.1;
        let (id, own) = report::names(&state);
        if context.is_some_and(|context| context != own) {
            let why = format!("task {id} belongs to context `{own}`");
            return Ok(RpcError::new(code::INVALID_PARAMS, why));
        }
        let why = match state.is_live() {
            true => format!("task {id} takes no messages while it works"),
            false => format!("task {id} is over; send to context `{own}` without a task"),
        };
        Ok(RpcError::new(code::UNSUPPORTED, why))
    }

    /// Finds a task of this server.
    pub(super) fn find(&self, id: &str) -> Result<TaskId, RpcError> {
        let missing = || {
            let shown = one_line(id, SHOWN);
            RpcError::new(code::NO_TASK, format!("there is no task `{shown}`"))
        };
        let found: TaskId = id.parse().map_err(|_| missing())?;
        let dir = self.host.root.task_dir(found).map_err(|_| missing())?;
        let state = dir.read().map_err(|_| missing())?.state;
        self.is_own(&state).then_some(found).ok_or_else(missing)
    }

    fn is_own(&self, state: &TaskState) -> bool {
        state.spec.session_id == self.host.session
            && state.spec.task_id.kind() == TaskKind::LocalAgent
    }

    /// Reads how a task stands, after another shim was put in place if its own was killed.
    pub(super) fn state(&self, id: TaskId) -> Result<(TaskDir, TaskState), RpcError> {
        let standing = self.host.state(id).map_err(internal)?;
        Ok((standing.dir, standing.state))
    }

    /// Reads how a task stands, as it is told.
    pub(super) fn task(&self, id: TaskId) -> Result<Task, RpcError> {
        let (dir, state) = self.state(id)?;
        Ok(self.told(&dir, &state))
    }

    /// Returns how a task is told.
    pub(super) fn told(&self, dir: &TaskDir, state: &TaskState) -> Task {
        if state.is_live() {
            return report::task(state, "");
        }
        // Whoever asked for it is told here, and by no notice. It may be told again.
        let session = &self.host.session;
        let _told_again = notices::ack_shown(&self.host.root, state, session, Coverage::Status);
        report::task(state, &tail(dir).unwrap_or_default())
    }

    /// Returns what an agent has done since the last look.
    pub(super) fn steps(&self, state: &TaskState, progress: &mut Progress) -> Vec<String> {
        let conversation = report::conversation(state);
        conversation.map_or_else(Vec::new, |name| progress.more(&self.host.root, &name))
    }

    /// Returns where the transcript of a task ends now.
    pub(super) fn to_come(&self, state: &TaskState) -> Progress {
        let conversation = report::conversation(state);
        conversation.map_or_else(Progress::default, |name| Progress::after(&self.host.root, &name))
    }

    /// Ends a task with everything it has started.
    pub(super) fn cancel(&self, id: TaskId) -> Result<Task, RpcError> {
        let (_, state) = self.state(id)?;
        let stands = report::state_of(&state);
        if stands.is_over() {
            let word = State::word(&stands).unwrap_or_default();
            let why = format!("task {id} is {word} already");
            return Err(RpcError::new(code::NOT_CANCELABLE, why));
        }
        let how = StopOptions { requested_by: "a2a", grace: None, signal: None };
        stop::stop(&self.host.root, PROGRAM, id, how).map_err(internal)?;
        self.task(id)
    }

    /// Reads all tasks of this server. One that cannot be read is left out.
    pub(super) fn all(&self) -> Result<Vec<TaskState>, RpcError> {
        let root = &self.host.root;
        let ids = root.all_tasks().map_err(internal)?;
        let agents = ids.into_iter().filter(|id| id.kind() == TaskKind::LocalAgent);
        let read = |id| Some(root.task_dir(id).ok()?.read().ok()?.state);
        Ok(agents.filter_map(read).filter(|state| self.is_own(state)).collect())
    }
}

/// Returns an error of this server as its client reads it.
pub(super) fn internal(error: impl std::fmt::Display) -> RpcError {
    RpcError::new(code::INTERNAL, error.to_string())
}

/// Returns the end of what a task wrote.
fn tail(dir: &TaskDir) -> std::io::Result<String> {
    let fd: OwnedFd = output::open(dir)?;
    let len = file::metadata(&fd)?.len;
    let from = len.saturating_sub(TAIL);
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
