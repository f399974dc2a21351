//! The real life under every rule.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use siding_model::lifecycle::{Event, Life, Phase, Tree};
use siding_model::outcome::{LeaderEnd, Limit, Outcome};
use siding_model::process::Mono;
use siding_model::signal::Signal;
use siding_model::spec::TaskSpec;

use crate::history::{self, Story};
use crate::machine::run;
use crate::rules::Rule;
use crate::sample;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn every_rule_holds_in_every_history(story in history::stories()) {
        let trace = run::<Life>(&story);
        for rule in Rule::ALL {
            let verdict = rule.judge(&trace);
            prop_assert!(verdict.is_ok(), "{rule:?}: {}", verdict.unwrap_err());
        }
    }
}

#[test]
fn stop_deadline_and_hand_over_in_one_instant_give_one_outcome() {
    for story in history::same_instant() {
        let trace = run::<Life>(&story);
        for rule in Rule::ALL {
            assert_eq!(rule.judge(&trace), Ok(()), "{rule:?} in {story:#?}");
        }
        // Not vacuous: each of these stories does come to its end, in the background.
        let last = trace.turns.last().expect("a story has turns");
        assert!(matches!(last.after.phase, Phase::Ended { .. }), "{trace:#?}");
        assert_ne!(last.after.placement, story.spec.placement, "{trace:#?}");
    }
}

/// Rules over histories that never come anywhere would hold for anything.
#[test]
fn the_histories_reach_every_phase() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for story in some_stories(1_000) {
        let trace = run::<Life>(&story);
        for turn in trace.turns.iter().filter(|turn| turn.before.phase != turn.after.phase) {
            *seen.entry(history::name(&turn.after.phase)).or_default() += 1;
        }
    }
    assert_eq!(seen.len(), 7, "all but the first phase are entered: {seen:?}");
    assert!(seen.values().all(|count| *count >= 30), "{seen:?}");
}

/// Returns the same random histories every time.
pub(crate) fn some_stories(count: usize) -> Vec<Story> {
    let mut runner = TestRunner::deterministic();
    let stories = history::stories();
    let mut story = || stories.new_tree(&mut runner).expect("a story can be made").current();
    (0..count).map(|_| story()).collect()
}

/// A long grace must not be a way around a locked cap.
#[test]
fn a_stop_with_an_endless_grace_ends_when_the_deadline_would_have_ended_it() {
    let life = Life::new(&sample::spec(), sample::STARTED);
    let now = sample::STARTED.plus_ms(100);
    let (life, _) = life.step(&Event::Spawned { leader: sample::LEADER }, now);
    let forever =
        Event::StopAsked { by: "user".to_owned(), grace_ms: Some(u64::MAX), signal: None };
    let (life, _) = life.step(&forever, now);
    assert_eq!(life.wake_at(), Some(life.deadline().plus_ms(sample::spec().grace_ms)));
}

/// A rescuer may find descendants of a leader that it never saw. Without a way to say so the task
/// would start for ever: no deadline and no stop ends what has not started.
#[test]
fn a_leader_that_came_and_went_unseen_leaves_a_task_that_can_be_stopped() {
    let end = LeaderEnd::Unknown { why: "gone".to_owned() };
    let tree = Tree::Alive;
    let unseen = Event::LeaderEnded { end, tree, final_cwd: None, pipeline: None };
    let new = Life::new(&sample::spec(), sample::STARTED);
    let (lingering, _) = new.step(&unseen, sample::STARTED);
    assert!(matches!(lingering.phase(), Phase::Lingering { .. }), "{lingering:?}");
    let (asked, _) = new.step(&sample::stop("user"), sample::STARTED);
    let (stopping, effects) = asked.step(&unseen, sample::STARTED);
    assert!(matches!(stopping.phase(), Phase::Stopping { .. }), "{stopping:?}");
    assert_eq!(effects.len(), 2, "{effects:?}");
}

/// The kernel ends a tree at a limit that it was told to hold before siding can: that is put first,
/// and the signal, which nobody sent, is not the outcome.
#[test]
fn a_kill_by_the_kernel_at_a_limit_is_that_limit() {
    let which = Limit::Memory;
    let end = LeaderEnd::Signaled { signal: Signal::KILL, by: None };
    let event = Event::LeaderEnded { end, tree: Tree::Empty, final_cwd: None, pipeline: None };
    let mut life = Life::new(&sample::spec(), sample::STARTED);
    for event in [Event::Spawned { leader: sample::LEADER }, Event::LimitPassed { which }, event] {
        life = life.step(&event, sample::STARTED).0;
    }
    let Phase::Ended { outcome, .. } = life.phase() else { panic!("{life:?}") };
    assert_eq!(*outcome, Outcome::Limit { which });
}

/// Times at the far end of the clock are no way to wrap around it.
#[test]
fn the_largest_numbers_overflow_nothing() {
    let most = u64::MAX;
    let spec = TaskSpec { deadline_ms: most, cap_ms: most, grace_ms: most, ..sample::spec() };
    let mut life = Life::new(&spec, Mono(most - 1));
    let events = [
        Event::Extended { deadline: Mono(most) },
        Event::Spawned { leader: sample::LEADER },
        Event::StopAsked { by: "user".to_owned(), grace_ms: Some(most), signal: None },
        Event::GraceOver,
        Event::Swept { survivors: u32::MAX },
    ];
    for event in events {
        life = life.step(&event, Mono(most)).0;
    }
    assert!(life.is_ended(), "{life:?}");
}
