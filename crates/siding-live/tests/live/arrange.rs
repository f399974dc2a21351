//! Property tests of the functions that arrange tasks for display.

use proptest::prelude::*;
use siding_live::arrange::{Grouping, SortKey, filter_tasks, group_tasks, sort_tasks};
use siding_live::{LiveTask, TaskUsage};
use siding_model::id::{TaskId, TaskKind};
use siding_model::outcome::Outcome;
use siding_model::person_need::PersonNeed;
use siding_model::sample::sample_task_view;
use siding_model::task_view::{OutputView, PhaseName, TaskView};

fn outcome() -> impl Strategy<Value = Option<Outcome>> {
    prop_oneof![
        3 => Just(None),
        1 => (0..3_u8).prop_map(|code| Some(Outcome::Exited { code })),
        1 => Just(Some(Outcome::Stopped { by: "user".to_owned() })),
    ]
}

fn need() -> impl Strategy<Value = Option<PersonNeed>> {
    prop::option::of(prop_oneof![
        Just(PersonNeed::Action),
        Just(PersonNeed::Unsupervised),
        Just(PersonNeed::Deadline),
        Just(PersonNeed::Limit),
        Just(PersonNeed::UnreadFailure),
    ])
}

prop_compose! {
    fn task()(
        bits in 0..1_000_u64,
        kind in prop::sample::select(TaskKind::ALL.to_vec()),
        session in prop::sample::select(vec!["cli", "agent-7", "agent-8"]),
        command in "[a-cA-C ]{0,6}",
        outcome in outcome(),
        need in need(),
        second in 0..3_u8,
        bytes in 0..3_u64,
        cpu in prop::option::of(0..3_u8),
    ) -> LiveTask {
        let usage = cpu.map(|cpu| TaskUsage {
            cpu_percent: Some(f64::from(cpu)),
            memory_bytes: bytes,
            pids: Vec::new(),
            ports: Vec::new(),
            output_rate: None,
            is_supervised: true,
        });
        let view = TaskView {
            kind,
            session_id: session.parse().expect("a name"),
            ..task_view(bits, &command, outcome, second)
        };
        let mut task = LiveTask::from_view(view);
        (task.need, task.usage) = (need, usage);
        task
    }
}

fn task_view(bits: u64, command: &str, outcome: Option<Outcome>, second: u8) -> TaskView {
    let moment = format!("2026-03-02T07:05:0{second}.000Z");
    TaskView {
        task_id: TaskId::new(TaskKind::LocalBash, TaskId::MIN_BITS + (bits << 12)).expect("an id"),
        command: command.to_owned(),
        phase: if outcome.is_some() { PhaseName::Ended } else { PhaseName::Running },
        ended_at: outcome.is_some().then(|| moment.clone()),
        outcome,
        started_at: moment,
        elapsed_ms: u64::from(second),
        output: OutputView {
            bytes: u64::from(second),
            kept_bytes: u64::from(second),
            ..sample_task_view().output
        },
        ..sample_task_view()
    }
}

fn addresses(tasks: &[&LiveTask]) -> Vec<*const LiveTask> {
    tasks.iter().map(|task| std::ptr::from_ref(*task)).collect()
}

proptest! {
    #[test]
    fn grouping_keeps_every_task_once_and_separates_the_groups(
        tasks in prop::collection::vec(task(), 0..30),
        grouping in prop::sample::select(Grouping::ALL_GROUPINGS.to_vec()),
        key in prop::sample::select(SortKey::ALL_KEYS.to_vec()),
    ) {
        let groups = group_tasks(&tasks, grouping, key);
        let mut grouped: Vec<_> =
            groups.iter().flat_map(|group| addresses(&group.tasks)).collect();
        let mut all = addresses(&tasks.iter().collect::<Vec<_>>());
        grouped.sort_unstable();
        all.sort_unstable();
        prop_assert_eq!(grouped, all);
        let mut keys: Vec<_> = groups.iter().map(|group| group.key.clone()).collect();
        keys.sort();
        keys.dedup();
        prop_assert_eq!(keys.len(), groups.len());
        for group in &groups {
            prop_assert!(!group.tasks.is_empty() && !group.key.title().is_empty());
            let session = &group.tasks[0].view.session_id;
            let same = group.tasks.iter().all(|task| task.view.session_id == *session);
            prop_assert!(grouping != Grouping::Session || same);
        }
    }

    #[test]
    fn tasks_and_groups_that_need_a_person_come_first(
        tasks in prop::collection::vec(task(), 0..30),
        grouping in prop::sample::select(Grouping::ALL_GROUPINGS.to_vec()),
        key in prop::sample::select(SortKey::ALL_KEYS.to_vec()),
    ) {
        let groups = group_tasks(&tasks, grouping, key);
        let rank = |task: &&LiveTask| (task.need.is_none(), task.need);
        for group in &groups {
            prop_assert!(group.tasks.is_sorted_by_key(rank));
        }
        prop_assert!(groups.is_sorted_by_key(|group| rank(&group.tasks[0])));
    }

    #[test]
    fn sorting_is_stable_and_repeatable(
        tasks in prop::collection::vec(task(), 0..30),
        key in prop::sample::select(SortKey::ALL_KEYS.to_vec()),
    ) {
        let mut once: Vec<&LiveTask> = tasks.iter().collect();
        sort_tasks(&mut once, key);
        let mut twice = once.clone();
        sort_tasks(&mut twice, key);
        prop_assert_eq!(addresses(&once), addresses(&twice));
    }

    #[test]
    fn a_filter_selects_a_subsequence_and_more_words_select_fewer(
        tasks in prop::collection::vec(task(), 0..30),
        text in "[a-cA-C ]{0,4}",
        more in "[a-c]{1,2}",
    ) {
        let selected: Vec<&LiveTask> = filter_tasks(&tasks, &text).collect();
        let again: Vec<&LiveTask> = filter_tasks(selected.iter().copied(), &text).collect();
        prop_assert_eq!(addresses(&selected), addresses(&again));
        let narrower: Vec<&LiveTask> = filter_tasks(&tasks, &format!("{text} {more}")).collect();
        prop_assert!(addresses(&narrower).iter().all(|one| addresses(&selected).contains(one)));
        let upper: Vec<&LiveTask> = filter_tasks(&tasks, &text.to_uppercase()).collect();
        prop_assert_eq!(addresses(&selected), addresses(&upper));
        prop_assert!(filter_tasks(&tasks, "  ").count() == tasks.len());
    }
}

