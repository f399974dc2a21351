//! The watch over a silent task: when it is looked at, and what comes of that.
//!
//! Nothing is done while a task writes. A look at a silent one takes about 30 µs a process, and
//! what it needs is let go of before the shim sleeps again, but for the facts of the last sample.

use siding_core::probe::{self, KnownFds, UsageFields};
use siding_core::store::{StateDir, TaskDir};
use siding_core::sys::clock;
use siding_core::tree;
use siding_model::evidence::prompt::{MAX_TAIL_BYTES, OutputTail};
use siding_model::evidence::{
    Diagnosis, Evidence, SampleResult, SilenceWatch, StallRecord, TaskSample, WaitingOn,
    WhyVerdict, diagnose, is_suspicious,
};
use siding_model::journal::TaskState;
use siding_model::lifecycle::Phase;
use siding_model::limits::ProcessUsage;
use siding_model::process::{LeaderRef, MonotonicMs};
use siding_model::record::Record;
use siding_model::text;

use crate::keeper::Keeper;
use crate::kin::{Kin, own_pid};
use crate::pump::Pump;
use crate::sandboxed::command_alone;

/// Time between the two samples for somebody who asks, in milliseconds. Fifteen clock ticks: a
/// program that computes has used some of them.
const ASKED_GAP_MS: u64 = 150;
/// Columns of a command line.
const COMMAND: usize = 160;

/// What there is to look at.
#[derive(Debug)]
pub(crate) struct Scene<'k> {
    pub(crate) root: &'k StateDir,
    pub(crate) dir: &'k TaskDir,
    pub(crate) state: &'k TaskState,
    pub(crate) pump: &'k Pump,
    pub(crate) kin: &'k Kin,
}

/// What is to be done about what was seen.
#[derive(Debug)]
pub(crate) enum Look {
    /// It was not time to look.
    NotYet,
    /// Nothing.
    Nothing,
    /// Those who asked are to be told.
    Answer(Box<Evidence>),
    /// It is to be put on record.
    Stalled(Box<StallRecord>),
}

/// The watch and what it has seen.
#[derive(Debug)]
pub(crate) struct Stall {
    watch: SilenceWatch,
    /// What siding gave the task, once it was looked up.
    given: Option<KnownFds>,
    before: Option<TaskSample>,
    /// What was found last, and when it was first seen to be so.
    held: Option<(Key, MonotonicMs)>,
    /// First sample for those who asked.
    asked: Option<TaskSample>,
    /// What the processes of the last sample use, for the meter.
    uses: Option<Vec<ProcessUsage>>,
}

type Key = (WhyVerdict, Option<WaitingOn>, Option<i32>);

impl Stall {
    /// Begins to watch a task that has written so much.
    pub(crate) fn new(state: &TaskState, written: u64, now: MonotonicMs) -> Self {
        let is_told = state.stall.as_ref().is_some_and(|told| told.output_bytes >= written);
        let watch = SilenceWatch::new(state.spec.stall_after_ms, now, is_told);
        Self { watch, given: None, before: None, held: None, asked: None, uses: None }
    }

    /// Notes that the task has written.
    pub(crate) fn wrote(&mut self, now: MonotonicMs) {
        self.watch.record_output(now);
        self.before = None;
        self.held = None;
    }

    /// Notes that the task was given input.
    fn was_given(&mut self, now: MonotonicMs) {
        self.watch.record_input(now);
        self.before = None;
        self.held = None;
    }

    /// Returns when to come back to [`Self::look`].
    pub(crate) fn wake_at(&self, state: &TaskState) -> Option<MonotonicMs> {
        let asked = self.asked.as_ref().map(|first| first.taken_at.plus_ms(ASKED_GAP_MS));
        // What lingers is silent by nature, and what is being ended has been told.
        let runs = matches!(state.lifecycle.phase(), Phase::Running { .. });
        let watch = if runs { self.watch.wake_at() } else { None };
        [asked, watch].into_iter().flatten().min()
    }

    /// Looks for somebody who asks. The answer comes from [`Self::look`].
    pub(crate) fn ask(&mut self, scene: &Scene<'_>) {
        if self.asked.is_none() {
            self.asked = Some(self.sample(scene));
        }
    }

    /// Returns what the processes of a sample that was just taken use, once.
    pub(crate) const fn take_uses(&mut self) -> Option<Vec<ProcessUsage>> {
        self.uses.take()
    }

    /// Looks, when it is time to. `wanted` is what the meter needs of it.
    pub(crate) fn look(
        &mut self,
        scene: &Scene<'_>,
        wanted: UsageFields,
        now: MonotonicMs,
    ) -> Look {
        if self.wake_at(scene.state).is_none_or(|at| now < at) {
            return Look::NotYet;
        }
        let sample = self.sample_again(scene);
        self.uses = Some(probe::usage_from_sample(&sample, wanted));
        if let Some(first) =
            self.asked.take_if(|first| now.ms_since(first.taken_at) >= ASKED_GAP_MS)
        {
            let tail = scene.tail();
            let judged = scene.judge(&first, &sample, &tail);
            self.hold(judged.dedup_key(), first.taken_at);
            return Look::Answer(Box::new(self.evidence(scene, &sample, judged, tail, now)));
        }
        let Some(first) = self.before.take() else {
            let first_found = if is_suspicious(&sample) {
                SampleResult::Suspicious
            } else {
                SampleResult::Inconclusive
            };
            let _one_sample_proves_nothing = self.watch.record_sample(now, first_found);
            self.before = Some(sample);
            return Look::Nothing;
        };
        let tail = scene.tail();
        let judged = scene.judge(&first, &sample, &tail);
        let since = self.hold(judged.dedup_key(), first.taken_at);
        let found = if judged.is_urgent() {
            SampleResult::Certain { since }
        } else if is_suspicious(&sample) && !is_suspicious(&first) {
            SampleResult::Suspicious
        } else {
            SampleResult::Inconclusive
        };
        if self.watch.record_sample(now, found) {
            let evidence = self.evidence(scene, &sample, judged, tail, now);
            let output_bytes = scene.pump.bytes();
            return Look::Stalled(Box::new(StallRecord { at: now, output_bytes, evidence }));
        }
        self.before = Some(sample);
        Look::Nothing
    }

