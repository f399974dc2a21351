//! A stall is recorded once, with its evidence, and does not affect the task.

use std::time::Instant;

use siding_e2e::{Sandbox, eventually, eventually_some};

use crate::support::{read_stalls, sandbox, start_task, stop_all};

fn show_task(sandbox: &Sandbox, id: &str) -> serde_json::Value {
    sandbox.siding(&["show", "--json", id]).run().expect_code(0).json()
}

/// Failure F37: a task that waits for input is recorded as stalled within seconds, long before
/// `stall_after`.
#[test]
fn a_stall_with_hard_evidence_is_recorded_within_seconds() {
    let sandbox = sandbox();
    let started = Instant::now();
    let id = start_task(&sandbox, &["--stdin", "pipe"], "10m", "printf 'Continue? [y/N] '; read x");
    let stall = eventually_some("the stall is recorded", || read_stalls(&sandbox, &id).pop());
    println!("recorded after {:?}", started.elapsed());
    assert_eq!(stall["verdict"], "input_wait");
    assert_eq!(stall["certainty"], "hard");
    assert_eq!(stall["tail"], "Continue? [y/N]");
    assert!(stall["since_ms"].as_u64().is_some_and(|ms| ms >= 2_000), "{stall:#}");
    assert_eq!(stall["output_bytes"], 16);
    let advice = stall["advice"].as_str().expect("a text");
    assert!(advice.contains(&format!("siding input {id}")), "{advice}");
    let view = show_task(&sandbox, &id);
    assert_eq!(view["attention"]["verdict"], "input_wait", "{view:#}");
    assert_eq!(view["phase"], "running", "the task must keep running");
    let text = sandbox.siding(&["show", &id]).run().expect_code(0).stdout_text();
    assert!(text.contains("attention    silent for"), "{text}");
    stop_all(&sandbox);
    assert!(
        show_task(&sandbox, &id)["attention"].is_null(),
        "an ended task must not need attention"
    );
}

/// Failure F40: a silent build is recorded once; output ends the stall, and a new silence is a new
/// stall.
#[test]
fn each_silence_is_recorded_once() {
    let sandbox = sandbox();
    let text = "echo one; until [ -e go ]; do sleep .05; done; echo two; sleep 300";
    let id = start_task(&sandbox, &[], "1s", text);
    let first = eventually_some("the first stall is recorded", || read_stalls(&sandbox, &id).pop());
    assert_ne!(first["verdict"], "input_wait", "{first:#}");
    assert_eq!(first["tail"], "one");
    assert!(!show_task(&sandbox, &id)["attention"].is_null());
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    let second = eventually_some("the second stall is recorded", || {
        read_stalls(&sandbox, &id).into_iter().nth(1)
    });
    assert_eq!((&second["tail"], &second["verdict"]), (&"two".into(), &"waiting".into()));
    assert_eq!(second["waiting_on"], "timer");
    // Wait for longer than `stall_after`, after which an unwanted third stall would have been
    // recorded.
    let asked = Instant::now();
    eventually("some time has passed", || asked.elapsed().as_millis() > 1_500);
    assert_eq!(read_stalls(&sandbox, &id).len(), 2, "expected one stall per silence");
    stop_all(&sandbox);
}

fn ack_notices(sandbox: &Sandbox) -> Vec<serde_json::Value> {
    let args = ["notices", "--json", "--ack"];
    let list = sandbox.siding(&args).run().expect_code(0).json();
    list.as_array().expect("a list").clone()
}

