//! `siding history` and `siding stats`, and the use of the history by `ps`, `show` and `run`.

use std::os::unix::fs::{FileExt as _, PermissionsExt};
use std::path::PathBuf;

use serde_json::Value;
use siding_e2e::{ProgramOutput, Sandbox, eventually};

use crate::support::{
    HANG_COMMAND, make_file, run_ok, run_to_end, sandbox, show_task, start_task, stop_all, task_id,
    until_file_exists, write,
};

fn history_path(sandbox: &Sandbox) -> PathBuf {
    sandbox.state_dir().join("history.db")
}

/// Creates the file `go`, for which the command waits, runs the command `times` times, and deletes
/// the file.
fn run_times(sandbox: &Sandbox, command: &str, times: usize) {
    make_file(sandbox, "go");
    for _ in 0..times {
        run_to_end(sandbox, command);
    }
    std::fs::remove_file(sandbox.path("go")).expect("test file");
}

fn read_stats(sandbox: &Sandbox) -> Vec<Value> {
    run_ok(sandbox, &["stats", "--json"]).json().as_array().expect("a list").clone()
}

/// Commands that do not need the history do not open the database, because opening an SQLite
/// database takes longer than starting a shim.
#[test]
fn tasks_within_their_budget_do_not_open_the_history() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "true");
    for args in [&["run", "--", "true"][..], &["run", "--json", "--", "true"], &["ps"]] {
        let _done = run_ok(&sandbox, args);
    }
    let _shown = show_task(&sandbox, &id);
    let running = start_task(&sandbox, &[], HANG_COMMAND);
    let _done = run_ok(&sandbox, &["stop", &running]);
    assert!(!history_path(&sandbox).exists());
    let _done = run_ok(&sandbox, &["history"]);
    assert!(history_path(&sandbox).exists());
}

/// If no memory sample was taken, the history stores the peak of the command's largest process,
/// which the kernel reports when the command has exited. For a small command the kernel reports the
/// memory of the shim, which the history does not store.
#[test]
fn the_history_records_peak_memory() {
    const MIB: u64 = 1 << 20;
    let sandbox = sandbox();
    let large = sandbox.puppet_line(&["--quiet", "grow", "90M"]);
    run_to_end(&sandbox, &large);
    run_to_end(&sandbox, "exit 0");
    let peak = |of: &Value| of["peak_memory_bytes"].as_u64();
    let runs = run_ok(&sandbox, &["history", "--json"]).json();
    let (small, large) = (peak(&runs[0]), peak(&runs[1]).expect("a peak was recorded"));
    assert!(small.is_none_or(|bytes| (MIB / 2..8 * MIB).contains(&bytes)), "{small:?}");
    assert!((90 * MIB..140 * MIB).contains(&large), "{large}");
    assert_eq!(read_stats(&sandbox).iter().filter_map(peak).max(), Some(large));
    for command in ["history", "stats"] {
        let text = run_ok(&sandbox, &[command]).stdout_text();
        let size = siding_model::size::format_size(large);
        assert!(text.contains("MEMORY") && text.contains(&format!(" {size}  ")), "{text}");
    }
}

/// An unknown peak memory is null in the history, and not 0. A shim that took over a task is not
/// the parent of the task's processes, so wait4(2) reports no resource usage to it.
#[test]
fn unknown_peak_memory_is_not_recorded_as_zero() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &[], HANG_COMMAND);
    let shim = show_task(&sandbox, &id)["shim_pid"].as_u64().expect("a shim");
    siding_e2e::Process::from_pid(u32::try_from(shim).expect("a pid"))
        .expect("the process is alive")
        .kill();
    eventually("another shim has taken over", || show_task(&sandbox, &id)["rescues"] == 1);
    stop_all(&sandbox);
    // Waits for the final record, because the shim answers the stop before it writes that record.
    let run = siding_e2e::eventually_some("the history has the run", || {
        let runs = run_ok(&sandbox, &["history", "--json"]).json();
        runs.as_array()?.iter().find(|run| run["task_id"] == id).cloned()
    });
    assert_ne!(run["peak_memory_bytes"], 0, "{run:#}");
}

