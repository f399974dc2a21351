//! Tests that the lifecycle satisfies every rule in random and simultaneous histories of events.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use siding_model::flow_control::output_limit;
use siding_model::lifecycle::{Lifecycle, LifecycleEffect, Phase, TaskEvent, TreeLiveness};
use siding_model::outcome::{BackgroundReason, LeaderEnd, LimitKind, Outcome, Placement};
use siding_model::process::MonotonicMs;
use siding_model::signal::Signal;
use siding_model::spec::TaskSpec;

use crate::random_histories::{self, EventHistory};
use crate::rules::Rule;
use crate::sample_records;
use crate::traced_lifecycle::trace_history;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn every_rule_holds_in_every_history(history in random_histories::any_history()) {
        let trace = trace_history::<Lifecycle>(&history);
        for rule in Rule::ALL {
            let verdict = rule.check(&trace);
            prop_assert!(verdict.is_ok(), "{rule:?}: {}", verdict.unwrap_err());
        }
    }
}

#[test]
fn simultaneous_stop_deadline_and_hand_over_give_one_outcome() {
    for history in random_histories::simultaneous_histories() {
        let trace = trace_history::<Lifecycle>(&history);
        for rule in Rule::ALL {
            assert_eq!(rule.check(&trace), Ok(()), "{rule:?} in {history:#?}");
        }
        // The rules did not hold vacuously: each history ends its task, in the background.
        let last = trace.steps.last().expect("a history has steps");
        assert!(matches!(last.after.phase, Phase::Ended { .. }), "{trace:#?}");
        assert_ne!(last.after.placement, history.spec.placement, "{trace:#?}");
    }
}

/// If no history reached a phase, the rules about this phase would hold trivially.
#[test]
fn random_histories_reach_every_phase() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for history in deterministic_histories(1_000) {
        let trace = trace_history::<Lifecycle>(&history);
        for turn in trace.steps.iter().filter(|turn| turn.before.phase != turn.after.phase) {
            *seen.entry(random_histories::phase_label(&turn.after.phase)).or_default() += 1;
        }
    }
    assert_eq!(seen.len(), 7, "all but the first phase are entered: {seen:?}");
    assert!(seen.values().all(|count| *count >= 30), "{seen:?}");
}

/// Returns the same random histories in every run.
pub(crate) fn deterministic_histories(count: usize) -> Vec<EventHistory> {
    let mut runner = TestRunner::deterministic();
    let histories = random_histories::any_history();
    let mut history =
        || histories.new_tree(&mut runner).expect("a history can be generated").current();
    (0..count).map(|_| history()).collect()
}

/// A stop with a long grace must not let a task exceed its deadline by more than the grace of the
/// task's own settings.
#[test]
fn a_stop_with_an_endless_grace_is_bounded_by_the_deadline() {
    let life = Lifecycle::new(&sample_records::task_spec(), sample_records::STARTED);
    let now = sample_records::STARTED.plus_ms(100);
    let (life, _) = life.step(&TaskEvent::Spawned { leader: sample_records::LEADER }, now);
    let forever =
        TaskEvent::StopAsked { by: "user".to_owned(), grace_ms: Some(u64::MAX), signal: None };
    let (life, _) = life.step(&forever, now);
    let grace_ms = sample_records::task_spec().grace_ms;
    assert_eq!(life.wake_at(), life.deadline().map(|deadline| deadline.plus_ms(grace_ms)));
}

/// A request that shortens the grace before the leader has started decides which signal the leader
/// gets.
#[test]
fn a_second_stop_of_a_starting_task_replaces_the_signal() {
    let stop = |grace_ms, signal| TaskEvent::StopAsked {
        by: "user".to_owned(),
        grace_ms: Some(grace_ms),
        signal: Some(signal),
    };
    let now = sample_records::STARTED;
    let mut life = Lifecycle::new(&sample_records::task_spec(), now);
    for event in [stop(900, Signal::INT), stop(800, Signal::TERM), stop(850, Signal::INT)] {
        life = life.step(&event, now).0;
    }
    let (_, effects) = life.step(&TaskEvent::Spawned { leader: sample_records::LEADER }, now);
    assert!(effects.contains(&LifecycleEffect::Signal(Signal::TERM)), "{effects:?}");
}

/// A request that shortens the grace sends its signal, unless the tree has received it already.
#[test]
fn a_second_stop_sends_another_signal() {
    let stop = |grace_ms, signal| TaskEvent::StopAsked {
        by: "user".to_owned(),
        grace_ms: Some(grace_ms),
        signal: Some(signal),
    };
    let now = sample_records::STARTED;
    let mut life = Lifecycle::new(&sample_records::task_spec(), now);
    life = life.step(&TaskEvent::Spawned { leader: sample_records::LEADER }, now).0;
    for (event, sent) in [
        (stop(900, Signal::INT), Some(Signal::INT)),
        (stop(800, Signal::INT), None),
        (stop(850, Signal::TERM), None),
        (stop(700, Signal::TERM), Some(Signal::TERM)),
    ] {
        let (next, effects) = life.step(&event, now);
        let signals: Vec<_> = effects
            .iter()
            .filter_map(|effect| match effect {
                LifecycleEffect::Signal(signal) => Some(*signal),
                LifecycleEffect::Record | LifecycleEffect::Kill | LifecycleEffect::Close => None,
            })
            .collect();
        assert_eq!(signals.as_slice(), sent.as_slice(), "{event:?}");
        life = next;
    }
    assert_eq!(life.wake_at(), Some(now.plus_ms(700)));
}

