//! Random histories: what a task may be told, in any order, with time going forward.

use proptest::prelude::*;
use siding_model::lifecycle::{Event, Phase, Tree};
use siding_model::outcome::{LeaderEnd, Limit, Placement, Why};
use siding_model::process::{Mono, ProcRef};
use siding_model::signal::Signal;
use siding_model::spec::{OnLeaderExit, TaskSpec};

use crate::sample;

/// What a life is told.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    pub(crate) spec: TaskSpec,
    pub(crate) moves: Vec<Move>,
}

/// One thing that happens, some time after the one before.
#[derive(Debug, Clone)]
pub(crate) struct Move {
    pub(crate) wait_ms: u64,
    pub(crate) act: Act,
}

/// What happens.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    /// An event, whether or not it makes sense. Times in it count from the start.
    Tell(Event),
    /// What a well-behaved shell does: it sleeps until the next timer and tells what is due.
    SleepUntilWoken,
}

/// Returns histories of up to 14 moves. Deadlines, graces and waits are of the same size, so that
/// they meet, also in the same millisecond.
pub(crate) fn stories() -> impl Strategy<Value = Story> {
    let spawned = prop_oneof![1 => Just(None), 4 => moves(Just(spawned())).prop_map(Some)];
    (specs(), spawned, prop::collection::vec(moves(events()), 0..14)).prop_map(
        |(spec, spawned, moves)| Story { spec, moves: spawned.into_iter().chain(moves).collect() },
    )
}

/// Returns what may happen and mostly does not make sense where it happens.
pub(crate) fn events() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => Just(spawned()),
        1 => "[a-c]".prop_map(|error| Event::SpawnFailed { error, errno: 2 }),
        5 => (ends(), trees()).prop_map(|(end, tree)| Event::LeaderEnded {
            end, tree, final_cwd: None, pipeline: None,
        }),
        2 => Just(Event::TreeEmpty),
        5 => stops(),
        2 => Just(Event::DeadlinePassed),
        2 => limits().prop_map(|which| Event::LimitPassed { which }),
        2 => Just(Event::GraceOver),
        2 => (0..250_u64).prop_map(|at| Event::Extended { deadline: Mono(at) }),
        2 => whys().prop_map(|why| Event::Placed { why }),
        2 => (0..2_u32).prop_map(|survivors| Event::Swept { survivors }),
        1 => "[r-t]".prop_map(|by| Event::Released { by }),
        1 => "[x-z]".prop_map(|why| Event::Vanished { why }),
    ]
}

fn limits() -> impl Strategy<Value = Limit> {
    prop::sample::select(Limit::ALL.to_vec())
}

fn moves(events: impl Strategy<Value = Event> + 'static) -> impl Strategy<Value = Move> {
    let act = prop_oneof![
        4 => events.prop_map(Act::Tell),
        1 => Just(Act::SleepUntilWoken),
    ];
    (prop_oneof![2 => Just(0), 3 => 0..40_u64], act)
        .prop_map(|(wait_ms, act)| Move { wait_ms, act })
}

fn specs() -> impl Strategy<Value = TaskSpec> {
    let placement = prop_oneof![
        3 => Just(Placement::Foreground),
        1 => whys().prop_map(|why| Placement::Background { why }),
    ];
    let leader_exit = prop_oneof![Just(OnLeaderExit::Linger), Just(OnLeaderExit::Reap)];
    (0..150_u64, 20..200_u64, 0..60_u64, placement, leader_exit, signals()).prop_map(
        |(deadline_ms, cap_ms, grace_ms, placement, on_leader_exit, signal)| TaskSpec {
            deadline_ms,
            cap_ms,
            grace_ms,
            placement,
            on_leader_exit,
            signal,
            ..sample::spec()
        },
    )
}

fn spawned() -> Event {
    Event::Spawned { leader: ProcRef { pid: 4243, start_ticks: 100_002 }.into() }
}

fn stops() -> impl Strategy<Value = Event> {
    let by = prop::sample::select(vec!["user", "session", "host"]);
    let grace_ms = prop::option::of(0..150_u64);
    (by, grace_ms, prop::option::of(signals()))
        .prop_map(|(by, grace_ms, signal)| Event::StopAsked { by: by.to_owned(), grace_ms, signal })
}

fn signals() -> impl Strategy<Value = Signal> {
    prop::sample::select(vec![Signal::TERM, Signal::INT, Signal::HUP])
}

fn ends() -> impl Strategy<Value = LeaderEnd> {
    prop_oneof![
        3 => (0..4_u8).prop_map(|code| LeaderEnd::Exited { code }),
        1 => signals().prop_map(|signal| LeaderEnd::Signaled { signal, by: None }),
        1 => "[u-w]".prop_map(|why| LeaderEnd::Unknown { why }),
    ]
}

fn trees() -> impl Strategy<Value = Tree> {
    prop_oneof![1 => Just(Tree::Empty), 2 => Just(Tree::Alive)]
}

fn whys() -> impl Strategy<Value = Why> {
    prop::sample::select(vec![
        Why::Asked,
        Why::Budget,
        Why::Timeout,
        Why::Known,
        Why::Heuristic,
        Why::User,
    ])
}

/// Returns every story in which a person's stop, the deadline and the hand-over fall into the same
/// millisecond, in every order, told to a task that starts, runs or lingers; the task then ends in
/// each way it can.
pub(crate) fn same_instant() -> Vec<Story> {
    let stop = sample::stop("user");
    let (deadline, placed) = (Event::DeadlinePassed, Event::Placed { why: Why::Budget });
    let orders = [
        [&stop, &deadline, &placed],
        [&stop, &placed, &deadline],
        [&deadline, &stop, &placed],
        [&deadline, &placed, &stop],
        [&placed, &stop, &deadline],
        [&placed, &deadline, &stop],
    ];
    let before = [vec![], vec![spawned()], vec![spawned(), sample::exited(7, Tree::Alive)]];
    let after = [
        vec![spawned(), sample::exited(0, Tree::Empty)],
        vec![spawned(), sample::exited(0, Tree::Alive), Event::TreeEmpty],
        vec![spawned(), Event::TreeEmpty, Event::GraceOver, Event::Swept { survivors: 0 }],
    ];
    let mut stories = Vec::new();
    for (before, order) in before.iter().flat_map(|before| orders.map(|order| (before, order))) {
        for after in &after {
            let spec = TaskSpec { deadline_ms: 50, grace_ms: 10, ..sample::spec() };
            let at_once = |event: &Event| Move { wait_ms: 0, act: Act::Tell(event.clone()) };
            let mut moves: Vec<Move> = before.iter().map(at_once).collect();
            let instant = moves.len();
            moves.extend(order.into_iter().map(at_once));
            moves[instant].wait_ms = spec.deadline_ms;
            let later = |event: &Event| Move { wait_ms: 10, act: Act::Tell(event.clone()) };
            moves.extend(after.iter().map(later));
            moves.push(later(&Event::TreeEmpty));
            stories.push(Story { spec, moves });
        }
    }
    stories
}

/// Returns a short name of a phase, for counting.
pub(crate) fn name(phase: &Phase) -> &'static str {
    match phase {
        Phase::Starting { stop: None } => "starting",
        Phase::Starting { stop: Some(_) } => "starting, to be stopped",
        Phase::Running { .. } => "running",
        Phase::Lingering { .. } => "lingering",
        Phase::Stopping { ended: None, .. } => "stopping",
        Phase::Stopping { ended: Some(_), .. } => "stopping, leader ended",
        Phase::Killing { .. } => "killing",
        Phase::Ended { .. } => "ended",
    }
}
