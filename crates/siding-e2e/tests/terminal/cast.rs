//! `siding record`: a recording contains the output of a terminal, with the times at which the
//! output was stored.

use std::time::Instant;

use serde_json::{Value, json};
use siding_e2e::{Sandbox, eventually};

use crate::attach::Attachment;
use crate::support::{TerminalTask, expect_refusal, sandbox, wait_for_file_command, write_file};

/// Length of one entry of `output.times`, in bytes.
const TIME_ENTRY_BYTES: u64 = 16;

/// An event of a recording: interval in seconds, code and data.
type CastEvent = (f64, String, String);

/// A recording that was read.
struct Cast {
    header: Value,
    events: Vec<CastEvent>,
}

impl Cast {
    #[track_caller]
    fn parse(text: &str) -> Self {
        let (header, events) = text.split_once('\n').expect("a header");
        let parse = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
        let events: Vec<CastEvent> = events.lines().map(parse).collect();
        assert!(events.iter().all(|(interval, ..)| *interval >= 0.0), "{text}");
        Self { header: serde_json::from_str(header).expect("JSON"), events }
    }

    /// Prints the recording of a task, and reads it.
    #[track_caller]
    fn of(sandbox: &Sandbox, task: &TerminalTask<'_>) -> Self {
        let done = sandbox.siding(&["record", &task.id, "--cast", "-"]).run().expect_code(0);
        Self::parse(&done.stdout_text())
    }

    /// Returns the data of all events with this code.
    fn data(&self, code: &str) -> Vec<&str> {
        let events = self.events.iter().filter(|event| event.1 == code);
        events.map(|event| event.2.as_str()).collect()
    }

    /// Returns the position of the first event whose data contains `part`.
    #[track_caller]
    fn position(&self, part: &str) -> usize {
        let found = self.events.iter().position(|event| event.2.contains(part));
        found.unwrap_or_else(|| panic!("{part:?} is missing: {:?}", self.events))
    }

    /// Returns the time of an event since the start of the task, in seconds.
    fn time(&self, position: usize) -> f64 {
        self.events[..=position].iter().map(|event| event.0).sum()
    }
}

/// Waits until stored output has a recorded time.
#[track_caller]
fn wait_for_times(sandbox: &Sandbox, task: &TerminalTask<'_>, entries: u64) {
    let path = sandbox.state_dir().join("tasks").join(&task.id).join("output.times");
    eventually("the output has a time", || {
        std::fs::metadata(&path).is_ok_and(|found| found.len() >= entries * TIME_ENTRY_BYTES)
    });
}

#[test]
fn a_recording_has_the_pauses_the_sizes_and_the_exit_status() {
    let sandbox = sandbox();
    let wait = wait_for_file_command("go");
    let text = format!("echo one; {wait}; printf 'zw\\303\\266lf\\377\\n'; exit 3");
    let task = TerminalTask::start_with(&sandbox, &["--name", "demo", "--size", "90x20"], &text);
    task.wait_for_output("one\r\n");
    wait_for_times(&sandbox, &task, 1);
    let paused = Instant::now();
    task.wait_for("idle");
    let person = Attachment::open(&sandbox, &task, &[], "one");
    eventually("the terminal has the size of the person's", || {
        task.screen()["size"] == json!({"columns": 100, "rows": 30})
    });
    let live = sandbox.siding(&["record", &task.id, "--cast", "-"]).run().expect_code(0);
    assert!(live.stderr_text().contains("still runs"), "{live}");
    assert_eq!(Cast::parse(&live.stdout_text()).data("x"), [""; 0], "{live}");
    let pause = paused.elapsed().as_secs_f64();
    write_file(&sandbox, "go", "");
    let _shown = person.expect_exit(3);
    assert_eq!(task.wait_outcome()["code"], 3);

    let cast = Cast::of(&sandbox, &task);
    let term = json!({"cols": 90, "rows": 20, "type": "xterm-256color"});
    assert_eq!((&cast.header["version"], &cast.header["term"]), (&json!(3), &term));
    assert_eq!((&cast.header["title"], &cast.header["command"]), (&json!("demo"), &json!(text)));
    assert!(cast.header["timestamp"].as_i64().is_some_and(|at| at > 1_500_000_000));
    assert_eq!(cast.data("o").concat(), "one\r\nzwölf\u{fffd}\r\n");
    assert_eq!(cast.data("r"), ["100x30"]);
    assert_eq!(cast.data("x"), ["3"]);
    assert_eq!((cast.data("m").len(), cast.data("i").len()), (0, 0));
    let order = [cast.position("one"), cast.position("100x30"), cast.position("zwölf")];
    assert!(order.is_sorted(), "{:?}", cast.events);
    // Times are truncated to milliseconds.
    let recorded = cast.time(order[2]) - cast.time(order[0]);
    assert!(recorded >= pause - 0.002, "{recorded} s after a pause of {pause} s");
    assert_eq!(cast.events.last().map(|event| event.1.as_str()), Some("x"));
    task.expect_closed();
}

