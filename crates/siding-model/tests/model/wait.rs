//! Tests when a wait ends and with which verdict, in random histories.

use proptest::prelude::*;
use siding_model::process::MonotonicMs;
use siding_model::wait::{CheckBackoff, Condition, Quantifier, WaitEvent, WaitState, WaitVerdict};

const BOUND_AT: MonotonicMs = MonotonicMs(1_000);

#[derive(Debug, Clone)]
struct WaitHistory {
    quantifier: Quantifier,
    tasks: usize,
    conditions: Vec<Condition>,
    events: Vec<(WaitEvent, MonotonicMs)>,
}

fn any_history() -> impl Strategy<Value = WaitHistory> {
    let condition = prop_oneof![
        Just(Condition::Exit),
        Just(Condition::Output("x".to_owned())),
        Just(Condition::File("f".to_owned())),
    ];
    let conditions = prop::collection::vec(condition, 1..4);
    (prop::bool::ANY, 1..4_usize, conditions).prop_flat_map(|(any, tasks, conditions)| {
        let count = conditions.len();
        let event = prop_oneof![
            3 => (0..tasks, 0..count)
                .prop_map(|(task, condition)| WaitEvent::Satisfied { task, condition }),
            2 => (0..tasks).prop_map(|task| WaitEvent::Ended { task }),
            1 => Just(WaitEvent::TimerFired),
        ];
        let events = prop::collection::vec((event, 0..200_u64), 0..30);
        (Just(any), Just(tasks), Just(conditions), events).prop_map(
            |(any, tasks, conditions, steps)| {
                let mut now = MonotonicMs(0);
                let timed = |(event, pause): (WaitEvent, u64)| {
                    now = now.plus_ms(pause);
                    (event, now)
                };
                let quantifier = if any { Quantifier::Any } else { Quantifier::All };
                let events = steps.into_iter().map(timed).collect();
                WaitHistory { quantifier, tasks, conditions, events }
            },
        )
    })
}

/// Computes the verdict from the first `upto` events of a history, as a simple reference. For each
/// pair of a task and a condition, the first event about the pair decides.
fn expected_verdict(history: &WaitHistory, upto: usize) -> Option<WaitVerdict> {
    let pairs = (0..history.tasks)
        .flat_map(|task| (0..history.conditions.len()).map(move |condition| (task, condition)));
    let settled: Vec<Option<bool>> = pairs
        .map(|(task, condition)| {
            history.events[..upto].iter().find_map(|(event, _)| match event {
                WaitEvent::Satisfied { task: t, condition: c } if (*t, *c) == (task, condition) => {
                    Some(true)
                }
                WaitEvent::Ended { task: t } if *t == task => {
                    Some(history.conditions[condition] == Condition::Exit)
                }
                WaitEvent::Satisfied { .. } | WaitEvent::Ended { .. } | WaitEvent::TimerFired => {
                    None
                }
            })
        })
        .collect();
    let (yes, no) = (Some(true), Some(false));
    let (satisfied, hopeless) = match history.quantifier {
        Quantifier::All => (settled.iter().all(|one| *one == yes), settled.contains(&no)),
        Quantifier::Any => (settled.contains(&yes), settled.iter().all(|one| *one == no)),
    };
    if satisfied {
        return Some(WaitVerdict::Satisfied);
    }
    if hopeless {
        return Some(WaitVerdict::Ended);
    }
    let late =
        |(event, at): &(WaitEvent, MonotonicMs)| *event == WaitEvent::TimerFired && *at >= BOUND_AT;
    history.events[..upto].iter().any(late).then_some(WaitVerdict::Timeout)
}

proptest! {
    /// A wait ends at the first event after which the history so far determines the verdict.
    #[test]
    fn a_wait_finishes_at_the_first_deciding_event(history in any_history()) {
        let mut wait = WaitState::new(history.quantifier, history.tasks, &history.conditions, BOUND_AT);
        for (at, (event, now)) in history.events.iter().enumerate() {
            let before = wait.clone();
            let verdict = wait.step(*event, *now);
            prop_assert_eq!(verdict, wait.verdict());
            if before.verdict().is_some() {
                // A finished wait does not change.
                prop_assert_eq!(&wait, &before);
                continue;
            }
            prop_assert_eq!(verdict, expected_verdict(&history, at + 1));
        }
    }

    /// The timer event at the bound ends a wait in every state.
    #[test]
    fn every_wait_is_bounded(history in any_history()) {
        let mut wait = WaitState::new(history.quantifier, history.tasks, &history.conditions, BOUND_AT);
        for (event, now) in &history.events {
            let _verdict = wait.step(*event, *now);
        }
        prop_assert!(wait.step(WaitEvent::TimerFired, wait.wake_at()).is_some());
    }

    /// A satisfied condition remains satisfied, and a missed condition remains missed.
    #[test]
    fn a_settled_condition_stays_settled(history in any_history()) {
        let mut wait = WaitState::new(history.quantifier, history.tasks, &history.conditions, BOUND_AT);
        for (event, now) in &history.events {
            let before = wait.clone();
            let _verdict = wait.step(*event, *now);
            for (task, condition) in (0..history.tasks)
                .flat_map(|task| (0..history.conditions.len()).map(move |one| (task, one)))
            {
                if !before.is_pending(task, condition) {
                    prop_assert_eq!(
                        before.is_satisfied(task, condition), wait.is_satisfied(task, condition)
                    );
                    prop_assert!(!wait.is_pending(task, condition));
                }
                let exit = history.conditions[condition] == Condition::Exit;
                prop_assert!(!(exit && wait.is_missed(task, condition)), "an end is an exit");
            }
        }
    }

    /// However long a check takes, all checks use at most a tenth of the time. The pauses between
    /// cheap checks do not exceed the maximum.
    #[test]
    fn checks_use_at_most_a_tenth_of_the_time(costs in prop::collection::vec(0..400_u64, 1..60)) {
        let mut pace = CheckBackoff::new(5, 100);
        let mut now = MonotonicMs(1_000_000);
        let begun = now;
        for cost in &costs {
            now = now.max(pace.next_check_at());
            let to = now.plus_ms(*cost);
            pace.record_check(now, to);
            let pause = pace.next_check_at().ms_since(to);
            prop_assert!(pause >= cost * 9 && (5..=100.max(cost * 9)).contains(&pause));
            now = to;
        }
        let spent: u64 = costs.iter().sum();
        prop_assert!(spent * 10 <= pace.next_check_at().ms_since(begun) + 1);
    }
}

#[test]
fn pauses_double_up_to_the_maximum() {
    let mut pace = CheckBackoff::new(5, 100);
    assert_eq!(pace.next_check_at(), MonotonicMs(0), "the first check is immediate");
    let pauses = [(); 7].map(|()| {
        pace.record_check(MonotonicMs(50), MonotonicMs(50));
        pace.next_check_at().ms_since(MonotonicMs(50))
    });
    assert_eq!(pauses, [5, 10, 20, 40, 80, 100, 100]);
}
