//! Generates random histories of a task: events in any order, at times that never decrease.

use proptest::prelude::*;
use siding_model::lifecycle::{Phase, TaskEvent, TreeLiveness};
use siding_model::outcome::{BackgroundReason, LeaderEnd, LimitKind, Placement};
use siding_model::process::{MonotonicMs, ProcRef};
use siding_model::signal::Signal;
use siding_model::spec::{OnLeaderExit, TaskSpec};

use crate::sample_records;

/// The specification of a task, and the events that its lifecycle receives.
#[derive(Debug, Clone)]
pub(crate) struct EventHistory {
    pub(crate) spec: TaskSpec,
    pub(crate) steps: Vec<HistoryStep>,
}

/// A pause, and the action that follows it.
#[derive(Debug, Clone)]
pub(crate) struct HistoryStep {
    pub(crate) wait_ms: u64,
    pub(crate) action: StepAction,
}

#[derive(Debug, Clone)]
pub(crate) enum StepAction {
    /// Delivers an event, which may be unexpected in the current phase. Times in the event are
    /// relative to the start.
    Deliver(TaskEvent),
    /// Sleeps until the next timer and delivers its event, as a correct shim does.
    SleepUntilTimer,
}

/// Generates histories of up to 14 steps. Deadlines, graces and pauses have similar lengths, so
/// that some of them end in the same millisecond.
pub(crate) fn any_history() -> impl Strategy<Value = EventHistory> {
    let spawned = prop_oneof![1 => Just(None), 4 => any_step(Just(spawned_event())).prop_map(Some)];
    (any_spec(), spawned, prop::collection::vec(any_step(any_event()), 0..14)).prop_map(
        |(spec, spawned, moves)| EventHistory {
            spec,
            steps: spawned.into_iter().chain(moves).collect(),
        },
    )
}

/// Generates arbitrary events, most of which are unexpected in the current phase.
pub(crate) fn any_event() -> impl Strategy<Value = TaskEvent> {
    prop_oneof![
        2 => Just(spawned_event()),
        1 => "[a-c]".prop_map(|error| TaskEvent::SpawnFailed { error, errno: 2 }),
        5 => (any_leader_end(), any_tree_liveness()).prop_map(|(end, tree)| TaskEvent::LeaderEnded {
            end, tree, final_cwd: None, pipeline: None,
        }),
        2 => Just(TaskEvent::TreeEmpty),
        5 => any_stop(),
        2 => Just(TaskEvent::DeadlinePassed),
        2 => any_limit().prop_map(|limit_kind| TaskEvent::LimitPassed { limit_kind }),
        2 => Just(TaskEvent::GraceOver),
        2 => (0..250_u64).prop_map(|at| TaskEvent::Extended {
            deadline: MonotonicMs(at),
            by: None,
            job_limit: None,
        }),
        2 => any_background_reason().prop_map(|why| TaskEvent::Placed { why }),
        2 => (0..2_u32).prop_map(|survivors| TaskEvent::Swept { survivors }),
        1 => "[r-t]".prop_map(|by| TaskEvent::Released { by }),
        1 => "[x-z]".prop_map(|why| TaskEvent::Vanished { why }),
    ]
}

fn any_limit() -> impl Strategy<Value = LimitKind> {
    prop::sample::select(LimitKind::ALL.to_vec())
}

fn any_step(
    events: impl Strategy<Value = TaskEvent> + 'static,
) -> impl Strategy<Value = HistoryStep> {
    let act = prop_oneof![
        4 => events.prop_map(StepAction::Deliver),
        1 => Just(StepAction::SleepUntilTimer),
    ];
    (prop_oneof![2 => Just(0), 3 => 0..40_u64], act)
        .prop_map(|(wait_ms, act)| HistoryStep { wait_ms, action: act })
}

fn any_spec() -> impl Strategy<Value = TaskSpec> {
    let placement = prop_oneof![
        3 => Just(Placement::Foreground),
        1 => any_background_reason().prop_map(|why| Placement::Background { why }),
    ];
    let leader_exit = prop_oneof![Just(OnLeaderExit::Linger), Just(OnLeaderExit::Reap)];
    (0..150_u64, 20..200_u64, 0..60_u64, placement, leader_exit, any_signal()).prop_map(
        |(deadline_ms, cap_ms, grace_ms, placement, on_leader_exit, signal)| TaskSpec {
            deadline_ms,
            cap_ms,
            grace_ms,
            placement,
            on_leader_exit,
            signal,
            ..sample_records::task_spec()
        },
    )
}

