//! What all calls share: the state directory and the session they work for.

use std::ffi::CStr;
use std::time::Duration;

use siding_core::listing;
use siding_core::notices::Outbox;
use siding_core::session::{self, SessionError};
use siding_core::siding_process::SELF_EXE;
use siding_core::store::StateDir;
use siding_core::view::{self, ViewDetail};
use siding_core::watch::{TaskWatch, WatchError};
use siding_core::{notices, output, settings, tree};
use siding_history::History;
use siding_model::advice::{Dialect, NoticeChannel};
use siding_model::budget::{BudgetCall, WaitRequest};
use siding_model::id::{SessionId, TaskId};
use siding_model::journal::TaskState;
use siding_model::notice::{Consumer, NoticeId};
use siding_model::process::ProcRef;
use siding_model::settings::Settings;
use siding_model::task_view::TaskView;

use crate::answer::ToolError;
use crate::answer_notices::{self, NoticesInFlight};
use crate::delivery::DeliveryAck;

/// The program that becomes shims.
pub const SHIM_PROGRAM: &CStr = SELF_EXE;

/// What all calls share.
#[derive(Debug)]
pub struct ToolContext {
    /// The state directory.
    pub root: StateDir,
    /// The session that tasks belong to.
    pub session: SessionId,
    /// Who owns the session; `None` for one that somebody else has opened.
    owner: Option<ProcRef>,
    /// In whose words a model is told what to do next.
    pub dialect: Dialect,
    pub(crate) notices_in_flight: NoticesInFlight,
    /// Whether answers of the tools carry notices of other tasks.
    answers_carry_notices: bool,
}

impl ToolContext {
    /// Makes one for a session that is open. `owner` is whoever owns it, if it is to be opened again
    /// when somebody has closed it; `None` for one that somebody else has opened.
    #[must_use]
    pub fn new(
        root: StateDir,
        session: SessionId,
        owner: Option<ProcRef>,
        dialect: Dialect,
    ) -> Self {
        let notices_in_flight = NoticesInFlight::default();
        Self { root, session, owner, dialect, notices_in_flight, answers_carry_notices: false }
    }

    /// Returns the session for a new task, which would end at once in one that is over. Our own may
    /// have been closed, and is opened again while its owner lives.
    ///
    /// # Errors
    ///
    /// [`SessionError`].
    pub fn live_session(&self) -> Result<SessionId, SessionError> {
        match (session::require_live(&self.root, &self.session), self.owner) {
            (Err(SessionError::Unknown { .. } | SessionError::Ended { .. }), Some(owner))
                if tree::is_alive(owner) =>
            {
                session::open(&self.root, &self.session, owner.pid)?;
            }
            (session, _) => drop(session?),
        }
        Ok(self.session.clone())
    }

    /// Decides how long a call waits for a command: a budget, or `None` until the end. A call in the
    /// background is decided by its caller.
    pub(crate) fn budget(&self, settings: &Settings, names_budget: bool) -> Option<Duration> {
        let request = if names_budget { WaitRequest::Budget } else { WaitRequest::Unspecified };
        let is_subagent = session::is_subagent(&self.session);
        let call = BudgetCall { request, is_subagent, is_person: false };
        settings.budget_policy().decide(call).budget()
    }

    /// Decides the same by the settings in force now.
    ///
    /// # Errors
    ///
    /// [`ToolError::Settings`].
    pub fn current_budget(&self, names_budget: bool) -> Result<Option<Duration>, ToolError> {
        let settings = settings::load(&settings::Environment::from_process())?;
        Ok(self.budget(&settings, names_budget))
    }

    /// Has the answers of the tools carry notices of other tasks.
    #[must_use]
    pub fn with_notices_in_answers(mut self) -> Self {
        self.answers_carry_notices = true;
        self
    }

