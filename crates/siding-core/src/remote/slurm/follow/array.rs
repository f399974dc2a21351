//! Submits the job of a task as an element of a job array. Each follower adds its own element, and
//! the follower that holds the lock of the array calls sbatch for all.

use std::io;

use siding_model::executor::{ArrayElement, array_job_id, element_job_id};
use siding_model::process::MonotonicMs;

use super::super::super::serve::ServeError;
use super::super::array_spool::{ArrayPlan, ArrayProgress, ArraySpool};
use super::super::commands;
use super::super::queue::MIN_AGE_MS;
use super::super::spool::NodeInfo;
use super::submit::{lost_request, unsubmitted_status};
use super::{JobFollower, Observation};
use crate::sys::clock;

/// Time after the start of sbatch in which the array may still be created, in milliseconds: the
/// time limit of sbatch, which continues when its follower is killed, and a few seconds for
/// the cluster.
const MAX_SUBMISSION_MS: u64 = 25_000;

/// A count of the elements that followers have added to an array.
#[derive(Debug, Clone, Copy)]
pub(super) struct CollectedElements {
    present: usize,
    /// The time at which this follower first counted this number.
    since: MonotonicMs,
}

impl JobFollower<'_> {
    /// Submits the array once its elements are present, unless another follower has done so.
    /// Returns `None` if the job must be submitted alone, because the array was refused or was
    /// submitted without this job.
    pub(super) fn submit_in_array(
        &mut self,
        element: ArrayElement,
    ) -> Result<Option<Observation>, ServeError> {
        let array = self.base.array(element);
        if self.collected.is_none() {
            array.add(element.index, &self.spool)?;
        }
        let progress = array.progress();
        match &progress {
            ArrayProgress::Refused => return Ok(None),
            ArrayProgress::Planned(plan) | ArrayProgress::Submitted(plan, _)
                if !plan.indexes.contains(&element.index) =>
            {
                return Ok(None);
            }
            ArrayProgress::Submitted(_, number) => {
                return self.record_job(&element_job_id(number, element.index)).map(Some);
            }
            ArrayProgress::Collecting if !self.is_array_due(&array, element)? => {
                return Ok(Some(Observation::Unchanged));
            }
            ArrayProgress::Collecting | ArrayProgress::Planned(_) => {}
        }
        let lock = array.try_lock()?;
        // The previous owner of the lock may have just submitted the array.
        if lock.is_none() || array.progress() != progress {
            return Ok(Some(Observation::Unchanged));
        }
        let observation = match progress {
            ArrayProgress::Planned(plan) => self.find_array(&array, element, plan)?,
            ArrayProgress::Collecting | ArrayProgress::Submitted(..) | ArrayProgress::Refused => {
                self.submit_array(&array, element, array.indexes()?)?
            }
        };
        Ok(Some(observation))
    }

    /// Counts the elements of the array. Returns whether they must be submitted now.
    fn is_array_due(&mut self, array: &ArraySpool, element: ArrayElement) -> io::Result<bool> {
        let (present, now) = (array.indexes()?.len(), clock::monotonic_now());
        let known = self.collected.filter(|known| known.present == present);
        let collected = known.unwrap_or(CollectedElements { present, since: now });
        self.collected = Some(collected);
        Ok(element.is_array_due(present, now.ms_since(collected.since)))
    }

    /// Searches for an array by its name after a submission without a response. Submits the array
    /// again once the first one can no longer appear. A second array is harmless, because only one
    /// job can claim an attempt of a task, and each follower adopts that job.
    fn find_array(
        &mut self,
        array: &ArraySpool,
        element: ArrayElement,
        plan: ArrayPlan,
    ) -> Result<Observation, ServeError> {
        let snapshot = self.snapshot(MIN_AGE_MS)?;
        let Some(snapshot) = snapshot.filter(|snapshot| snapshot.taken_at.0 > plan.at.0) else {
            return Ok(Observation::Unchanged);
        };
        let name = commands::array_job_name(&element.array_name());
        if let Some(entry) = snapshot.job_with_name(&name) {
            let number = array_job_id(&entry.job_id);
            array.set_job_id(number)?;
            return self.record_job(&element_job_id(number, element.index));
        }
        let passed_ms = u64::try_from(snapshot.taken_at.0 - plan.at.0).unwrap_or(0);
        if snapshot.error.is_some() || passed_ms < MAX_SUBMISSION_MS {
            let reason = snapshot.error.unwrap_or_else(|| "its number is unknown".to_owned());
            return self.send_status(unsubmitted_status(reason));
        }
        self.submit_array(array, element, plan.indexes)
    }

    /// Submits the array. The caller holds its lock.
    fn submit_array(
        &mut self,
        array: &ArraySpool,
        element: ArrayElement,
        indexes: Vec<u32>,
    ) -> Result<Observation, ServeError> {
        // The instances of a matrix step differ only in their variables and directories, so the
        // options of this job apply to all of them.
        let options = match self.sbatch_arguments() {
            Ok(options) => options,
            Err(error) => return self.finish(lost_request(&error)),
        };
        let program = self.program()?;
        let plan = ArrayPlan { indexes, at: clock::unix_now() };
        array.set_plan(&plan)?;
        let name = element.array_name();
        match commands::submit_array(&name, &program, array, &plan.indexes, &options) {
            Ok(number) => {
                array.set_job_id(&number)?;
                self.record_job(&element_job_id(&number, element.index))
            }
            Err(error) if error.is_ambiguous => self.send_status(unsubmitted_status(error.why)),
            // The cluster may not allow arrays, or not so many jobs. The followers then submit
            // single jobs, and report the reason if these are also refused.
            Err(_) => {
                array.set_refused()?;
                Ok(Observation::Changed)
            }
        }
    }

    /// Records the number of the job that runs the task, and follows this job. After a submission
    /// without a response, a different number or none may be recorded, because a repeated
    /// submission may have created a second job.
    pub(super) fn adopt_running_job(&mut self, node: &NodeInfo) -> io::Result<()> {
        if let Some(job_id) = &node.job_id
            && self.job_id.as_ref() != Some(job_id)
        {
            self.spool.set_job_id(job_id)?;
            (self.job_id, self.since) = (Some(job_id.clone()), clock::unix_now());
        }
        Ok(())
    }

    /// Returns the number of the job for srun(1), which does not accept the number of an array's
    /// element.
    pub(super) fn srun_job_id(&self) -> Option<String> {
        let node = self.attempt().node();
        node.and_then(|node| node.srun_job_id).or_else(|| self.job_id.clone())
    }

    /// Returns the last message of the batch script; `None` if there is none.
    pub(super) fn batch_message(&self) -> Option<String> {
        let of_array = |element| self.base.array(element).batch_message(element.index);
        self.spool.batch_message().or_else(|| self.request.options.array.and_then(of_array))
    }
}
