//! `siding top` at a terminal, with real tasks. The two blanks before the number of running tasks
//! distinguish the title from the row of a task whose id ends in this digit.

use std::fs::OpenOptions;

use rustix::process::Signal;
use siding_e2e::processes::{self, Process};
use siding_e2e::{Invocation, Sandbox, Terminal, eventually_some, words};
use siding_model::process::UnixMs;

use crate::support::{
    HANG_COMMAND, PROGRAM_WITH_INTERRUPT, make_file, run_ok, run_to_end, sandbox, show_task,
    siding_on_controlling_terminal, start_task, stop_all, task_id, until_file_exists,
    wait_for_outcome, write,
};

const ENTER: &str = "\r";
const ESCAPE: &str = "\x1b";

/// Prepares a call of `siding top` whose controlling terminal is `terminal`.
fn top_on(sandbox: &Sandbox, terminal: &Terminal, args: &[&str]) -> Invocation {
    let call = siding_on_controlling_terminal(sandbox, terminal, &[&["top"], args].concat());
    call.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8")
}

/// The list shows running and ended tasks, a filter selects some of them, and the end of a task
/// appears without a key. A key hides the ended tasks except those that need a person. The exit
/// restores the terminal's modes, and the tasks continue.
#[test]
fn tasks_are_listed_and_filtered() {
    let sandbox = sandbox();
    let ended = run_to_end(&sandbox, "echo one; exit 3");
    let running = start_task(&sandbox, &["--name", "web"], HANG_COMMAND);
    let waiting = start_task(&sandbox, &[], &format!("{}; exit 4", until_file_exists("go")));
    let mut terminal = Terminal::new(100, 12);
    let before = terminal.modes();
    let top = top_on(&sandbox, &terminal, &[]).spawn();
    terminal.wait_for_row("2 running  1 ended");
    terminal.wait_for_row("exited 3");
    assert!(terminal.is_alternate_screen());
    assert_ne!(terminal.modes(), before);
    for id in [&ended, &running, &waiting] {
        terminal.wait_for_row(&id[..6]);
    }
    terminal.send_keys("/sleep 300");
    terminal.wait_until_gone("exited 3");
    terminal.wait_for_row("filter: sleep 300");
    terminal.send_keys(&format!("{ENTER}{ESCAPE}"));
    terminal.wait_for_row("exited 3");
    make_file(&sandbox, "go");
    terminal.wait_for_row("exited 4");
    terminal.wait_for_row("  1 running  2 ended");
    terminal.send_keys("a");
    terminal.wait_until_gone("exited 3");
    terminal.wait_for_row("exited 4");
    terminal.send_keys("q");
    let _ended = top.wait().expect_code(0);
    assert_eq!(terminal.modes(), before);
    assert!(!terminal.is_alternate_screen());
    assert_eq!(show_task(&sandbox, &running)["phase"], "running");
    stop_all(&sandbox);
}

/// The page of a task shows the output while the task writes it, without escape sequences. The keys
/// of the page search the output, open the other tabs, and copy the id.
#[test]
fn the_page_of_a_task_follows_its_output() {
    let sandbox = sandbox();
    // The command, which the title shows, does not contain the words that it writes.
    let printed =
        r#"a=x; printf "${a}first\n\033[31m${a}red\033[0m \033]0;title\007end\n1%%\r${a}9%%\n""#;
    let wait = until_file_exists("go");
    let text = format!("{printed}; {wait}; echo ${{a}}last; {HANG_COMMAND}");
    let id = start_task(&sandbox, &[], &text);
    let mut terminal = Terminal::new(100, 12);
    let top = top_on(&sandbox, &terminal, &[]).spawn();
    terminal.wait_for_row("  1 running");
    terminal.send_keys(ENTER);
    terminal.wait_for_row("following");
    for row in ["xfirst", "xred end", "x9%"] {
        terminal.wait_for_row(row);
    }
    make_file(&sandbox, "go");
    terminal.wait_for_row("xlast");
    terminal.send_keys("/XFIRST\r");
    terminal.wait_for_row("paused");
    terminal.send_keys("E");
    terminal.wait_for_row("no line looks like an error");
    terminal.send_keys("2");
    terminal.wait_for_row("PID S    CPU  COMMAND");
    terminal.send_keys("w");
    terminal.wait_for_row("silent for");
    terminal.send_keys("4");
    terminal.wait_for_row("started as process");
    terminal.send_keys("6");
    terminal.wait_for_row(&format!("{:<13}{id}", "id"));
    terminal.send_keys("y");
    terminal.wait_for_row(&format!("copied: {id}"));
    let encoded = sandbox.host("base64", &["-w0"]).stdin(id).run().expect_code(0);
    terminal.wait_for_clipboard(encoded.stdout_text().trim_end());
    terminal.send_keys("qq");
    let _ended = top.wait().expect_code(0);
    stop_all(&sandbox);
}

