//! `siding ps --watch` repaints its list when tasks start and end.

use rustix::process::Signal;
use siding_e2e::{Invocation, RunningProgram, Sandbox, Terminal, eventually, processes};

use crate::support::{
    HANG_COMMAND, run_ok, run_refused, run_to_end, sandbox, show_task,
    siding_on_controlling_terminal, start_task, stop_all,
};

#[test]
fn the_list_is_repainted_in_place_until_an_interrupt() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(100, 20);
    let watch = sandbox.siding(&["ps", "--watch"]).on_terminal(&terminal).spawn();
    terminal.wait_for_text("no tasks; `siding run -- COMMAND` starts one");
    let id = start_task(&sandbox, &["--name", "web"], HANG_COMMAND);
    terminal.wait_for_row(&id);
    let failed = run_to_end(&sandbox, "exit 3");
    terminal.wait_for_text("1 task has ended (1 failed)");
    let rows = terminal.screen();
    let count = |part: &str| rows.iter().filter(|row| row.contains(part)).count();
    assert_eq!((count("ELAPSED"), count(&id), count("no tasks")), (1, 1, 0), "{rows:#?}");
    // The list omits the failed task, because its caller has received the result.
    assert_eq!(count(&failed), 0, "{rows:#?}");
    let _stopped = run_ok(&sandbox, &["stop", &id]);
    terminal.wait_for_text("nothing is running; 2 tasks have ended");
    terminal.wait_until_gone(&id);
    watch.signal(Signal::INT);
    let _interrupted = watch.wait().expect_signal(2);
}

/// Keys are not echoed, and `q` ends the watch, as Ctrl-C does. Both restore the terminal.
#[test]
fn keys_are_not_echoed_and_the_terminal_is_restored() {
    let sandbox = sandbox();
    for keys in ["xyz\rq", "xyz\r\x03"] {
        let mut terminal = Terminal::new(100, 20);
        let before = terminal.modes();
        let call = siding_on_controlling_terminal(&sandbox, &terminal, &["ps", "--watch"]);
        let watch = call.spawn();
        terminal.wait_for_text("no tasks; `siding run -- COMMAND` starts one");
        assert_ne!(terminal.modes(), before);
        terminal.send_keys(keys);
        let _ended = watch.wait();
        assert_eq!(terminal.modes(), before);
        let shown = terminal.scrollback_text();
        assert!(!shown.contains("xyz") && !shown.contains("^C"), "{shown}");
    }
}

/// Returns a shell with job control. The number of the command in its prompt shows that the shell
/// reads the keys again.
fn interactive_shell(sandbox: &Sandbox, terminal: &Terminal) -> Invocation {
    let args = ["--ctty", "--wait", "bash", "--norc", "--noprofile", "--noediting", "-i"];
    sandbox.host("setsid", &args).on_terminal(terminal).env("PS1", "prompt \\#> ")
}

/// With `stty tostop`, a watch in the background stops instead of painting over the prompt. Each
/// time that it is continued in the foreground, it paints the list once.
#[test]
fn a_watch_of_the_background_obeys_tostop() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &[], HANG_COMMAND);
    let mut terminal = Terminal::new(100, 40);
    let shell = interactive_shell(&sandbox, &terminal).spawn();
    terminal.wait_for_row("prompt 1>");
    // With `set -b`, the shell reports a job as soon as it stops.
    terminal.send_keys("stty tostop; set -b\n");
    terminal.wait_for_row("prompt 2>");
    terminal.send_keys(&format!("{} &\n", sandbox.siding_line(&["ps", "--watch"])));
    terminal.wait_for_text("Stopped");
    let count_lists = |terminal: &mut Terminal| terminal.scrollback_text().matches(&id).count();
    assert_eq!(count_lists(&mut terminal), 0);
    terminal.send_keys("fg\n");
    terminal.wait_for_row(&id);
    terminal.send_keys("\x1a");
    terminal.wait_for_row("prompt 4>");
    terminal.send_keys("fg\n");
    eventually("the list is painted again", || count_lists(&mut terminal) > 1);
    terminal.send_keys("q");
    terminal.wait_for_row("prompt 5>");
    assert_eq!(count_lists(&mut terminal), 2, "{}", terminal.scrollback_text());
    terminal.send_keys("exit\n");
    let _ended = shell.wait().expect_code(0);
    stop_all(&sandbox);
}

