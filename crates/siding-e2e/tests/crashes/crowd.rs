//! Many at once: starts, ends, stops and looks.

use std::fs::File;
use std::io::Write as _;

use siding_e2e::tree_plan::SplitMix64;
use siding_e2e::{RunningProgram, Sandbox, eventually};
use siding_model::outcome::Outcome;

use crate::state;
use crate::tasks::GRACE;

/// Checks that all tasks have ended, each once, and that nothing is left of any.
fn all_over(sandbox: &Sandbox, expected: usize) -> Vec<Outcome> {
    let ids = state::tasks(sandbox);
    assert_eq!(ids.len(), expected, "lost or doubled records");
    let outcomes = ids.iter().map(|id| state::assert_over(sandbox, id)).collect();
    assert!(state::live_marks(sandbox).is_empty());
    assert!(state::claims(sandbox).is_empty());
    outcomes
}

fn id_of(started: &siding_e2e::ProgramOutput) -> String {
    started.json()["task_id"].as_str().expect("every task has an id").to_owned()
}

#[test]
fn a_hundred_runs_at_once_are_a_hundred_records() {
    const RUNS: usize = 100;
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let clients: Vec<RunningProgram> = (0..RUNS)
        .map(|run| {
            let command = format!("echo run-{run}; exit {run}");
            sandbox.siding(&["run", "--json", "--budget", "none", "--", &command]).spawn()
        })
        .collect();
    let looks: Vec<RunningProgram> =
        (0..4).map(|_| sandbox.siding(&["ps", "--json", "--all"]).spawn()).collect();
    for look in looks {
        let seen = look.wait().expect_code(0).json();
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
    let outcomes = all_over(&sandbox, RUNS);
    for code in 0..100 {
        assert!(outcomes.contains(&Outcome::Exited { code }), "{code} is not among {outcomes:?}");
    }
}

#[test]
fn twenty_ends_in_the_same_moment_are_all_told() {
    const ENDS: usize = 20;
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
    .expect("one's own directory");
    let mut opened = File::options().read(true).write(true).open(&gate).expect("just made");
    let ids: Vec<String> = (0..ENDS)
        .map(|end| {
            let command = format!("echo ready; read -r _ <gate; exit {end}");
            id_of(&sandbox.siding(&["run", "--background", "--json", "--", &command]).run())
        })
        .collect();
    let mut waiters =
        vec![ids.iter().fold(sandbox.siding(&["wait", "--json"]), |call, id| call.arg(id)).spawn()];
    waiters.extend(ids.iter().map(|id| sandbox.siding(&["wait", "--json", id]).spawn()));
    eventually("all of them are ready", || {
        ids.iter().all(|id| state::output(&sandbox, id) == "ready\n")
    });
    opened.write_all(&[b'\n'; ENDS]).expect("there are readers");
    let looks: Vec<RunningProgram> =
        (0..4).map(|_| sandbox.siding(&["ps", "--json"]).spawn()).collect();
    for waiter in waiters {
        let told = waiter.wait().expect_code(0).json();
        for hit in told["by"].as_array().expect("a list") {
            let of = ids.iter().position(|id| *id == hit["task_id"]);
            assert_eq!(hit["detail"]["code"].as_u64(), of.map(|of| of as u64), "{told}");
        }
    }
    looks.into_iter().for_each(|look| drop(look.wait().expect_code(0)));
    assert!(
        all_over(&sandbox, ENDS).iter().all(|outcome| matches!(outcome, Outcome::Exited { .. }))
    );
}

/// Races between two stops and the natural end; `CRASHES_RACES` asks for more of them.
#[test]
fn either_the_end_wins_or_the_stop_and_never_both() {
    let races = crate::number_from("CRASHES_RACES", 50);
    let mut dice = SplitMix64(crate::number_from("CRASHES_SEED", 1));
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let mut ends = 0;
    for race in 0..races {
        let verbs =
            ["--quiet", "sleep", &dice.next_below(40).to_string(), "mark", &race.to_string()];
        let mut run = ["run", "--background", "--json", "--"].map(str::to_owned).to_vec();
        run.extend(sandbox.puppet_argv(&[&verbs[..], &["exit", "7"]].concat()));
        let id = id_of(&sandbox.siding(&run).run());
        let stops = [GRACE, "1s"]
            .map(|grace| sandbox.siding(&["stop", "--json", "--grace", grace, &id]).spawn());
        for stop in stops {
            let told = stop.wait().expect_code(0).json();
            let told = serde_json::from_value(told["outcome"].clone()).expect("an outcome");
            assert_eq!(Some::<Outcome>(told), state::outcome(&sandbox, &id));
        }
        let outcome = state::assert_over(&sandbox, &id);
        let ended = outcome == Outcome::Exited { code: 7 };
        let stopped = outcome == Outcome::Stopped { by: "user".to_owned() };
        assert!(ended || stopped, "race {race}: {outcome}");
        ends += u64::from(ended);
    }
    // Printed when something fails: whether both sides ever won.
    eprintln!("{ends} of {races} ended by themselves");
    all_over(&sandbox, races.try_into().expect("a small number"));
}