/// While a long output is searched, other tabs can be opened. Escape cancels the search and leaves the
/// page open. A search that is not canceled shows the line that it finds.
#[test]
fn a_long_output_is_searched_while_the_keys_work() {
    /// The length of an output with a hole, in bytes. Reading it block by block takes minutes on
    /// any machine, so the search cannot end before it is canceled.
    const LENGTH_WITH_HOLE: u64 = 4 << 40;
    let sandbox = sandbox();
    // The command, which the title shows, does not contain the line that it writes first.
    let text = "a=x; echo ${a}target; yes abcdefg | head -c 50000000; exit 3";
    let id = start_task(&sandbox, &[], text);
    let _ended = wait_for_outcome(&sandbox, &id);
    let mut terminal = Terminal::new(100, 12);
    let top = top_on(&sandbox, &terminal, &[]).spawn();
    terminal.wait_for_row("exited 3");
    terminal.send_keys(ENTER);
    terminal.wait_for_row("ended, ");
    terminal.send_keys("/TARGET\r");
    terminal.wait_for_row("not found below; N searches above: target");
    terminal.send_keys("N6");
    let fact = format!("{:<13}{id}", "id");
    terminal.wait_for_row(&fact);
    terminal.send_keys("1");
    terminal.wait_for_row("xtarget");
    let view = show_task(&sandbox, &id);
    let path = view["output"]["path"].as_str().expect("a path");
    let output = OpenOptions::new().write(true).open(path).expect("the output");
    output.set_len(LENGTH_WITH_HOLE).expect("a sparse file");
    terminal.send_keys("G");
    terminal.wait_for_row("released to save disk space");
    terminal.send_keys("/absent\r");
    terminal.wait_for_row("not found below; N searches above: absent");
    terminal.send_keys("N");
    terminal.wait_for_row("searching…");
    terminal.send_keys("6");
    terminal.wait_for_row(&fact);
    terminal.send_keys(ESCAPE);
    terminal.wait_for_row("the search was canceled");
    terminal.wait_for_row(&fact);
    terminal.send_keys("qq");
    let _ended = top.wait().expect_code(0);
}

/// `i` types a line into the terminal of a task, except where the program hides what is typed: the
/// screen would show a secret.
#[test]
fn a_line_is_typed_into_a_terminal_unless_it_would_be_a_secret() {
    let sandbox = sandbox();
    let text = "read -r name; echo \"hi $name\"; read -rsp 'PIN: ' pin; exit 3";
    let id = start_task(&sandbox, &["--pty"], text);
    let wait_for = |condition: &str| {
        let _met = run_ok(&sandbox, &["wait", &id, "--for", condition, "--timeout", "30s"]);
    };
    wait_for("input");
    let mut terminal = Terminal::new(100, 12);
    let top = top_on(&sandbox, &terminal, &[]).spawn();
    terminal.wait_for_row("  1 running");
    terminal.send_keys("iAnna\r");
    terminal.wait_for_row("typed 5 bytes");
    wait_for("screen:^hi Anna$");
    wait_for("screen:^PIN:");
    wait_for("input");
    terminal.send_keys("ihunter2\r");
    terminal.wait_for_row(&format!("{id} asks for a secret"));
    assert_eq!(show_task(&sandbox, &id)["phase"], "running");
    terminal.send_keys("q");
    let _ended = top.wait().expect_code(0);
    stop_all(&sandbox);
}

/// The tabs of a task show local times with their zone, as `siding show` does.
#[test]
fn times_are_local_and_name_their_zone() {
    const OFFSET_MS: i64 = (5 * 60 + 30) * 60_000;
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "exit 3");
    let view = show_task(&sandbox, &id);
    let local = |field: &str| {
        let time = view[field].as_str().and_then(UnixMs::from_rfc3339).expect("a time");
        time.format_local_with_zone(OFFSET_MS)
    };
    let mut terminal = Terminal::new(100, 20);
    // In the variable, as in POSIX, zones east of Greenwich are negative.
    let top = top_on(&sandbox, &terminal, &[]).env("TZ", "EAST-5:30").spawn();
    terminal.wait_for_row("exited 3");
    terminal.send_keys(ENTER);
    terminal.send_keys("4");
    terminal.wait_for_row(&format!("the times count from {}", local("started_at")));
    terminal.wait_for_row("accepted");
    terminal.send_keys("6");
    for (label, field) in [("started", "started_at"), ("ended", "ended_at")] {
        terminal.wait_for_row(&format!("{label:<13}{}", local(field)));
    }
    terminal.send_keys("qq");
    let _ended = top.wait().expect_code(0);
}

