//! What all calls share: the state directory and the session they work for.

use std::ffi::CStr;

use siding_core::launch::THIS_PROGRAM;
use siding_core::notices::Outbox;
use siding_core::session::{self, SessionError};
use siding_core::store::Root;
use siding_core::sys::procfs;
use siding_core::view::{self, Detail};
use siding_core::watch::{Watch, WatchError};
use siding_core::{notices, output, run::order, tree};
use siding_model::id::{SessionId, TaskId};
use siding_model::journal::TaskState;
use siding_model::notice::{Consumer, NoticeId};
use siding_model::process::ProcRef;
use siding_model::report::TaskView;

use crate::answer::Refusal;
use crate::news::Telling;
use crate::receipts::Receipt;
use crate::serve::McpError;

/// The program that becomes shims.
pub(crate) const PROGRAM: &CStr = THIS_PROGRAM;

/// What the name of a session begins with that a server has opened.
pub(crate) const OWN_SESSION: &str = "mcp-";

/// What all calls share.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) root: Root,
    pub(crate) session: SessionId,
    /// Who owns the session; `None` for one that somebody else has opened.
    owner: Option<ProcRef>,
    pub(crate) telling: Telling,
}

impl Host {
    /// Opens the session that tasks belong to.
    ///
    /// A named one is joined: somebody else opened it. That of the environment is only when it is of
    /// the same owner: the client may have it from an agent that it runs in, or from one that has
    /// gone. Otherwise it is named after its owner, so that a server which its client starts anew
    /// finds its tasks again. `owner` is the process whose end is the session's end; a parent that
    /// has gone already leaves only this process.
    pub(crate) fn open(root: Root, named: Option<&str>, owner: i32) -> Result<Self, McpError> {
        if named.is_some() {
            let joined = order::session(&root, named)?;
            if !joined.is_implicit() {
                return Ok(Self::of(root, joined, None));
            }
        }
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let owner = if owner > 1 { owner } else { own };
        let process = procfs::identify(owner).ok_or(McpError::NoOwner { pid: owner })?;
        if let Some(session) = order::inherited_session(&root, process) {
            return Ok(Self::of(root, session, None));
        }
        let name = format!("{OWN_SESSION}{}-{}", process.pid, process.start_ticks);
        let session = name.parse().map_err(|_| McpError::NoOwner { pid: owner })?;
        session::open(&root, &session, owner)?;
        Ok(Self::of(root, session, Some(process)))
    }

    fn of(root: Root, session: SessionId, owner: Option<ProcRef>) -> Self {
        Self { root, session, owner, telling: Telling::default() }
    }

    /// Returns the session for a new task, which would end at once in one that is over. Our own may
    /// have been closed, and is opened again while its owner lives.
    pub(crate) fn live_session(&self) -> Result<SessionId, SessionError> {
        match (session::live(&self.root, &self.session), self.owner) {
            (Err(SessionError::Unknown { .. } | SessionError::Over { .. }), Some(owner))
                if tree::lives(owner) =>
            {
                session::open(&self.root, &self.session, owner.pid)?;
            }
            (session, _) => drop(session?),
        }
        Ok(self.session.clone())
    }

    /// Finds a task by a piece of its id.
    pub(crate) fn find(&self, text: &str) -> Result<TaskId, Refusal> {
        Ok(self.root.resolve(text.trim())?)
    }

    /// Reads how a task stands, after another shim was put in place if its own was killed.
    pub(crate) fn state(&self, id: TaskId) -> Result<Standing, WatchError> {
        let watch = Watch::open(&self.root, PROGRAM, id)?;
        let (dir, state) = watch.state()?;
        Ok(Standing { dir, state })
    }

    /// Returns how a task is shown, with what is usual for it.
    pub(crate) fn view(&self, standing: &Standing, detail: Detail) -> TaskView {
        let mut view = view::of(&self.root, &standing.dir, &standing.state, detail);
        if view.is_under_way() {
            let ask =
                |history: &siding_history::History| history.expectation(&view.command, &view.cwd);
            let usual = siding_history::in_passing(&self.root, ask).and_then(|done| done.value);
            if let Some(usual) = usual {
                view.expect(&usual);
            }
        }
        view
    }

    /// Notes what an answer has shown. What cannot be noted is told again, which is what a notice is
    /// for.
    pub(crate) fn note(&self, receipts: Vec<Receipt>) {
        for receipt in receipts {
            match receipt {
                Receipt::Told(state, shown) => {
                    let _told_again = notices::consume(&self.root, &state, &self.session, shown);
                }
                Receipt::Returned(state) => self.returned(&state),
                Receipt::Read { dir, next } => {
                    let _read_again = output::mark_seen(&dir, &self.session, next);
                }
                Receipt::News(news) => {
                    let outbox = Outbox::new(&self.root, self.session.clone(), Consumer::agent());
                    let _told_again = outbox.and_then(|outbox| outbox.acknowledge(&news.ids));
                }
            }
        }
    }

    fn returned(&self, state: &TaskState) {
        let told = |(session, mut news): (_, Vec<NoticeId>)| {
            news.retain(|one| one.seq < state.next_seq);
            notices::returned(&self.root, &session, &news)
        };
        let _told_again = notices::notices_of(&self.root, state.spec.task_id).and_then(told);
    }
}

/// A task as it is on record.
#[derive(Debug)]
pub(crate) struct Standing {
    pub(crate) dir: siding_core::store::TaskDir,
    pub(crate) state: TaskState,
}
