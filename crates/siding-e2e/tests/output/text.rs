//! The output that siding shows to a reader is bounded text without control sequences (promises P28
//! and P29).

use std::fmt::Write as _;

use siding_e2e::{ProgramOutput, Sandbox, eventually, forge_task_name, stand_in_name};

use crate::{Task, assert_same, perform, shell};

/// Returns a task's output as `run --json`, `show --json` and `output` show it.
#[track_caller]
fn displayed_texts(sandbox: &Sandbox, task: &Task) -> [String; 3] {
    let show = sandbox.siding(&["show", "--json", task.id()]).run().expect_code(0);
    let output = sandbox.siding(&["output", "--all", task.id()]).run().expect_code(0);
    let text = task.text("/output/text").to_owned();
    [text, Task::of(&show).text("/output/text").to_owned(), output.stdout_text()]
}

#[test]
fn progress_colors_and_invalid_bytes_become_plain_text() {
    let sandbox = Sandbox::new();
    for (printed, wanted) in [
        (r"10%\r 50%\r100%\ndone\n", "100%\ndone\n"),
        (r"one\r\ntwo\r\n", "one\ntwo\n"),
        (r"\x1b[1;31merror\x1b[0m: \x1b]0;title\x07bad\n", "error: bad\n"),
        (r"a\xff\xfeb\xc3(\xe2\x82 c\n", "a\u{fffd}\u{fffd}b\u{fffd}(\u{fffd} c\n"),
        (r"\xe2\x82\xac \xf0\x9f\x9a\x82\n", "€ 🚂\n"),
        (r"no newline", "no newline\n"),
        (r"same\nsame\nsame\nother\n", "same\n… repeated 2 times\nother\n"),
    ] {
        let task =
            Task::of(&shell(&sandbox, &format!("printf %b '{printed}'")).run().expect_code(0));
        for text in displayed_texts(&sandbox, &task) {
            assert_eq!(text.trim_end(), wanted.trim_end(), "{printed}");
        }
    }
    // A progress bar that writes 3.6 MB becomes one line.
    let bar =
        "for ((i = 0; i < 100000; i++)); do printf '\\r%6d of 100000 crates, some words' $i; done";
    let task = Task::of(&shell(&sandbox, bar).run().expect_code(0));
    assert!(task.number("/output/bytes") > 3_000_000);
    for text in displayed_texts(&sandbox, &task) {
        assert!(
            text.ends_with(" 99999 of 100000 crates, some words") || text.contains(" 99999 of"),
            "{text}"
        );
        assert!(text.len() < 1000, "{} bytes", text.len());
    }
}

#[test]
fn text_is_cut_only_between_characters() {
    let sandbox = Sandbox::new();
    // The text has characters of one to four bytes, once in one long line and once in many lines.
    for (name, end) in [("line", ""), ("lines", "\n")] {
        let text: String = (0..3000).map(|n| format!("{n}é€🚂{end}")).collect();
        std::fs::write(sandbox.path(name), &text).expect("test file");
        let task = Task::of(&run_cat(&sandbox, name));
        assert_same(&task.file(), text.as_bytes(), "the output");
        for max in (300..330).chain([1, 2, 3, 4, 5, 64, 1000, 20_000]) {
            let max_text = max.to_string();
            let args = ["output", "--all", "--json", "--max-bytes", &max_text, task.id()];
            let done = sandbox.siding(&args).run().expect_code(0);
            let part = Task::of(&done).text("/text").to_owned();
            assert!(!part.contains('\u{fffd}') && part.len() <= max, "{max}: {part}");
        }
        for max in [64, 100, 1001, 30_000] {
            assert_same(
                read_all_pages(&sandbox, &task, max).as_bytes(),
                text.as_bytes(),
                "all pages",
            );
        }
    }
}

fn run_cat(sandbox: &Sandbox, name: &str) -> ProgramOutput {
    let path = sandbox.path(name).display().to_string();
    sandbox.siding(&["run", "--json", "--", "cat", &path]).run().expect_code(0)
}

/// Reads a task's output in pages, each from the offset that the previous page returned as `next`.
fn read_all_pages(sandbox: &Sandbox, task: &Task, max: usize) -> String {
    let mut all = String::new();
    let (mut since, mut turns) = (0, 0);
    while since < task.number("/output/bytes") && turns < 40 {
        let (from, max_text) = (since.to_string(), max.to_string());
        let args = ["output", "--json", "--since", &from, "--max-bytes", &max_text, task.id()];
        let page = Task::of(&sandbox.siding(&args).run().expect_code(0));
        assert!(page.text("/text").len() <= max, "{page:?}");
        assert!(page.number("/next") > since, "{page:?}");
        since = page.number("/next");
        all.push_str(page.text("/text"));
        turns += 1;
    }
    // Forty pages suffice to test paging, so one call reads the remaining output.
    let rest =
        ["output", "--json", "--max-bytes", "none", "--since", &since.to_string(), task.id()];
    all.push_str(Task::of(&sandbox.siding(&rest).run().expect_code(0)).text("/text"));
    all
}

/// Asserts that a siding command succeeds with 12 MiB of private memory (RLIMIT_DATA). Unlike a
/// measurement at the end, the limit also detects a command that exceeds this size only briefly.
#[track_caller]
fn assert_runs_in_12_mib(sandbox: &Sandbox, args: &[&str]) {
    const LIMIT_KIB: &str = "12288";
    // The output is discarded, so that it does not occupy memory of the test process.
    let line = sandbox.siding_line(args);
    let script = format!("ulimit -d {LIMIT_KIB} && exec {line} > /dev/null");
    let done = sandbox.host("bash", &["-c", &script]).run();
    assert_eq!(done.code, Some(0), "{done}");
}

