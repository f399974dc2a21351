//! The queue of a Slurm cluster, as squeue(1) prints it.

use crate::lifecycle::{TaskEvent, TreeLiveness};
use crate::mirror::{JobEnd, JobStatus};
use crate::outcome::LeaderEnd;
use crate::process::UnixMs;
use crate::protocol::SHIM_SIGNAL_REQUESTER;
use crate::record::Record;
use crate::signal::Signal;
use crate::spec::OnLeaderExit;

/// The format of squeue that [`QueueEntry::parse`] reads: number, state, expected start, name and
/// reason. The reason is last, because it is free text.
pub const QUEUE_FORMAT: &str = "%i|%T|%S|%j|%r";

/// The variable that makes squeue print times as seconds since 1970, and its value.
pub const TIME_FORMAT_VARIABLE: (&str, &str) = ("SLURM_TIME_FORMAT", "%s");

/// The requester of a stop if the job was canceled in the cluster, usually with scancel(1), and not
/// by siding. Slurm does not name the person.
pub const CANCEL_REQUESTER: &str = "scancel";
/// The requester of a stop by the cluster: the node records it when Slurm signals the job. It stays
/// in the record unless the state of the job gives another reason.
pub const CLUSTER_REQUESTER: &str = "slurm";

/// The time limit of a job without one, in milliseconds.
pub const NO_JOB_LIMIT_MS: u64 = u64::MAX;

/// The state of a job, as Slurm names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobState(String);

/// Whether a job waits, runs or has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobPhase {
    /// The job waits for its start.
    Waiting,
    /// The job runs, or its processes are being ended.
    Active,
    /// The job has ended.
    Ended,
}

impl JobState {
    /// Reads a state: `RUNNING`, or `CANCELLED by 1000` of sacct(1).
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(text.split_whitespace().next().unwrap_or_default().to_owned())
    }

    /// Returns the state as Slurm prints it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether the job waits, runs or has ended. An unknown state counts as active, because
    /// it must not end the task.
    #[must_use]
    pub fn phase(&self) -> JobPhase {
        match self.as_str() {
            "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED"
            | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => JobPhase::Waiting,
            "BOOT_FAIL" | "CANCELLED" | "COMPLETED" | "DEADLINE" | "FAILED" | "NODE_FAIL"
            | "OUT_OF_MEMORY" | "PREEMPTED" | "REVOKED" | "TIMEOUT" => JobPhase::Ended,
            _ => JobPhase::Active,
        }
    }

    /// Returns whether the batch script ended by itself. The state then adds nothing to the records
    /// of the task.
    #[must_use]
    pub fn is_natural_end(&self) -> bool {
        matches!(self.as_str(), "COMPLETED" | "FAILED")
    }

    /// Returns the end of a task whose job has ended in this state, for a task whose records do not
    /// contain its end or may result from the end of the job. `by` is the requester of the last
    /// stop by siding, if there was one.
    #[must_use]
    pub fn job_end(&self, job_id: &str, by: Option<String>) -> JobEnd {
        match self.as_str() {
            "CANCELLED" => {
                JobEnd::Cancelled { by: by.unwrap_or_else(|| CANCEL_REQUESTER.to_owned()) }
            }
            "TIMEOUT" | "DEADLINE" => JobEnd::TimeLimit,
            "OUT_OF_MEMORY" => JobEnd::OutOfMemory,
            state if self.is_natural_end() => JobEnd::Lost {
                why: format!("job {job_id} ended ({state}), and its record lacks the end"),
            },
            state => JobEnd::Lost { why: format!("Slurm reports {state} for job {job_id}") },
        }
    }
}

/// Returns whether a record may be an effect of a signal that Slurm has sent to all processes of
/// the job, at a cancellation, at its time limit or at a preemption. Only the state of the job
/// decides.
#[must_use]
pub fn may_result_from_job_end(record: &Record) -> bool {
    let Record::Event { event, .. } = record else { return false };
    match event {
        TaskEvent::StopAsked { by, .. } => {
            [SHIM_SIGNAL_REQUESTER, CLUSTER_REQUESTER].contains(&by.as_str())
        }
        TaskEvent::LeaderEnded { end: LeaderEnd::Signaled { signal, .. }, .. } => {
            [Signal::TERM, Signal::KILL].contains(signal)
        }
        // A shell reports the signal that ended its last command as an exit code.
        TaskEvent::LeaderEnded { end: LeaderEnd::Exited { code }, .. } => [137, 143].contains(code),
        TaskEvent::LeaderEnded { end: LeaderEnd::Unknown { .. }, .. } => true,
        TaskEvent::Spawned { .. }
        | TaskEvent::SpawnFailed { .. }
        | TaskEvent::TreeEmpty
        | TaskEvent::DeadlinePassed
        | TaskEvent::LimitPassed { .. }
        | TaskEvent::GraceOver
        | TaskEvent::Extended { .. }
        | TaskEvent::Placed { .. }
        | TaskEvent::Swept { .. }
        | TaskEvent::Released { .. }
        | TaskEvent::Vanished { .. } => false,
    }
}

