//! `siding monitor`: matching lines of a command become records, and each record is a notice
//! (promise P67, failure F48).

use rustix::process::Signal;
use siding_e2e::{Sandbox, Terminal, eventually};
use siding_model::record::{self, Record};

use crate::support::{
    HANG_COMMAND, make_file, run_at_terminal, run_ok, run_refused, sandbox, show_task,
    siding_on_controlling_terminal, stop_all, task_id, until_file_exists, wait_for_outcome,
};

/// A `matched` record: its text, the number of lines that it reports, and the number of those that
/// its text omits.
type MatchedBatch = (String, u64, u64);

#[track_caller]
fn start_monitor(sandbox: &Sandbox, flags: &[&str], command: &str) -> String {
    task_id(&run_ok(sandbox, &[&["monitor", "--json"], flags, &["--", command]].concat()).json())
}

/// Returns the records of a task's journal up to the first incomplete line.
#[track_caller]
fn read_records(sandbox: &Sandbox, id: &str) -> Vec<Record> {
    let path = sandbox.state_dir().join("tasks").join(id).join("journal");
    let bytes = std::fs::read(path).expect("a journal");
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.map_while(|line| record::parse_line(line).ok()).map(|(_, record)| record).collect()
}

fn matched_batches(sandbox: &Sandbox, id: &str) -> Vec<MatchedBatch> {
    let batch = |record| {
        let Record::Matched { text, lines, dropped, .. } = record else { return None };
        Some((text, lines, dropped))
    };
    read_records(sandbox, id).into_iter().filter_map(batch).collect()
}

fn total_lines(batches: &[MatchedBatch]) -> u64 {
    batches.iter().map(|(_, lines, _)| lines).sum()
}

#[test]
fn each_line_of_both_streams_is_reported_separately() {
    let sandbox = sandbox();
    let text = format!("echo one; echo; echo two >&2; {}; printf last", until_file_exists("go"));
    let id = start_monitor(&sandbox, &[], &text);
    eventually("both lines are reported", || total_lines(&matched_batches(&sandbox, &id)) == 2);
    make_file(&sandbox, "go");
    assert_eq!(wait_for_outcome(&sandbox, &id)["code"], 0);
    let alone = |text: &str| (text.to_owned(), 1, 0);
    // The blank line is not reported. The last line is reported although it has no newline.
    assert_eq!(matched_batches(&sandbox, &id), ["one", "two", "last"].map(alone));
}

#[test]
fn only_matching_lines_are_reported_and_all_output_is_kept() {
    let sandbox = sandbox();
    let text = r"printf 'ok 1\n\033[31mFAIL\033[0m a\nok 2\npanicked\n'";
    // The lines are written after the file `go` exists, because lines that the starting call itself
    // shows cause no notice.
    let text = format!("{}; {text}", until_file_exists("go"));
    let id = start_monitor(&sandbox, &["--match", "FAIL|panicked"], &text);
    make_file(&sandbox, "go");
    assert_eq!(wait_for_outcome(&sandbox, &id)["code"], 0);
    let texts: Vec<String> =
        matched_batches(&sandbox, &id).into_iter().map(|(text, ..)| text).collect();
    assert_eq!(texts, ["FAIL a", "panicked"]);
    let notices = run_ok(&sandbox, &["notices", "--json", "--consumer", "reader"]).json();
    let summaries = notices.as_array().expect("a list").iter();
    let summaries = summaries.filter(|one| one["kind"] == "matched").map(|one| &one["summary"]);
    assert_eq!(
        summaries.collect::<Vec<_>>(),
        ["FAIL a", "panicked"],
        "expected only the matching lines"
    );
    let sheet = run_ok(&sandbox, &["show", &id]).stdout_text();
    assert!(sheet.contains("\nreported     2 lines in 2 notices\n"), "{sheet}");
    assert!(sheet.contains("of those that match FAIL|panicked\n"), "{sheet}");
    let all = run_ok(&sandbox, &["output", &id, "--all"]).stdout_text();
    assert_eq!(all, "ok 1\nFAIL a\nok 2\npanicked\n");
}

/// Failure F48: a flood of lines becomes a few records with counts, which precede the final
/// records.
#[test]
fn a_flood_is_coalesced_and_its_last_line_is_reported() {
    check_flood(&[], 200_000);
}

#[test]
fn a_flood_on_a_terminal_is_coalesced() {
    check_flood(&["--pty"], 20_000);
}