/// Promise P66: each stall causes one notice while it lasts. If a stall ends before its notice is
/// read, the next notice counts this stall.
#[test]
fn each_stall_is_notified_once_while_it_lasts() {
    let sandbox = sandbox();
    let go = |part: &str| format!("until [ -e {part} ]; do sleep .05; done; echo {part}; ");
    let text = format!("echo begin; {}{}{}sleep 300", go("one"), go("two"), go("three"));
    let id = start_task(&sandbox, &[], "1s", &text);
    let recorded = |count: usize| {
        eventually("the stall is recorded", || read_stalls(&sandbox, &id).len() == count);
    };
    let proceed = |part: &str| std::fs::write(sandbox.path(part), "").expect("test directory");
    recorded(1);
    let [first] = &ack_notices(&sandbox)[..] else { panic!("expected exactly one") };
    assert_eq!((&first["kind"], &first["status"]), (&"stalled".into(), &"stalled".into()));
    let says = |notice: &serde_json::Value| notice["summary"].as_str().expect("text").to_owned();
    assert!(says(first).starts_with("silent for "), "{first:#}");
    assert!(!says(first).contains("times"), "{first:#}");
    assert!(ack_notices(&sandbox).is_empty(), "expected exactly once");
    proceed("one");
    // The test reads no notices while the second stall lasts.
    recorded(2);
    proceed("two");
    recorded(3);
    let [third] = &ack_notices(&sandbox)[..] else { panic!("expected exactly one") };
    assert_ne!(third["notice_id"], first["notice_id"]);
    assert!(says(third).contains(". It has stalled 3 times so far.\n"), "{third:#}");
    assert!(ack_notices(&sandbox).is_empty(), "expected exactly once");
    stop_all(&sandbox);
}

/// Input ends a stall even if the task writes nothing. If the notice were not withdrawn, an agent
/// could answer twice, and the task would read the second answer as the answer to its next
/// question.
#[test]
fn input_ends_a_recorded_stall() {
    let sandbox = sandbox();
    let text = "printf 'Proceed? [Y/n] '; read a; until [ -e go ]; do sleep .05; done; \
                printf 'Delete all? [y/N] '; read b; cat; sleep 300";
    let id = start_task(&sandbox, &["--stdin", "pipe"], "10m", text);
    let recorded = |count: usize| {
        eventually("the stall is recorded", || read_stalls(&sandbox, &id).len() == count);
    };
    let input = |args: &[&str]| {
        let _done = sandbox.siding(&[&["input", &id], args].concat()).run().expect_code(0);
        assert!(show_task(&sandbox, &id)["attention"].is_null(), "after {args:?}");
    };
    recorded(1);
    input(&["y"]);
    assert_eq!(ack_notices(&sandbox), [] as [serde_json::Value; 0]);
    let ps = sandbox.siding(&["ps"]).run().expect_code(0).stdout_text();
    assert!(!ps.contains("needs input"), "{ps}");
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    recorded(2);
    let [second] = &ack_notices(&sandbox)[..] else { panic!("expected exactly one") };
    let summary = second["summary"].as_str().expect("text");
    assert!(summary.contains("Delete all?") && summary.contains("2 times"), "{second:#}");
    input(&["n"]);
    // `cat` waits for input and writes nothing, which is a third stall. The end of the input ends
    // this stall.
    recorded(3);
    input(&["--eof"]);
    // After a takeover the new shim must know that the recorded stalls are over.
    let shim = show_task(&sandbox, &id)["shim_pid"].as_u64().expect("a shim");
    siding_e2e::Process::from_pid(u32::try_from(shim).expect("a pid"))
        .expect("the process is alive")
        .kill();
    eventually("another shim has taken over", || show_task(&sandbox, &id)["rescues"] == 1);
    assert!(show_task(&sandbox, &id)["attention"].is_null());
    stop_all(&sandbox);
}

