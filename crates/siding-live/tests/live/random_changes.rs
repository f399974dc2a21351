//! A view that was refreshed after any changes equals one that was opened after them.

use std::collections::BTreeSet;

use proptest::prelude::*;
use siding_live::{LiveTask, LiveView};
use siding_model::id::TaskId;

use crate::fixture::StateFixture;

/// One change of a state directory. A number selects one of the tasks to which it applies.
#[derive(Debug, Clone)]
enum Change {
    Start { is_agents: bool },
    Stall(usize),
    Extend(usize),
    End { task: usize, code: u8 },
    Acknowledge(usize),
    Remove(usize),
    Damage(usize),
    Refresh,
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        4 => any::<bool>().prop_map(|is_agents| Change::Start { is_agents }),
        2 => any::<usize>().prop_map(Change::Stall),
        2 => any::<usize>().prop_map(Change::Extend),
        3 => (any::<usize>(), 0..2_u8).prop_map(|(task, code)| Change::End { task, code }),
        2 => any::<usize>().prop_map(Change::Acknowledge),
        2 => any::<usize>().prop_map(Change::Remove),
        1 => any::<usize>().prop_map(Change::Damage),
        4 => Just(Change::Refresh),
    ]
}

/// The tasks that the changes have started.
#[derive(Default)]
struct Model {
    running: Vec<TaskId>,
    ended: Vec<TaskId>,
    extensions: u64,
}

fn choose(tasks: &[TaskId], number: usize) -> Option<TaskId> {
    (!tasks.is_empty()).then(|| tasks[number % tasks.len()])
}

impl Model {
    fn apply(&mut self, state: &mut StateFixture, view: &mut LiveView, change: &Change) {
        match change {
            Change::Start { is_agents } => {
                let session = if *is_agents { "agent-7" } else { "cli" };
                self.running.push(state.start_task_in(session));
            }
            Change::Stall(number) => {
                if let Some(id) = choose(&self.running, *number) {
                    state.stall_task(id);
                }
            }
            Change::Extend(number) => {
                if let Some(id) = choose(&self.running, *number) {
                    self.extensions += 1;
                    state.extend_task(id, 60_000 * self.extensions);
                }
            }
            Change::End { task, code } => {
                if let Some(id) = choose(&self.running, *task) {
                    state.end_task(id, *code);
                    self.running.retain(|other| *other != id);
                    self.ended.push(id);
                }
            }
            Change::Acknowledge(number) => {
                if let Some(id) = choose(&self.ended, *number)
                    && let Ok(read) = state.root.task_dir(id).expect("it exists").read_notices()
                {
                    let notices: Vec<_> = read.notices.iter().map(|notice| notice.id).collect();
                    state.acknowledge(read.state.spec.session_id.as_str(), &notices);
                }
            }
            Change::Remove(number) => {
                if let Some(id) = choose(&self.ended, *number) {
                    state.remove_task(id);
                    self.ended.retain(|other| *other != id);
                }
            }
            Change::Damage(number) => {
                if let Some(id) = choose(&self.running, *number) {
                    state.damage_task(id);
                    self.running.retain(|other| *other != id);
                }
            }
            Change::Refresh => {
                let changes = view.refresh().expect("readable");
                let sets = [&changes.appeared, &changes.ended, &changes.changed, &changes.removed];
                let all: BTreeSet<TaskId> = sets.into_iter().flatten().copied().collect();
                let count: usize = sets.into_iter().map(BTreeSet::len).sum();
                assert_eq!(all.len(), count, "a task is in two sets: {changes:?}");
            }
        }
    }
}

/// Describes the content of a view, without the times that differ between two moments.
fn shown(view: &LiveView) -> Vec<String> {
    let task = |task: &LiveTask| {
        let mut shown = task.view.clone();
        (shown.elapsed_ms, shown.deadline_at) = (0, None);
        if let Some(attention) = &mut shown.attention {
            attention.silent_ms = 0;
        }
        format!("{shown:?} {:?} {} {:?}", task.need, task.unread_notices, task.notices)
    };
    let session = |session| format!("{session:?}");
    let unreadable = view.unreadable().iter().map(|(id, why)| format!("{id} {why}"));
    view.tasks().map(task).chain(view.sessions().map(session)).chain(unreadable).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_refreshed_view_equals_a_new_one(changes in prop::collection::vec(change(), 1..40)) {
        let mut state = StateFixture::new();
        let mut view = state.open_view();
        let mut model = Model::default();
        for change in &changes {
            model.apply(&mut state, &mut view, change);
        }
        let _any = view.refresh().expect("readable");
        prop_assert_eq!(shown(&view), shown(&state.open_view()));
        prop_assert!(view.refresh().expect("readable").is_empty());
    }
}