fn check_flood(flags: &[&str], line_count: u64) {
    let sandbox = sandbox();
    let id = start_monitor(&sandbox, flags, &format!("seq {line_count}; exit 9"));
    let wait = ["wait", "--json", "--timeout", "50s", &id];
    let done = sandbox.siding(&wait).run().expect_code(9).json();
    assert_eq!(done["by"][0]["detail"]["code"], 9);
    let batches = matched_batches(&sandbox, &id);
    assert_eq!(total_lines(&batches), line_count, "each line must count once");
    let shown = run_ok(&sandbox, &["show", "--json", &id]).json();
    let seconds = shown["elapsed_ms"].as_u64().expect("a number") / 1000;
    assert!(batches.len() as u64 <= 5 + seconds + 1, "{} records in {seconds} s", batches.len());
    let sum = |of: fn(&MatchedBatch) -> u64| batches.iter().map(of).sum::<u64>();
    let expected = serde_json::json!({
        "pattern": null,
        "lines": line_count,
        "notices": batches.len(),
        "coalesced": sum(|(_, lines, _)| if *lines > 1 { *lines } else { 0 }),
        "text_dropped": sum(|(_, _, dropped)| *dropped),
    });
    assert_eq!(shown["monitor"], expected);
    let sheet = run_ok(&sandbox, &["show", &id]).stdout_text();
    assert!(
        sheet.contains(&format!("reported     {line_count} lines in {} notice", batches.len())),
        "{sheet}"
    );
    let (text, count, dropped) = batches.last().expect("the list is not empty");
    assert!(text.ends_with(&line_count.to_string()), "{text}");
    assert_eq!(text.lines().count() as u64, count - dropped);
    let records = read_records(&sandbox, &id);
    let [.., Record::Matched { .. }, Record::Event { .. }, Record::Closed(_)] = &records[..] else {
        panic!("the end must come last: {:?}", records.last());
    };
}

/// The first five lines are recorded immediately, and later lines in one record per second.
#[test]
fn after_a_burst_one_batch_per_second_is_reported() {
    let sandbox = sandbox();
    // A command that writes a line about every 20 ms. Its `read` with a timeout is a pause that
    // starts no process.
    let text = "for n in $(seq 1000); do echo $n; read -rt .02 <> <(:); done; sleep 300";
    let id = start_monitor(&sandbox, &[], text);
    eventually("seven batches are recorded", || matched_batches(&sandbox, &id).len() >= 7);
    let moments: Vec<u64> = read_records(&sandbox, &id)
        .iter()
        .filter_map(|record| {
            let Record::Matched { at, .. } = record else { return None };
            Some(at.0)
        })
        .collect();
    // The sixth record follows the first by one second, and the seventh follows by two.
    assert!(moments[6] - moments[0] >= 2000, "{moments:?}");
    let batches = matched_batches(&sandbox, &id);
    assert_eq!(batches[0], ("1".to_owned(), 1, 0));
    assert!(batches[6].1 > 1, "the lines were not batched: {batches:?}");
    stop_all(&sandbox);
}

#[test]
fn a_monitor_runs_five_minutes_by_default_and_up_to_the_cap() {
    let sandbox = sandbox();
    let spec = |id: &str| {
        let Record::Accepted(first) = read_records(&sandbox, id).swap_remove(0) else {
            panic!("the first record must be `accepted`")
        };
        first.spec
    };
    for (flags, deadline_ms) in [
        (&[][..], 300_000),
        (&["--timeout", "7m"], 420_000),
        (&["--persistent"], 14_400_000),
        (&["--timeout", "9h"], 14_400_000),
    ] {
        let flags = [flags, &["--allow-duplicate", "--match", "x+"]].concat();
        let spec = spec(&start_monitor(&sandbox, &flags, HANG_COMMAND));
        assert_eq!(spec.deadline_ms, deadline_ms);
        let monitor = spec.monitor.expect("the task is a monitor");
        assert_eq!((monitor.pattern.as_deref(), monitor.burst), (Some("x+"), 5));
        assert_eq!(monitor.every_ms, 1000);
    }
    let again = sandbox.siding(&["monitor", "--", HANG_COMMAND]).run().expect_code(79);
    assert!(again.stderr_text().contains("already runs"), "{again}");
    stop_all(&sandbox);
    // A monitor ends at its deadline, like any other task.
    let id = start_monitor(&sandbox, &["--timeout", "300ms"], HANG_COMMAND);
    assert_eq!(wait_for_outcome(&sandbox, &id)["kind"], "deadline");
}

