//! The deadline ends a task, whether or not the task's callers and owners are alive.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use siding_e2e::{Process, ProgramOutput, Sandbox, Terminal, eventually, eventually_some, words};

use crate::support::{Task, as_each_user, ended_processes, sandbox};

/// Maximum time after its deadline at which a task ends, even on a busy machine. Without a deadline
/// it would run for minutes.
const SLACK: Duration = Duration::from_secs(20);

/// Asserts that a call ended at a deadline, neither earlier nor much later.
#[track_caller]
fn assert_ended_at_deadline(done: &ProgramOutput, deadline: Duration) {
    println!("deadline {deadline:?}: {:?}", done.elapsed);
    assert!(done.elapsed >= deadline && done.elapsed < deadline + SLACK, "{done}");
}

fn deadline_outcome(limit_ms: u64) -> Value {
    json!({"kind": "deadline", "limit_ms": limit_ms})
}

/// Promise P43, failures F17 and F33: the deadline ends the tree once. The exit code and the
/// outcome report the deadline, and siding appends one line to the output.
#[test]
fn deadline_ends_the_tree_once_and_is_reported() {
    as_each_user(|sandbox| {
        let verbs = words("say working fork daemon mark m hang -- mark m hang");
        let line = sandbox.puppet_line(&[&["--quiet"], &verbs[..]].concat());
        let args = ["run", "--timeout", "2s", "--grace", "5s", "--", &line];
        let done = sandbox.siding(&args).run().expect_code(124);
        assert_ended_at_deadline(&done, Duration::from_secs(2));
        let task = Task::only(&sandbox);
        assert_eq!(task.wait_outcome(), deadline_outcome(2000));
        // There are two processes and no shell, because siding runs a single plain command without
        // a shell.
        let last = "[siding] stopped at its deadline of 2s; ended 2 processes\n";
        assert_eq!(task.output(), format!("working\n{last}"));
        let report = ended_processes(&task.stop(&[]));
        for step in sandbox.wait_for_announcements("mark", 2) {
            assert_eq!(report[&step.process.pid], "SIGTERM");
        }
        task.expect_stopped();
    });
}

/// Failure F2: a process in another process session that has the output open does not delay the
/// caller, and ends at the deadline.
#[test]
fn deadline_ends_an_output_holder_in_another_session() {
    let sandbox = sandbox();
    let args = ["run", "--timeout", "500ms", "--", "setsid sleep 300 & wait"];
    let done = sandbox.siding(&args).run().expect_code(124);
    assert_ended_at_deadline(&done, Duration::from_millis(500));
    Task::only(&sandbox).expect_stopped();
}

/// Promise P49, failure F42: all recorded times, from which the deadline is computed, are read from
/// the clock that stops while the machine sleeps (`CLOCK_MONOTONIC`). A time namespace
/// (time_namespaces(7)) advances the clock that counts sleep, as a sleep of eleven days would.
#[test]
fn recorded_times_do_not_count_sleep() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: only root can create a time namespace");
        return;
    }
    let sandbox = sandbox();
    let asleep = ["--time", "--boottime", "1000000"];
    let line = sandbox.siding_line(&["run", "--timeout", "1s", "--", "sleep 300"]);
    let before = monotonic_ms();
    let done = sandbox.host("unshare", &[&asleep[..], &["sh", "-c", &line]].concat()).run();
    let after = monotonic_ms();
    assert_ended_at_deadline(&done.expect_code(124), Duration::from_secs(1));
    let uptime = sandbox.host("unshare", &[&asleep[..], &["cat", "/proc/uptime"]].concat()).run();
    let uptime = uptime.expect_code(0).stdout_text();
    let seconds = uptime.split('.').next().and_then(|text| text.parse::<u64>().ok());
    assert!(seconds.is_some_and(|seconds| seconds > 1_000_000), "{uptime}");
    let ids = sandbox.task_ids();
    let journal = sandbox.state_dir().join("tasks").join(&ids[0]).join("journal");
    let journal = std::fs::read_to_string(journal).expect("the task has a journal");
    let times: Vec<u64> = journal.lines().filter_map(recorded_ms).collect();
    assert!(times.len() > 3 && times.iter().all(|at| (before..=after).contains(at)), "{journal}");
}

/// Returns the time of the record in a journal line, which has the form `CRC SEQ JSON`.
fn recorded_ms(line: &str) -> Option<u64> {
    let record: Value = serde_json::from_str(line.splitn(3, ' ').nth(2)?).ok()?;
    record["at"].as_u64()
}

fn monotonic_ms() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1000 + now.tv_nsec.unsigned_abs() / 1_000_000
}

