//! The context that all calls share: the state directory, the session, and how the caller learns of
//! the end of a task.

use std::ffi::CStr;
use std::sync::Arc;
use std::time::Duration;

use siding_core::notices;
use siding_core::notices::Outbox;
use siding_core::output;
use siding_core::processes::siding_process::SELF_EXE;
use siding_core::processes::tree;
use siding_core::session::{self, Session, SessionError};
use siding_core::settings;
use siding_core::store::StateDir;
use siding_core::sys::procfs;
use siding_core::task::listing;
use siding_core::task::view::{self, ViewDetail};
use siding_core::task::watch::{TaskWatch, WatchError};
use siding_history::History;
use siding_model::advice::{Dialect, NoticeChannel};
use siding_model::budget::{BudgetCall, WaitRequest};
use siding_model::id::{SessionId, TaskId};
use siding_model::journal::TaskState;
use siding_model::notice::{Consumer, Coverage, NoticeId};
use siding_model::process::ProcRef;
use siding_model::settings::Settings;
use siding_model::task_view::TaskView;

use crate::answer::ToolError;
use crate::delivery::DeliveryAck;
use crate::notices_in_flight::NoticesInFlight;
use crate::shown_screens::ShownScreens;

/// Path of the program that runs as the shim: siding itself.
pub const SHIM_PROGRAM: &CStr = SELF_EXE;

/// The state directory and the session in which all calls of one caller act, and the screens that
/// its answers have shown.
#[derive(Debug)]
pub struct ToolContext {
    /// The state directory with this user's tasks and sessions.
    pub root: Arc<StateDir>,
    /// The session to which new tasks belong.
    pub session: SessionId,
    /// The session's owner. If the session was closed, it is opened again for this owner. `None` if
    /// another process opened the session.
    owner: Option<ProcRef>,
    /// The terms of advice to a model: names of commands or of tools.
    pub dialect: Dialect,
    pub(crate) notices_in_flight: NoticesInFlight,
    /// The screens in the answers to this caller.
    pub(crate) shown_screens: ShownScreens,
    /// Whether the caller appends notices about other tasks to the answers of tools.
    answers_carry_notices: bool,
}

impl ToolContext {
    /// Creates the context of an open session. With an `owner`, [`Self::live_session`] opens the
    /// session again after another process closed it. Callers whose session was opened by another
    /// process pass `None`.
    #[must_use]
    pub fn new(
        root: StateDir,
        session: SessionId,
        owner: Option<ProcRef>,
        dialect: Dialect,
    ) -> Self {
        let notices_in_flight = NoticesInFlight::default();
        let (shown_screens, answers_carry_notices) = (ShownScreens::default(), false);
        Self {
            root: Arc::new(root),
            session,
            owner,
            dialect,
            notices_in_flight,
            shown_screens,
            answers_carry_notices,
        }
    }

    /// Returns the context of another caller in the same session, to which no answer has shown a
    /// screen yet: a caller must not type for a screen that only another caller has seen.
    #[must_use]
    pub fn for_other_caller(&self) -> Self {
        Self {
            root: Arc::clone(&self.root),
            session: self.session.clone(),
            owner: self.owner,
            dialect: self.dialect,
            notices_in_flight: self.notices_in_flight.clone(),
            shown_screens: ShownScreens::default(),
            answers_carry_notices: self.answers_carry_notices,
        }
    }

    /// Returns the session for a new task after checking that it has not ended: a task in an ended
    /// session would be stopped immediately. A session that has ended or is unknown is opened again
    /// if the context has an owner that is alive.
    ///
    /// # Errors
    ///
    /// Returns [`SessionError`] when the session has ended or cannot be opened again.
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

    /// Returns the budget for which a call waits for a command, or `None` to wait until the end.
    /// `names_budget` says whether the call specifies a budget. The result does not apply to a call
    /// that requests the background.
    pub(crate) fn budget(&self, settings: &Settings, names_budget: bool) -> Option<Duration> {
        let request = if names_budget { WaitRequest::Budget } else { WaitRequest::Unspecified };
        let is_subagent = session::is_subagent(&self.session);
        let call = BudgetCall { request, is_subagent, is_person: false };
        settings.budget_policy().decide(call).budget()
    }

    /// Loads the settings and returns the budget for which a call waits, or `None` to wait until
    /// the end.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::Settings`] when the settings are invalid.
    pub fn current_budget(&self, names_budget: bool) -> Result<Option<Duration>, ToolError> {
        let settings = settings::load(&settings::Environment::from_process())?;
        Ok(self.budget(&settings, names_budget))
    }

    /// Declares that the caller appends notices about other tasks to the answers of tools, so that
    /// the advice in these answers can rely on the notices.
    #[must_use]
    pub fn with_notices_in_answers(mut self) -> Self {
        self.answers_carry_notices = true;
        self
    }

