//! Concurrent stops, and stops that race with the exit of the command.

use std::time::Duration;

use siding_e2e::tree_plan::SplitMix64;
use siding_e2e::{RunningProgram, eventually, words};

use crate::support::{Task, create_file, sandbox, wait_for_file_command};

/// Concurrent stops end a task once, and all report the same outcome.
#[test]
fn concurrent_stops_report_the_same_outcome() {
    let sandbox = sandbox();
    for round in 0..6 {
        let text = format!(": {round}; sleep 300 & setsid sleep 300 & wait");
        let task = Task::start(&sandbox, &text);
        let stops: Vec<RunningProgram> =
            (0..4).map(|_| sandbox.siding(&["stop", "--json", &task.id]).spawn()).collect();
        let views: Vec<_> =
            stops.into_iter().map(|stop| stop.wait().expect_code(0).json()).collect();
        task.expect_stopped();
        assert!(views.iter().all(|view| *view == views[0]), "{views:#?}");
        assert_eq!(views[0]["outcome"]["kind"], "stopped");
    }
}

/// Promise P32: a second stop with a shorter grace does not wait for the end of the first stop's
/// grace.
#[test]
fn second_stop_can_shorten_the_grace() {
    let sandbox = sandbox();
    let task = Task::start_puppet(&sandbox, &[], &words("ignore TERM mark m hang"));
    let ignoring = sandbox.wait_for_mark("m");
    let patient = sandbox.siding(&["stop", "--json", "--grace", "40s", &task.id]).spawn();
    eventually("the first stop is recorded", || task.journal().contains("stop_asked"));
    assert!(ignoring.is_alive());
    let view = task.stop(&["--grace", "0s"]);
    task.expect_stopped();
    let first = patient.wait().expect_code(0);
    assert!(first.elapsed < Duration::from_secs(20), "{first}");
    assert_eq!(first.json(), view);
}

/// Promise P35: when stops race with the exit of the command, the task has one outcome: exited or
/// stopped.
#[test]
fn stop_racing_with_exit_gives_one_outcome() {
    let sandbox = sandbox();
    let mut dice = SplitMix64(38);
    let mut kinds = std::collections::BTreeMap::<String, u32>::new();
    for round in 0..15 {
        let go = format!("go{round}");
        let task = Task::start(&sandbox, &format!("{}; exit 5", wait_for_file_command(&go)));
        create_file(&sandbox, &go);
        std::thread::sleep(Duration::from_millis(dice.next_below(25)));
        let stops: Vec<RunningProgram> =
            (0..3).map(|_| sandbox.siding(&["stop", "--json", &task.id]).spawn()).collect();
        for stop in stops {
            let view = stop.wait().expect_code(0).json();
            assert_eq!(view["outcome"], task.wait_outcome());
        }
        let kind = task.wait_outcome()["kind"].as_str().expect("an outcome").to_owned();
        assert!(["exited", "stopped"].contains(&&*kind), "{kind}");
        *kinds.entry(kind).or_default() += 1;
        task.expect_stopped();
    }
    println!("{kinds:?}");
}