#[test]
fn the_history_records_runs_by_command_and_directory() {
    let sandbox = sandbox();
    std::fs::create_dir(sandbox.path("other")).expect("test directory");
    run_to_end(&sandbox, "true  &&  echo x");
    run_to_end(&sandbox, " true && echo x");
    run_to_end(&sandbox, "exit 3");
    let there = ["run", "--cwd", "other", "--", "true && echo x"];
    let _done = run_ok(&sandbox, &there);
    // Waits for the final record of the last task, which the shim may not have written yet.
    let runs = siding_e2e::eventually_some("the history has all runs", || {
        let runs = run_ok(&sandbox, &["history", "--json"]).json();
        runs.as_array().filter(|runs| runs.len() == 4).cloned()
    });
    assert_eq!(
        runs[0]["cwd"],
        sandbox.path("other").display().to_string(),
        "the newest run must come first"
    );
    let here = sandbox.path("").display().to_string();
    let found = read_stats(&sandbox);
    let of = |command: &str, cwd: &str| {
        let wanted = |one: &&Value| one["command"] == command && one["cwd"] == cwd;
        found.iter().find(wanted).unwrap_or_else(|| panic!("{found:?}")).clone()
    };
    let here = here.trim_end_matches('/');
    assert_eq!(of("true && echo x", here)["runs"], 2);
    assert_eq!(of("exit 3", here)["success_rate"], 0.0);
    assert_eq!(
        of("exit 3", here)["median_ms"],
        Value::Null,
        "one run must not give a usual duration"
    );
    let there = run_ok(&sandbox, &["history", "--cwd", "other", "--json", "true"]).json();
    assert_eq!(there.as_array().map(Vec::len), Some(1));
    let text = run_ok(&sandbox, &["history"]).stdout_text();
    assert!(text.contains("exited 3  ") && text.contains("$ exit 3"), "{text}");
    let none = run_ok(&sandbox, &["history", "nothing"]);
    assert_eq!(none.stdout_text(), "");
    assert!(none.stderr_text().contains("siding stats"), "{none}");
}

#[test]
fn the_usual_duration_is_shown_while_a_task_runs() {
    let sandbox = sandbox();
    let wait = until_file_exists("go");
    run_times(&sandbox, &wait, 2);
    let early = start_task(&sandbox, &[], &wait);
    assert_eq!(show_task(&sandbox, &early)["expected_ms"], Value::Null, "two runs are not enough");
    // The next run would be a duplicate of this task, so wait for the task's end.
    make_file(&sandbox, "go");
    let _done = run_ok(&sandbox, &["wait", &early]);
    run_times(&sandbox, &wait, 1);
    let done =
        sandbox.siding(&["run", "--budget", "1ms", "--allow-duplicate", "--json", "--", &wait]);
    let handed_over = done.run().expect_code(75).json();
    let usual = handed_over["expected_ms"].as_u64().expect("an expected duration");
    assert!(usual < 60_000, "{handed_over:#}");
    assert!(handed_over["expected_runs"].as_u64() >= Some(3), "{handed_over:#}");
    let message = handed_over["message"].as_str().unwrap_or_default();
    assert!(message.contains("usually ") && message.contains(" in"), "{message}");
    let id = task_id(&handed_over);
    let text = run_ok(&sandbox, &["show", &id]).stdout_text();
    assert!(text.contains("\nusually ") && text.contains(" runs)"), "{text}");
    let text = run_ok(&sandbox, &["ps"]).stdout_text();
    assert!(text.starts_with("ID ") && text.contains("USUALLY"), "{text}");
    let listed = run_ok(&sandbox, &["ps", "--json"]).json();
    let listed = listed.as_array().expect("a list");
    for one in listed {
        let is_known = !one["expected_ms"].is_null();
        assert_eq!(
            is_known,
            one["phase"] == "running",
            "only running tasks have an expected duration: {one:#}"
        );
    }
    stop_all(&sandbox);
    assert_eq!(show_task(&sandbox, &id)["expected_ms"], Value::Null);
    let found = read_stats(&sandbox);
    assert_eq!(found[0]["failed"], 0, "a stop must not count as a failure: {found:#?}");
}

/// Creates a program `make`, a name that siding treats as a slow command.
fn write_fake_make(sandbox: &Sandbox) {
    let path = sandbox.path("make");
    std::fs::write(&path, format!("#!/bin/sh\n{}\n", until_file_exists("go")))
        .expect("test directory");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).expect("test file");
}

#[track_caller]
fn assert_placement(done: ProgramOutput, kind: &str, why: Value) -> ProgramOutput {
    let placement = &done.json()["placement"];
    assert_eq!((&placement["kind"], &placement["why"]), (&kind.into(), &why), "{done}");
    done
}