fn spawned_event() -> TaskEvent {
    TaskEvent::Spawned { leader: ProcRef { pid: 4243, start_ticks: 100_002 }.into() }
}

fn any_stop() -> impl Strategy<Value = TaskEvent> {
    let by = prop::sample::select(vec!["user", "session", "host"]);
    let grace_ms = prop::option::of(0..150_u64);
    (by, grace_ms, prop::option::of(any_signal())).prop_map(|(by, grace_ms, signal)| {
        TaskEvent::StopAsked { by: by.to_owned(), grace_ms, signal }
    })
}

fn any_signal() -> impl Strategy<Value = Signal> {
    prop::sample::select(vec![Signal::TERM, Signal::INT, Signal::HUP])
}

fn any_leader_end() -> impl Strategy<Value = LeaderEnd> {
    prop_oneof![
        3 => (0..4_u8).prop_map(|code| LeaderEnd::Exited { code }),
        1 => any_signal().prop_map(|signal| LeaderEnd::Signaled { signal, by: None }),
        1 => "[u-w]".prop_map(|why| LeaderEnd::Unknown { why }),
    ]
}

fn any_tree_liveness() -> impl Strategy<Value = TreeLiveness> {
    prop_oneof![1 => Just(TreeLiveness::Empty), 2 => Just(TreeLiveness::Alive)]
}

fn any_background_reason() -> impl Strategy<Value = BackgroundReason> {
    prop::sample::select(vec![
        BackgroundReason::Asked,
        BackgroundReason::Budget,
        BackgroundReason::Timeout,
        BackgroundReason::Known,
        BackgroundReason::Heuristic,
        BackgroundReason::User,
    ])
}

/// Returns histories in which a user's stop, the deadline and the hand-over occur in the same
/// millisecond: in every order, while the task starts, runs or lingers, and with each of three ends
/// of the task.
pub(crate) fn simultaneous_histories() -> Vec<EventHistory> {
    let stop = sample_records::stop_event("user");
    let (deadline, placed) =
        (TaskEvent::DeadlinePassed, TaskEvent::Placed { why: BackgroundReason::Budget });
    let orders = [
        [&stop, &deadline, &placed],
        [&stop, &placed, &deadline],
        [&deadline, &stop, &placed],
        [&deadline, &placed, &stop],
        [&placed, &stop, &deadline],
        [&placed, &deadline, &stop],
    ];
    let before = [
        vec![],
        vec![spawned_event()],
        vec![spawned_event(), sample_records::exited_event(7, TreeLiveness::Alive)],
    ];
    let after = [
        vec![spawned_event(), sample_records::exited_event(0, TreeLiveness::Empty)],
        vec![
            spawned_event(),
            sample_records::exited_event(0, TreeLiveness::Alive),
            TaskEvent::TreeEmpty,
        ],
        vec![
            spawned_event(),
            TaskEvent::TreeEmpty,
            TaskEvent::GraceOver,
            TaskEvent::Swept { survivors: 0 },
        ],
    ];
    let mut histories = Vec::new();
    for (before, order) in before.iter().flat_map(|before| orders.map(|order| (before, order))) {
        for after in &after {
            let spec = TaskSpec { deadline_ms: 50, grace_ms: 10, ..sample_records::task_spec() };
            let at_once = |event: &TaskEvent| HistoryStep {
                wait_ms: 0,
                action: StepAction::Deliver(event.clone()),
            };
            let mut moves: Vec<HistoryStep> = before.iter().map(at_once).collect();
            let instant = moves.len();
            moves.extend(order.into_iter().map(at_once));
            moves[instant].wait_ms = spec.deadline_ms;
            let later = |event: &TaskEvent| HistoryStep {
                wait_ms: 10,
                action: StepAction::Deliver(event.clone()),
            };
            moves.extend(after.iter().map(later));
            moves.push(later(&TaskEvent::TreeEmpty));
            histories.push(EventHistory { spec, steps: moves });
        }
    }
    histories
}

/// Returns a name of the phase without its times, by which tests count phases.
pub(crate) fn phase_label(phase: &Phase) -> &'static str {
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