/// A command waits for its reader only while a person waits for the command.
#[test]
fn a_command_does_not_wait_for_its_reader_in_the_background_or_during_a_stop() {
    let keep_tail = 4 << 20;
    let limit = |life: &Lifecycle| output_limit(life, keep_tail, 100);
    let spec = TaskSpec { placement: Placement::Foreground, ..sample_records::task_spec() };
    let now = sample_records::STARTED;
    let new = Lifecycle::new(&spec, now);
    let (running, _) = new.step(&TaskEvent::Spawned { leader: sample_records::LEADER }, now);
    for life in [&new, &running] {
        assert_eq!(limit(life), Some(100 + (1 << 20)));
    }
    let (placed, _) = running.step(&TaskEvent::Placed { why: BackgroundReason::User }, now);
    let (stopping, _) = running.step(&sample_records::stop_event("user"), now);
    let (killing, _) = stopping.step(&TaskEvent::GraceOver, now.plus_ms(spec.grace_ms));
    for life in [&placed, &stopping, &killing] {
        assert_eq!(limit(life), None, "{life:?}");
    }
    assert_eq!(output_limit(&running, keep_tail, u64::MAX), Some(u64::MAX));
}

/// A person who waits in the foreground decides how long the command runs. The deadline and the cap
/// count from the move to the background, and have their usual effect from then on.
#[test]
fn a_deadline_from_the_background_counts_from_the_move() {
    let spec = TaskSpec { deadline_from_background: true, ..sample_records::task_spec() };
    let start = sample_records::STARTED;
    let spawned = TaskEvent::Spawned { leader: sample_records::LEADER };
    let (life, _) = Lifecycle::new(&spec, start).step(&spawned, start);
    let late = start.plus_ms(2 * spec.cap_ms);
    assert_eq!((life.deadline(), life.wake_at(), life.due_event(late)), (None, None, None));
    assert_eq!(life.step(&TaskEvent::DeadlinePassed, late).0, life);
    assert_eq!(
        life.step(
            &TaskEvent::Extended { deadline: late.plus_ms(1), by: None, job_limit: None },
            late
        )
        .0,
        life
    );

    let why = BackgroundReason::User;
    let (placed, _) = life.step(&TaskEvent::Placed { why }, late);
    let deadline = late.plus_ms(spec.deadline_ms);
    assert_eq!((placed.deadline(), placed.wake_at()), (Some(deadline), Some(deadline)));
    assert_eq!(placed.cap(), late.plus_ms(spec.cap_ms));
    assert_eq!(placed.due_event(deadline), Some(TaskEvent::DeadlinePassed));
    assert_eq!(life.with_deadline_from(late).deadline(), placed.deadline());
    assert_eq!(placed.with_deadline_from(deadline), placed);

    let in_background = TaskSpec { placement: Placement::Background { why }, ..spec };
    let counted = start.plus_ms(in_background.deadline_ms);
    assert_eq!(Lifecycle::new(&in_background, start).deadline(), Some(counted));
}

/// A takeover may find descendants of a leader that the previous shim did not record. Without an
/// event the task would remain in `Starting`, where neither the deadline nor a stop ends it.
#[test]
fn a_task_whose_leader_was_never_seen_can_be_stopped() {
    let end = LeaderEnd::Unknown { why: "gone".to_owned() };
    let tree = TreeLiveness::Alive;
    let unseen = TaskEvent::LeaderEnded { end, tree, final_cwd: None, pipeline: None };
    let new = Lifecycle::new(&sample_records::task_spec(), sample_records::STARTED);
    let (lingering, _) = new.step(&unseen, sample_records::STARTED);
    assert!(matches!(lingering.phase(), Phase::Lingering { .. }), "{lingering:?}");
    let (asked, _) = new.step(&sample_records::stop_event("user"), sample_records::STARTED);
    let (stopping, effects) = asked.step(&unseen, sample_records::STARTED);
    assert!(matches!(stopping.phase(), Phase::Stopping { .. }), "{stopping:?}");
    assert_eq!(effects.len(), 2, "{effects:?}");
}

/// The kernel may kill a tree at an enforced limit before siding stops it. The outcome is then the
/// limit instead of the signal, whose sender is not known.
#[test]
fn a_kernel_kill_at_a_limit_has_the_limit_outcome() {
    let limit_kind = LimitKind::Memory;
    let end = LeaderEnd::Signaled { signal: Signal::KILL, by: None };
    let event =
        TaskEvent::LeaderEnded { end, tree: TreeLiveness::Empty, final_cwd: None, pipeline: None };
    let mut life = Lifecycle::new(&sample_records::task_spec(), sample_records::STARTED);
    for event in [
        TaskEvent::Spawned { leader: sample_records::LEADER },
        TaskEvent::LimitPassed { limit_kind },
        event,
    ] {
        life = life.step(&event, sample_records::STARTED).0;
    }
    let Phase::Ended { outcome, .. } = life.phase() else { panic!("{life:?}") };
    assert_eq!(*outcome, Outcome::Limit { limit_kind });
}

/// Settings and times may have any value up to the maximum of their type.
#[test]
fn maximum_values_do_not_overflow() {
    let most = u64::MAX;
    let spec =
        TaskSpec { deadline_ms: most, cap_ms: most, grace_ms: most, ..sample_records::task_spec() };
    let mut life = Lifecycle::new(&spec, MonotonicMs(most - 1));
    let events = [
        TaskEvent::Extended { deadline: MonotonicMs(most), by: None, job_limit: None },
        TaskEvent::Spawned { leader: sample_records::LEADER },
        TaskEvent::StopAsked { by: "user".to_owned(), grace_ms: Some(most), signal: None },
        TaskEvent::GraceOver,
        TaskEvent::Swept { survivors: u32::MAX },
    ];
    for event in events {
        life = life.step(&event, MonotonicMs(most)).0;
    }
    assert!(life.is_ended(), "{life:?}");
}
