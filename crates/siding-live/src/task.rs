//! One task of a view, with its notices.

use std::time::Duration;

use siding_core::notices::Acks;
use siding_model::evidence::{AttentionView, StallRecord};
use siding_model::history::Expectation;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::notice::{Consumer, Notice, NoticeId, NoticeKind};
use siding_model::person_need::PersonNeed;
use siding_model::process::{BootId, MonotonicMs, UnixMs};
use siding_model::task_view::TaskView;

use crate::cpu_meter::CpuMeter;
use crate::usage::TaskUsage;

/// Maximum difference between a deadline on the wall clock and the shown text, in milliseconds.
const MAX_DEADLINE_ERROR_MS: u64 = 1_000;

/// A task as it was at the last refresh.
#[derive(Debug, Clone)]
pub struct LiveTask {
    /// The state of the task, without the text of its output. Processes and ports are in
    /// [`LiveTask::usage`] instead. The expected duration is set once the caller has called
    /// [`LiveView::set_expectation`](crate::LiveView::set_expectation).
    pub view: TaskView,
    /// The resources that the task uses; `None` until [`LiveView::sample`](crate::LiveView::sample)
    /// has measured them, after the end of the task, and on another machine.
    pub usage: Option<TaskUsage>,
    /// The reason why the task needs a person; `None` if it needs none.
    pub need: Option<PersonNeed>,
    /// The notices of the task, read and unread, oldest first. The last notice of an ended task is
    /// usually that of its end.
    pub notices: Vec<LiveNotice>,
    /// The number of notices that no reader of
    /// [`LiveOptions::readers`](crate::LiveOptions::readers) has acknowledged. A notice of a
    /// foreground task counts only after a delay in which its caller usually receives the result.
    pub unread_notices: usize,
    /// The machine that supervises the task; `None` if it is this one. Processes on another machine
    /// are not visible here.
    pub other_machine: Option<String>,
    /// The replayed journal while the task runs.
    pub(crate) state: Option<Box<TaskState>>,
    pub(crate) expectation: Option<Expectation>,
    pub(crate) meter: CpuMeter,
    /// The time of the last output, as of the last sample.
    pub(crate) last_output: Option<MonotonicMs>,
}

/// One notice of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveNotice {
    /// The id, which acknowledgements name.
    pub id: NoticeId,
    /// The kind of event that the notice reports.
    pub kind: NoticeKind,
    /// The time of the event.
    pub at: UnixMs,
    /// Whether the notice counts as unread: no reader has acknowledged it, and it is not reserved
    /// for the task's caller.
    pub is_unread: bool,
    /// Until then the notice is reserved for the task's caller; `None` without a reservation.
    reserved_until: Option<MonotonicMs>,
}

/// The time of one refresh on the monotonic clock and on the wall clock.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) awake: MonotonicMs,
    pub(crate) wall: UnixMs,
}

impl LiveTask {
    /// Wraps a view, without notices, usage and journal.
    #[must_use]
    pub fn from_view(view: TaskView) -> Self {
        Self {
            view,
            usage: None,
            need: None,
            notices: Vec::new(),
            unread_notices: 0,
            other_machine: None,
            state: None,
            expectation: None,
            meter: CpuMeter::default(),
            last_output: None,
        }
    }

    /// Returns whether the task has not ended.
    #[must_use]
    pub const fn is_live(&self) -> bool {
        self.view.outcome.is_none()
    }

    /// Returns the id of the task.
    #[must_use]
    pub const fn id(&self) -> TaskId {
        self.view.task_id
    }

    /// Returns the recorded stall of a running task, with its evidence; `None` if there is no
    /// stall, or if the task has written output since.
    #[must_use]
    pub fn stall(&self) -> Option<&StallRecord> {
        self.state.as_ref()?.stall.as_ref().filter(|_| self.view.attention.is_some())
    }

    /// Returns the start of a running task's silence according to its recorded stall, or without a
    /// stall according to the last sample; `None` without either, and after the end of the task.
    #[must_use]
    pub fn silent_since(&self) -> Option<MonotonicMs> {
        let stalled =
            |stall: &StallRecord| MonotonicMs(stall.at.0.saturating_sub(stall.evidence.silent_ms));
        self.stall().map(stalled).or(self.last_output).filter(|_| self.is_live())
    }

    /// Returns whether the final record is written, after which the journal no longer grows.
    pub(crate) const fn is_closed(&self) -> bool {
        self.view.ended_at.is_some()
    }

