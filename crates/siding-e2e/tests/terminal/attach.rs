//! `siding attach`: a person's terminal shows the task's screen, and passes on keys and its size.
//! When the person leaves or the task ends, the terminal is restored.

use rustix::process::Signal;
use siding_e2e::{Process, RunningProgram, Sandbox, Terminal, eventually, eventually_some};

use crate::support::{TerminalTask, expect_refusal, sandbox, write_file};

/// The keys that detach: Ctrl-\ twice.
pub(crate) const DETACH: &str = "\x1c\x1c";
/// Announces its pid, then answers each line; for the line `size` it prints the size of its
/// terminal.
const ANSWER: &str = "echo \"pid=$$\"; echo painted; while read -r line; do echo \"got:$line\"; \
                      [ \"$line\" = size ] && stty size; done";

/// A person's terminal that is connected with a task.
pub(crate) struct Attachment {
    pub(crate) terminal: Terminal,
    call: RunningProgram,
    /// The terminal's modes before the call.
    initial_modes: String,
}

impl Attachment {
    /// Attaches a terminal of 100 columns and 30 rows, and waits until it shows `row`.
    #[track_caller]
    pub(crate) fn open(
        sandbox: &Sandbox,
        task: &TerminalTask<'_>,
        flags: &[&str],
        row: &str,
    ) -> Self {
        let mut terminal = Terminal::new(100, 30);
        let initial_modes = terminal.modes();
        let args = [&["attach", &task.id], flags].concat();
        let call = sandbox.siding(&args).on_terminal(&terminal).spawn();
        terminal.wait_for_row(row);
        assert_ne!(terminal.modes(), initial_modes, "the terminal must be in raw mode");
        Self { terminal, call, initial_modes }
    }

    /// Returns the process of the call.
    pub(crate) fn process(&self) -> Process {
        self.call.process()
    }

    /// Changes the size of the terminal, as by a person who resizes its window.
    fn resize(&mut self, columns: u16, rows: u16) {
        self.terminal.resize(columns, rows);
        self.call.signal(Signal::WINCH);
    }

    /// Waits for the end of the call, asserts that the terminal's modes are restored, and returns
    /// all text that was shown.
    #[track_caller]
    pub(crate) fn expect_exit(mut self, code: i32) -> String {
        let done = self.call.wait();
        let shown = self.terminal.scrollback_text();
        assert_eq!(done.code, Some(code), "{shown}");
        assert_eq!(self.terminal.modes(), self.initial_modes, "{shown}");
        shown
    }

    /// Presses the detach keys, and waits for the end of the call.
    #[track_caller]
    pub(crate) fn detach(self) -> String {
        self.terminal.send_keys(DETACH);
        self.expect_exit(0)
    }
}

#[test]
fn attach_paints_the_screen_and_passes_keys_and_the_size_on() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, ANSWER);
    task.wait_for_output("painted\r\n");
    let mut person = Attachment::open(&sandbox, &task, &[], "painted");
    person.terminal.send_keys("hello\r");
    person.terminal.wait_for_row("got:hello");
    person.terminal.send_keys("size\r");
    person.terminal.wait_for_row("30 100");
    person.resize(90, 20);
    eventually("the task's terminal has the new size", || {
        task.screen()["size"] == serde_json::json!({"columns": 90, "rows": 20})
    });
    person.terminal.send_keys("size\r");
    person.terminal.wait_for_row("20 90");
    let shown = person.detach();
    assert!(shown.contains(&format!("left {}, which continues", task.id)), "{shown}");
    let announced = format!("siding: attached to {}; Ctrl-\\ twice leaves it\n", task.id);
    assert!(shown.contains(&announced), "{shown}");

    // The task continues, and another terminal shows its screen immediately.
    assert_eq!(task.show()["phase"], "running");
    let again = Attachment::open(&sandbox, &task, &[], "20 90");
    let rows = again.detach();
    for row in ["painted", "got:hello", "got:size"] {
        assert!(rows.contains(row), "{row} is missing: {rows}");
    }
    task.stop(&["--grace", "0s"]);
    task.expect_closed();
}