/// A stop needs a confirmation, and then shows the signal that ended the process. Other keys extend
/// the deadline of a task and send it a line of input.
#[test]
fn actions_are_confirmed_and_reported() {
    let sandbox = sandbox();
    let reader = start_task(&sandbox, &["--stdin", "pipe"], "read answer; echo got $answer");
    let mut terminal = Terminal::new(100, 12);
    let top = top_on(&sandbox, &terminal, &[]).spawn();
    terminal.wait_for_row("  1 running");
    terminal.send_keys("e");
    terminal.wait_for_row(&format!("extend {reader} by: Enter for 30m"));
    terminal.send_keys("\r");
    terminal.wait_for_row(&format!("{reader} ends in"));
    terminal.send_keys("iyes\r");
    terminal.wait_for_row(&format!("{reader}: wrote 4 bytes"));
    let outcome = serde_json::json!({"kind": "exited", "code": 0});
    assert_eq!(wait_for_outcome(&sandbox, &reader), outcome);
    terminal.wait_for_row("  0 running");
    let hanging = start_task(&sandbox, &[], HANG_COMMAND);
    terminal.wait_for_row("  1 running");
    terminal.send_keys("x");
    terminal.wait_for_row(&format!("y/n: stop {hanging}"));
    terminal.send_keys("n");
    terminal.wait_for_row("nothing was done");
    assert_eq!(show_task(&sandbox, &hanging)["phase"], "running");
    terminal.send_keys("x");
    terminal.wait_for_row("y/n: stop");
    terminal.send_keys("y");
    terminal.wait_for_row("stopped by user");
    terminal.wait_for_row("SIGTERM");
    terminal.wait_for_row("any other key closes");
    terminal.send_keys("q");
    terminal.wait_for_row("  0 running");
    terminal.send_keys("q");
    let _ended = top.wait().expect_code(0);
    assert_eq!(show_task(&sandbox, &hanging)["outcome"]["kind"], "stopped");
}

/// A key acknowledges the end of a failed task, which then no longer needs a person.
#[test]
fn a_failure_is_acknowledged() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &[], &format!("{}; exit 4", until_file_exists("go")));
    let mut terminal = Terminal::new(100, 12);
    let top = top_on(&sandbox, &terminal, &[]).spawn();
    terminal.wait_for_row("  1 running");
    make_file(&sandbox, "go");
    terminal.wait_for_row("1 needs you");
    terminal.wait_for_row("A acknowledge");
    terminal.send_keys("A");
    terminal.wait_for_row(&format!("the notices of {id} are acknowledged"));
    terminal.wait_until_gone("1 needs you");
    terminal.send_keys("q");
    let _ended = top.wait().expect_code(0);
}

/// A read-only screen refuses actions, and a narrow terminal without UTF-8 and colors is usable.
#[test]
fn a_read_only_screen_is_usable_in_a_small_terminal() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &[], HANG_COMMAND);
    let mut terminal = Terminal::new(80, 24);
    let top = top_on(&sandbox, &terminal, &["--read-only"]).env("LC_ALL", "C").env("NO_COLOR", "1");
    let top = top.spawn();
    terminal.wait_for_row("read-only");
    terminal.send_keys("x");
    terminal.wait_for_row("was started with --read-only");
    terminal.resize(20, 5);
    terminal.wait_for_row("* sleep 300");
    let shown = terminal.screen().concat();
    assert!(shown.is_ascii(), "{shown}");
    terminal.resize(100, 30);
    terminal.wait_for_row("SILENCE");
    terminal.send_keys("q");
    let _ended = top.wait().expect_code(0);
    assert_eq!(show_task(&sandbox, &id)["phase"], "running");
    stop_all(&sandbox);
}

