//! If starts, exits, stops and reads of tasks run concurrently, no task is lost or duplicated, and
//! each task has exactly one recorded outcome.

use std::fs::File;
use std::io::Write as _;

use siding_e2e::tree_plan::SplitMix64;
use siding_e2e::{RunningProgram, Sandbox, eventually};
use siding_model::outcome::Outcome;

use crate::state;
use crate::test_tasks::STOP_GRACE;

/// Asserts that exactly `expected` tasks exist, that each task has ended exactly once, and that no
/// process or transient file of a task is left. Returns their outcomes.
fn assert_all_ended(sandbox: &Sandbox, expected: usize) -> Vec<Outcome> {
    let ids = state::task_ids(sandbox);
    assert_eq!(ids.len(), expected, "records were lost or duplicated");
    let outcomes = ids.iter().map(|id| state::assert_ended_cleanly(sandbox, id)).collect();
    assert!(state::live_task_ids(sandbox).is_empty());
    assert!(state::claimed_task_ids(sandbox).is_empty());
    outcomes
}

fn task_id(started: &siding_e2e::ProgramOutput) -> String {
    started.json()["task_id"].as_str().expect("a task id").to_owned()
}

#[test]
fn hundred_concurrent_runs_leave_a_hundred_records() {
    const RUN_COUNT: usize = 100;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let clients: Vec<RunningProgram> = (0..RUN_COUNT)
        .map(|run| {
            let command = format!("echo run-{run}; exit {run}");
            sandbox.siding(&["run", "--json", "--budget", "none", "--", &command]).spawn()
        })
        .collect();
    let listings: Vec<RunningProgram> =
        (0..4).map(|_| sandbox.siding(&["ps", "--json", "--all"]).spawn()).collect();
    for listing in listings {
        let seen = listing.wait().expect_code(0).json();
        for task in seen.as_array().expect("a list") {
            let is_true = match task["outcome"]["kind"].as_str() {
                None => task["phase"] != "ended",
                Some(kind) => kind == "exited" && task["phase"] == "ended",
            };
            assert!(is_true, "{task}");
        }
    }
    for (run, client) in clients.into_iter().enumerate() {
        let done = client.wait().expect_code(run.try_into().expect("a small number"));
        let text = done.json()["output"]["text"].as_str().map(str::to_owned);
        assert_eq!(text, Some(format!("run-{run}\n")), "{done}");
        assert_eq!(done.stderr_text(), "");
    }
    let outcomes = assert_all_ended(&sandbox, RUN_COUNT);
    for code in 0..100 {
        assert!(outcomes.contains(&Outcome::Exited { code }), "{code} is not among {outcomes:?}");
    }
}

#[test]
fn twenty_simultaneous_exits_are_all_reported() {
    const TASK_COUNT: usize = 20;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let gate = sandbox.path("gate");
    let path = rustix::path::Arg::into_c_str(gate.as_path()).expect("a short path");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("test directory");
    let mut opened =
        File::options().read(true).write(true).open(&gate).expect("opening the FIFO succeeded");
    let ids: Vec<String> = (0..TASK_COUNT)
        .map(|end| {
            let command = format!("echo ready; read -r _ <gate; exit {end}");
            task_id(&sandbox.siding(&["run", "--background", "--json", "--", &command]).run())
        })
        .collect();
    let mut waiters =
        vec![ids.iter().fold(sandbox.siding(&["wait", "--json"]), |call, id| call.arg(id)).spawn()];
    waiters.extend(ids.iter().map(|id| sandbox.siding(&["wait", "--json", id]).spawn()));
    // The first waiter waits for all tasks. The second task, which exits with 1, is the first one
    // in the order of the arguments that fails.
    let codes = std::iter::once(1).chain(0..);
    eventually("all of them are ready", || {
        ids.iter().all(|id| state::output(&sandbox, id) == "ready\n")
    });
    opened.write_all(&[b'\n'; TASK_COUNT]).expect("the FIFO has readers");
    let readers: Vec<RunningProgram> =
        (0..4).map(|_| sandbox.siding(&["ps", "--json"]).spawn()).collect();
    for (waiter, code) in waiters.into_iter().zip(codes) {
        let waited = waiter.wait().expect_code(code).json();
        for hit in waited["by"].as_array().expect("a list") {
            let task_index = ids.iter().position(|id| *id == hit["task_id"]);
            assert_eq!(hit["detail"]["code"].as_u64(), task_index.map(|of| of as u64), "{waited}");
        }
    }
    readers.into_iter().for_each(|listing| drop(listing.wait().expect_code(0)));
    assert!(
        assert_all_ended(&sandbox, TASK_COUNT)
            .iter()
            .all(|outcome| matches!(outcome, Outcome::Exited { .. }))
    );
}

/// Promise P35: two stops that race with the exit of a task's command produce exactly one outcome.
/// `CRASHES_RACES` sets the number of races (default 50).
#[test]
fn stop_racing_with_exit_records_exactly_one_outcome() {
    let races = crate::env_number("CRASHES_RACES", 50);
    let mut dice = SplitMix64(crate::env_number("CRASHES_SEED", 1));
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let mut ends = 0;
    for race in 0..races {
        let verbs =
            ["--quiet", "sleep", &dice.next_below(40).to_string(), "mark", &race.to_string()];
        let mut run = ["run", "--background", "--json", "--"].map(str::to_owned).to_vec();
        run.extend(sandbox.puppet_argv(&[&verbs[..], &["exit", "7"]].concat()));
        let id = task_id(&sandbox.siding(&run).run());
        let stops = [STOP_GRACE, "1s"]
            .map(|grace| sandbox.siding(&["stop", "--json", "--grace", grace, &id]).spawn());
        for stop in stops {
            let report = stop.wait().expect_code(0).json();
            let reported_outcome =
                serde_json::from_value(report["outcome"].clone()).expect("an outcome");
            assert_eq!(Some::<Outcome>(reported_outcome), state::outcome(&sandbox, &id));
        }
        let outcome = state::assert_ended_cleanly(&sandbox, &id);
        let ended = outcome == Outcome::Exited { code: 7 };
        let stopped = outcome == Outcome::Stopped { by: "user".to_owned() };
        assert!(ended || stopped, "race {race}: {outcome}");
        ends += u64::from(ended);
    }
    // The line shows how often the command exited before the stops. The test harness prints the
    // line only if the test fails.
    eprintln!("{ends} of {races} ended by themselves");
    assert_all_ended(&sandbox, races.try_into().expect("a small number"));
}