/// `ps` marks the tasks that need attention, and `ps --json` describes the reason in the field
/// `attention`.
#[test]
fn ps_marks_tasks_that_need_attention() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--stdin", "pipe"], "10m", "printf 'Continue? [y/N] '; read x");
    let quiet = start_task(&sandbox, &[], "10m", "sleep 300");
    eventually("the record exists", || !read_stalls(&sandbox, &id).is_empty());
    let list = sandbox.siding(&["ps", "--json"]).run().expect_code(0).json();
    let find = |id: &str| list.as_array().expect("a list").iter().find(|one| one["task_id"] == id);
    assert_eq!(find(&id).expect("the task is listed")["attention"]["verdict"], "input_wait");
    assert!(find(&quiet).expect("the task is listed")["attention"].is_null());
    let text = sandbox.siding(&["ps"]).run().expect_code(0).stdout_text();
    let row = |id: &str| {
        text.lines().find(|row| row.starts_with(id)).expect("the task is listed").to_owned()
    };
    assert!(row(&id).contains("  running  needs input  "), "{text}");
    assert!(!row(&quiet).contains("needs input"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    stop_all(&sandbox);
}

/// No stall is recorded for a task with a `stall_after` of zero, or for a task that writes
/// continuously.
#[test]
fn active_and_unwatched_tasks_record_no_stall() {
    let sandbox = sandbox();
    let unwatched = start_task(&sandbox, &["--stdin", "pipe"], "0s", "cat");
    let talker = start_task(&sandbox, &[], "2s", "while :; do echo x; sleep .05; done");
    let watched = start_task(&sandbox, &[], "2s", "sleep 300");
    let _stall = eventually_some("the stall of the other task is recorded", || {
        read_stalls(&sandbox, &watched).pop()
    });
    assert!(
        read_stalls(&sandbox, &unwatched).is_empty() && read_stalls(&sandbox, &talker).is_empty()
    );
    stop_all(&sandbox);
}

/// `--stall-after` overrides the setting `stall_after`.
#[test]
fn the_stall_after_flag_overrides_the_setting() {
    let sandbox = sandbox();
    let reported = start_task(&sandbox, &["--stall-after", "300ms"], "10m", "sleep 300");
    let _stall = eventually_some("the record exists", || read_stalls(&sandbox, &reported).pop());
    let silent = start_task(&sandbox, &["--stall-after", "0s"], "200ms", "sleep 300");
    let other = start_task(&sandbox, &[], "200ms", "sleep 300");
    let _stall = eventually_some("the stall of the other task is recorded", || {
        read_stalls(&sandbox, &other).pop()
    });
    assert!(read_stalls(&sandbox, &silent).is_empty());
    let args = ["run", "--stall-after", "soon", "--", "true"];
    let refused = sandbox.siding(&args).run().expect_code(125).stderr_text();
    assert!(refused.contains("--stall-after") && refused.contains("soon"), "{refused}");
    stop_all(&sandbox);
}

/// A shim that takes over reads a recorded stall from the journal and does not record it again.
#[test]
fn a_stall_is_not_recorded_again_after_takeover() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--stdin", "pipe"], "1s", "echo up; sleep 300");
    let _stall = eventually_some("the record exists", || read_stalls(&sandbox, &id).pop());
    let shim = show_task(&sandbox, &id)["shim_pid"].as_u64().expect("a shim");
    siding_e2e::Process::from_pid(u32::try_from(shim).expect("a pid"))
        .expect("the process is alive")
        .kill();
    eventually("another shim has taken over", || show_task(&sandbox, &id)["rescues"] == 1);
    let asked = Instant::now();
    eventually("some time has passed", || asked.elapsed().as_millis() > 1_500);
    assert_eq!(read_stalls(&sandbox, &id).len(), 1);
    assert_eq!(show_task(&sandbox, &id)["attention"]["verdict"], "waiting");
    stop_all(&sandbox);
}

/// An agent whose keys were answered with the next question knows that the program waits. This wait
/// is a stall only after `stall_after`, although the kernel proves it after four seconds. A question
/// after keys without such an answer is reported as any other.
#[test]
fn the_next_question_of_a_dialog_is_reported_after_the_usual_silence() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--pty"], "6s", "while read -r x; do echo got $x; done");
    let typed = ["keys", &id, "one", "Enter", "--wait-for", "input"];
    let _typed = sandbox.siding(&typed).run().expect_code(0);
    let stalls = wait_for_stalls(&sandbox, &id, 1);
    assert_eq!(stalls[0]["verdict"], "input_wait", "{stalls:?}");
    assert!(stalls[0]["silent_ms"].as_u64() >= Some(6_000), "{stalls:?}");
    stop_all(&sandbox);

    let id = start_task(&sandbox, &["--pty"], "10m", "while read -r x; do echo got $x; done");
    let _first = wait_for_stalls(&sandbox, &id, 1);
    let _typed = sandbox.siding(&["keys", &id, "two", "Enter"]).run().expect_code(0);
    let stalls = wait_for_stalls(&sandbox, &id, 2);
    assert_eq!(stalls[1]["verdict"], "input_wait", "{stalls:?}");
    stop_all(&sandbox);
}

fn wait_for_stalls(sandbox: &Sandbox, id: &str, count: usize) -> Vec<serde_json::Value> {
    eventually_some("the waits are recorded", || {
        Some(read_stalls(sandbox, id)).filter(|stalls| stalls.len() >= count)
    })
}
