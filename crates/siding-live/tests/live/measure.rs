//! Prints how long the operations of a view of many tasks take. Run with `--release`, `--ignored`
//! and `--no-capture`.

use std::time::Instant;

use siding_live::LiveTask;
use siding_model::id::TaskId;

use crate::fixture::StateFixture;

const RUNNING_TASKS: usize = 100;
const ENDED_TASKS: usize = 900;

#[test]
#[ignore = "prints measurements"]
fn print_the_cost_of_a_thousand_tasks() {
    let mut state = StateFixture::new();
    for number in 0..ENDED_TASKS {
        let id = state.start_task_in(&format!("agent-{}", number % 20));
        state.end_task(id, 0);
    }
    let running: Vec<TaskId> = (0..RUNNING_TASKS).map(|_| state.start_task()).collect();
    let time = |name: &str, count: u32, work: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..count).for_each(|_| work());
        println!("{name}: {:.3} ms", start.elapsed().as_secs_f64() * 1_000.0 / f64::from(count));
    };
    time("open", 5, &mut || drop(state.open_view()));
    let mut view = state.open_view();
    time("refresh without a change", 1_000, &mut || {
        assert!(view.refresh().expect("readable").is_empty());
    });
    for id in &running {
        state.extend_task(*id, 1);
    }
    time("refresh of 100 changed tasks", 1, &mut || {
        assert_eq!(view.refresh().expect("readable").changed.len(), RUNNING_TASKS);
    });
    time("sample of 100 tasks without processes", 3, &mut || view.sample(&running));
    time("sort and group", 100, &mut || {
        let tasks: Vec<&LiveTask> = view.tasks().collect();
        let groups = siding_live::arrange::group_tasks(
            siding_live::arrange::filter_tasks(tasks, "make"),
            siding_live::arrange::Grouping::Session,
            siding_live::arrange::SortKey::Time,
        );
        assert_eq!(groups.len(), 21);
    });
}