/// Promise P44: the deadline applies even if the caller has been killed.
#[test]
fn deadline_applies_after_the_caller_is_killed() {
    as_each_user(|sandbox| {
        let line = sandbox.puppet_line(&words("ignore TERM mark m hang"));
        let args = ["run", "--timeout", "2s", "--grace", "100ms", "--", &line];
        let call = sandbox.siding(&args).spawn();
        let process = sandbox.wait_for_mark("m");
        call.signal(Signal::KILL);
        let _killed = call.wait().expect_signal(9);
        eventually("the deadline has passed", || !process.is_alive());
        let task = Task::only(&sandbox);
        assert_eq!(task.wait_outcome(), deadline_outcome(2000));
        assert_eq!(ended_processes(&task.stop(&[]))[&process.pid], "SIGKILL");
        task.expect_stopped();
    });
}

/// Promise P44: a task with `--keep` ends at its deadline after the caller and the owner of the
/// session have ended.
#[test]
fn deadline_ends_a_kept_task_after_its_session_ended() {
    let sandbox = sandbox();
    let owner = sandbox.host("sleep", &["300"]).spawn();
    let pid = owner.process().pid.to_string();
    let open = ["session", "open", "chat", "--owner-pid", &pid];
    let _opened = sandbox.siding(&open).run().expect_code(0);
    let flags = ["--session", "chat", "--keep", "--timeout", "2s"];
    let call = [&["run", "--json"], &flags[..], &["--", "sleep 300"]].concat();
    let call = sandbox.siding(&call).env("SIDING_SESSION_GRACE", "0s").spawn();
    eventually("it runs", || {
        sandbox.task_ids().len() == 1 && Task::only(&sandbox).journal().contains("spawned")
    });
    call.signal(Signal::KILL);
    let _killed = call.wait();
    drop(owner);
    let task = Task::only(&sandbox);
    assert_eq!(task.wait_outcome(), deadline_outcome(2000));
    task.expect_stopped();
}

/// Failure F33: a background task has a deadline too.
#[test]
fn a_background_task_has_a_deadline() {
    let sandbox = sandbox();
    let started = Instant::now();
    let task = Task::start_with(&sandbox, &["--timeout", "600ms"], "sleep 300");
    assert_eq!(task.wait_outcome(), deadline_outcome(600));
    assert!(started.elapsed() >= Duration::from_millis(600));
    task.expect_stopped();
}

/// Promise P46: processor load does not delay the deadline.
#[test]
fn deadline_is_on_time_under_cpu_load() {
    let sandbox = sandbox();
    let spinners = words("fork mark m burn --").repeat(30);
    let verbs = [&words("--quiet")[..], &spinners, &["burn"]].concat();
    let line = sandbox.puppet_line(&verbs);
    let args = ["run", "--timeout", "1s", "--grace", "1s", "--", &line];
    let done = sandbox.siding(&args).run().expect_code(124);
    assert_ended_at_deadline(&done, Duration::from_secs(1));
    Task::only(&sandbox).expect_stopped();
}

/// Promise P46, kernel fact K16: the deadline applies while the task is stopped by SIGSTOP, and
/// SIGTERM followed by SIGCONT ends the task.
#[test]
fn deadline_ends_a_sigstopped_task() {
    let sandbox = sandbox();
    let line = sandbox.puppet_line(&words("mark m hang"));
    let args = ["run", "--timeout", "2s", "--", &format!("exec {line}")];
    let call = sandbox.siding(&args).spawn();
    let process = sandbox.wait_for_mark("m");
    for _ in 0..3 {
        process.signal(Signal::STOP);
        // On a busy machine, the deadline may pass before SIGSTOP has stopped the process.
        eventually("the process is stopped", || {
            process_state(process) == Some('T') || !process.is_alive()
        });
        process.signal(Signal::CONT);
        eventually("it continues", || process_state(process) != Some('T'));
    }
    process.signal(Signal::STOP);
    let done = call.wait().expect_code(124);
    assert_ended_at_deadline(&done, Duration::from_secs(2));
    let task = Task::only(&sandbox);
    assert_eq!(ended_processes(&task.stop(&[]))[&process.pid], "SIGTERM");
    task.expect_stopped();
}

fn process_state(process: Process) -> Option<char> {
    siding_e2e::processes::state(process.pid)
}

/// Promise P43: the deadline applies to a lingering task, and the outcome stays that of the shell.
#[test]
fn deadline_ends_a_lingering_task() {
    let sandbox = sandbox();
    let args = ["run", "--timeout", "2s", "--", "setsid sleep 300 & exit 4"];
    let _done = sandbox.siding(&args).run().expect_code(4);
    let task = Task::only(&sandbox);
    assert_eq!(task.wait_outcome(), json!({"kind": "exited", "code": 4}));
    assert!(task.output().contains("stopped at its deadline of 2s"), "{}", task.output());
    assert_eq!(ended_processes(&task.stop(&[])).len(), 1);
    task.expect_stopped();
}