#[test]
fn a_command_known_to_be_slow_starts_in_the_background() {
    let sandbox = sandbox();
    write_fake_make(&sandbox);
    let run = |flags: &[&str], command: &str| {
        let args = [&["run", "--json", "--allow-duplicate"], flags, &["--", command]].concat();
        sandbox.siding(&args)
    };
    // Without earlier runs, the words of the command determine the placement.
    let done = run(&["--auto-background", "--budget", "50s"], "cd . && ./make all").run();
    let done = assert_placement(done.expect_code(75), "background", "heuristic".into());
    assert!(
        done.stdout_text().contains("`make` often takes longer than the budget of 50s"),
        "{done}"
    );
    let done = run(&["--budget", "50s"], "./make all").env("SIDING_AUTO_BACKGROUND", "true").run();
    let _done = assert_placement(done.expect_code(75), "background", "heuristic".into());
    // Without the flag and the setting, or with `--background`, neither the words nor the history
    // determine the placement.
    let done = run(&["--budget", "50ms"], "./make all").run();
    let _done = assert_placement(done.expect_code(75), "background", "budget".into());
    let flags = ["--auto-background", "--background"];
    let done = run(&flags, "./make all").run();
    let _done = assert_placement(done.expect_code(0), "background", "asked".into());
    make_file(&sandbox, "go");
    let done = run(&["--auto-background", "--budget", "none"], "./make all").run();
    let _done = assert_placement(done.expect_code(0), "foreground", Value::Null);
    let done = run(&["--auto-background", "--budget", "50s"], "cat make.txt || true").run();
    let _done = assert_placement(done.expect_code(0), "foreground", Value::Null);
    eventually("nothing runs any more", || {
        run_ok(&sandbox, &["ps", "--running", "--json"]).json() == Value::Array(Vec::new())
    });
    // With earlier runs, their durations determine the placement. A usually quick command stays in
    // the foreground whatever its name, and a command that is usually slower than the budget does
    // not.
    for _ in 0..3 {
        run_to_end(&sandbox, "./make quick");
    }
    let done = run(&["--auto-background", "--budget", "50s"], "./make  quick").run();
    let _done = assert_placement(done.expect_code(0), "foreground", Value::Null);
    std::fs::remove_file(sandbox.path("go")).expect("test file");
    let done = run(&["--auto-background", "--budget", "0s"], "./make quick").run();
    let done = assert_placement(done.expect_code(75), "background", "known".into());
    assert!(done.stdout_text().contains("it usually takes "), "{done}");
    stop_all(&sandbox);
}

#[test]
fn stats_survive_the_removal_of_tasks() {
    let sandbox = sandbox();
    for _ in 0..3 {
        run_to_end(&sandbox, "exit 0");
    }
    let reaped = sandbox.siding(&["reap"]).env("SIDING_RETENTION_TASKS", "0").run();
    assert!(reaped.stdout_text().contains("past retention 3"), "{reaped}");
    assert_eq!(run_ok(&sandbox, &["ps", "--all", "--json"]).json(), Value::Array(Vec::new()));
    assert_eq!(read_stats(&sandbox)[0]["runs"], 3);
    assert!(read_stats(&sandbox)[0]["median_ms"].is_u64());
    // If the database file is deleted, only the runs in it are lost.
    std::fs::remove_file(history_path(&sandbox)).expect("test file");
    let kept = run_to_end(&sandbox, "exit 0");
    assert_eq!(read_stats(&sandbox)[0]["runs"], 1);
    assert_eq!(show_task(&sandbox, &kept)["outcome"]["code"], 0);
}

/// Runs several commands that read the history but can do their main work without it.
fn run_several_commands(sandbox: &Sandbox) -> Vec<ProgramOutput> {
    let running = start_task(sandbox, &[], HANG_COMMAND);
    let handed_over = sandbox.siding(&["run", "--budget", "1ms", "--", "sleep 301"]).run();
    let done = vec![
        handed_over.expect_code(75),
        run_ok(sandbox, &["ps"]),
        run_ok(sandbox, &["show", &running]),
        run_ok(sandbox, &["run", "--auto-background", "--budget", "50s", "--", "true"]),
    ];
    stop_all(sandbox);
    done
}

