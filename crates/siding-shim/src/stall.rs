//! The watch over a silent task: when it is looked at, and what comes of that.
//!
//! Nothing is done while a task writes. A look at a silent one takes about 30 µs a process, and
//! what it needs is let go of before the shim sleeps again, but for the facts of the last sample.

use siding_core::probe::{self, KnownFds, UsageFields};
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

/// Time between the two samples for somebody who asks, in milliseconds. Fifteen clock ticks: a
/// program that computes has used some of them.
const WHY_SAMPLE_GAP_MS: u64 = 150;

/// What is to be done about what was seen.
#[derive(Debug)]
pub(crate) enum StallCheck {
    /// It was not time to look.
    NotDue,
    /// Nothing.
    NoStall,
    /// Those who asked are to be told.
    Answer(Box<Evidence>),
    /// It is to be put on record.
    Stalled(Box<StallRecord>),
}

/// The watch and what it has seen.
#[derive(Debug)]
pub(crate) struct StallWatch {
    watch: SilenceWatch,
    /// What siding gave the task, once it was looked up.
    known_fds: Option<KnownFds>,
    previous: Option<TaskSample>,
    /// What was found last, and when it was first seen to be so.
    last_finding: Option<(StallKey, MonotonicMs)>,
    /// First sample for those who asked.
    why_sample: Option<TaskSample>,
    /// What the processes of the last sample use, for the meter.
    usage: Option<Vec<ProcessUsage>>,
}

type StallKey = (WhyVerdict, Option<WaitingOn>, Option<i32>);

impl StallWatch {
    /// Begins to watch a task that has written so much.
    pub(crate) fn new(state: &TaskState, written: u64, now: MonotonicMs) -> Self {
        let is_recorded = state.stall.as_ref().is_some_and(|told| told.output_bytes >= written);
        let watch = SilenceWatch::new(state.spec.stall_after_ms, now, is_recorded);
        Self {
            watch,
            known_fds: None,
            previous: None,
            last_finding: None,
            why_sample: None,
            usage: None,
        }
    }

    /// Notes that the task has written.
    pub(crate) fn on_output(&mut self, now: MonotonicMs) {
        self.watch.record_output(now);
        self.previous = None;
        self.last_finding = None;
    }

    /// Notes that the task was given input.
    pub(crate) fn on_input(&mut self, now: MonotonicMs) {
        self.watch.record_input(now);
        self.previous = None;
        self.last_finding = None;
    }

    /// Returns when to come back to [`Self::check`].
    pub(crate) fn wake_at(&self, state: &TaskState) -> Option<MonotonicMs> {
        let asked = self.why_sample.as_ref().map(|first| first.taken_at.plus_ms(WHY_SAMPLE_GAP_MS));
        // What lingers is silent by nature, and what is being ended has been told.
        let runs = matches!(state.lifecycle.phase(), Phase::Running { .. });
        let watch = if runs { self.watch.wake_at() } else { None };
        [asked, watch].into_iter().flatten().min()
    }

    /// Looks for somebody who asks. The answer comes from [`Self::check`].
    pub(crate) fn request_evidence(&mut self, context: &TaskContext<'_>) {
        if self.why_sample.is_none() {
            self.why_sample = Some(self.sample(context));
        }
    }

    /// Returns what the processes of a sample that was just taken use, once.
    pub(crate) const fn take_usage(&mut self) -> Option<Vec<ProcessUsage>> {
        self.usage.take()
    }

    /// Looks, when it is time to. `wanted` is what the meter needs of it.
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
        self.usage = Some(probe::usage_from_sample(&sample, wanted));
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
        let found = if judged.is_urgent() {
            SampleResult::Certain { since }
        } else if is_suspicious(&sample) && !is_suspicious(&first) {
            SampleResult::Suspicious
        } else {
            SampleResult::Inconclusive
        };
        if self.watch.record_sample(now, found) {
            let evidence = self.build_evidence(context, &sample, judged, tail, now);
            let output_bytes = context.pump.bytes();
            return StallCheck::Stalled(Box::new(StallRecord { at: now, output_bytes, evidence }));
        }
        self.previous = Some(sample);
        StallCheck::NoStall
    }

    /// Looks again, at as little as there is to see.
    fn resample(&mut self, context: &TaskContext<'_>) -> TaskSample {
        let before = self.previous.as_ref().filter(|_| !context.tree.is_discovered());
        before.and_then(probe::reuse_if_unchanged).unwrap_or_else(|| self.sample(context))
    }

    fn sample(&mut self, context: &TaskContext<'_>) -> TaskSample {
        context.sample(self.known_fds.get_or_insert_with(|| KnownFds::from_task_dir(context.dir)))
    }

    /// Notes what was found; returns since when it is so.
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
            certainty: judged.certainty,
            since_ms: self.last_finding.map_or(0, |(_, since)| now.ms_since(since)),
            silent_ms: self.watch.silent_ms(now),
            cpu_permille: judged.cpu_permille,
            chain: probe::explain_chain(sample, &judged, &|pid| context.command_of(pid)),
            tail: tail.line,
            advice: judged.advice(spec.task_id, spec.stdin),
        }
    }
}
