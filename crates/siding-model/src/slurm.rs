//! The queue of a Slurm cluster, as squeue(1) prints it.

use crate::mirror::{JobEnd, JobStatus};
use crate::process::UnixMs;

/// The format of squeue that [`QueueEntry::parse`] reads: number, state, expected start, name and
/// reason. The reason is last, because it is free text.
pub const QUEUE_FORMAT: &str = "%i|%T|%S|%j|%r";

/// The variable that makes squeue print times as seconds since 1970, and its value.
pub const TIME_FORMAT_VARIABLE: (&str, &str) = ("SLURM_TIME_FORMAT", "%s");

/// The requester of a stop that somebody requested from the cluster, with scancel(1) or otherwise.
pub const CANCEL_REQUESTER: &str = "scancel";
/// The requester of a stop because the cluster needs the nodes for another job.
pub const PREEMPTION_REQUESTER: &str = "slurm-preemption";
/// The requester of a stop after which the cluster runs the job again.
pub const REQUEUE_REQUESTER: &str = "slurm-requeue";
/// The requester of a stop by the cluster for an unknown reason.
pub const CLUSTER_REQUESTER: &str = "slurm";

/// The state of a job, in Slurm's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobState(String);

/// The relation of a job's state to its task.
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

    /// Returns whether the job waits, runs or has ended. An unknown state counts as active: it ends
    /// no task.
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

    /// Returns the requester of the stop that a job in this state receives as SIGTERM; `None` if
    /// its time limit has passed.
    #[must_use]
    pub fn stop_requester(&self) -> Option<&'static str> {
        match self.as_str() {
            "TIMEOUT" | "DEADLINE" => None,
            "CANCELLED" => Some(CANCEL_REQUESTER),
            "PREEMPTED" => Some(PREEMPTION_REQUESTER),
            _ if self.phase() == JobPhase::Waiting => Some(REQUEUE_REQUESTER),
            _ => Some(CLUSTER_REQUESTER),
        }
    }

    /// Returns the end of a task whose job is in this state and whose records do not contain the
    /// end.
    #[must_use]
    pub fn job_end(&self, job_id: &str) -> JobEnd {
        match self.as_str() {
            "CANCELLED" => JobEnd::Cancelled { by: CANCEL_REQUESTER.to_owned() },
            "TIMEOUT" | "DEADLINE" => JobEnd::TimeLimit,
            "OUT_OF_MEMORY" => JobEnd::OutOfMemory,
            state => {
                let why = format!("Slurm reports {state} for job {job_id}, and no record of its end exists");
                JobEnd::Lost { why }
            }
        }
    }
}

/// A job in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueEntry {
    /// Number of the job.
    pub job_id: String,
    /// State of the job.
    pub state: JobState,
    /// Name of the job.
    pub name: String,
    /// Expected start of a job that waits; start of any other job.
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

#[cfg(test)]
mod tests {
    use super::*;

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
        let end = |state| JobState::new(state).job_end("7");
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

    #[test]
    fn the_state_names_the_requester_of_a_stop() {
        let requester = |state| JobState::new(state).stop_requester();
        assert_eq!(requester("TIMEOUT"), None);
        assert_eq!(requester("CANCELLED"), Some("scancel"));
        assert_eq!(requester("PREEMPTED"), Some("slurm-preemption"));
        assert_eq!(requester("PENDING"), Some("slurm-requeue"));
        assert_eq!(requester("RUNNING"), Some("slurm"));
    }

    #[test]
    fn a_field_of_scontrol_is_found_by_its_whole_name() {
        let line = "JobId=7 JobName=siding Priority=1 JobState=RUNNING Reason=None";
        assert_eq!(scontrol_field(line, "JobState"), Some("RUNNING"));
        assert_eq!(scontrol_field(line, "State"), None);
    }
}