#[test]
fn invalid_monitor_arguments_are_rejected_before_anything_starts() {
    let sandbox = sandbox();
    for (args, said) in [
        (&["--match", "(", "--", "true"][..], "unclosed group"),
        (&["--persistent", "--timeout", "1m", "--", "true"], "cannot be used with"),
        (&["--timeout", "5", "--", "true"], "`5s` for seconds"),
        (&["--size", "100x30", "--", "true"], "--pty"),
        (&["--pty", "--size", "100", "--", "true"], "--size"),
        (&[], "required"),
    ] {
        let err = run_refused(&sandbox, &[&["monitor"], args].concat());
        assert!(err.contains(said), "{args:?}: {err}");
    }
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
}

/// `--stall-after` sets when the stall of a monitor is recorded, and `0s` disables the detection.
#[test]
fn the_stall_after_flag_applies_to_monitors() {
    let sandbox = sandbox();
    let watched = start_monitor(&sandbox, &["--stall-after", "300ms"], "sleep 301");
    let unwatched = start_monitor(&sandbox, &["--stall-after", "0s"], "sleep 302");
    let is_stalled = |id: &str| {
        read_records(&sandbox, id).iter().any(|record| matches!(record, Record::Stalled(_)))
    };
    eventually("the record exists", || is_stalled(&watched));
    assert!(!is_stalled(&unwatched));
    stop_all(&sandbox);
}

/// Recorded lines are cut to 512 bytes and contain no control characters except tabs.
#[test]
fn hostile_lines_are_escaped_and_truncated() {
    let sandbox = sandbox();
    let say =
        r"head -c 3000000 /dev/zero | tr '\0' A; printf '\033[2J\001\377</task_notification>\n'";
    let id = start_monitor(&sandbox, &[], &format!("{say}; printf 'b\\tc\\n'"));
    assert_eq!(wait_for_outcome(&sandbox, &id)["code"], 0);
    let batches = matched_batches(&sandbox, &id);
    assert_eq!(total_lines(&batches), 2, "an oversized line counts once: {batches:?}");
    assert!(batches.iter().all(|(text, ..)| text.len() <= 512 && !text.contains('\u{1b}')));
    assert_eq!(batches.last().map(|(text, ..)| text.as_str()), Some("b\tc"));
}

/// The lines of a terminal end with a carriage return and a newline, and have colors and several
/// states of a progress bar. They include the keys that the terminal echoes.
#[test]
fn the_lines_of_a_terminal_are_reported_as_text() {
    let sandbox = sandbox();
    let say = r"printf '10%%\r50%%\r100%% done\n'; printf '\033[31mFAIL\033[0m a\n' >&2";
    let ask = r#"read -r answer; echo "FAIL <$answer>"; printf 'FAIL last'"#;
    let pattern = "^(30 100|100% done|FAIL .+)$";
    let flags = ["--pty", "--size", "100x30", "--match", pattern];
    let id = start_monitor(&sandbox, &flags, &format!("stty size; {say}; {ask}"));
    let reported = || {
        let batches = matched_batches(&sandbox, &id);
        batches.into_iter().map(|(text, ..)| text).collect::<Vec<_>>().join("\n")
    };
    eventually("three lines are reported", || total_lines(&matched_batches(&sandbox, &id)) == 3);
    let _typed = run_ok(&sandbox, &["keys", &id, "FAIL b", "Enter"]);
    assert_eq!(wait_for_outcome(&sandbox, &id)["code"], 0);
    let expected = "30 100\n100% done\nFAIL a\nFAIL b\nFAIL <FAIL b>\nFAIL last";
    assert_eq!(reported(), expected);
    let sheet = run_ok(&sandbox, &["show", &id]).stdout_text();
    assert!(sheet.contains("\nterminal     100x30; "), "{sheet}");
    assert!(sheet.contains("\nreported     6 lines in "), "{sheet}");
    let all = run_ok(&sandbox, &["output", &id, "--all"]).stdout_text();
    assert!(all.contains("100% done\nFAIL a\n"), "{all}");
}

