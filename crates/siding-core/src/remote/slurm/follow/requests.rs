//! The requests of the mirror. A stop of a waiting job is sent to the cluster, every other request
//! to the shim on the node.

use std::io;

use siding_model::executor::SlurmOptions;
use siding_model::lifecycle::JobLimitAnswer;
use siding_model::protocol::{ShimMessage, ShimRequest};
use siding_model::remote::{ForwardedRequest, RemoteMessage};
use siding_model::wait::LongWaitBackoff;

use super::super::super::serve::{ServeError, send};
use super::super::commands;
use super::super::node_link::NodeLink;
use super::super::queue::MIN_AGE_MS;
use super::JobFollower;
use crate::sys::clock;

/// Time after the grace of a stop at which the job is canceled if its node has not carried out the
/// stop, in milliseconds. It exceeds the 25 s after which the shim abandons a kill.
const STOP_OVERHEAD_MS: u64 = 35_000;

impl JobFollower<'_> {
    /// Carries out the received requests.
    pub(super) fn handle_requests(&mut self) -> Result<(), ServeError> {
        while let Some((request, _)) = self.requests.next_request()? {
            let Some(forwarded) = request.into_forwarded() else {
                let why = "a job receives neither a second task nor input";
                return Err(ServeError::Request(why.to_owned()));
            };
            self.handle_request(forwarded)?;
        }
        Ok(())
    }

    fn handle_request(&mut self, forwarded: ForwardedRequest) -> Result<(), ServeError> {
        let ForwardedRequest { number, request, .. } = &forwarded;
        let number = *number;
        self.backoff = LongWaitBackoff::new(clock::monotonic_now());
        let is_stop = matches!(request, ShimRequest::Stop { .. });
        if let ShimRequest::Stop { by, grace_ms, .. } = request {
            self.spool.set_stop_requester(by)?;
            if !self.copy.is_accepted {
                self.cancel_job();
                return Ok(send(&response(number, ShimMessage::Done))?);
            }
            let own_grace_ms = self.copy.state.as_ref().map_or(0, |state| state.spec.grace_ms);
            let wait_ms = grace_ms.unwrap_or(own_grace_ms).saturating_add(STOP_OVERHEAD_MS);
            self.cancel_at = Some(clock::monotonic_now().plus_ms(wait_ms));
        }
        let request = self.with_job_limit(forwarded.request);
        let forwarded = ForwardedRequest { request, ..forwarded };
        let forwarded = self.connect_to_node().and_then(|link| link.forward(forwarded));
        match forwarded {
            Ok(()) => Ok(()),
            // The request is not transmitted completely, so it was certainly not carried out.
            Err(error) => {
                self.cancel_after_failure(is_stop);
                let why = unreachable_text(&error.to_string());
                Ok(send(&response(number, ShimMessage::Refused { why }))?)
            }
        }
    }

    /// Adds the answer of the cluster to a request for a deadline after the time limit of the job.
    fn with_job_limit(&self, request: ShimRequest) -> ShimRequest {
        let ShimRequest::Extend { to_ms, by_ms, by, .. } = request else { return request };
        let job_limit = self.raise_job_limit(to_ms, by_ms);
        ShimRequest::Extend { to_ms, by_ms, by, job_limit }
    }

    /// Asks the cluster for a longer time limit if the job would end before the requested deadline;
    /// `None` if that is not necessary, or the limit or the deadline is not known.
    fn raise_job_limit(&self, to_ms: u64, by_ms: Option<u64>) -> Option<JobLimitAnswer> {
        let state = self.copy.state.as_ref()?;
        let before_ms = state.lifecycle.deadline()?.ms_since(state.started);
        let cap_ms = state.lifecycle.cap().ms_since(state.started);
        let wanted_ms = by_ms.map_or(to_ms, |more| before_ms.saturating_add(more)).min(cap_ms);
        if wanted_ms <= state.job_limit_ms(&self.request.options)? {
            return None;
        }
        // The limit that a new job with this deadline would have.
        let limit_ms = SlurmOptions::default().time_limit_ms(wanted_ms, state.spec.grace_ms)?;
        // The number for srun can be that of a whole array, whose elements all have a limit.
        Some(commands::raise_time_limit(self.job_id.as_deref()?, limit_ms))
    }

    fn connect_to_node(&mut self) -> io::Result<&mut NodeLink> {
        let link = match self.node_link.take() {
            Some(link) => link,
            None => {
                let job_id = self.srun_job_id().ok_or(io::ErrorKind::NotFound)?;
                let program = self.program().map_err(io::Error::other)?;
                NodeLink::start(self.id, &job_id, &program, self.attempt().path())?
            }
        };
        Ok(self.node_link.insert(link))
    }

    /// Sends the responses that were received before the files were read: a client that has its
    /// response expects the record of its request.
    pub(super) fn send_responses(&mut self) -> io::Result<()> {
        let responses = std::mem::take(&mut self.responses);
        responses.into_iter().try_for_each(|(number, message)| send(&response(number, message)))
    }

    /// Receives the responses of the node.
    pub(super) fn receive_responses(&mut self) -> Result<(), ServeError> {
        let Some(link) = &mut self.node_link else { return Ok(()) };
        let is_open = link.receive(&mut self.responses).unwrap_or(false);
        // The response to typed keys precedes the output that follows the keys.
        self.backoff = LongWaitBackoff::new(clock::monotonic_now());
        if !is_open && let Some(link) = self.node_link.take() {
            let (pending, why) = link.close();
            let why = unreachable_text(&why.unwrap_or_else(|| "srun ended".to_owned()));
            for request in pending {
                self.cancel_after_failure(false);
                send(&request.lost_response(&why))?;
            }
        }
        Ok(())
    }

    /// Cancels the job after a failed request to the node, if the request is a stop, or if an
    /// earlier stop has not yet ended the task.
    fn cancel_after_failure(&mut self, is_stop: bool) {
        if is_stop || self.cancel_at.is_some() {
            self.cancel_at = None;
            self.cancel_job();
        }
    }

    /// Cancels the job if its node has not carried out a stop in time, or if an earlier attempt to
    /// cancel the job failed.
    pub(super) fn cancel_if_due(&mut self) {
        if self.cancel_at.is_some_and(|at| at <= clock::monotonic_now()) {
            self.cancel_at = None;
            self.cancel_job();
        }
    }

    /// Cancels the job. Schedules another attempt if the cluster does not answer, or if the number
    /// of the job is still unknown.
    fn cancel_job(&mut self) {
        let now = clock::monotonic_now();
        let Some(job_id) = &self.job_id else {
            self.cancel_at = Some(now.plus_ms(MIN_AGE_MS));
            self.next_query = now;
            return;
        };
        match commands::cancel(job_id) {
            Ok(()) => {
                self.next_query = now;
                // The shared list of jobs may be several seconds old, and a person is waiting.
                self.was_cancelled_in_queue = self.spool.newest_attempt().is_none()
                    && commands::was_cancelled_in_queue(job_id);
            }
            Err(_) => self.cancel_at = Some(now.plus_ms(MIN_AGE_MS)),
        }
    }
}

fn unreachable_text(why: &str) -> String {
    format!("the node of the job cannot be reached: {why}")
}

fn response(number: u64, message: ShimMessage) -> RemoteMessage {
    RemoteMessage::Shim { number, message }
}
