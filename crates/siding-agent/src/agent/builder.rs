//! Builds an agent for a new or a resumed conversation.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use siding_core::session;
use siding_core::store::StateDir;
use siding_core::sys::procfs;
use siding_core::task::run::request::WorkingDirectory;
use siding_model::advice::Dialect;
use siding_model::id::{SessionId, TaskId};
use siding_model::process::ProcRef;
use siding_model::session_host::SessionHost;
use siding_tools::ToolContext;

use super::approval::{Approver, AskPolicy};
use super::event::AgentEvent;
use super::notices::NoticeFollower;
use super::reminders::{self, Reminders};
use super::subagent::{SubagentLimits, SubagentSpawner};
use super::teammates::{Team, Teammates};
use super::tool_dispatch::ToolDispatcher;
use super::{Agent, AgentError, UiEvent, prompts};
use crate::cancel_flag::CancelFlag;
use crate::command_guard::CommandGuard;
use crate::conversation::{Conversation, ConversationLimits, Entry, Event};
use crate::memory_consolidation::IdleConsolidationConfig;
use crate::message::UserContent;
use crate::provider::Provider;
use crate::runtime::BackgroundRuntime;
use crate::tool::project_notes::ProjectNotes;
use crate::tool::todo::{TodoList, TodoOwner};
use crate::tool::{AgentToolContext, AllowedRoots, RunWorkflow, Toolbox};
use crate::transcript::{Transcript, TranscriptHeader};

/// The origin of an agent's conversation.
#[derive(Debug, Clone)]
pub enum ConversationSource {
    /// A new conversation in a new session.
    New {
        /// The working directory; `None` means that of the process.
        cwd: Option<PathBuf>,
    },
    /// An earlier conversation, continued from its transcript.
    Resumed(SessionId),
    /// The conversation of a subagent. This process runs as the subagent's task.
    Subagent(TaskId),
    /// The conversation of a teammate in this process.
    Teammate {
        /// The teammate's task, whose id is also the id of the session.
        task: TaskId,
        /// Pid of the proxy process that runs as the teammate's task.
        proxy_pid: i32,
    },
}

impl ConversationSource {
    /// Returns the pid of the process that owns the session.
    fn owner_pid(&self) -> i32 {
        match self {
            // The session ends with the teammate's task, so the task's proxy owns the session.
            Self::Teammate { proxy_pid, .. } => *proxy_pid,
            Self::New { .. } | Self::Resumed(_) | Self::Subagent(_) => {
                i32::try_from(std::process::id()).unwrap_or(0)
            }
        }
    }
}

/// The settings and dependencies from which an agent is built.
pub struct AgentBuilder {
    /// The state directory with the agent's session, transcript and tasks.
    pub root: StateDir,
    /// The conversation that the agent starts or continues.
    pub source: ConversationSource,
    /// The client that sends requests to the model.
    pub provider: Arc<dyn Provider>,
    /// The model that labels finished batches of calls, if labels are enabled.
    pub labeller: Option<Arc<dyn Provider>>,
    /// The model's name as given by the user, such as `anthropic:NAME`. Subagents and teammates
    /// inherit the model.
    pub model: String,
    /// Decides whether a command runs, is refused, or needs a person's approval.
    pub guard: CommandGuard,
    /// The policy for commands that need a person's approval.
    pub ask_policy: AskPolicy,
    /// Directories, besides the working directory, in which files may be read and written.
    pub allow_paths: Vec<PathBuf>,
    /// The names of the tools to offer; `None` offers all.
    pub tools: Option<Vec<String>>,
    /// Size of the context in tokens at which the conversation is summarized.
    pub compact_at: u64,
    /// Maximum number of read-only tools that run concurrently; zero counts as one.
    pub max_parallel_reads: usize,
    /// Maximum number of requests to the model for one prompt.
    pub max_requests: u32,
    /// Limits on the nesting and number of subagents and teammates.
    pub subagent_limits: SubagentLimits,
    /// How an idle interactive agent consolidates its notes; `None` disables this.
    pub idle_consolidation: Option<IdleConsolidationConfig>,
}

