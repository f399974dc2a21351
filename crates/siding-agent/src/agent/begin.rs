//! The beginning of an agent, and its being taken up again.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use siding_core::run::request;
use siding_core::session;
use siding_core::store::StateDir;
use siding_core::sys::procfs;
use siding_model::advice::Dialect;
use siding_model::id::{SessionId, TaskId};
use siding_model::process::ProcRef;
use siding_tools::ToolContext;

use super::calls::Calls;
use super::came::Came;
use super::mates::{Company, Mates};
use super::news::Follow;
use super::permit::{Doubts, Guard, Warden};
use super::reminders::{self, Reminders};
use super::spawn::{Bounds, Spawner};
use super::{Agent, AgentError, Sight, words};
use crate::conversation::{Conversation, Entry, Event, Terms};
use crate::dream::Unasked;
use crate::engine::Engine;
use crate::message::Told;
use crate::provider::{Cancel, Provider};
use crate::tool::memory::Memory;
use crate::tool::todo::{Holder, TodoList};
use crate::tool::{Ground, RunWorkflow, Scene, Toolbox};
use crate::transcript::{Opened, Transcript};

/// Whose conversation it is.
#[derive(Debug, Clone)]
pub enum Whose {
    /// One that begins.
    New {
        /// The directory to work in; the process's own when none is given.
        cwd: Option<PathBuf>,
    },
    /// One that goes on.
    Resumed(SessionId),
    /// That of a subagent, whose task this process is.
    Subagent(TaskId),
    /// That of a teammate in this process.
    Mate {
        /// Its task.
        task: TaskId,
        /// The process that stands in for it there.
        stand_in: i32,
    },
}

/// What an agent is made of.
pub struct Begin {
    /// The state directory.
    pub root: StateDir,
    /// Whose conversation it is.
    pub whose: Whose,
    /// Who answers for the model.
    pub provider: Arc<dyn Provider>,
    /// Who labels what was done, if anybody does.
    pub labeller: Option<Arc<dyn Provider>>,
    /// The model, as it was named.
    pub model: String,
    /// Judges commands.
    pub guard: Guard,
    /// What becomes of what the guard would ask a person about.
    pub doubts: Doubts,
    /// Directories beside its own in which files may be read and written.
    pub allow_paths: Vec<PathBuf>,
    /// The only tools that it has, where these are not all.
    pub tools: Option<Vec<String>>,
    /// Tokens of context after which what was said is put in short.
    pub compact_at: u64,
    /// Read-only tools that run at once.
    pub at_once: usize,
    /// Requests to the model that may follow one prompt.
    pub most_requests: u32,
    /// How many subagents there may be.
    pub bounds: Bounds,
    /// The dreams that it begins by itself at a terminal, if it does.
    pub unasked: Option<Unasked>,
}

impl Begin {
    pub(super) fn agent(self) -> Result<Agent, AgentError> {
        let is_subagent = matches!(self.whose, Whose::Subagent(_));
        self.agent_in(|sender| match is_subagent {
            true => Company::Alone,
            false => Company::Lead(Mates::new(sender)),
        })
    }