#[test]
fn a_damaged_history_is_quarantined_and_commands_still_work() {
    let sandbox = sandbox();
    run_to_end(&sandbox, "exit 0");
    write(&sandbox, "garbage", "no database");
    std::fs::copy(sandbox.path("garbage"), history_path(&sandbox)).expect("test file");
    let done = run_several_commands(&sandbox);
    let message: Vec<_> =
        done.iter().filter(|done| done.stderr_text().contains("history.db")).collect();
    assert_eq!(message.len(), 1, "the error must be reported once: {done:?}");
    assert!(
        message[0].stderr_text().contains("damaged")
            && message[0].stderr_text().contains("quarantine/"),
        "{}",
        message[0]
    );
    let quarantine =
        std::fs::read_dir(sandbox.state_dir().join("quarantine")).expect("test directory");
    let quarantine: Vec<_> = quarantine.map(|entry| entry.expect("test file").path()).collect();
    assert_eq!(quarantine.len(), 1, "{quarantine:?}");
    assert_eq!(std::fs::read(&quarantine[0]).expect("test file"), b"no database");
    assert!(read_stats(&sandbox).iter().any(|one| one["command"] == "exit 0"));
}

#[test]
fn a_newer_history_format_is_not_changed_and_commands_still_work() {
    /// File offset of `user_version`, and a value that only a later version of siding supports.
    const USER_VERSION_FIELD: (u64, [u8; 4]) = (60, 99_u32.to_be_bytes());
    let sandbox = sandbox();
    run_to_end(&sandbox, "exit 0");
    let _done = run_ok(&sandbox, &["history"]);
    let open =
        std::fs::File::options().write(true).open(history_path(&sandbox)).expect("test file");
    open.write_all_at(&USER_VERSION_FIELD.1, USER_VERSION_FIELD.0).expect("test file");
    let before = std::fs::read(history_path(&sandbox)).expect("test file");
    for done in run_several_commands(&sandbox) {
        assert!(!done.stderr_text().contains("history.db"), "{done}");
    }
    let statistics = run_ok(&sandbox, &["stats", "--json"]);
    assert!(
        statistics.stderr_text().contains("format 99")
            && statistics.stderr_text().contains("upgrade siding"),
        "{statistics}"
    );
    let rows = statistics.json();
    let rows = rows.as_array().expect("a list");
    assert!(
        rows.iter().any(|one| one["command"] == "exit 0"),
        "not computed from the journals: {statistics}"
    );
    let _nothing_to_remove = run_ok(&sandbox, &["reap"]);
    let reaped = sandbox.siding(&["reap"]).env("SIDING_RETENTION_TASKS", "0").run().expect_code(0);
    assert!(
        reaped.stderr_text().contains("not added") && reaped.stderr_text().contains("upgrade"),
        "{reaped}"
    );
    assert!(
        std::fs::read(history_path(&sandbox)).expect("test file") == before,
        "the file was changed"
    );
}

#[test]
fn history_and_stats_match_the_schema_and_fit_80_columns() {
    let sandbox = sandbox();
    let long = format!("true {}", "\u{65e5}long\u{202e}\u{1b}[2J ".repeat(40));
    for command in [long.as_str(), "echo a\techo b\nb-000000000000  exited 0", "exit 2"] {
        run_to_end(&sandbox, command);
    }
    for args in [&["history"][..], &["stats"]] {
        let text = run_ok(&sandbox, args).stdout_text();
        assert_eq!(text.lines().count(), 4, "{text}");
        for line in text.lines() {
            assert!(line.chars().count() <= 80 && !line.contains('\u{202e}'), "{line}");
            assert!(!line.starts_with("b-000000000000"), "a forged line in\n{text}");
        }
        let schema = siding_e2e::output_schema(args[0]);
        let list = run_ok(&sandbox, &[args, &["--json"]].concat()).json();
        for one in list.as_array().expect("a list") {
            let keys: Vec<_> = one.as_object().expect("an object").keys().collect();
            let promised = schema["required"].as_array().expect("a list");
            assert_eq!(keys.len(), promised.len(), "{one:#}");
            assert!(promised.iter().all(|key| one.get(key.as_str().unwrap_or("")).is_some()));
        }
    }
    let limited = run_ok(&sandbox, &["history", "--limit", "1"]);
    assert_eq!(limited.stdout_text().lines().count(), 2);
    assert!(limited.stderr_text().contains("--limit"), "{limited}");
}