    /// Looks again, at as little as there is to see.
    fn sample_again(&mut self, scene: &Scene<'_>) -> TaskSample {
        let before = self.before.as_ref().filter(|_| !scene.kin.are_strays());
        before.and_then(probe::reuse_if_unchanged).unwrap_or_else(|| self.sample(scene))
    }

    fn sample(&mut self, scene: &Scene<'_>) -> TaskSample {
        scene.sample(self.given.get_or_insert_with(|| KnownFds::from_task_dir(scene.dir)))
    }

    /// Notes what was found; returns since when it is so.
    fn hold(&mut self, key: Key, at: MonotonicMs) -> MonotonicMs {
        let since = match &self.held {
            Some((held, since)) if *held == key => *since,
            Some(_) | None => at,
        };
        self.held = Some((key, since));
        since
    }

    fn evidence(
        &self,
        scene: &Scene<'_>,
        sample: &TaskSample,
        judged: Diagnosis,
        tail: OutputTail,
        now: MonotonicMs,
    ) -> Evidence {
        let spec = &scene.state.spec;
        Evidence {
            verdict: judged.verdict,
            waiting_on: judged.waiting_on,
            certainty: judged.certainty,
            since_ms: self.held.map_or(0, |(_, since)| now.ms_since(since)),
            silent_ms: self.watch.silent_ms(now),
            cpu_permille: judged.cpu_permille,
            chain: probe::explain_chain(sample, &judged, &|pid| scene.command(pid)),
            tail: tail.line,
            advice: judged.advice(spec.task_id, spec.stdin),
        }
    }
}

impl Scene<'_> {
    fn sample(&self, given: &KnownFds) -> TaskSample {
        let id = self.state.spec.task_id;
        if self.kin.are_strays() {
            let mut members = self.kin.numbers(self.root, self.state);
            if self.state.adopted.as_ref().is_some_and(|adopted| adopted.sandbox.is_some()) {
                members = command_alone(members);
            }
            return probe::sample_processes(given, &members);
        }
        probe::sample_descendants(given, own_pid(), |pid, status| {
            tree::is_of_other_task_by_status(self.root, id.birthmark(), pid, status)
        })
    }

    /// Looks at what the processes use, and not at what they do.
    pub(crate) fn uses(&self, wanted: UsageFields) -> Vec<ProcessUsage> {
        let id = self.state.spec.task_id;
        if self.kin.are_strays() {
            return probe::usage_of_processes(&self.kin.numbers(self.root, self.state), wanted);
        }
        probe::usage_of_descendants(own_pid(), wanted, |pid, status| {
            tree::is_of_other_task_by_status(self.root, id.birthmark(), pid, status)
        })
    }

    fn tail(&self) -> OutputTail {
        OutputTail::from_bytes(&self.pump.tail(MAX_TAIL_BYTES))
    }

    fn judge(&self, first: &TaskSample, second: &TaskSample, tail: &OutputTail) -> Diagnosis {
        diagnose(first, second, tail)
    }

    fn leader(&self) -> Option<i32> {
        let lives = self.state.leader_end.is_none();
        self.state.leader.filter(|_| lives).map(LeaderRef::pid)
    }

    pub(crate) fn command(&self, pid: i32) -> String {
        // The leader's own arguments are siding's constant text; it runs what was asked for.
        if self.leader() == Some(pid) {
            text::one_line(&self.state.spec.command_text(), COMMAND)
        } else {
            tree::command_for_report(pid)
        }
    }
}

impl Keeper {
    /// Looks at the processes when they have been silent for long, or somebody asked. Returns whether
    /// it was time to.
    pub(crate) fn look_for_a_stall(&mut self, now: MonotonicMs) -> bool {
        let Self { root, dir, state, pump, kin, .. } = self;
        let scene = Scene { root, dir, state, pump, kin };
        match self.stall.look(&scene, self.meter.wanted(now), now) {
            Look::NotYet => return false,
            Look::Nothing => {}
            Look::Answer(evidence) => self.callers.tell_evidence(*evidence),
            // The last room on a full disk is for the end.
            Look::Stalled(_) if !self.log.has_room() => {}
            Look::Stalled(stalled) => self.record(vec![Record::Stalled(stalled)]),
        }
        true
    }

    /// Notes that somebody has written to the task's input: it was answered.
    pub(crate) fn input_written(&mut self) {
        let now = clock::monotonic_now();
        self.stall.was_given(now);
        self.resume(now);
    }

    /// Puts on record that a stall is over, where one is on record.
    pub(crate) fn resume(&mut self, at: MonotonicMs) {
        if self.state.stall.is_some() && self.state.may_resume() {
            self.record(vec![Record::Resumed { at }]);
        }
    }
}