    /// Counts the unread notices again. Returns whether the number has changed.
    pub(crate) fn update_unread(
        &mut self,
        acks: Option<&Acks>,
        readers: &[Consumer],
        now: MonotonicMs,
    ) -> bool {
        for notice in &mut self.notices {
            let is_reserved = notice.reserved_until.is_some_and(|until| now < until);
            let is_read =
                |acks: &Acks| readers.iter().any(|reader| acks.is_acknowledged(reader, notice.id));
            notice.is_unread = !is_reserved && !acks.is_some_and(is_read);
            if !is_reserved {
                notice.reserved_until = None;
            }
        }
        let before = self.unread_notices;
        self.unread_notices = self.notices.iter().filter(|notice| notice.is_unread).count();
        before != self.unread_notices
    }

    /// Returns whether a reservation of a notice has expired, so that the unread notices must be
    /// counted again.
    pub(crate) fn has_due_notice(&self, now: MonotonicMs) -> bool {
        let is_due = |notice: &LiveNotice| notice.reserved_until.is_some_and(|until| until <= now);
        self.notices.iter().any(is_due)
    }

    /// Updates the times of a running task that change without an event.
    pub(crate) fn update_times(&mut self, now: Moment) {
        let Some(state) = &self.state else { return };
        self.view.elapsed_ms = state.elapsed_ms(now.awake);
        self.view.queued_ms = state.queued_ms(now.awake);
        if let (Some(attention), Some(stalled)) = (&mut self.view.attention, &state.stall) {
            *attention = AttentionView::new(stalled, now.awake);
        }
        // Deadlines are in awake time, so a suspend moves them on the wall clock.
        if let Some(deadline) = state.effective_deadline() {
            let left_ms = i64::try_from(deadline.ms_since(now.awake)).unwrap_or(i64::MAX);
            let at = now.wall.plus_ms(left_ms);
            let shown = self.view.deadline_at.as_deref().and_then(UnixMs::from_rfc3339);
            if shown.is_none_or(|shown| shown.0.abs_diff(at.0) > MAX_DEADLINE_ERROR_MS) {
                self.view.deadline_at = Some(at.rfc3339());
            }
        }
    }

    /// Uses the text of an earlier reading for the same deadline, because the conversion to the
    /// wall clock differs by a millisecond from time to time.
    pub(crate) fn keep_deadline_text(&mut self, before: &Self) {
        let deadline = |task: &Self| task.state.as_ref()?.effective_deadline();
        if deadline(self).is_some() && deadline(self) == deadline(before) {
            self.view.deadline_at.clone_from(&before.view.deadline_at);
        }
        let job_limit = |task: &Self| task.state.as_ref()?.job_limit();
        if job_limit(self).is_some() && job_limit(self) == job_limit(before) {
            self.view.job_ends_at.clone_from(&before.view.job_ends_at);
        }
    }

    /// Decides again whether the task needs a person. Returns whether the answer has changed.
    pub(crate) fn update_need(&mut self, now: UnixMs, deadline_notice: Duration) -> bool {
        let before = self.need;
        self.need = if self.is_unsupervised() {
            Some(PersonNeed::Unsupervised)
        } else {
            PersonNeed::for_task(&self.view, self.has_unread_end(), now, deadline_notice)
        };
        before != self.need
    }

    /// Returns whether the last measurement found no shim for a live task of this machine.
    fn is_unsupervised(&self) -> bool {
        let lacks_shim = self.usage.as_ref().is_some_and(|usage| !usage.is_supervised);
        lacks_shim && self.is_live() && self.other_machine.is_none()
    }

    /// Returns whether the notice of the task's end is unread and concerns a person. False outside
    /// the implicit session, because the ends of the tasks of other sessions are reported to
    /// agents.
    fn has_unread_end(&self) -> bool {
        let is_end = |notice: &LiveNotice| notice.is_unread && notice.kind == NoticeKind::Ended;
        self.view.session_id.is_implicit() && self.notices.iter().any(is_end)
    }
}

impl LiveNotice {
    /// Returns whether the notice is reserved for the task's caller.
    pub(crate) const fn is_reserved(&self) -> bool {
        self.reserved_until.is_some()
    }

    /// Converts a notice. It counts as read until [`LiveTask::update_unread`] is called.
    pub(crate) fn new(notice: &Notice, state: &TaskState, boot: &BootId, now: MonotonicMs) -> Self {
        Self {
            id: notice.id,
            kind: notice.event.kind(),
            at: notice.wall,
            is_unread: false,
            reserved_until: notice.caller_priority_until(state, boot, now),
        }
    }
}
