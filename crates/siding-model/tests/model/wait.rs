//! When a wait is over: rules over random histories.

use proptest::prelude::*;
use siding_model::process::Mono;
use siding_model::wait::{Condition, Event, Pace, Quantifier, Verdict, Wait};

const BOUND: Mono = Mono(1_000);

/// What is waited for, and what happens meanwhile.
#[derive(Debug, Clone)]
struct Story {
    quantifier: Quantifier,
    tasks: usize,
    conditions: Vec<Condition>,
    events: Vec<(Event, Mono)>,
}

fn stories() -> impl Strategy<Value = Story> {
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
                .prop_map(|(task, condition)| Event::Holds { task, condition }),
            2 => (0..tasks).prop_map(|task| Event::Ended { task }),
            1 => Just(Event::Woke),
        ];
        let events = prop::collection::vec((event, 0..200_u64), 0..30);
        (Just(any), Just(tasks), Just(conditions), events).prop_map(
            |(any, tasks, conditions, steps)| {
                let mut now = Mono(0);
                let timed = |(event, pause): (Event, u64)| {
                    now = now.plus_ms(pause);
                    (event, now)
                };
                let quantifier = if any { Quantifier::Any } else { Quantifier::All };
                let events = steps.into_iter().map(timed).collect();
                Story { quantifier, tasks, conditions, events }
            },
        )
    })
}

/// The same question answered from the whole history at once: for each pair, the first event that
/// settles it.
fn expected(story: &Story, upto: usize) -> Option<Verdict> {
    let pairs = (0..story.tasks)
        .flat_map(|task| (0..story.conditions.len()).map(move |condition| (task, condition)));
    let settled: Vec<Option<bool>> = pairs
        .map(|(task, condition)| {
            story.events[..upto].iter().find_map(|(event, _)| match event {
                Event::Holds { task: t, condition: c } if (*t, *c) == (task, condition) => {
                    Some(true)
                }
                Event::Ended { task: t } if *t == task => {
                    Some(story.conditions[condition] == Condition::Exit)
                }
                Event::Holds { .. } | Event::Ended { .. } | Event::Woke => None,
            })
        })
        .collect();
    let (yes, no) = (Some(true), Some(false));
    let (satisfied, hopeless) = match story.quantifier {
        Quantifier::All => (settled.iter().all(|one| *one == yes), settled.contains(&no)),
        Quantifier::Any => (settled.contains(&yes), settled.iter().all(|one| *one == no)),
    };
    if satisfied {
        return Some(Verdict::Satisfied);
    }
    if hopeless {
        return Some(Verdict::Ended);
    }
    let late = |(event, at): &(Event, Mono)| *event == Event::Woke && *at >= BOUND;
    story.events[..upto].iter().any(late).then_some(Verdict::Timeout)
}

proptest! {
    /// The first moment at which the whole history so far has an answer gives the answer.
    #[test]
    fn a_wait_is_over_as_soon_as_its_history_says_so(story in stories()) {
        let mut wait = Wait::new(story.quantifier, story.tasks, &story.conditions, BOUND);
        for (at, (event, now)) in story.events.iter().enumerate() {
            let before = wait.clone();
            let verdict = wait.step(*event, *now);
            prop_assert_eq!(verdict, wait.verdict());
            if before.verdict().is_some() {
                // Over is over.
                prop_assert_eq!(&wait, &before);
                continue;
            }
            prop_assert_eq!(verdict, expected(&story, at + 1));
        }
    }

    /// Whoever asks again and again is answered at the bound, whatever came before.
    #[test]
    fn every_wait_is_bounded(story in stories()) {
        let mut wait = Wait::new(story.quantifier, story.tasks, &story.conditions, BOUND);
        for (event, now) in &story.events {
            let _verdict = wait.step(*event, *now);
        }
        prop_assert!(wait.step(Event::Woke, wait.wake_at()).is_some());
    }

    /// A condition that came true stays true, and one that was missed stays missed.
    #[test]
    fn what_is_settled_stays(story in stories()) {
        let mut wait = Wait::new(story.quantifier, story.tasks, &story.conditions, BOUND);
        for (event, now) in &story.events {
            let before = wait.clone();
            let _verdict = wait.step(*event, *now);
            for (task, condition) in (0..story.tasks)
                .flat_map(|task| (0..story.conditions.len()).map(move |one| (task, one)))
            {
                if !before.is_open(task, condition) {
                    prop_assert_eq!(
                        before.holds(task, condition), wait.holds(task, condition)
                    );
                    prop_assert!(!wait.is_open(task, condition));
                }
                let exit = story.conditions[condition] == Condition::Exit;
                prop_assert!(!(exit && wait.is_missed(task, condition)), "an end is an exit");
            }
        }
    }

    /// However long looks take, they take no more than a tenth of the time, and what is cheap is
    /// looked at often enough.
    #[test]
    fn looks_are_cheap_and_go_on(costs in prop::collection::vec(0..400_u64, 1..60)) {
        let mut pace = Pace::new(5, 100);
        let mut now = Mono(1_000_000);
        let begun = now;
        for cost in &costs {
            now = now.max(pace.at());
            let to = now.plus_ms(*cost);
            pace.looked(now, to);
            let pause = pace.at().ms_since(to);
            prop_assert!(pause >= cost * 9 && (5..=100.max(cost * 9)).contains(&pause));
            now = to;
        }
        let spent: u64 = costs.iter().sum();
        prop_assert!(spent * 10 <= pace.at().ms_since(begun) + 1);
    }
}

#[test]
fn pauses_double_up_to_the_most() {
    let mut pace = Pace::new(5, 100);
    assert_eq!(pace.at(), Mono(0), "the first look is at once");
    let pauses = [(); 7].map(|()| {
        pace.looked(Mono(50), Mono(50));
        pace.at().ms_since(Mono(50))
    });
    assert_eq!(pauses, [5, 10, 20, 40, 80, 100, 100]);
}