/// A watch that was started in the background reads keys once `fg` has moved it to the foreground.
/// Until then, the keys belong to the shell.
#[test]
fn a_watch_of_the_background_reads_keys_in_the_foreground() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &[], HANG_COMMAND);
    let mut terminal = Terminal::new(100, 20);
    let shell = interactive_shell(&sandbox, &terminal).spawn();
    terminal.wait_for_row("prompt 1>");
    let before = terminal.modes();
    terminal.send_keys(&format!("{} &\n", sandbox.siding_line(&["ps", "--watch"])));
    terminal.wait_for_row(&id);
    assert_eq!(terminal.modes(), before);
    terminal.send_keys("fg\n");
    eventually("the watch reads keys", || terminal.modes() != before);
    terminal.send_keys("q");
    terminal.wait_for_row("prompt 3>");
    assert_eq!(terminal.modes(), before);
    terminal.send_keys("exit\n");
    let _ended = shell.wait().expect_code(0);
    stop_all(&sandbox);
}

/// Starts a task and a watch whose list has lines of almost 100 columns. Returns the id of the task,
/// and the watch once it has painted the list.
#[track_caller]
fn watch_wide_list(sandbox: &Sandbox, terminal: &mut Terminal) -> (String, RunningProgram) {
    let id = start_task(sandbox, &["--name", "a-name-that-needs-columns"], HANG_COMMAND);
    let watch = sandbox.siding(&["ps", "--watch", "--all"]).env("LC_ALL", "C.UTF-8");
    let watch = watch.on_terminal(terminal).spawn();
    terminal.wait_for_row("a-name-that-needs-columns");
    (id, watch)
}

#[test]
fn a_resized_terminal_gets_shorter_lines() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(100, 20);
    let (id, watch) = watch_wide_list(&sandbox, &mut terminal);
    terminal.resize(40, 20);
    watch.signal(Signal::WINCH);
    terminal.wait_for_row("…");
    let rows = terminal.screen();
    assert!(rows.iter().any(|row| row.starts_with(&id)), "{rows:#?}");
    watch.signal(Signal::INT);
    let _interrupted = watch.wait().expect_signal(2);
    stop_all(&sandbox);
}

/// A terminal that becomes narrower wraps the painted lines again. The next paint replaces all
/// their rows.
#[test]
fn a_narrower_terminal_keeps_no_copy_of_the_list() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(100, 20);
    let (id, watch) = watch_wide_list(&sandbox, &mut terminal);
    terminal.resize_and_rewrap(40, 20);
    watch.signal(Signal::WINCH);
    terminal.wait_for_row("…");
    // The paint may arrive in two parts; the second one erases the rows below the list.
    terminal.wait_until_gone("300");
    let mut rows = terminal.screen();
    rows.retain(|row| !row.is_empty());
    assert!(rows.len() == 2 && rows[0].starts_with("ID") && rows[1].starts_with(&id), "{rows:#?}");
    watch.signal(Signal::INT);
    let _interrupted = watch.wait().expect_signal(2);
    stop_all(&sandbox);
}

/// A viewer that is stopped and then killed delays no task, and leaves nothing for other calls to
/// repair.
#[test]
fn tasks_do_not_notice_a_stopped_and_killed_viewer() {
    let sandbox = sandbox();
    let running = start_task(&sandbox, &[], HANG_COMMAND);
    let mut terminal = Terminal::new(100, 20);
    let watch = sandbox.siding(&["ps", "--watch"]).on_terminal(&terminal).spawn();
    terminal.wait_for_row(&running);
    watch.signal(Signal::STOP);
    let pid = watch.process().pid;
    eventually("the viewer is stopped", || processes::state(pid) == Some('T'));
    let id = run_to_end(&sandbox, "seq 100000; exit 3");
    let view = show_task(&sandbox, &id);
    assert_eq!((&view["outcome"]["code"], &view["output"]["bytes"]), (&3.into(), &588_895.into()));
    watch.process().kill();
    let _killed = watch.wait().expect_signal(9);
    assert_eq!(show_task(&sandbox, &running)["rescues"], 0);
    assert_eq!(run_ok(&sandbox, &["reap"]).stdout_text(), "nothing to clear\n");
    let _stopped = run_ok(&sandbox, &["stop", &running]);
}

#[test]
fn without_a_terminal_the_watch_is_refused_with_advice() {
    let sandbox = sandbox();
    let text = run_refused(&sandbox, &["ps", "--watch"]);
    assert!(text.contains("standard output is not a terminal"), "{text}");
    assert!(text.contains("`siding ps --json` is for programs"), "{text}");
    let text = run_refused(&sandbox, &["ps", "--watch", "--json"]);
    assert!(text.contains("cannot be used with"), "{text}");
}