#[test]
fn a_recording_continues_after_a_kill_of_the_shim() {
    let sandbox = sandbox();
    let (first, second) = (wait_for_file_command("go"), wait_for_file_command("end"));
    let text = format!("echo one; {first}; echo two; {second}; echo three");
    let task = TerminalTask::start(&sandbox, &text);
    task.wait_for_output("one\r\n");
    wait_for_times(&sandbox, &task, 1);
    task.replace_shim();
    write_file(&sandbox, "go", "");
    task.wait_for_output("two\r\n");
    wait_for_times(&sandbox, &task, 2);
    let paused = Instant::now();
    task.wait_for("idle");
    let pause = paused.elapsed().as_secs_f64();
    write_file(&sandbox, "end", "");
    let _outcome = task.wait_outcome();
    let cast = Cast::of(&sandbox, &task);
    // The shim that took over may not have received the exit status.
    assert!(cast.data("x").iter().all(|status| *status == "0"), "{:?}", cast.events);
    assert_eq!(cast.data("o").concat(), "one\r\ntwo\r\nthree\r\n");
    assert_eq!(cast.data("m"), [""; 0]);
    let times = ["one", "two", "three"].map(|word| cast.time(cast.position(word)));
    assert!(times[0] < times[1] && times[2] - times[1] >= pause - 0.002, "{times:?} {pause}");
}

/// The recording of a task without `output.times` contains the whole output, and the call reports
/// that its times are estimated.
#[test]
fn missing_and_damaged_times_are_estimated() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "seq -f line-%.0f 1 200; sleep .2; echo end");
    assert_eq!(task.wait_outcome()["code"], 0);
    let output = task.output();
    let exact = Cast::of(&sandbox, &task);
    let end = exact.time(exact.events.len() - 1);
    let path = sandbox.state_dir().join("tasks").join(&task.id).join("output.times");
    for damaged in [Some(&[0xff_u8; 40][..]), None] {
        match damaged {
            Some(bytes) => std::fs::write(&path, bytes).expect("own file"),
            None => std::fs::remove_file(&path).expect("it exists"),
        }
        let done = sandbox.siding(&["record", &task.id, "--cast", "-"]).run().expect_code(0);
        assert!(done.stderr_text().contains("were not recorded"), "{done}");
        let cast = Cast::parse(&done.stdout_text());
        assert_eq!(cast.data("o").concat(), output);
        let said = format!("the times of the first {} bytes of output are estimated", output.len());
        assert_eq!(cast.data("m"), [said]);
        let estimated_end = cast.time(cast.events.len() - 1);
        assert!((estimated_end - end).abs() < 0.001, "{estimated_end} instead of {end}");
    }
}

