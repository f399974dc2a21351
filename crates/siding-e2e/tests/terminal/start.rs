//! The state in which the program of a task with a terminal starts.

use siding_e2e::processes;

use crate::support::{TerminalTask, expect_refusal, rows_of, sandbox};

/// All three standard streams are the terminal, which is the controlling terminal of the leader's
/// own session.
#[test]
fn the_streams_are_the_controlling_terminal_of_the_task() {
    let sandbox = sandbox();
    let text = "test -t 0 && test -t 1 && test -t 2 && tty; echo $$; echo by name > /dev/tty; \
                read -r _";
    let task = TerminalTask::start(&sandbox, text);
    let output = task.wait_for_output("by name\r\n");
    let mut lines = output.lines();
    let device = lines.next().expect("the name of the terminal");
    assert!(device.starts_with("/dev/pts/"), "{output:?}");
    let leader = lines.next().and_then(|pid| pid.parse().ok()).expect("a pid");
    let stat = processes::stat(leader).expect("the shell lives");
    assert_eq!((stat.session, stat.group), (leader, leader));
    let mut streams = processes::descriptors(leader);
    streams.retain(|(fd, _)| *fd < 3);
    assert_eq!(streams.len(), 3, "{streams:?}");
    assert!(streams.iter().all(|(_, path)| path.as_os_str() == device), "{streams:?}");
    let masters = |fds: Vec<(u32, std::path::PathBuf)>| {
        fds.iter().filter(|(_, path)| path.ends_with("ptmx")).count()
    };
    assert_eq!(masters(processes::descriptors(leader)), 0, "the program must not hold the master");
    task.type_keys(&["Enter"]);
    assert_eq!(task.wait_outcome(), serde_json::json!({"kind": "exited", "code": 0}));
    task.expect_closed();
}

/// The terminal has the usual size or the requested one, and the variables describe this terminal,
/// not that of the caller.
#[test]
fn size_and_variables_describe_the_terminal_of_the_task() {
    let sandbox = sandbox();
    let cases: [(&[&str], &str); 2] = [(&[], "24 80"), (&["--size", "100x30"], "30 100")];
    for (flags, size) in cases {
        let args = [&["run", "--pty"], flags, &["--", "stty size; env"]].concat();
        let call = sandbox.siding(&args).env("COLUMNS", "33").env("LINES", "11");
        let done = call.env("TERM", "vt52").run().expect_code(0);
        let shown = done.stdout_text();
        let lines: Vec<&str> = shown.lines().map(|line| line.trim_end_matches('\r')).collect();
        assert_eq!(lines.first(), Some(&size), "{done}");
        assert!(lines.contains(&"TERM=xterm-256color"), "{done}");
        let is_size = |line: &&str| line.starts_with("COLUMNS=") || line.starts_with("LINES=");
        assert!(!lines.iter().any(is_size), "{done}");
        assert!(!lines.iter().any(|line| line.starts_with("PAGER=")), "{done}");
    }
}

#[test]
fn the_screen_has_the_size_of_the_terminal() {
    let sandbox = sandbox();
    let task = TerminalTask::start_with(&sandbox, &["--size", "20x4"], "seq 6; echo; read -r _");
    task.wait_for("input");
    let screen = task.screen();
    assert_eq!(screen["size"], serde_json::json!({"columns": 20, "rows": 4}));
    assert_eq!(rows_of(&screen), ["5", "6", "", ""], "{screen}");
    assert_eq!(screen["cursor"]["row"], 3, "{screen}");
    let scrolled = sandbox.siding(&["screen", "--scrollback", "2", &task.id]).run().expect_code(0);
    assert!(scrolled.stdout_text().starts_with("3\n4\n5\n6\n"), "{scrolled}");
    task.type_keys(&["Enter"]);
    let _ended = task.wait_outcome();
    let last = task.screen();
    assert!(last["ended"] == true && last["incomplete"] == false, "{last}");
    let empty = sandbox.siding(&["screen", "--json", "--at", "0", &task.id]).run().expect_code(0);
    assert_eq!(rows_of(&empty.json()), [""; 4]);
}

/// A size that no terminal has is refused with the allowed range, before anything is started.
#[test]
fn sizes_that_are_not_allowed_are_refused() {
    let sandbox = sandbox();
    for (size, part) in [("0x24", "1 to 500"), ("80x201", "1 to 200"), ("wide", "`wide`")] {
        let done = sandbox.siding(&["run", "--pty", "--size", size, "--", "true"]).run();
        expect_refusal(done, part);
    }
    assert!(sandbox.task_ids().is_empty());
}

/// A call at a person's terminal gives the task a terminal of the same size.
#[test]
fn a_persons_terminal_gives_its_size() {
    let sandbox = sandbox();
    let terminal = siding_e2e::Terminal::new(91, 17);
    let args = ["run", "--pty", "--background", "--", "stty size; read -r _"];
    let done = sandbox.siding(&args).on_terminal(&terminal).run();
    assert_eq!(done.code, Some(0), "{done}");
    let task = TerminalTask::only(&sandbox);
    assert!(task.wait_for_output("\r\n").starts_with("17 91\r\n"));
    task.stop(&["--grace", "0s"]);
    task.expect_closed();
}

/// Ctrl keys of a person reach the program as characters: flow control is off, and the erase key
/// removes whole characters.
#[test]
fn the_line_discipline_is_that_of_a_modern_terminal() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "stty -a; read -r word; echo \"word=$word\"");
    let settings = task.wait_for_output("iexten");
    assert!(settings.contains("-ixon") && settings.contains(" iutf8"), "{settings}");
    task.type_keys(&["xü", "BSpace", "y", "Enter"]);
    assert_eq!(task.wait_outcome()["code"], 0);
    assert!(task.output().ends_with("\r\nword=xy\r\n"), "{:?}", task.output());
}