    /// Returns how a caller learns that a task in the background has ended.
    #[must_use]
    pub fn notice_channel(&self) -> NoticeChannel {
        if self.dialect == Dialect::Agent || answer_notices::hooks_deliver_notices(self) {
            NoticeChannel::Pushed
        } else if self.answers_carry_notices {
            NoticeChannel::WithToolResults
        } else {
            NoticeChannel::PollOnly
        }
    }

    /// Finds a task by a piece of its id.
    ///
    /// # Errors
    ///
    /// [`ToolError::Store`].
    pub fn find_task(&self, text: &str) -> Result<TaskId, ToolError> {
        Ok(listing::resolve_id(&self.root, text.trim())?)
    }

    /// Reads how a task stands, after another shim was put in place if its own was killed.
    ///
    /// # Errors
    ///
    /// [`WatchError`].
    pub fn snapshot(&self, id: TaskId) -> Result<TaskSnapshot, WatchError> {
        let watch = TaskWatch::open(&self.root, SHIM_PROGRAM, id)?;
        let (dir, state) = watch.state()?;
        Ok(TaskSnapshot { dir, state })
    }

    /// Returns how a task is shown, with what is usual for it.
    #[must_use]
    pub fn view(&self, snapshot: &TaskSnapshot, detail: ViewDetail) -> TaskView {
        let mut view = view::task_view(&self.root, &snapshot.dir, &snapshot.state, detail);
        self.add_expectations(std::slice::from_mut(&mut view));
        view
    }

    /// Returns how several tasks are shown, each as by [`Self::view`]. The history is opened once.
    #[must_use]
    pub fn views(&self, snapshots: &[TaskSnapshot], detail: ViewDetail) -> Vec<TaskView> {
        let of = |one: &TaskSnapshot| view::task_view(&self.root, &one.dir, &one.state, detail);
        let mut views: Vec<TaskView> = snapshots.iter().map(of).collect();
        self.add_expectations(&mut views);
        views
    }

    /// Adds to tasks that are under way what is usual for them.
    fn add_expectations(&self, views: &mut [TaskView]) {
        if !views.iter().any(TaskView::is_in_progress) {
            return;
        }
        let shown: &[TaskView] = views;
        let ask = |history: &History| {
            let usual = |view: &TaskView| match view.is_in_progress() {
                true => history.expectation(&view.command, &view.cwd),
                false => Ok(None),
            };
            shown.iter().map(usual).collect::<Result<Vec<_>, _>>()
        };
        let usual = siding_history::query_best_effort(&self.root, ask).map(|done| done.value);
        for (view, usual) in views.iter_mut().zip(usual.unwrap_or_default()) {
            if let Some(usual) = usual {
                view.set_expectation(&usual);
            }
        }
    }

    /// Notes what an answer has shown. What cannot be noted is told again, which is what a notice is
    /// for.
    pub fn acknowledge(&self, acks: Vec<DeliveryAck>) {
        for ack in acks {
            match ack {
                DeliveryAck::TaskReported(state, shown) => {
                    let _best_effort = notices::ack_shown(&self.root, &state, &self.session, shown);
                }
                DeliveryAck::ResultReturned(state) => self.mark_returned(&state),
                DeliveryAck::OutputRead { dir, next } => {
                    let _best_effort = output::advance_read_cursor(&dir, &self.session, next);
                }
                DeliveryAck::Notices(news) => {
                    let outbox = Outbox::new(&self.root, self.session.clone(), Consumer::agent());
                    let _best_effort = outbox.and_then(|outbox| outbox.acknowledge(&news.ids));
                }
            }
        }
    }

    fn mark_returned(&self, state: &TaskState) {
        let mark = |(session, mut news): (_, Vec<NoticeId>)| {
            news.retain(|one| one.seq < state.next_seq);
            notices::ack_returned(&self.root, &session, &news)
        };
        let _best_effort = notices::caller_notices(&self.root, state.spec.task_id).and_then(mark);
    }
}

/// A task as it is on record.
#[derive(Debug)]
pub struct TaskSnapshot {
    /// Its directory.
    pub dir: siding_core::store::TaskDir,
    /// What its journal says.
    pub state: TaskState,
}