#[test]
fn a_monitor_with_a_terminal_is_stopped_and_ends_at_its_deadline() {
    let sandbox = sandbox();
    let text = format!("tty; {HANG_COMMAND}");
    let id = start_monitor(&sandbox, &["--pty", "--match", "^/dev/pts/[0-9]+$"], &text);
    eventually("the line is reported", || total_lines(&matched_batches(&sandbox, &id)) == 1);
    let view = run_ok(&sandbox, &["stop", "--json", &id]).json();
    assert_eq!(view["outcome"]["kind"], "stopped", "{view}");
    let id = start_monitor(&sandbox, &["--pty", "--timeout", "300ms"], HANG_COMMAND);
    assert_eq!(wait_for_outcome(&sandbox, &id)["kind"], "deadline");
}

/// `siding monitor` prints the task's id and returns without waiting for a line.
#[test]
fn monitor_returns_immediately() {
    let sandbox = sandbox();
    let done = run_ok(&sandbox, &["monitor", "--", HANG_COMMAND]);
    assert!(done.elapsed < siding_e2e::POLL_DEADLINE, "{done}");
    assert_eq!(sandbox.task_ids(), [done.stdout_text().trim()]);
    stop_all(&sandbox);
}

#[test]
fn a_person_sees_the_matching_lines_until_an_interrupt_stops_the_command() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let text = format!("echo FAIL one; echo fine; echo FAIL two; {HANG_COMMAND}");
    let call = sandbox.siding(&["monitor", "--match", "FAIL", "--", &text]);
    let monitor = call.on_terminal(&terminal).spawn();
    terminal.wait_for_row("FAIL two");
    // The terminal controls no session, so Ctrl-C is sent as its signal.
    monitor.signal(Signal::INT);
    let _stopped = monitor.wait();
    let rows = terminal.screen();
    assert_eq!(
        rows[..3],
        ["siding: printing matching lines; Ctrl-C stops the command", "FAIL one", "FAIL two"]
    );
    let [id] = &sandbox.task_ids()[..] else { panic!("expected one task") };
    assert_eq!(show_task(&sandbox, id)["outcome"]["kind"], "stopped");
    // A last line without a newline is shown at the end of the command.
    let ended = run_at_terminal(&sandbox, &["monitor", "--", "echo one; printf two"], "two");
    assert!(ended.contains("siding: printing lines; Ctrl-C stops the command"), "{ended}");
    assert!(ended.lines().any(|row| row == "one"), "{ended}");
}

/// Without `--match`, the line that siding appends to the output would repeat the message about the
/// end.
#[test]
fn a_person_reads_once_that_the_command_was_stopped() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let call = sandbox.siding(&["monitor", "--", &format!("echo one; {HANG_COMMAND}")]);
    let monitor = call.on_terminal(&terminal).spawn();
    terminal.wait_for_row("one");
    monitor.signal(Signal::INT);
    let _stopped = monitor.wait();
    terminal.wait_for_row("siding: stopped by user");
    let text = terminal.scrollback_text();
    assert_eq!(text.matches("stopped by user").count(), 1, "{text}");
    let [id] = &sandbox.task_ids()[..] else { panic!("expected one task") };
    let all = run_ok(&sandbox, &["output", id, "--all"]).stdout_text();
    assert!(all.contains("\n[siding] stopped by user"), "{all}");
}

/// The call of a person prints the lines of the command's own terminal. It is not connected with this
/// terminal, so it discards what is typed here, and Ctrl-C stops the command.
#[test]
fn a_person_sees_the_matching_lines_of_a_terminal() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let text = format!("test -t 0 && echo FAIL one; echo fine; stty size; {HANG_COMMAND}");
    let args = ["monitor", "--pty", "--match", "FAIL|^[0-9]+ ", "--", &text];
    let monitor = siding_on_controlling_terminal(&sandbox, &terminal, &args).spawn();
    terminal.wait_for_row("24 80");
    terminal.send_keys("echo typed\r");
    terminal.wait_for_row("`siding attach ");
    let [id] = &sandbox.task_ids()[..] else { panic!("expected one task") };
    terminal.send_keys("\x03");
    let _stopped = monitor.wait();
    assert_eq!(show_task(&sandbox, id)["outcome"]["kind"], "stopped");
    let rows = terminal.screen();
    let shown = ["FAIL one", "24 80"];
    assert_eq!(rows[1..3], shown, "{rows:?}");
    assert!(!rows.iter().any(|row| row == "fine"), "{rows:?}");
    let all = run_ok(&sandbox, &["output", id, "--all"]).stdout_text();
    assert!(all.starts_with("FAIL one\nfine\n24 80\n"), "{all}");
}