    /// Makes an agent that works with others: whom is asked with where things arrive at it.
    pub(super) fn agent_in(
        self,
        company: impl FnOnce(Sender<Came>) -> Company,
    ) -> Result<Agent, AgentError> {
        let own = match self.whose {
            // Its session ends with its task.
            Whose::Mate { stand_in, .. } => stand_in,
            Whose::New { .. } | Whose::Resumed(_) | Whose::Subagent(_) => {
                i32::try_from(std::process::id()).unwrap_or(0)
            }
        };
        let Place { session, mut opened, taken_up, under } =
            Place::of(&self.root, self.whose, &self.model, own)?;
        opened.cwd = request::resolve_directory(Some(opened.cwd.as_ref()))?;
        match &under {
            Some(under) => session::open_child(&self.root, &session, own, under)?,
            None => session::open(&self.root, &session, own)?,
        };
        let (transcript, entries) = match taken_up {
            Some(taken_up) => taken_up,
            None => (Transcript::create(&self.root, &session, opened.clone())?, Vec::new()),
        };
        let owner = procfs::identify(own);
        let host = Arc::new(ToolContext::new(self.root, session.clone(), owner, Dialect::Agent));
        let cwd = PathBuf::from(&opened.cwd);
        let scene = scene(&cwd, &self.allow_paths, &session, owner)?;
        // What cannot be read is no reason not to work.
        let notes = Memory::read(&cwd).ok().and_then(|memory| memory.for_model());
        let workflows = RunWorkflow {
            host: Arc::clone(&host),
            cwd: cwd.clone(),
            guard: Arc::clone(&self.guard),
            yes_to_ask: self.doubts == Doubts::Allowed,
        };
        let toolbox = Toolbox::new().with_files().with_todo().with(workflows);
        let spawner = Spawner {
            model: self.model,
            cwd: cwd.clone(),
            // Nobody can be asked by a subagent, also where somebody is at the terminal.
            yes_to_ask: self.doubts == Doubts::Allowed,
            allow_paths: self.allow_paths,
            bounds: self.bounds,
            tools: self.tools,
            compact_at: self.compact_at,
            at_once: self.at_once,
            most_requests: self.most_requests,
        };
        let (sender, came) = channel();
        let company = company(sender.clone());
        let warden = Warden { guard: self.guard, doubts: self.doubts };
        let calls = Calls::new(toolbox, scene, spawner, company.clone(), warden)
            .map_err(|why| AgentError::Scene { why: format!("--tools: {why}") })?;
        let calls = Arc::new(calls);
        let terms = Terms {
            reading: calls.reading(),
            at_once: self.at_once.max(1),
            most_requests: self.most_requests,
            compact_at: self.compact_at,
        };
        let fault = |fault| AgentError::Fault { session: session.to_string(), fault };
        let conversation = Conversation::load(terms, entries).map_err(fault)?;
        let runtime = Engine::start("siding-tool", 2)
            .map_err(|source| AgentError::Io { doing: "start", source })?;
        let follow = Follow::begin(&host, sender.clone())?;
        Ok(Agent {
            host,
            transcript,
            conversation,
            provider: self.provider,
            labeller: self.labeller,
            labels: Vec::new(),
            labelling: Cancel::default(),
            calls,
            system: words::system(&cwd, &company, notes.as_deref()).into(),
            came,
            sender,
            asking: None,
            running: HashMap::new(),
            receipts: HashMap::new(),
            shown: HashSet::new(),
            questions: HashMap::new(),
            prompts: Vec::new(),
            reminders: Reminders::default(),
            has_news: false,
            has_quiet_news: false,
            begun: 0,
            entries: 0,
            rest: None,
            company,
            _follow: follow,
            runtime,
        })
    }
}

/// Where a conversation is, and what is there.
struct Place {
    session: SessionId,
    opened: Opened,
    /// Its transcript, and what is in it.
    taken_up: Option<(Transcript, Vec<Entry>)>,
    /// The session of whoever has started it.
    under: Option<SessionId>,
}

impl Place {
    fn of(root: &StateDir, whose: Whose, model: &str, own: i32) -> Result<Self, AgentError> {
        let (session, under) = match whose {
            Whose::New { cwd } => {
                let process = procfs::identify(own).ok_or_else(|| AgentError::Io {
                    doing: "look at this process",
                    source: std::io::ErrorKind::NotFound.into(),
                })?;
                let name = format!("agent-{}-{}", process.pid, process.start_ticks);
                let session = name.parse().unwrap_or_else(|_| SessionId::implicit());
                let cwd = request::resolve_directory(cwd.as_deref())?;
                let opened = Opened { cwd, model: model.to_owned() };
                return Ok(Self { session, opened, taken_up: None, under: None });
            }
            Whose::Resumed(session) => (session, None),
            Whose::Subagent(task) | Whose::Mate { task, .. } => {
                (session::subagent_session_id(task), Some(starter_of(root, task)?))
            }
        };
        let (transcript, opened, entries) = Transcript::open(root, &session)?;
        Ok(Self { session, opened, taken_up: Some((transcript, entries)), under })
    }
}

/// Returns the session that a subagent's or teammate's task is of: that of whoever started it.
fn starter_of(root: &StateDir, task: TaskId) -> Result<SessionId, AgentError> {
    let read = root.task_dir(task)?.read().map_err(|source| AgentError::Task { task, source })?;
    Ok(read.state.spec.session_id)
}

fn scene(
    cwd: &Path,
    allow_paths: &[PathBuf],
    session: &SessionId,
    owner: Option<ProcRef>,
) -> Result<Scene, AgentError> {
    let ground = Ground::new(cwd, allow_paths)
        .map_err(|error| AgentError::Scene { why: error.to_string() })?;
    let holder = owner
        .ok_or_else(|| std::io::ErrorKind::NotFound.into())
        .and_then(|owner| Holder::of(session.as_str(), owner))
        .map_err(|source| AgentError::Io { doing: "look at this process", source })?;
    Ok(Scene::new(ground, TodoList::new(cwd), holder))
}

impl Agent {
    /// Takes up what was left, if anything was, and a prompt, if there is one.
    pub(super) fn take_up(
        &mut self,
        prompt: Option<String>,
        sight: &mut dyn FnMut(Sight<'_>),
    ) -> Result<(), AgentError> {
        let mut told: Vec<Told> = reminders::all(&self.host).into_iter().collect();
        told.extend(prompt.map(|text| Told::Prompt { text }));
        self.happen(Event::Began(told), sight)
    }
}