/// The size of the person who remains comes back when another one leaves, although neither has typed
/// or changed a size.
#[test]
fn the_size_of_the_remaining_person_comes_back() {
    let sandbox = sandbox();
    let mut first = Terminal::new(90, 28);
    let call = sandbox.siding(&["run", "--pty", "--", ANSWER]).on_terminal(&first).spawn();
    first.wait_for_row("painted");
    let task = TerminalTask::only(&sandbox);
    let wait_for_size = |columns: u16, rows: u16| {
        eventually(&format!("the task's terminal has {columns}x{rows}"), || {
            task.screen()["size"] == serde_json::json!({"columns": columns, "rows": rows})
        });
    };
    let second = Attachment::open(&sandbox, &task, &[], "painted");
    wait_for_size(100, 30);
    let _shown = second.detach();
    wait_for_size(90, 28);
    let second = Attachment::open(&sandbox, &task, &[], "painted");
    wait_for_size(100, 30);
    second.process().kill();
    wait_for_size(90, 28);
    first.send_keys("size\r");
    first.wait_for_row("28 90");
    task.stop(&["--grace", "0s"]);
    let _ended = call.wait();
    task.expect_closed();
}

/// The first detach key alone reaches the program after a moment. With other detach keys, it has no
/// special meaning.
#[test]
fn a_single_detach_key_is_passed_on() {
    let sandbox = sandbox();
    // Shows control characters, such as `^\` for Ctrl-\.
    let task = TerminalTask::start(&sandbox, "stty raw -echo; printf 'up '; exec cat -v");
    task.wait_for_output("up");
    let mut person = Attachment::open(&sandbox, &task, &[], "up");
    person.terminal.send_keys("\x1c");
    person.terminal.wait_for_row("up ^\\");
    let _shown = person.detach();
    let mut person = Attachment::open(&sandbox, &task, &["--detach-keys", "C-a d"], "up ^\\");
    person.terminal.send_keys(DETACH);
    person.terminal.wait_for_row("up ^\\^\\^\\");
    person.terminal.send_keys("\x01d");
    let _shown = person.expect_exit(0);
    assert_eq!(task.output(), "up ^\\^\\^\\");
    task.stop(&["--grace", "0s"]);
}

/// However the task ends, the call restores the person's terminal and exits with the code of the
/// task.
#[test]
fn the_terminal_is_restored_when_the_task_is_killed() {
    let sandbox = sandbox();
    // Sets modes that only the program itself would normally reset.
    let text = format!("printf '\\033[?1049h\\033[?2004h\\033[?25l'; {ANSWER}");
    let task = TerminalTask::start(&sandbox, &text);
    let output = task.wait_for_output("painted\r\n");
    let pid = output.lines().find_map(|line| line.split_once("pid=")?.1.trim_end().parse().ok());
    let leader = pid.and_then(Process::from_pid).expect("the shell lives");
    let mut person = Attachment::open(&sandbox, &task, &[], "painted");
    assert!(person.terminal.is_alternate_screen());
    leader.kill();
    person.terminal.wait_for_text("siding:");
    assert!(!person.terminal.is_alternate_screen());
    let _shown = person.expect_exit(137);
    task.expect_closed();
}

#[test]
fn the_exit_of_the_task_ends_the_attachment_with_its_code() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "read -p 'code? ' code; exit $code");
    task.wait_for("input");
    let person = Attachment::open(&sandbox, &task, &[], "code?");
    person.terminal.send_keys("9\r");
    let _shown = person.expect_exit(9);
    task.expect_closed();
    // The person has seen the end.
    let notices = sandbox.siding(&["notices", "--json"]).run().expect_code(0).json();
    let mut notices = notices.as_array().expect("a list").iter();
    assert!(!notices.any(|notice| notice["kind"] == "ended"), "{notices:?}");
}

