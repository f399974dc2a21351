//! Submits the job of a task, and resolves submissions without an answer.

use std::io;
use std::path::PathBuf;

use siding_model::mirror::{JobEnd, JobStatus};

use super::super::super::program::ProgramCopy;
use super::super::super::serve::ServeError;
use super::super::commands;
use super::super::queue::MIN_AGE_MS;
use super::{JobFollower, Observation};
use crate::sys::clock;

/// Delay between the submission of a job and the first query about it, in milliseconds. On an idle
/// cluster, the job has started by then.
const FIRST_QUERY_MS: u64 = 1_000;

impl JobFollower<'_> {
    /// Submits the job. If an earlier call of sbatch may have succeeded, first searches for the job
    /// by its name. Two jobs for one task are harmless, because only one of them can claim the
    /// attempt.
    pub(super) fn submit(&mut self) -> Result<Observation, ServeError> {
        let array = self.request.options.array.filter(|_| !self.spool.may_be_submitted());
        if let Some(element) = array
            && let Some(observation) = self.submit_in_array(element)?
        {
            return Ok(observation);
        }
        let now = clock::monotonic_now();
        if self.status.is_some() && now < self.next_query {
            return Ok(Observation::Unchanged);
        }
        self.next_query = now.plus_ms(MIN_AGE_MS);
        if self.spool.may_be_submitted() {
            let Some(snapshot) = self.snapshot(MIN_AGE_MS)? else {
                return Ok(Observation::Unchanged);
            };
            if snapshot.error.is_some() || snapshot.taken_at.0 <= self.since.0 {
                let reason = snapshot.error.unwrap_or_else(|| "its number is unknown".to_owned());
                return self.send_status(unsubmitted_status(reason));
            }
            if let Some(entry) = snapshot.job_with_name(&commands::job_name(self.id)) {
                return self.record_job(&entry.job_id);
            }
        }
        // The cluster has no job yet, so after an earlier stop there is no job to cancel.
        if let Some(by) = self.spool.stop_requester() {
            return self.finish(JobEnd::Cancelled { by });
        }
        let options = match self.sbatch_arguments() {
            Ok(options) => options,
            Err(error) => return self.finish(lost_request(&error)),
        };
        let program = self.program()?;
        self.spool.set_submitting()?;
        match commands::submit(self.id, &program, self.spool.path(), &options) {
            Ok(job_id) => self.record_job(&job_id),
            Err(error) if error.is_ambiguous => {
                self.since = clock::unix_now();
                self.send_status(unsubmitted_status(error.why))
            }
            Err(error) => {
                // The reason is recorded, so that the next mirror receives it if this one is
                // killed.
                self.finish(JobEnd::NotStarted { why: error.why })
            }
        }
    }

    /// Returns the options of sbatch for the job, without the option for an array.
    pub(super) fn sbatch_arguments(&self) -> io::Result<Vec<String>> {
        let spec = self.spool.task()?.spec;
        Ok(self.request.options.sbatch_arguments(spec.deadline_ms, spec.grace_ms))
    }

    pub(super) fn record_job(&mut self, job_id: &str) -> Result<Observation, ServeError> {
        self.spool.set_job_id(job_id)?;
        self.job_id = Some(job_id.to_owned());
        self.since = clock::unix_now();
        let now = clock::monotonic_now();
        self.next_query = now.plus_ms(FIRST_QUERY_MS);
        // A stop that arrived while the number was unknown cancels the job now.
        self.cancel_at = self.cancel_at.map(|_| now);
        self.send_status(JobStatus {
            job_id: self.job_id.clone(),
            state: "PENDING".to_owned(),
            reason: None,
            expected_start: None,
        })
    }

    /// Returns the program that the nodes execute, and copies it to the shared directory if it is
    /// missing there.
    pub(super) fn program(&self) -> Result<PathBuf, ServeError> {
        if let Some(program) = &self.request.program {
            return Ok(PathBuf::from(program));
        }
        let copy = ProgramCopy::of_running_program(self.root)?;
        Ok(copy.store_below(self.base.path())?)
    }
}

/// Returns the end of a task whose request cannot be read.
pub(super) fn lost_request(error: &io::Error) -> JobEnd {
    JobEnd::NotStarted { why: format!("its request is lost: {error}") }
}

/// Returns the status of a job that the cluster may or may not have accepted.
pub(super) fn unsubmitted_status(reason: String) -> JobStatus {
    let state = "SUBMITTING".to_owned();
    JobStatus { job_id: None, state, reason: Some(reason), expected_start: None }
}