/// Returns the commands of the tasks, sorted by the key.
fn sorted_commands(tasks: &[LiveTask], key: SortKey) -> String {
    let mut sorted: Vec<&LiveTask> = tasks.iter().collect();
    sort_tasks(&mut sorted, key);
    sorted.iter().map(|task| task.view.command.as_str()).collect()
}

#[test]
fn tasks_are_sorted_by_each_shown_value() {
    let running = |number: u8, command: &str, expected_ms: u64| {
        let view = TaskView {
            expected_ms: Some(expected_ms),
            elapsed_ms: 100,
            session_id: format!("agent-{number}").parse().expect("a name"),
            ..task_view(number.into(), command, None, number)
        };
        let mut task = LiveTask::from_view(view);
        task.unread_notices = usize::from(number);
        task.usage = Some(TaskUsage {
            cpu_percent: Some(f64::from(number)),
            memory_bytes: number.into(),
            pids: vec![1; usize::from(number)],
            ports: vec![9_000 - u16::from(number)],
            output_rate: Some(f64::from(number)),
            is_supervised: true,
        });
        task
    };
    let ended = task_view(9, "c", Some(Outcome::Exited { code: 0 }), 0);
    let ended = TaskView { session_id: "agent-9".parse().expect("a name"), ..ended };
    let tasks = [LiveTask::from_view(ended), running(1, "b", 10), running(2, "a", 20)];
    for (key, expected) in [
        (SortKey::Time, "abc"),
        (SortKey::Name, "abc"),
        (SortKey::State, "bac"),
        (SortKey::Usual, "bac"),
        (SortKey::Cpu, "abc"),
        (SortKey::Memory, "abc"),
        (SortKey::Processes, "abc"),
        (SortKey::Ports, "abc"),
        (SortKey::Rate, "abc"),
        (SortKey::Output, "abc"),
        (SortKey::Notices, "abc"),
        (SortKey::Session, "bac"),
        (SortKey::Elapsed, "bac"),
        (SortKey::Silence, "cba"),
    ] {
        assert_eq!(sorted_commands(&tasks, key), expected, "{}", key.as_str());
    }
}

#[test]
fn the_order_by_name_is_that_of_the_shown_text() {
    let task = |number: u8, name: Option<&str>, command: &str| {
        let view = task_view(number.into(), command, None, 0);
        LiveTask::from_view(TaskView { name: name.map(str::to_owned), ..view })
    };
    let tasks = [task(1, None, "c"), task(2, Some("d"), "a"), task(3, Some("b"), "e")];
    assert_eq!(sorted_commands(&tasks, SortKey::Name), "eca", "b: e, c, d: a");
}

#[test]
fn a_filter_searches_ids_names_commands_sessions_directories_and_states() {
    let exited = Some(Outcome::Exited { code: 0 });
    let view = TaskView {
        name: Some("nightly".to_owned()),
        session_id: "agent-7".parse().expect("a name"),
        ..task_view(5, "make Test", exited, 1)
    };
    let id = view.task_id.to_string();
    let tasks = [LiveTask::from_view(view)];
    for text in [&id, "NIGHT", "test make", "agent-7", "/project", "succeeded", ""] {
        assert_eq!(filter_tasks(&tasks, text).count(), 1, "{text}");
    }
    for text in ["failed", "make install"] {
        assert_eq!(filter_tasks(&tasks, text).count(), 0, "{text}");
    }
}