    /// Returns how a caller learns that a background task has ended.
    #[must_use]
    pub fn notice_channel(&self) -> NoticeChannel {
        if self.dialect == Dialect::Agent || self.hooks_deliver_notices() {
            NoticeChannel::Pushed
        } else if self.answers_carry_notices {
            NoticeChannel::WithToolResults
        } else {
            NoticeChannel::PollOnly
        }
    }

    /// Returns whether the client's hooks deliver the notices of this session. Hooks that have
    /// opened a session deliver the notices of all sessions with the same owner.
    pub(crate) fn hooks_deliver_notices(&self) -> bool {
        let own =
            procfs::boot_id().ok().zip(session::read(&self.root, &self.session).ok().flatten());
        let owner = own.and_then(|(boot, session)| session.living_owner(&boot));
        let sessions = owner.and_then(|owner| session::list_owned_by(&self.root, owner).ok());
        let has_hooks = |one: &Session| session::has_hooks(&self.root, &one.id);
        sessions.is_some_and(|all| all.iter().any(has_hooks))
    }

    /// Finds a task by its id, a unique prefix of the id, or its name. A name refers first to a task
    /// of this session.
    ///
    /// # Errors
    ///
    /// Returns [`ToolError::Store`] when no task matches, or more than one.
    pub fn find_task(&self, text: &str) -> Result<TaskId, ToolError> {
        Ok(listing::resolve_id_in(&self.root, Some(&self.session), text.trim())?)
    }

    /// Reads the state of a task. A task whose shim is dead or stopped is repaired first.
    ///
    /// # Errors
    ///
    /// Returns [`WatchError`] when the task cannot be watched.
    pub fn snapshot(&self, id: TaskId) -> Result<TaskSnapshot, WatchError> {
        let watch = TaskWatch::open(&self.root, SHIM_PROGRAM, id)?;
        let (dir, state) = watch.state()?;
        Ok(TaskSnapshot { dir, state })
    }

    /// Returns the view of a task. For a running task, the view has the expected duration if the
    /// history knows one.
    #[must_use]
    pub fn view(&self, snapshot: &TaskSnapshot, detail: ViewDetail) -> TaskView {
        let mut view = view::task_view(&self.root, &snapshot.dir, &snapshot.state, detail);
        self.add_expectations(std::slice::from_mut(&mut view));
        view
    }

    /// Returns the views of several tasks, as [`Self::view`] does, but opens the history only once.
    #[must_use]
    pub fn views(&self, snapshots: &[TaskSnapshot], detail: ViewDetail) -> Vec<TaskView> {
        let of = |one: &TaskSnapshot| view::task_view(&self.root, &one.dir, &one.state, detail);
        let mut views: Vec<TaskView> = snapshots.iter().map(of).collect();
        self.add_expectations(&mut views);
        views
    }

    /// Adds the expected duration to the views of running tasks.
    fn add_expectations(&self, views: &mut [TaskView]) {
        if !views.iter().any(TaskView::is_in_progress) {
            return;
        }
        let shown: &[TaskView] = views;
        let ask = |history: &History| {
            let usual = |view: &TaskView| match view.is_in_progress() {
                true => history.expectation(&view.command, &view.history_directory()),
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

    /// Records the acknowledgements of a delivered answer. If one cannot be recorded, the notice,
    /// result or output that it covers is shown again: delivery is at least once.
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

    /// Returns the notices that need no delivery once an answer with these acknowledgements has
    /// reached its reader. Notices that cannot be read are left out.
    #[must_use]
    pub fn covered_notices(&self, acks: &[DeliveryAck]) -> Vec<NoticeId> {
        let covered =
            |state, shown| notices::covered_notices(&self.root, state, shown).unwrap_or_default();
        acks.iter()
            .flat_map(|ack| match ack {
                DeliveryAck::TaskReported(state, shown) => covered(state, *shown),
                DeliveryAck::ResultReturned(state) => covered(state, Coverage::FullResult),
                DeliveryAck::OutputRead { .. } => Vec::new(),
                DeliveryAck::Notices(news) => news.ids.clone(),
            })
            .collect()
    }

    fn mark_returned(&self, state: &TaskState) {
        let mark = |(session, mut news): (_, Vec<NoticeId>)| {
            news.retain(|one| one.seq < state.next_seq);
            notices::ack_returned(&self.root, &session, &news)
        };
        let _best_effort = notices::caller_notices(&self.root, state.spec.task_id).and_then(mark);
    }
}

/// The state of a task at one moment.
#[derive(Debug)]
pub struct TaskSnapshot {
    /// The task's open directory.
    pub dir: siding_core::store::TaskDir,
    /// The state that results from replaying the task's journal.
    pub state: TaskState,
}
