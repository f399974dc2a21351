//! The time limit of a task's job in a cluster, in addition to the deadline of the task.

use super::TaskState;
use crate::executor::SlurmOptions;
use crate::lifecycle::JobLimitAnswer;
use crate::process::MonotonicMs;
use crate::slurm::NO_JOB_LIMIT_MS;

impl TaskState {
    /// Returns the last known time limit of the job with these options, in milliseconds after its
    /// start, or [`NO_JOB_LIMIT_MS`]; `None` if an argument of sbatch sets it.
    #[must_use]
    pub fn job_limit_ms(&self, options: &SlurmOptions) -> Option<u64> {
        let requested = || options.time_limit_ms(self.spec.deadline_ms, self.spec.grace_ms);
        self.reported_job_limit_ms.or_else(requested)
    }

    /// Stores the answer of the cluster to an extension; `None` if it was not asked.
    pub(super) fn apply_job_limit(&mut self, answer: Option<JobLimitAnswer>) {
        let JobLimitAnswer { limit_ms, refusal } = answer.unwrap_or_default();
        self.job_limit_refusal = refusal;
        self.reported_job_limit_ms = limit_ms.or(self.reported_job_limit_ms);
    }

    /// Returns the time at which the cluster ends the job, according to the time limit that was
    /// requested, or that the cluster reported to `siding extend`. The cluster checks time limits
    /// about every half minute. `None` without a cluster or a limit, while the job waits, after the
    /// end, and if an argument of sbatch sets the limit.
    #[must_use]
    pub fn job_limit(&self) -> Option<MonotonicMs> {
        let options = self.spec.executor.as_ref()?.slurm.as_ref()?;
        let limit_ms = self.job_limit_ms(options).filter(|ms| *ms != NO_JOB_LIMIT_MS)?;
        let has_started = self.remote.as_ref().is_some_and(|remote| remote.clock.is_some());
        (has_started && !self.lifecycle.is_ended()).then(|| self.started.plus_ms(limit_ms))
    }

    /// Returns the time at which the task is ended: its deadline, or the earlier time limit of its
    /// job. `None` while no deadline counts: a person waits for the task in the foreground, or its
    /// job waits in a queue.
    #[must_use]
    pub fn effective_deadline(&self) -> Option<MonotonicMs> {
        if self.remote.as_ref().is_some_and(|remote| remote.queued.is_some()) {
            return None;
        }
        let deadline = self.lifecycle.deadline()?;
        Some(self.job_limit().map_or(deadline, |limit| limit.min(deadline)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::{RemoteExecutor, SlurmOptions};
    use crate::id::{TaskId, TaskKind};
    use crate::lifecycle::TaskEvent;
    use crate::mirror::{RemoteClock, RemoteEvent};
    use crate::process::{BootId, ProcRef, UnixMs};
    use crate::record::{AcceptedTask, NEWEST_FORMAT, Record};
    use crate::sample::sample_task_spec;

    const STARTED: MonotonicMs = MonotonicMs(1_000);
    const MINUTE_MS: u64 = 60_000;

    /// Returns a task that runs in a cluster, with a deadline of 30 minutes.
    fn running_job(time_minutes: Option<u64>, deadline_from_background: bool) -> TaskState {
        let options = SlurmOptions { time_minutes, ..SlurmOptions::default() };
        let executor = RemoteExecutor {
            name: "cluster".to_owned(),
            destination: None,
            program: None,
            slurm: Some(options),
            ssh_variables: Vec::new(),
        };
        let mut spec = sample_task_spec(
            TaskId::new(TaskKind::LocalBash, 0x0123_4567_89ab_cdef).expect("an id"),
        );
        spec.executor = Some(Box::new(executor));
        (spec.deadline_ms, spec.cap_ms) = (30 * MINUTE_MS, 240 * MINUTE_MS);
        spec.deadline_from_background = deadline_from_background;
        let mut state = TaskState::new(AcceptedTask {
            format: NEWEST_FORMAT,
            boot: BootId("9f3a7c51-0d2e-4b88-a1f6-3c5d7e9b1a20".to_owned()),
            at: MonotonicMs(0),
            wall: UnixMs(0),
            shim: ProcRef { pid: 1, start_ticks: 1 },
            cgroup: None,
            adopted: None,
            spec,
        });
        assert_eq!(state.job_limit(), None, "the job has not started");
        let clock = RemoteClock::measure((STARTED, UnixMs(0)), (STARTED, UnixMs(0)));
        let machine = "node1".to_owned();
        let accepted = RemoteEvent::Accepted { at: STARTED, wall: UnixMs(0), machine, clock };
        state.apply(Record::Remote(accepted)).expect("it follows the first record");
        state
    }

    /// Returns the record of an extension to this number of minutes after the start.
    fn extension(minutes: u64, limit_ms: Option<u64>, refusal: Option<&str>) -> Record {
        let refusal = refusal.map(str::to_owned);
        let event = TaskEvent::Extended {
            deadline: STARTED.plus_ms(minutes * MINUTE_MS),
            by: None,
            job_limit: Some(JobLimitAnswer { limit_ms, refusal }),
        };
        Record::Event { at: STARTED, event }
    }

    #[test]
    fn the_earlier_of_deadline_and_job_limit_ends_the_task() {
        let after = |minutes: u64| Some(STARTED.plus_ms(minutes * MINUTE_MS));
        let mut state = running_job(None, false);
        assert_eq!((state.job_limit(), state.effective_deadline()), (after(32), after(30)));
        let denied = Some("Access/permission denied");
        state.apply(extension(60, None, denied)).expect("it has a deadline");
        assert_eq!(state.lifecycle.deadline(), after(60));
        assert_eq!(state.effective_deadline(), after(32), "the limit of the job stays");
        assert_eq!(state.job_limit_refusal.as_deref(), Some("Access/permission denied"));

        state.apply(extension(90, Some(92 * MINUTE_MS), None)).expect("it has a deadline");
        assert_eq!((state.job_limit(), state.effective_deadline()), (after(92), after(90)));
        assert_eq!(state.job_limit_refusal, None);

        // An operator has changed the limit, but not enough for this extension.
        state.apply(extension(120, Some(100 * MINUTE_MS), denied)).expect("it has a deadline");
        assert_eq!((state.job_limit(), state.effective_deadline()), (after(100), after(100)));
        assert_eq!(state.job_limit_refusal.as_deref(), denied);

        state.apply(extension(150, Some(NO_JOB_LIMIT_MS), None)).expect("it has a deadline");
        assert_eq!((state.job_limit(), state.effective_deadline()), (None, after(150)));

        assert_eq!(running_job(Some(5), false).effective_deadline(), after(5));
    }

    #[test]
    fn the_limit_of_a_job_is_no_deadline_while_a_person_waits() {
        let state = running_job(Some(5), true);
        assert_eq!(state.effective_deadline(), None);
        assert_eq!(state.job_limit(), Some(STARTED.plus_ms(5 * MINUTE_MS)));
    }
}