impl AgentBuilder {
    pub(super) fn build(self) -> Result<Agent, AgentError> {
        let is_subagent = matches!(self.source, ConversationSource::Subagent(_));
        self.build_in_team(|sender| match is_subagent {
            true => Team::Alone,
            false => Team::Lead(Teammates::new(sender)),
        })
    }

    /// Builds an agent with the team that `make_team` returns. `make_team` receives the sender of
    /// the agent's events.
    pub(super) fn build_in_team(
        self,
        make_team: impl FnOnce(Sender<AgentEvent>) -> Team,
    ) -> Result<Agent, AgentError> {
        let own_pid = self.source.owner_pid();
        let (session, cwd, transcript, entries) =
            ConversationState::find(&self.root, self.source, &self.model, own_pid)?
                .open(&self.root, own_pid)?;
        let owner = procfs::identify(own_pid);
        let host = Arc::new(ToolContext::new(self.root, session.clone(), owner, Dialect::Agent));
        let context = tool_context(&cwd, &self.allow_paths, &session, owner)?;
        // Unreadable notes do not prevent the agent from working.
        let notes = ProjectNotes::read(&cwd).ok().and_then(|memory| memory.format_for_model());
        let toolbox = build_toolbox(&host, &cwd, &self.guard, self.ask_policy);
        let spawner = SubagentSpawner {
            model: self.model,
            cwd: cwd.clone(),
            // A subagent cannot ask a person, even when the agent that started it has a terminal.
            yes_to_ask: self.ask_policy == AskPolicy::Allow,
            allow_paths: self.allow_paths,
            limits: self.subagent_limits,
            tools: self.tools,
            compact_at: self.compact_at,
            max_parallel_reads: self.max_parallel_reads,
            max_requests: self.max_requests,
        };
        let (sender, came) = channel();
        let team = make_team(sender.clone());
        let warden = Approver { guard: self.guard, ask_policy: self.ask_policy };
        let calls = ToolDispatcher::new(toolbox, context, spawner, team.clone(), warden)
            .map_err(|why| AgentError::Workspace { why: format!("--tools: {why}") })?;
        let calls = Arc::new(calls);
        let limits = ConversationLimits {
            read_only_tools: calls.read_only_tools(),
            max_parallel_reads: self.max_parallel_reads.max(1),
            max_requests: self.max_requests,
            compact_at_tokens: self.compact_at,
        };
        let fault = |fault| AgentError::InvalidTranscript { session: session.to_string(), fault };
        let conversation = Conversation::load(limits, entries).map_err(fault)?;
        let runtime = BackgroundRuntime::start("siding-tool", 2)
            .map_err(|source| AgentError::Io { doing: "start the agent's threads", source })?;
        let follow = NoticeFollower::start(&host, sender.clone())?;
        Ok(Agent {
            host,
            transcript,
            conversation,
            provider: self.provider,
            labeller: self.labeller,
            labels: Vec::new(),
            label_cancel: CancelFlag::default(),
            dispatcher: calls,
            system: prompts::system_prompt(&cwd, &team, notes.as_deref()).into(),
            events: came,
            sender,
            active_request: None,
            call_controls: HashMap::new(),
            pending_receipts: HashMap::new(),
            tasks_in_results: HashSet::new(),
            questions: HashMap::new(),
            queued_prompts: Vec::new(),
            reminders: Reminders::default(),
            has_new_notices: false,
            has_quiet_notices: false,
            activity_count: 0,
            written_entries: 0,
            idle_reason: None,
            team,
            _notice_follower: follow,
            runtime,
        })
    }
}

/// A conversation before its session is opened.
struct ConversationState {
    session: SessionId,
    header: TranscriptHeader,
    /// The existing transcript and its entries; `None` for a new conversation.
    resumed: Option<(Transcript, Vec<Entry>)>,
    /// The session of the agent that started this one as a subagent or teammate; `None` for a new
    /// or a resumed conversation.
    parent_session: Option<SessionId>,
}