/// Promise P47: no deadline exceeds the cap, whether the caller sets a longer deadline or none.
#[test]
fn hard_cap_limits_every_deadline() {
    let sandbox = sandbox();
    for flags in [&["--timeout", "1h"][..], &[]] {
        let args = [&["run"], flags, &["--", "sleep 300"]].concat();
        let call = sandbox.siding(&args).env("SIDING_MAX_ELAPSED_HARD_CAP", "500ms");
        let done = call.run().expect_code(124);
        assert_ended_at_deadline(&done, Duration::from_millis(500));
    }
    for id in sandbox.task_ids() {
        let task = Task::from_view(&sandbox, &json!({"task_id": id}));
        assert_eq!(task.wait_outcome(), deadline_outcome(500));
    }
}

/// Promise P47: `--timeout none` sets the deadline to the cap, and says so.
#[test]
fn timeout_none_means_the_cap() {
    let sandbox = sandbox();
    let call = sandbox.siding(&["run", "--timeout", "none", "--", "sleep 300"]);
    let done = call.env("SIDING_MAX_ELAPSED_HARD_CAP", "1s").run().expect_code(124);
    assert_ended_at_deadline(&done, Duration::from_secs(1));
    let note = done.stderr_text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(note.contains("the task is ended after 1s (max_elapsed_hard_cap"), "{done}");
    assert_eq!(Task::only(&sandbox).wait_outcome(), deadline_outcome(1000));
}

/// Promise P43: while a person waits at a terminal, only a requested deadline applies. The default
/// deadline starts when the task moves to the background, even if the caller is killed.
#[test]
fn no_deadline_counts_while_a_person_waits() {
    let start = |sandbox: &Sandbox, terminal: &Terminal, flags: &[&str], text: &str| {
        let args = [&["run"], flags, &["--", text]].concat();
        let call = sandbox.siding(&args).env("SIDING_MAX_ELAPSED", "500ms");
        call.on_terminal(terminal).spawn()
    };
    let terminal = Terminal::new(80, 24);
    {
        let sandbox = sandbox();
        let _own_code = start(&sandbox, &terminal, &[], "sleep 1; exit 7").wait().expect_code(7);
    }
    {
        let sandbox = sandbox();
        let call = start(&sandbox, &terminal, &["--timeout", "500ms"], "sleep 300");
        let _requested = call.wait().expect_code(124);
    }
    {
        let sandbox = sandbox();
        let call = start(&sandbox, &terminal, &["--budget", "1s"], "sleep 300");
        let _moved = call.wait().expect_code(75);
        let outcome = Task::only(&sandbox).wait_outcome();
        assert_eq!(outcome["kind"], "deadline", "{outcome}");
        assert!(outcome["limit_ms"].as_u64().is_some_and(|ms| ms >= 1500), "{outcome}");
    }
    let sandbox = sandbox();
    let call = start(&sandbox, &terminal, &[], "sleep 300");
    let id = eventually_some("the command runs", || {
        let id = sandbox.task_ids().pop()?;
        let task = Task::from_view(&sandbox, &json!({ "task_id": id }));
        task.journal().contains("spawned").then_some(id)
    });
    let task = Task::from_view(&sandbox, &json!({ "task_id": id }));
    assert_eq!(task.show()["deadline_at"], json!(null));
    let refused = sandbox.siding(&["extend", &id, "5m"]).run().expect_code(125);
    let why = refused.stderr_text().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(why.contains("where it has no deadline"), "{refused}");
    call.signal(Signal::KILL);
    let _killed = call.wait().expect_signal(9);
    assert_eq!(task.wait_outcome()["kind"], "deadline");
    task.expect_stopped();
}

/// Promise P48: the deadline of a running task can be moved up to the cap and no further.
#[test]
fn deadline_can_be_extended_up_to_the_hard_cap() {
    let sandbox = sandbox();
    let (started, task) = (Instant::now(), start_with_hard_cap(&sandbox));
    let done = sandbox.siding(&["extend", &task.id, "1h"]).run().expect_code(0);
    println!("{done}");
    assert_eq!(task.wait_outcome(), deadline_outcome(4000));
    assert!(started.elapsed() >= Duration::from_secs(4));
    let _late = sandbox.siding(&["extend", &task.id, "1h"]).run().expect_code(125);
    task.expect_stopped();
}

fn start_with_hard_cap(sandbox: &Sandbox) -> Task<'_> {
    let args = ["run", "--background", "--json", "--timeout", "3s", "--", "sleep 300"];
    let call = sandbox.siding(&args).env("SIDING_MAX_ELAPSED_HARD_CAP", "4s");
    Task::from_view(sandbox, &call.run().expect_code(0).json())
}