#[test]
fn released_output_is_marked_in_a_recording() {
    let sandbox = sandbox();
    let args = ["run", "--pty", "--background", "--json", "--", "seq -f line-%.0f 1 60000"];
    let call = sandbox.siding(&args).env("SIDING_OUTPUT_KEEP_HEAD", "8KiB");
    let started = call.env("SIDING_OUTPUT_KEEP_TAIL", "96KiB").run().expect_code(0);
    let task = TerminalTask::from_view(&sandbox, &started.json());
    assert_eq!(task.wait_outcome()["code"], 0);
    let cast = Cast::of(&sandbox, &task);
    let markers = cast.data("m");
    assert!(markers.len() == 1 && markers[0].ends_with("no longer stored"), "{markers:?}");
    let released: usize =
        markers[0].split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    let text = cast.data("o").concat();
    let (head, tail) = text.split_once("\u{1b}c").expect("a reset of the terminal");
    assert!(head.starts_with("line-1\r\nline-2\r\n"), "{head}");
    assert!(tail.ends_with("line-59999\r\nline-60000\r\n"), "{tail}");
    assert_eq!(head.len() + released + tail.len(), task.output_bytes().len());
}

/// A file is never replaced without --force, and a failed recording leaves none.
#[test]
fn the_file_of_a_recording_is_not_replaced_unasked() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "echo one");
    assert_eq!(task.wait_outcome()["code"], 0);
    let record = |args: &[&str]| sandbox.siding(&[&["record", &task.id], args].concat()).run();
    let _recorded = record(&["--cast", "demo.cast", "--idle-limit", "1500ms"]).expect_code(0);
    let first = std::fs::read_to_string(sandbox.path("demo.cast")).expect("it was written");
    let cast = Cast::parse(&first);
    assert_eq!(cast.header["idle_time_limit"], 1.5);
    assert_eq!(cast.data("o").concat(), "one\r\n");
    expect_refusal(record(&["--cast", "demo.cast"]), "`demo.cast` exists already");
    let unchanged = std::fs::read_to_string(sandbox.path("demo.cast")).expect("it is kept");
    assert_eq!(unchanged, first);
    let _replaced = record(&["--cast", "demo.cast", "--force"]).expect_code(0);
    let second = std::fs::read_to_string(sandbox.path("demo.cast")).expect("it was written");
    assert!(Cast::parse(&second).header.get("idle_time_limit").is_none(), "{second}");
    expect_refusal(record(&["--cast", "/dev/full", "--force"]), "/dev/full");
    expect_refusal(record(&["--cast", "-", "--idle-limit", "0s"]), "no pause");
    let plain = sandbox.siding(&["run", "--background", "--json", "--", "true"]).run();
    let id = plain.expect_code(0).json()["task_id"].as_str().expect("an id").to_owned();
    let refused = sandbox.siding(&["record", &id, "--cast", "plain.cast"]).run();
    expect_refusal(refused, "has no terminal");
    assert!(!sandbox.path("plain.cast").exists());
    let directory = sandbox.state_dir().join("tasks").join(&id);
    assert!(!directory.join("output.times").exists(), "only a task with a terminal has times");
}

/// A secret is not echoed, so no recording contains it. Input itself is never recorded.
#[test]
fn a_typed_secret_is_not_in_a_recording() {
    let sandbox = sandbox();
    let text = "read -rsp 'PIN: ' pin; echo; read -r word; echo \"got $word\"";
    let task = TerminalTask::start(&sandbox, text);
    task.wait_for_output("PIN: ");
    let person = Attachment::open(&sandbox, &task, &[], "PIN:");
    person.terminal.send_keys("8154711\r");
    task.wait_for_output("PIN: \r\n");
    person.terminal.send_keys("shown\r");
    let _shown = person.expect_exit(0);
    let done = sandbox.siding(&["record", &task.id, "--cast", "-"]).run().expect_code(0);
    assert!(!done.stdout_text().contains("8154711"), "{done}");
    let cast = Cast::parse(&done.stdout_text());
    assert_eq!(cast.data("o").concat(), "PIN: \r\nshown\r\ngot shown\r\n");
    assert_eq!(cast.data("i"), [""; 0]);
}