fn run_long_line(sandbox: &Sandbox, size: &str) -> Task {
    let fill = ["fill", size, "--line", size];
    let call = perform(sandbox, &fill).env("SIDING_OUTPUT_KEEP_TAIL", "128MiB");
    Task::of(&call.run().expect_code(0))
}

#[test]
fn a_line_of_100_mb_is_read_in_constant_memory() {
    let sandbox = Sandbox::new();
    let task = run_long_line(&sandbox, "100M");
    assert_eq!(task.number("/output/kept_bytes"), 100 << 20);
    assert!(task.text("/output/text").len() <= 32 << 10);
    let id = task.id();
    for args in [
        &["show", id][..],
        &["show", "--json", id],
        &["output", "--all", id],
        &["output", "--all", "--json", id],
        &["output", "--since", "7", id],
        &["output", "--tail", "1", id],
        &["output", "--raw", id],
        &["run", "--", "cat", task.text("/output/path")],
    ] {
        assert_runs_in_12_mib(&sandbox, args);
    }
}

/// Promise P29: searching a line that is longer than the memory limit succeeds. Searching reads
/// every byte, which is slow in unoptimized builds, so the line is only 4 MiB longer than the
/// limit.
#[test]
fn a_long_line_is_searched_in_constant_memory() {
    let sandbox = Sandbox::new();
    let task = run_long_line(&sandbox, "16M");
    let id = task.id();
    assert_runs_in_12_mib(&sandbox, &["output", "--errors", id]);
    assert_runs_in_12_mib(&sandbox, &["output", "--grep", "zabc", id]);
    assert_runs_in_12_mib(&sandbox, &["output", "--all", "--max-bytes", "none", id]);
}

/// Characters that control a terminal or are invisible to a reader.
const HOSTILE_TEXT: &str = "\u{1b}[31mred\u{1b}[0m\u{1b}]0;title\u{7}\r\u{8}\u{7f}\u{9b}2J\u{85}\
                    \u{202e}rtl\u{2066}\u{200b}\u{200d}\u{feff}\u{2028}\u{ad}\u{e0041}";

/// Returns whether siding may print a character without escaping it.
fn is_safe_char(letter: char) -> bool {
    let hidden = "\u{ad}\u{61c}\u{180e}\u{feff}\u{fff9}\u{fffa}\u{fffb}";
    let unseen = ['\u{200b}'..='\u{200f}', '\u{2028}'..='\u{202e}', '\u{2060}'..='\u{206f}'];
    letter == '\n'
        || !letter.is_control()
            && !hidden.contains(letter)
            && !unseen.iter().any(|range| range.contains(&letter))
            && !('\u{e0000}'..='\u{e0fff}').contains(&letter)
}

#[track_caller]
fn assert_safe_output(done: &ProgramOutput) {
    for text in [done.stdout_text(), done.stderr_text()] {
        let evil = text.chars().find(|letter| !is_safe_char(*letter));
        let seen = text.chars().fold(String::new(), |mut seen, letter| {
            let _writing_to_string = write!(seen, "{}", letter.escape_debug());
            seen
        });
        assert_eq!(evil, None, "{seen}");
    }
}

#[test]
fn every_task_field_is_escaped_for_the_terminal() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let dir = sandbox.path(&format!("dir{HOSTILE_TEXT}"));
    std::fs::create_dir(&dir).expect("test directory");
    let dir = dir.display().to_string();
    let hostile_name = format!("name{HOSTILE_TEXT}\nb-000000000000  exited 0  forged");
    let refused = sandbox.siding(&["run", "--name", &hostile_name, "--", "true"]).run();
    assert_safe_output(&refused.expect_code(125));
    let name = stand_in_name(&hostile_name);
    let renamed = format!("{HOSTILE_TEXT}\nforged");
    let script =
        ["fork", "rename", &renamed, "hang", "--", "say", HOSTILE_TEXT, "mark", "up", "hang"];
    let head = ["run", "--background", "--name", &name, "--cwd", &dir, "--"].map(str::to_owned);
    let argv = sandbox.puppet_argv(&script);
    let started = sandbox.siding(&[&head[..], &argv].concat()).run().expect_code(0);
    assert_safe_output(&started);
    let id = started.stdout_text().trim().to_owned();
    forge_task_name(&sandbox, &id, &hostile_name);
    let _up = sandbox.wait_for_mark("up");
    let read = |args: &[&str]| {
        let done = sandbox.siding(args).run();
        assert_safe_output(&done);
        assert!(
            !done.stdout_text().lines().any(|line| line.starts_with("b-000000000000")),
            "{done}"
        );
        assert!(!done.stdout_text().lines().any(|line| line.starts_with("forged")), "{done}");
        done.stdout_text()
    };
    for args in [&["show", &id][..], &["ps"], &["ps", "--all"], &["reap", "--dry-run"]] {
        let _text = read(args);
    }
    let _bound = read(&["wait", "--timeout", "1ms", &id]);
    let stopped = read(&["stop", "--grace", "0s", &id]);
    assert!(stopped.contains("stopped"), "{stopped}");
    for args in [&["show", &id][..], &["ps"], &["wait", &id]] {
        assert!(read(args).contains(&id));
    }
    let missing = format!("/nowhere/{HOSTILE_TEXT}");
    let call = ["run", "--background", "--", &missing, "argument"];
    assert_safe_output(&sandbox.siding(&call).run().expect_code(127));
    let _failed = read(&["ps"]);
    eventually("nothing of it is left", || siding_e2e::processes::with_birthmark(&id).is_empty());
}
