//! The totals of the counters, and the metrics that include them.

use rusqlite::Connection;
use siding_model::metrics::CounterName;
use siding_model::size::Bytes;

use super::{NO_LIMIT, TestState};
use crate::{History, MAX_RUNS_PER_COMMAND, metrics, with_history};

fn ended_count(state: &TestState, outcome: &str) -> u64 {
    let (totals, _) = state.with_history(History::totals);
    let ended = |(name, label, _): &(CounterName, &str, u64)| {
        *name == CounterName::Ended && *label == outcome
    };
    totals.iter().find(ended).map_or(0, |(.., count)| count)
}

#[test]
fn totals_include_removed_tasks_and_runs() {
    let state = TestState::new();
    for round in 0..MAX_RUNS_PER_COMMAND + 10 {
        let id = state.add_exited_task("make", 10, 0);
        state.ingest();
        if round % 2 == 0 {
            let locked = state.root.task_dir(id).unwrap().try_lock().unwrap().unwrap();
            state.root.remove_task(&locked).unwrap();
        }
    }
    assert_eq!(state.runs().len(), MAX_RUNS_PER_COMMAND as usize, "old runs are deleted");
    assert_eq!(ended_count(&state, "succeeded"), u64::from(MAX_RUNS_PER_COMMAND) + 10);
}

#[test]
fn concurrent_ingestion_counts_each_task_once() {
    let state = TestState::new();
    for ms in 0..40 {
        state.add_exited_task("make", ms, 1);
    }
    let root = &state.root;
    let ingest = || {
        with_history(root, |history| {
            history.ingest(root, NO_LIMIT)?;
            history.totals()
        })
        .unwrap()
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|_| scope.spawn(ingest)).collect();
        for thread in threads {
            let (totals, counted) = thread.join().unwrap().value;
            let ended = totals.iter().find(|(name, ..)| *name == CounterName::Ended);
            assert_eq!(ended.map(|(.., count)| count), Some(counted.len() as u64));
        }
    });
    assert_eq!(ended_count(&state, "failed"), 40);
}

/// A history of a build without totals counts the runs that it still holds, once.
#[test]
fn an_older_history_starts_with_its_runs() {
    let state = TestState::new();
    for code in [0, 0, 1] {
        state.add_exited_task("make", 10, code);
    }
    state.ingest();
    let database = Connection::open(state.database_path()).unwrap();
    database.execute_batch("DROP TABLE totals").unwrap();
    assert_eq!(ended_count(&state, "succeeded"), 2);
    database.execute_batch("DROP TABLE totals").unwrap();
    state.add_exited_task("make", 10, 0);
    state.ingest();
    assert_eq!((ended_count(&state, "succeeded"), ended_count(&state, "failed")), (3, 1));
}

#[test]
fn metrics_include_running_tasks_once() {
    let state = TestState::new();
    state.add_exited_task("make", 10, 0);
    let running = state.add_task("make", &[]);
    state.root.mark_live(running).unwrap();
    for _ in 0..2 {
        let text = metrics::read_metrics(&state.root, Bytes::gib(1)).unwrap().value;
        for line in [
            "siding_tasks{state=\"running\"} 1",
            "siding_tasks_started_total{kind=\"local_bash\"} 2",
            "siding_tasks_ended_total{outcome=\"succeeded\"} 1",
            "siding_retention_limit_bytes 1073741824",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