impl ConversationState {
    fn find(
        root: &StateDir,
        whose: ConversationSource,
        model: &str,
        own: i32,
    ) -> Result<Self, AgentError> {
        let (session, under) = match whose {
            ConversationSource::New { cwd } => {
                let process = procfs::identify(own).ok_or_else(|| AgentError::Io {
                    doing: "identify this process",
                    source: std::io::ErrorKind::NotFound.into(),
                })?;
                let prefix = SessionHost::Agent.session_prefix();
                let name = format!("{prefix}{}-{}", process.pid, process.start_ticks);
                let session = name.parse().unwrap_or_else(|_| SessionId::implicit());
                let cwd = String::from(WorkingDirectory::resolve(cwd.as_deref())?);
                let opened = TranscriptHeader { cwd, model: model.to_owned() };
                return Ok(Self { session, header: opened, resumed: None, parent_session: None });
            }
            ConversationSource::Resumed(session) => (session, None),
            ConversationSource::Subagent(task) | ConversationSource::Teammate { task, .. } => {
                (session::subagent_session_id(task), Some(parent_session(root, task)?))
            }
        };
        let (transcript, opened, entries) = Transcript::open(root, &session)?;
        Ok(Self {
            session,
            header: opened,
            resumed: Some((transcript, entries)),
            parent_session: under,
        })
    }

    /// Opens the session, and returns it with the working directory, the transcript and the
    /// entries.
    fn open(
        self,
        root: &StateDir,
        own_pid: i32,
    ) -> Result<(SessionId, PathBuf, Transcript, Vec<Entry>), AgentError> {
        let Self { session, mut header, resumed, parent_session } = self;
        header.cwd = String::from(WorkingDirectory::resolve(Some(header.cwd.as_ref()))?);
        match &parent_session {
            Some(parent) => session::open_child(root, &session, own_pid, parent)?,
            None => session::open(root, &session, own_pid)?,
        };
        let cwd = PathBuf::from(&header.cwd);
        let (transcript, entries) = match resumed {
            Some(resumed) => resumed,
            None => (Transcript::create(root, &session, header)?, Vec::new()),
        };
        Ok((session, cwd, transcript, entries))
    }
}

/// Returns the session of the agent that started the task of a subagent or teammate.
fn parent_session(root: &StateDir, task: TaskId) -> Result<SessionId, AgentError> {
    let read = root.task_dir(task)?.read().map_err(|source| AgentError::Task { task, source })?;
    Ok(read.state.spec.session_id)
}

fn build_toolbox(
    host: &Arc<ToolContext>,
    cwd: &Path,
    guard: &CommandGuard,
    ask_policy: AskPolicy,
) -> Toolbox {
    let workflows = RunWorkflow {
        host: Arc::clone(host),
        cwd: cwd.to_owned(),
        guard: Arc::clone(guard),
        yes_to_ask: ask_policy == AskPolicy::Allow,
    };
    Toolbox::new().with_file_tools().with_todo_tools().with_tool(workflows)
}

fn tool_context(
    cwd: &Path,
    allow_paths: &[PathBuf],
    session: &SessionId,
    owner: Option<ProcRef>,
) -> Result<AgentToolContext, AgentError> {
    let ground = AllowedRoots::new(cwd, allow_paths)
        .map_err(|error| AgentError::Workspace { why: error.to_string() })?;
    let holder = owner
        .ok_or_else(|| std::io::ErrorKind::NotFound.into())
        .and_then(|owner| TodoOwner::for_process(session.as_str(), owner))
        .map_err(|source| AgentError::Io { doing: "identify this process", source })?;
    Ok(AgentToolContext::new(ground, TodoList::new(cwd), holder))
}

impl Agent {
    /// Continues the turn that was interrupted by the end of an earlier process, if there is one.
    /// Adds a reminder of the running tasks, and the prompt if one is given.
    pub(super) fn resume(
        &mut self,
        prompt: Option<String>,
        on_event: &mut dyn FnMut(UiEvent<'_>),
    ) -> Result<(), AgentError> {
        let mut content: Vec<UserContent> =
            reminders::full_reminder(&self.host).into_iter().collect();
        content.extend(prompt.map(|text| UserContent::Prompt { text }));
        self.handle_event(Event::Started(content), on_event)
    }
}