/// The output of a program that was already running is shown once, completely and in
/// order, across the start of the attachment.
#[test]
fn output_across_the_start_of_an_attachment_is_complete() {
    let sandbox = sandbox();
    let text = "n=1; until [ -e gate ]; do echo line-$n; n=$((n+1)); sleep .002; done; read -r _";
    let task = TerminalTask::start(&sandbox, text);
    task.wait_for_output("line-20\r\n");
    let mut person = Attachment::open(&sandbox, &task, &[], "line-");
    person.terminal.wait_for_text("line-200");
    write_file(&sandbox, "gate", "");
    task.wait_for("input");
    let last = eventually_some("the last line is shown", || {
        let output = task.output();
        let last = output.lines().rfind(|line| line.starts_with("line-"))?.to_owned();
        person.terminal.screen().contains(&last).then_some(last)
    });
    let shown = person.terminal.scrollback_text();
    let numbers: Vec<u32> =
        shown.lines().filter_map(|line| line.strip_prefix("line-")?.parse().ok()).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{last}: {shown}");
    person.terminal.send_keys("\r");
    let _shown = person.expect_exit(0);
}

/// The scroll-back of the person's terminal contains the lines of the task's scroll-back, each once
/// and in order, unless a full-screen program is drawing.
#[test]
fn attach_restores_the_scrollback() {
    let sandbox = sandbox();
    let text = "seq -f row-%g 100; read -r _; printf '\\033[?1049h\\033[Hdrawn'; read -r _";
    let task = TerminalTask::start(&sandbox, text);
    task.wait_for("input");
    let person = Attachment::open(&sandbox, &task, &[], "row-100");
    let shown = person.detach();
    let rows: Vec<String> = (1..=100).map(|number| format!("row-{number}")).collect();
    let rows_shown: Vec<&str> = shown.lines().filter(|row| row.starts_with("row-")).collect();
    assert_eq!(rows_shown, rows, "{shown}");
    task.type_and_wait(&["Enter"], "screen:^drawn");
    let person = Attachment::open(&sandbox, &task, &[], "drawn");
    let shown = person.detach();
    assert!(!shown.contains("row-"), "{shown}");
    task.stop(&["--grace", "0s"]);
}

#[test]
fn a_spectator_changes_nothing() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, ANSWER);
    task.wait_for_output("painted\r\n");
    let mut person = Attachment::open(&sandbox, &task, &["--read-only"], "painted");
    person.terminal.send_keys("typed\r");
    person.terminal.wait_for_text("siding: this attachment is read-only");
    let rows = task.type_and_wait(&["size", "Enter"], "screen:^24 80$");
    assert!(!rows.iter().any(|row| row.contains("typed")), "{rows:?}");
    let shown = person.detach();
    assert!(!shown.contains("got:typed"), "{shown}");
    let announced = format!(
        "siding: attached to {}, read-only; Ctrl-\\ twice leaves it; the task's terminal is 80x24, \
         yours 100x30",
        task.id
    );
    // The line is longer than a row.
    assert!(shown.replace('\n', "").contains(&announced), "{shown}");
    assert!(!task.journal().contains(r#""terminal":"taken""#), "{}", task.journal());
    task.stop(&["--grace", "0s"]);
}

/// The size is that of the person who typed last. The others are told that it is not theirs: the
/// screen of the task looks garbled to them.
#[test]
fn people_whose_terminal_has_another_size_are_told() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, ANSWER);
    task.wait_for_output("painted\r\n");
    let mut first = Attachment::open(&sandbox, &task, &[], "painted");
    let mut second = Attachment::open(&sandbox, &task, &[], "painted");
    second.resize(90, 20);
    let told = "the task's terminal is 90x20, yours 100x30";
    first.terminal.wait_for_text(told);
    first.terminal.wait_for_title("has both sizes", |title| title.ends_with(told));
    first.terminal.send_keys("mine\r");
    first.terminal.wait_for_row("got:mine");
    first.terminal.wait_for_title("has no size", |title| title.ends_with("leaves it"));
    let told = "the task's terminal is 100x30, yours 90x20";
    second.terminal.wait_for_title("has both sizes", |title| title.ends_with(told));
    let _shown = (first.detach(), second.detach());
    task.stop(&["--grace", "0s"]);
}

