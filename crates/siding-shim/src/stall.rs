//! Watches a silent task: decides when to sample it, and judges the samples.
//!
//! While a task writes, it is sampled only for a `why` request. A sample takes about 30 µs for each
//! process. The memory of a sample is freed before the shim sleeps again, except for the facts with
//! which the next sample is compared.

use siding_core::processes::probe::{self, KnownFds, UsageFields};
use siding_model::evidence::prompt::OutputTail;
use siding_model::evidence::{
    Diagnosis, Evidence, SampleResult, SilenceWatch, StallRecord, TaskSample, WaitingOn,
    WhyVerdict, diagnose, is_suspicious,
};
use siding_model::journal::TaskState;
use siding_model::lifecycle::Phase;
use siding_model::limits::ProcessUsage;
use siding_model::process::MonotonicMs;

use crate::task_context::TaskContext;

/// Minimum time between the two samples for a `why` request, in milliseconds: fifteen clock ticks,
/// so that a program that computes has used some of them.
const WHY_SAMPLE_GAP_MS: u64 = 150;

/// The result of a check, which determines what the supervisor does next.
#[derive(Debug)]
pub(crate) enum StallCheck {
    /// No sample was due.
    NotDue,
    /// A sample was taken, and there is no stall to record.
    NoStall,
    /// Evidence for the clients that have sent a `why` request.
    Answer(Box<Evidence>),
    /// A stall to record.
    Stalled(Box<StallRecord>),
}

/// The watch over one task, with its last samples.
#[derive(Debug)]
pub(crate) struct StallWatch {
    watch: SilenceWatch,
    /// The FIFOs of the task's input and output, and its terminal; `None` before the first sample.
    known_fds: Option<KnownFds>,
    previous: Option<TaskSample>,
    /// The last diagnosis, if any, and the time of the first sample that led to it.
    last_finding: Option<(StallKey, MonotonicMs)>,
    /// The first sample for a `why` request; `None` if no request is pending.
    why_sample: Option<TaskSample>,
    /// Whether the shim leaves the output in the FIFO at present, because the reader of a person's
    /// call is slow. The silence is then not that of the task.
    is_output_held: bool,
    /// The usage of the processes in the last sample, until the resource monitor takes it. `None`
    /// also if the sample does not contain all processes.
    usage: Option<Vec<ProcessUsage>>,
}

/// The parts of a diagnosis by which two diagnoses are compared: if they are equal, the finding is
/// the same.
type StallKey = (WhyVerdict, Option<WaitingOn>, Option<i32>);

impl StallWatch {
    /// Returns the watch over a task that has written `written` bytes.
    pub(crate) fn new(state: &TaskState, written: u64, now: MonotonicMs) -> Self {
        let is_recorded = state.stall.as_ref().is_some_and(|stall| stall.output_bytes >= written);
        let watch = SilenceWatch::new(state.spec.stall_after_ms, now, is_recorded);
        Self {
            watch,
            known_fds: None,
            previous: None,
            last_finding: None,
            why_sample: None,
            is_output_held: false,
            usage: None,
        }
    }

    /// Suspends the watch while the shim leaves the output in the FIFO. A `why` request is still
    /// answered.
    pub(crate) const fn set_output_held(&mut self, is_held: bool) {
        self.is_output_held = is_held;
    }

    /// Restarts the measurement of the silence, because the task has written.
    pub(crate) fn on_output(&mut self, now: MonotonicMs) {
        self.watch.record_output(now);
        self.previous = None;
        self.last_finding = None;
    }

    /// Records that the agent that has typed was told that the task waits for input.
    pub(crate) const fn on_wait_shown(&mut self) {
        self.watch.record_shown_wait();
    }

    /// Restarts the measurement of the silence, because the task has received input.
    pub(crate) fn on_input(&mut self, now: MonotonicMs) {
        self.watch.record_input(now);
        self.previous = None;
        self.last_finding = None;
    }

    /// Returns the time at which to call [`Self::check`]; `None` if no sample will be due.
    pub(crate) fn wake_at(&self, state: &TaskState) -> Option<MonotonicMs> {
        let asked = self.why_sample.as_ref().map(|first| first.taken_at.plus_ms(WHY_SAMPLE_GAP_MS));
        // A lingering service is silent by nature, and a task that is being stopped needs no
        // judgment.
        let runs = matches!(state.lifecycle.phase(), Phase::Running { .. });
        let watch = if runs && !self.is_output_held { self.watch.wake_at() } else { None };
        [asked, watch].into_iter().flatten().min()
    }

    /// Takes the first sample for a `why` request, unless an earlier request is pending.
    /// [`Self::check`] later returns the evidence.
    pub(crate) fn request_evidence(&mut self, context: &TaskContext<'_>) {
        if self.why_sample.is_none() {
            self.why_sample = Some(self.sample(context));
        }
    }