/// SIGTERM restores the terminal, and a terminal that is closed ends the program.
#[test]
fn a_signal_restores_the_terminal_and_a_closed_terminal_ends_the_program() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let before = terminal.modes();
    let top = top_on(&sandbox, &terminal, &[]).spawn();
    terminal.wait_for_row("no task yet");
    let program = *processes::descendants(top.process().pid).first().expect("setsid has a child");
    Process::from_pid(program).expect("the program runs").signal(Signal::TERM);
    let _ended = top.wait().expect_code(0);
    assert_eq!(terminal.modes(), before);
    assert!(!terminal.is_alternate_screen());
    let top = top_on(&sandbox, &terminal, &[]).spawn();
    terminal.wait_for_row("no task yet");
    terminal.close();
    let _ended = top.wait();
}

/// Ctrl-Z and SIGTSTP suspend the program with the terminal restored, and `fg` continues it.
#[test]
fn the_program_is_suspended_and_continued() {
    let sandbox = sandbox();
    for is_key in [true, false] {
        let mut terminal = Terminal::new(80, 24);
        let args = ["--ctty", "--wait", "bash", "--norc", "--noprofile", "--noediting", "-i"];
        // The number of the command in the prompt shows that the shell reads the keys again.
        let shell = sandbox.host("setsid", &args).on_terminal(&terminal).env("PS1", "prompt \\#> ");
        let shell = shell.env("TERM", "xterm-256color").env("LC_ALL", "C.UTF-8").spawn();
        terminal.wait_for_row("prompt 1>");
        terminal.send_keys(&format!("{}\n", sandbox.siding_line(&["top"])));
        terminal.wait_for_row("no task yet");
        if is_key {
            terminal.send_keys("\x1a");
        } else {
            // The shell is the child of setsid(1), and the program is the child of the shell.
            let program = *processes::descendants(shell.process().pid).last().expect("it runs");
            assert!(processes::command_line(program).contains(" top"));
            Process::from_pid(program).expect("it runs").signal(Signal::TSTP);
        }
        terminal.wait_for_text("Stopped");
        terminal.wait_for_row("prompt 2>");
        assert!(!terminal.is_alternate_screen());
        terminal.send_keys("fg\n");
        terminal.wait_for_row("no task yet");
        terminal.send_keys("q");
        terminal.wait_for_row("prompt 3>");
        terminal.send_keys("exit\n");
        let _ended = shell.wait().expect_code(0);
    }
}

/// The pager shows the output on the restored terminal and receives Ctrl-C, which ends neither the
/// screen nor the pager's shell.
#[test]
fn a_pager_shows_the_output_and_receives_the_keys() {
    let sandbox = sandbox();
    let _ended = run_to_end(&sandbox, "a=x; echo ${a}paged; exit 3");
    write(&sandbox, "pager.sh", format!("cat\n{PROGRAM_WITH_INTERRUPT}"));
    let mut terminal = Terminal::new(100, 12);
    let before = terminal.modes();
    let top = top_on(&sandbox, &terminal, &[]).env("PAGER", "sh pager.sh").spawn();
    terminal.wait_for_row("exited 3");
    terminal.send_keys("o");
    terminal.wait_for_row("xpaged");
    terminal.wait_for_row("waiting");
    assert!(!terminal.is_alternate_screen());
    assert_eq!(terminal.modes(), before);
    terminal.send_keys("\x03");
    terminal.wait_for_row("interrupted");
    terminal.send_keys("\n");
    terminal.wait_until_gone("interrupted");
    terminal.wait_for_row("exited 3");
    assert!(terminal.is_alternate_screen());
    terminal.send_keys("q");
    let _ended = top.wait().expect_code(0);
    assert_eq!(terminal.modes(), before);
    assert!(!terminal.is_alternate_screen());
}

/// The pager receives no control sequence of a task with a terminal, because it could not show the
/// lines. Of a full-screen program, only the screen is readable.
#[test]
fn a_pager_shows_a_terminal_as_text() {
    for (command, expected) in [
        ("printf '\\033]0;title\\00710%%\\r20%%\\n'; exit 3", "20%\n"),
        (
            "printf 'before\\n\\033[?1049h\\033[9;5Hdrawn\\033[?1049lafter\\n'; exit 3",
            "before\nafter\n",
        ),
    ] {
        let sandbox = sandbox();
        let run = ["run", "--pty", "--budget", "none", "--json", "--", command];
        let _ended = sandbox.siding(&run).run();
        let mut terminal = Terminal::new(100, 12);
        let top = top_on(&sandbox, &terminal, &[]).env("PAGER", "cat > paged").spawn();
        terminal.wait_for_row("exited 3");
        terminal.send_keys("o");
        let paged = eventually_some(&format!("the pager has received {expected:?}"), || {
            let paged = std::fs::read_to_string(sandbox.path("paged")).ok()?;
            paged.starts_with(expected).then_some(paged)
        });
        assert!(!paged.contains('\x1b') && !paged.contains("drawn"), "{paged:?}");
        terminal.send_keys("q");
        let _ended = top.wait().expect_code(0);
    }
}