/// Returns whether a record ends the command, and the task then ends without the record of a stop.
/// Such an end may be an effect of a signal of Slurm: a command may handle SIGTERM and exit with
/// any code, also with 0, before the shim has recorded the stop.
#[must_use]
pub fn ends_command(record: &Record, on_leader_exit: OnLeaderExit) -> bool {
    let Record::Event { event: TaskEvent::LeaderEnded { tree, .. }, .. } = record else {
        return false;
    };
    *tree == TreeLiveness::Empty || on_leader_exit == OnLeaderExit::Reap
}

/// Returns whether a record begins the stop of a task for a recorded reason: a request, the
/// deadline or a limit.
#[must_use]
pub const fn starts_known_stop(record: &Record) -> bool {
    matches!(
        record,
        Record::Event {
            event: TaskEvent::StopAsked { .. }
                | TaskEvent::DeadlinePassed
                | TaskEvent::LimitPassed { .. },
            ..
        }
    )
}

/// A job, as one line of squeue describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueEntry {
    /// Number of the job.
    pub job_id: String,
    /// State of the job.
    pub state: JobState,
    /// Name of the job.
    pub name: String,
    /// Expected start of a job that waits; actual start of any other job. `None` if squeue shows no
    /// time.
    pub start: Option<UnixMs>,
    /// The reason why the job waits; `None` if there is none.
    pub reason: Option<String>,
}

impl QueueEntry {
    /// Reads a line in [`QUEUE_FORMAT`]. `None` if it has another form.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        let mut fields = line.trim_end().splitn(5, '|');
        let mut next = || fields.next().map(str::trim);
        let (job_id, state, start, name) = (next()?, next()?, next()?, next()?);
        let reason = next()?;
        let is_number = !job_id.is_empty() && job_id.starts_with(|c: char| c.is_ascii_digit());
        is_number.then(|| Self {
            job_id: job_id.to_owned(),
            state: JobState::new(state),
            name: name.to_owned(),
            start: start.parse().ok().map(|seconds: i64| UnixMs(seconds.saturating_mul(1_000))),
            reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty() && reason != "None"),
        })
    }

    /// Returns the status of a job that waits.
    #[must_use]
    pub fn status(&self) -> JobStatus {
        JobStatus {
            job_id: Some(self.job_id.clone()),
            state: self.state.as_str().to_owned(),
            reason: self.reason.clone(),
            expected_start: self.start,
        }
    }
}

/// Returns the value of a field in a line of `scontrol show --oneliner`: `RUNNING` for `JobState`.
#[must_use]
pub fn scontrol_field<'t>(line: &'t str, name: &str) -> Option<&'t str> {
    line.split_whitespace().find_map(|field| field.strip_prefix(name)?.strip_prefix('='))
}