    /// Returns the usage of the processes in the last sample; `None` before the first sample, if
    /// processes may be missing from the sample, and if this function has already returned the
    /// usage.
    pub(crate) const fn take_usage(&mut self) -> Option<Vec<ProcessUsage>> {
        self.usage.take()
    }

    /// Takes a sample and judges it, if one is due. `wanted` selects the values that the resource
    /// monitor needs.
    pub(crate) fn check(
        &mut self,
        context: &TaskContext<'_>,
        wanted: UsageFields,
        now: MonotonicMs,
    ) -> StallCheck {
        if self.wake_at(context.state).is_none_or(|at| now < at) {
            return StallCheck::NotDue;
        }
        let sample = self.resample(context);
        // The resource monitor would take the processes that the sample leaves out for ended ones.
        self.usage = (!context.samples_only_the_command())
            .then(|| probe::usage_from_sample(&sample, wanted))
            .flatten();
        if let Some(first) =
            self.why_sample.take_if(|first| now.ms_since(first.taken_at) >= WHY_SAMPLE_GAP_MS)
        {
            let tail = context.read_tail();
            let judged = diagnose(&first, &sample, &tail);
            self.track_since(judged.dedup_key(), first.taken_at);
            return StallCheck::Answer(Box::new(
                self.build_evidence(context, &sample, judged, tail, now),
            ));
        }
        let Some(first) = self.previous.take() else {
            let first_found = if is_suspicious(&sample) {
                SampleResult::Suspicious
            } else {
                SampleResult::Inconclusive
            };
            let _recorded_anyway = self.watch.record_sample(now, first_found);
            self.previous = Some(sample);
            return StallCheck::NoStall;
        };
        let tail = context.read_tail();
        let judged = diagnose(&first, &sample, &tail);
        let since = self.track_since(judged.dedup_key(), first.taken_at);
        let is_dialog = self.watch.continues_dialog(judged.awaited_input);
        let found = if judged.is_urgent() && !is_dialog {
            SampleResult::Certain { since }
        } else if is_suspicious(&sample) && !is_suspicious(&first) {
            SampleResult::Suspicious
        } else {
            SampleResult::Inconclusive
        };
        if self.watch.record_sample(now, found) {
            let evidence = self.build_evidence(context, &sample, judged, tail, now);
            let output_bytes = context.output.bytes();
            return StallCheck::Stalled(Box::new(StallRecord { at: now, output_bytes, evidence }));
        }
        self.previous = Some(sample);
        StallCheck::NoStall
    }

    /// Takes the next sample. If all processes are descendants of this shim and none has run since
    /// the last sample, returns a copy of that sample.
    fn resample(&mut self, context: &TaskContext<'_>) -> TaskSample {
        let before = self.previous.as_ref().filter(|_| !context.tree.is_discovered());
        before.and_then(probe::reuse_if_unchanged).unwrap_or_else(|| self.sample(context))
    }

    /// Samples the processes of the task.
    pub(crate) fn sample(&mut self, context: &TaskContext<'_>) -> TaskSample {
        context.sample(self.known_fds.get_or_insert_with(|| {
            let dir = context.dir.endpoint_dir();
            dir.map_or_else(|_| KnownFds::default(), KnownFds::from_endpoint_dir)
                .with_terminal(context.output.terminal_slave())
        }))
    }

    /// Stores a finding of the sample at `at`. Returns the time since which the finding has been
    /// the same.
    fn track_since(&mut self, key: StallKey, at: MonotonicMs) -> MonotonicMs {
        let since = match &self.last_finding {
            Some((held, since)) if *held == key => *since,
            Some(_) | None => at,
        };
        self.last_finding = Some((key, since));
        since
    }

    fn build_evidence(
        &self,
        context: &TaskContext<'_>,
        sample: &TaskSample,
        judged: Diagnosis,
        tail: OutputTail,
        now: MonotonicMs,
    ) -> Evidence {
        let spec = &context.state.spec;
        Evidence {
            verdict: judged.verdict,
            waiting_on: judged.waiting_on,
            awaited_input: judged.awaited_input,
            certainty: judged.certainty,
            since_ms: self.last_finding.map_or(0, |(_, since)| now.ms_since(since)),
            silent_ms: self.watch.silent_ms(now),
            cpu_permille: judged.cpu_permille,
            chain: probe::explain_chain(sample, &judged, &|pid| context.command_of(pid)),
            tail: tail.line,
            advice: if context.state.adopted.is_some() {
                judged.adopted_advice(spec.task_id)
            } else {
                judged.advice(spec.task_id, spec.stdin)
            },
        }
    }
}