/// If the pager is not installed or is switched off, the list returns with a message about this.
#[test]
fn a_missing_pager_is_reported() {
    let sandbox = sandbox();
    let _ended = run_to_end(&sandbox, "exit 3");
    for (pager, message) in [("no-such-pager", "`no-such-pager` was not found"), ("", "no pager")] {
        let mut terminal = Terminal::new(100, 12);
        let top = top_on(&sandbox, &terminal, &[]).env("PAGER", pager).spawn();
        terminal.wait_for_row("exited 3");
        terminal.send_keys("o");
        terminal.wait_for_row(message);
        terminal.wait_for_row("exited 3");
        assert!(terminal.is_alternate_screen());
        terminal.send_keys("q");
        let _ended = top.wait().expect_code(0);
    }
}

/// The page of a task that was removed says so.
#[test]
fn the_page_of_a_removed_task_names_the_removal() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "exit 3");
    let mut terminal = Terminal::new(100, 12);
    let top = top_on(&sandbox, &terminal, &[]).spawn();
    terminal.wait_for_row("exited 3");
    terminal.send_keys(&format!("{ENTER}6"));
    terminal.wait_for_row(&format!("{:<13}{id}", "id"));
    let _removed = run_ok(&sandbox, &["rm", "--force", &id]);
    terminal.wait_for_row(&format!("{id} was removed"));
    terminal.send_keys("qq");
    let _ended = top.wait().expect_code(0);
}

/// An adopted process is released after a confirmation, and continues to run.
#[test]
fn an_adopted_process_is_released() {
    processes::assert_no_birthmark();
    let sandbox = sandbox();
    let other = sandbox.host("sleep", &["300"]).spawn();
    let pid = other.process().pid.to_string();
    let adopt = sandbox.siding(&["adopt", "--json", "--session", "cli", &pid]);
    let adopted = adopt.env("SIDING_ADOPT_KEEP_AFTER", "0s").run().expect_code(0);
    let id = task_id(&adopted.json());
    let mut terminal = Terminal::new(100, 12);
    let top = top_on(&sandbox, &terminal, &[]).spawn();
    terminal.wait_for_row("  1 running");
    terminal.send_keys("r");
    terminal.wait_for_row(&format!("y/n: release {id}"));
    terminal.send_keys("y");
    terminal.wait_for_row("is released: siding no longer stops it");
    terminal.wait_for_row("  0 running");
    terminal.send_keys("q");
    let _ended = top.wait().expect_code(0);
    assert_eq!(show_task(&sandbox, &id)["outcome"]["kind"], "released");
    assert!(other.process().is_alive());
    other.process().kill();
    let _killed = other.wait();
}

/// A wide terminal shows the host of a session. A click on a heading and a key change the order.
#[test]
fn columns_show_the_host_and_set_the_order() {
    let sandbox = sandbox();
    let owner = sandbox.puppet(&words("--quiet hang")).spawn();
    let pid = owner.process().pid.to_string();
    let _open = run_ok(&sandbox, &["session", "open", "codex-7", "--owner-pid", &pid]);
    let _running = start_task(&sandbox, &["--session", "codex-7"], HANG_COMMAND);
    let mut terminal = Terminal::new(200, 12);
    let top = top_on(&sandbox, &terminal, &[]).spawn();
    terminal.wait_for_row("codex  codex-7");
    terminal.wait_for_row("by time");
    terminal.send_keys("\x1b[<0;1;2M");
    terminal.wait_for_row("by state");
    terminal.send_keys("s");
    terminal.wait_for_row("by name");
    terminal.send_keys("q");
    let _ended = top.wait().expect_code(0);
    stop_all(&sandbox);
}

/// Without a terminal, the program says what to use instead.
#[test]
fn a_pipe_is_refused() {
    let sandbox = sandbox();
    let refused = sandbox.siding(&["top"]).run().expect_code(125);
    assert!(refused.stderr_text().contains("siding ps"), "{refused}");
    let _help = run_ok(&sandbox, &["top", "--help"]);
}