/// Returns the time limit of a job in milliseconds from the field `TimeLimit` of scontrol(1), for
/// example `01:02:00` or `2-00:00:00`; [`NO_JOB_LIMIT_MS`] for `UNLIMITED`. `None` for another
/// text, such as `Partition_Limit` of a job that waits.
#[must_use]
pub fn parse_job_limit_ms(text: &str) -> Option<u64> {
    if text == "UNLIMITED" {
        return Some(NO_JOB_LIMIT_MS);
    }
    let (days, clock) = text.split_once('-').unwrap_or(("0", text));
    let mut parts = clock.splitn(3, ':');
    let [hours, minutes, seconds] = [parts.next()?, parts.next()?, parts.next()?];
    let mut total: u64 = days.parse().ok()?;
    for (units, part) in [(24, hours), (60, minutes), (60, seconds)] {
        total = total.checked_mul(units)?.checked_add(part.parse().ok()?)?;
    }
    total.checked_mul(1_000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::MonotonicMs;

    #[test]
    fn a_time_limit_has_an_optional_number_of_days() {
        const MINUTE_MS: u64 = 60_000;
        for (text, expected) in [
            ("00:05:00", Some(5 * MINUTE_MS)),
            ("01:02:00", Some(62 * MINUTE_MS)),
            ("23:59:59", Some(1_440 * MINUTE_MS - 1_000)),
            ("1-00:00:00", Some(1_440 * MINUTE_MS)),
            ("365-06:30:00", Some((365 * 1_440 + 390) * MINUTE_MS)),
            ("UNLIMITED", Some(NO_JOB_LIMIT_MS)),
            ("Partition_Limit", None),
            ("INVALID", None),
            ("", None),
            ("05:00", None),
            ("1-00:00:00:00", None),
            ("1-2-00:00:00", None),
            ("-1:00:00", None),
            ("99999999999999999999-00:00:00", None),
            ("18446744073709551615:00:00", None),
        ] {
            assert_eq!(parse_job_limit_ms(text), expected, "{text}");
        }
    }

    #[test]
    fn a_field_of_scontrol_is_found_by_its_whole_name() {
        let line = "JobId=7 JobName=siding Priority=1 JobState=RUNNING Reason=None";
        assert_eq!(scontrol_field(line, "JobState"), Some("RUNNING"));
        assert_eq!(scontrol_field(line, "State"), None);
    }

    #[test]
    fn queue_lines_are_parsed() {
        let waiting = QueueEntry::parse("7|PENDING|1764400000|siding-b-x|(Nodes|down)\n");
        let waiting = waiting.expect("a line of squeue");
        assert_eq!(waiting.state.phase(), JobPhase::Waiting);
        let status = waiting.status();
        assert_eq!(status.job_id.as_deref(), Some("7"));
        assert_eq!(status.reason.as_deref(), Some("(Nodes|down)"));
        assert_eq!(status.expected_start, Some(UnixMs(1_764_400_000_000)));
        let running = QueueEntry::parse("8_3|RUNNING|N/A|other|None").expect("a line of squeue");
        assert_eq!((running.reason, running.start), (None, None));
        for line in ["", "JOBID|STATE|START|NAME|REASON", "7|PENDING", "slurm_load_jobs error: x"] {
            assert_eq!(QueueEntry::parse(line), None, "{line}");
        }
    }

    #[test]
    fn ended_states_have_the_end_of_their_cause() {
        let end = |state| JobState::new(state).job_end("7", None);
        assert_eq!(end("CANCELLED by 1000"), JobEnd::Cancelled { by: "scancel".to_owned() });
        assert_eq!(end("TIMEOUT"), JobEnd::TimeLimit);
        assert_eq!(end("OUT_OF_MEMORY"), JobEnd::OutOfMemory);
        for state in ["NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "COMPLETED", "FAILED"] {
            assert_eq!(JobState::new(state).phase(), JobPhase::Ended);
            let JobEnd::Lost { why } = end(state) else { panic!("{state}") };
            assert!(why.contains(state) && why.contains("job 7"), "{why}");
        }
        for state in ["RUNNING", "COMPLETING", "SUSPENDED", "A_NEW_STATE", ""] {
            assert_eq!(JobState::new(state).phase(), JobPhase::Active, "{state}");
        }
    }

    /// The names that `job_state_string` of Slurm 22.05 to 25.05 returns.
    #[test]
    fn each_state_of_slurm_waits_runs_or_has_ended() {
        let phases = [
            (
                JobPhase::Waiting,
                "PENDING CONFIGURING REQUEUED REQUEUE_HOLD REQUEUE_FED SPECIAL_EXIT RESV_DEL_HOLD",
            ),
            (JobPhase::Active, "RUNNING SUSPENDED COMPLETING STAGE_OUT RESIZING SIGNALING STOPPED"),
            (
                JobPhase::Ended,
                "COMPLETED CANCELLED FAILED TIMEOUT NODE_FAIL PREEMPTED BOOT_FAIL DEADLINE \
                 OUT_OF_MEMORY REVOKED",
            ),
        ];
        for (phase, states) in phases {
            for state in states.split_whitespace() {
                assert_eq!(JobState::new(state).phase(), phase, "{state}");
            }
        }
    }

    #[test]
    fn any_exit_of_the_whole_tree_may_follow_a_signal() {
        let end = |tree| {
            let end = LeaderEnd::Exited { code: 0 };
            let event = TaskEvent::LeaderEnded { end, tree, final_cwd: None, pipeline: None };
            Record::Event { at: MonotonicMs(1), event }
        };
        assert!(ends_command(&end(TreeLiveness::Empty), OnLeaderExit::Linger));
        assert!(ends_command(&end(TreeLiveness::Alive), OnLeaderExit::Reap));
        // The end of the other processes is still to come.
        assert!(!ends_command(&end(TreeLiveness::Alive), OnLeaderExit::Linger));
        assert!(!may_result_from_job_end(&end(TreeLiveness::Empty)), "only the node knows");
    }

    #[test]
    fn only_effects_of_a_signal_to_all_processes_are_ambiguous() {
        let record = |event| Record::Event { at: MonotonicMs(1), event };
        let stop = |by: &str| {
            let by = by.to_owned();
            record(TaskEvent::StopAsked { by, grace_ms: None, signal: None })
        };
        let end = |end| {
            let tree = TreeLiveness::Empty;
            record(TaskEvent::LeaderEnded { end, tree, final_cwd: None, pipeline: None })
        };
        let signaled = |signal| end(LeaderEnd::Signaled { signal, by: None });
        for ambiguous in [
            stop(SHIM_SIGNAL_REQUESTER),
            stop(CLUSTER_REQUESTER),
            signaled(Signal::TERM),
            signaled(Signal::KILL),
            end(LeaderEnd::Exited { code: 143 }),
        ] {
            assert!(may_result_from_job_end(&ambiguous), "{ambiguous:?}");
        }
        for certain in [
            stop("user"),
            signaled(Signal::INT),
            end(LeaderEnd::Exited { code: 1 }),
            record(TaskEvent::DeadlinePassed),
        ] {
            assert!(!may_result_from_job_end(&certain), "{certain:?}");
        }
        assert!(starts_known_stop(&stop("user")) && !starts_known_stop(&signaled(Signal::KILL)));
    }
}