/// A full-screen program is shown on the alternate screen, so that the earlier text of the person's
/// terminal is there again afterwards, directly above the line about the detachment.
#[test]
fn an_attachment_to_a_full_screen_program_leaves_the_earlier_text() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "printf '\\033[?1049h\\033[Hdrawn'; read -r _");
    task.wait_for("screen:^drawn");
    let mut terminal = Terminal::new(100, 30);
    let earlier = sandbox.siding(&["--version"]).on_terminal(&terminal).run();
    assert_eq!(earlier.code, Some(0), "{earlier}");
    let call = sandbox.siding(&["attach", &task.id]).on_terminal(&terminal).spawn();
    terminal.wait_for_row("drawn");
    assert!(terminal.is_alternate_screen());
    terminal.send_keys(DETACH);
    assert_eq!(call.wait().code, Some(0));
    let rows = terminal.screen();
    assert!(rows[0].starts_with("siding "), "{rows:?}");
    assert!(rows[1].starts_with("siding: attached to"), "{rows:?}");
    assert!(rows[2].starts_with("siding: left"), "{rows:?}");
    task.stop(&["--grace", "0s"]);
}

/// Without detach keys, the announcement says how else to leave.
#[test]
fn an_attachment_without_detach_keys_names_another_way_out() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, ANSWER);
    task.wait_for_output("painted\r\n");
    let person = Attachment::open(&sandbox, &task, &["--detach-keys", "none"], "painted");
    let way_out = format!("closing this terminal or `kill {}` leaves it", person.process().pid);
    person.call.signal(Signal::TERM);
    let shown = person.expect_exit(0);
    assert!(shown.replace('\n', "").contains(&way_out), "{shown}");
    assert_eq!(task.show()["phase"], "running");
    task.stop(&["--grace", "0s"]);
}

/// Without an id, the newest running task with a terminal is meant, and not a later task that has
/// none or has ended.
#[test]
fn attach_without_an_id_finds_the_newest_running_terminal() {
    let sandbox = sandbox();
    let run = ["run", "--background", "--json", "--", "until [ -e gate ]; do sleep .02; done"];
    let piped = sandbox.siding(&run).run().expect_code(0).json();
    let mut terminal = Terminal::new(100, 30);
    let refused = sandbox.siding(&["attach"]).on_terminal(&terminal).run();
    assert_eq!(refused.code, Some(125), "{refused}");
    terminal.wait_for_row("siding: no running task has a terminal");
    terminal.wait_for_row("`siding ps` lists the tasks");
    let task = TerminalTask::start(&sandbox, "echo painted; read -r _; exit 9");
    task.wait_for("input");
    let ended = TerminalTask::start(&sandbox, "true");
    let _outcome = ended.wait_outcome();
    let call = sandbox.siding(&["attach"]).on_terminal(&terminal).spawn();
    terminal.wait_for_row("painted");
    terminal.send_keys("\r");
    assert_eq!(call.wait().code, Some(9));
    let shown = terminal.scrollback_text();
    assert!(shown.contains(&format!("siding: {}: ", task.id)), "{shown}");
    write_file(&sandbox, "gate", "");
    let _outcome = TerminalTask::from_view(&sandbox, &piped).wait_outcome();
}

#[test]
fn attach_without_a_terminal_is_refused() {
    let sandbox = sandbox();
    let task = TerminalTask::start(&sandbox, "read -r _");
    expect_refusal(sandbox.siding(&["attach", &task.id]).run(), "attach needs a terminal");
    task.type_keys(&["Enter"]);
    let _ended = task.wait_outcome();
    let terminal = Terminal::new(80, 24);
    let done = sandbox.siding(&["attach", &task.id]).on_terminal(&terminal).run();
    assert_eq!(done.code, Some(125), "{done}");
}
