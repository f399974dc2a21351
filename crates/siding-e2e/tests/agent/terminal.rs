//! `siding agent` at a terminal: keys, signals, approvals, and the terminal's modes after the exit.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::process::Signal;
use siding_core::sys::tty;
use siding_e2e::{Invocation, RunningProgram, Sandbox, Terminal, eventually, processes};

use super::{agent_with_script, entries_of_kind, sandbox, transcript, wait_until_said_command};

const CTRL_B: &str = "\x02";
const CTRL_C: &str = "\x03";
pub(super) const CTRL_D: &str = "\x04";
const CTRL_Z: &str = "\x1a";
const ESCAPE: &str = "\x1b";

/// An agent at a terminal. When a constructor returns, the agent waits for its first prompt.
pub(super) struct TerminalSession {
    pub(super) terminal: Terminal,
    agent: RunningProgram,
    /// The terminal's modes before the agent was started, as they must be after its exit.
    initial_modes: String,
}

impl TerminalSession {
    fn start(sandbox: &Sandbox, script: &str) -> Self {
        Self::start_with_args(sandbox, script, &[])
    }

    fn start_with_args(sandbox: &Sandbox, script: &str, args: &[&str]) -> Self {
        Self::spawn_on_terminal(agent_with_script(sandbox, script, args))
    }

    pub(super) fn spawn_on_terminal(agent: Invocation) -> Self {
        let mut terminal = Terminal::new(80, 24);
        let before = terminal.modes();
        let agent = agent.on_terminal(&terminal).spawn();
        terminal.wait_for_row("ready");
        assert_ne!(terminal.modes(), before, "the terminal must be in raw mode");
        Self { terminal, agent, initial_modes: before }
    }

    pub(super) fn type_line(&self, text: &str) {
        self.terminal.send_keys(&format!("{text}\r"));
    }

    /// Kills the agent before its terminal is closed, because closing the terminal would make the
    /// agent exit by itself.
    pub(super) fn kill(self) {
        self.agent.process().kill();
        let _killed = self.agent.wait();
    }

    /// Waits for the agent's exit, asserts that the terminal's modes are restored, and returns all
    /// text that was shown.
    #[track_caller]
    pub(super) fn expect_exit(mut self, code: i32) -> String {
        let done = self.agent.wait();
        let shown = self.terminal.scrollback_text();
        assert_eq!(done.code, Some(code), "{shown}");
        assert_eq!(
            self.terminal.modes(),
            self.initial_modes,
            "the terminal's modes were not restored"
        );
        shown
    }
}

/// Returns the name of the only agent's session.
fn only_session(sandbox: &Sandbox) -> String {
    let sessions =
        std::fs::read_dir(sandbox.state_dir().join("sessions")).expect("the sessions directory");
    let names = sessions.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.into_iter().find(|name| name.starts_with("agent-")).expect("the entry exists")
}

fn show_task(sandbox: &Sandbox, id: &str) -> serde_json::Value {
    sandbox.siding(&["show", id, "--json"]).run().expect_code(0).json()
}

#[test]
fn prompt_is_answered_and_the_terminal_restored() {
    let sandbox = sandbox();
    let script = r#"
        [[answer]]
        expect = '^say hel你o$'
        text = ["I run", " it."]
        [[answer.call]]
        tool = "bash"
        input = { command = "echo 'hel''lo'; exit 3" }
        [[answer]]
        expect = '(?s)exited 3.*output:\nhello'
        text = "It said hello, and failed."
    "#;
    let mut talk = TerminalSession::start(&sandbox, script);
    // Backspace (`\x7f`) deletes a mistyped character.
    talk.type_line("say hell\x7f你o");
    talk.terminal.wait_for_text("It said hello, and failed.");
    talk.terminal.wait_for_row("ready");
    talk.terminal.send_keys(CTRL_D);
    let shown = talk.expect_exit(0);
    for part in ["> say hel你o\n", "\nI run it.\n", "$ echo 'hel''lo'; exit 3\n", "resume agent-"]
    {
        assert!(shown.contains(part), "no {part:?} in {shown}");
    }
}

/// Failure F23: Ctrl-B moves the running command to the background immediately, and the command's
/// end wakes the idle agent.
#[test]
fn ctrl_b_backgrounds_a_command_and_its_end_wakes_the_agent() {
    let sandbox = sandbox();
    let may_end = sandbox.path("may-end");
    let command = format!(
        "echo begun $$; until [ -e {} ]; do sleep 0.05; done; echo over $$",
        may_end.display()
    );
    let script = format!(
        r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = {{ command = "{command}", budget = 600 }}
        [[answer]]
        expect = '(?s)(?<task>b-[0-9a-z]{{12}})  running .*in the background, .*output:\nbegun'
        text = "It goes on as ${{task}}."
        [[answer]]
        expect = '(?s)^<task_notification>.*<status>completed</status>.*over'
        text = "It is over."
        "#
    );
    let mut talk = TerminalSession::start(&sandbox, &script);
    talk.type_line("build");
    talk.terminal.wait_for_row("  begun ");
    talk.terminal.send_keys(CTRL_B);
    talk.terminal.wait_for_text("It goes on as b-");
    let id = sandbox.task_ids().pop().expect("the task is listed");
    let view = show_task(&sandbox, &id);
    assert_eq!(view["placement"]["why"], "user", "{view}");
    assert_eq!(view["phase"], "running", "{view}");
    std::fs::write(&may_end, "").expect("test file");
    talk.terminal.wait_for_text("It is over.");
    talk.terminal.wait_for_row("ready");
    talk.terminal.send_keys(CTRL_D);
    let shown = talk.expect_exit(0);
    assert!(shown.contains(&format!("* {id}  completed (0)  echo begun")), "{shown}");
    let lines = transcript(&sandbox, &only_session(&sandbox));
    assert_eq!(
        entries_of_kind(&lines, "call_started").len(),
        1,
        "a call was started twice: {lines:#?}"
    );
}

/// Failures F9 and F10: an interrupt ends only the foreground command. Quitting stops the other
/// tasks, after a warning.
#[test]
fn interrupt_ends_the_foreground_and_exit_ends_the_rest() {
    let sandbox = sandbox();
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "sleep 301", run_in_background = true }
        [[answer.call]]
        tool = "bash"
        input = { command = "echo begun; sleep 302", budget = 600 }
        [[answer.call]]
        tool = "bash"
        input = { command = "echo never" }
        [[answer]]
        expect = '(?s)not run: a person interrupted.*go on$'
        text = "I go on."
    "#;
    let mut talk = TerminalSession::start(&sandbox, script);
    talk.type_line("start");
    talk.terminal.wait_for_row("  begun");
    talk.terminal.send_keys(ESCAPE);
    talk.terminal.wait_for_text("! interrupted");
    talk.terminal.wait_for_row("ready");
    let [background, foreground] = ["sleep 301", "sleep 302"].map(|command| {
        let all = sandbox.task_ids().into_iter().map(|id| show_task(&sandbox, &id));
        let is_it = |view: &serde_json::Value| {
            view["command"].as_str().is_some_and(|text| text.contains(command))
        };
        all.into_iter().find(is_it).expect("the entry exists")
    });
    assert_eq!(background["phase"], "running", "{background}");
    assert_eq!(foreground["phase"], "ended", "{foreground}");
    assert_eq!(sandbox.task_ids().len(), 2, "the third command must not start");
    talk.type_line("go on");
    talk.terminal.wait_for_text("I go on.");
    talk.terminal.wait_for_row("ready");
    talk.terminal.send_keys(CTRL_D);
    let id = background["task_id"].as_str().expect("an id");
    talk.terminal.wait_for_text("will be stopped when you quit");
    talk.terminal.wait_for_text(&format!("{id}  sleep 301"));
    talk.terminal.send_keys(CTRL_D);
    let shown = talk.expect_exit(0);
    assert_eq!(shown.matches("! interrupted").count(), 1, "{shown}");
    assert!(shown.contains(&format!("ended  {id}  stopped")), "{shown}");
    assert_eq!(show_task(&sandbox, id)["phase"], "ended");
}

#[test]
fn fatal_signal_restores_the_terminal_and_ends_all_tasks() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::QUIT, 131)] {
        let sandbox = sandbox();
        let script = r#"
            [[answer]]
            [[answer.call]]
            tool = "bash"
            input = { command = "echo begun; sleep 300", budget = 600 }
        "#;
        let mut talk = TerminalSession::start(&sandbox, script);
        talk.type_line("start");
        talk.terminal.wait_for_row("  begun");
        talk.agent.signal(signal);
        let shown = talk.expect_exit(code);
        assert!(shown.contains("ended by SIG"), "{shown}");
    }
}

/// Starts an agent at a terminal that accepts no output, as with a stalled ssh connection. The
/// model creates the file `begun` after it has started a task, and the file `woken` when the task's
/// end has woken the agent.
fn start_at_stalled_terminal(sandbox: &Sandbox) -> TerminalSession {
    let script = r#"
        [[answer]]
        text = "I begin."
        [[answer.call]]
        tool = "bash"
        input = { command = "WAIT", run_in_background = true }
        [[answer.call]]
        tool = "write_file"
        input = { path = "begun", content = "" }
        [[answer]]
        text = "I am told."
        [[answer]]
        expect = '<status>completed</status>'
        [[answer.call]]
        tool = "write_file"
        input = { path = "woken", content = "" }
        [[answer]]
        text = "All is done."
    "#;
    let script = script.replace("WAIT", &wait_until_said_command(sandbox, "I am told"));
    let talk = TerminalSession::start(sandbox, &script);
    talk.terminal.suspend_output();
    talk.type_line("start");
    eventually("the agent works although the terminal accepts nothing", || {
        sandbox.path("begun").exists()
    });
    talk
}

#[test]
fn stalled_terminal_delays_neither_tasks_nor_notices() {
    let sandbox = sandbox();
    let mut talk = start_at_stalled_terminal(&sandbox);
    eventually("the agent is woken although the terminal accepts nothing", || {
        sandbox.path("woken").exists()
    });
    // When the terminal accepts output again, the agent shows all output that was delayed, and the
    // current state.
    talk.terminal.resume_output();
    talk.terminal.wait_for_text("All is done.");
    talk.terminal.wait_for_row("ready");
    talk.terminal.send_keys(CTRL_D);
    let shown = talk.expect_exit(0);
    assert!(shown.contains("I begin.") && shown.contains("I am told."), "{shown}");
}

#[test]
fn signal_ends_an_agent_at_a_stalled_terminal() {
    for signal in [Signal::TERM, Signal::HUP] {
        let sandbox = sandbox();
        let talk = start_at_stalled_terminal(&sandbox);
        talk.agent.signal(signal);
        let TerminalSession { terminal, agent, initial_modes: before } = talk;
        let done = agent.wait();
        assert_eq!(done.code, Some(128 + signal.as_raw()), "{done}");
        assert_eq!(terminal.modes(), before, "the terminal's modes were not restored");
    }
}

#[test]
fn closing_the_terminal_ends_the_agent() {
    let sandbox = sandbox();
    let talk = TerminalSession::start(&sandbox, "[[answer]]\ntext = \"Never said.\"\n");
    let TerminalSession { terminal, agent, .. } = talk;
    terminal.close();
    let _ended = agent.wait().expect_code(129);
}

/// Ctrl-Z restores the terminal's modes for the shell, and SIGCONT, which `fg` sends, sets the
/// agent's modes again.
#[test]
fn suspended_agent_restores_the_terminal_until_continued() {
    let sandbox = sandbox();
    let mut talk = TerminalSession::start(&sandbox, "[[answer]]\ntext = \"Here I am.\"\n");
    talk.terminal.send_keys(CTRL_Z);
    let pid = talk.agent.process().pid;
    eventually("the agent is stopped", || processes::state(pid) == Some('T'));
    assert_eq!(talk.terminal.modes(), talk.initial_modes);
    talk.agent.signal(Signal::CONT);
    eventually("the agent controls the terminal again", || {
        talk.terminal.modes() != talk.initial_modes
    });
    talk.type_line("hello");
    talk.terminal.wait_for_text("Here I am.");
    talk.terminal.wait_for_row("ready");
    let shown = talk.terminal.scrollback_text();
    assert_eq!(shown.matches("ready").count(), 1, "the status must be drawn once: {shown}");
    talk.terminal.send_keys(CTRL_D);
    let _shown = talk.expect_exit(0);
}

/// A panic hook restores the terminal's modes, because a release build aborts without running
/// destructors.
#[test]
fn panic_restores_the_terminal() {
    let terminal = Terminal::new(80, 24);
    let before = terminal.modes();
    let raw = tty::KeyMode::enter_raw(terminal.device_fd()).expect("the descriptor is a terminal");
    let raw = Arc::new(raw);
    assert_ne!(terminal.modes(), before);
    let output: OwnedFd =
        terminal.device_fd().try_clone().expect("the limit leaves a free descriptor");
    tty::restore_on_panic(&raw, output, "\x1b[?25h");
    let ended = std::thread::spawn(|| panic!("panic requested by the test")).join();
    assert!(ended.is_err());
    assert_eq!(
        terminal.modes(),
        before,
        "the modes must be restored while the mode guard still exists"
    );
}

/// Text that a user types during a turn is sent with the next tool results, without waiting for the
/// end of the turn.
#[test]
fn input_during_a_turn_is_sent_with_the_tool_results() {
    let sandbox = sandbox();
    let may_end = sandbox.path("may-end");
    let script = format!(
        r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = {{ command = "echo begun; until [ -e {} ]; do sleep 0.05; done; echo over", budget = 600 }}
        [[answer]]
        expect = '(?s)output:\nbegun\nover.*and be quick$'
        text = "I am."
        "#,
        may_end.display()
    );
    let mut talk = TerminalSession::start(&sandbox, &script);
    talk.type_line("build");
    talk.terminal.wait_for_row("  begun");
    talk.type_line("and be quick");
    talk.terminal.wait_for_row("next: and be quick");
    std::fs::write(&may_end, "").expect("test file");
    talk.terminal.wait_for_text("I am.");
    talk.terminal.wait_for_row("ready");
    talk.terminal.send_keys(CTRL_C);
    talk.terminal.wait_for_row("again to quit");
    talk.terminal.send_keys(CTRL_C);
    let _shown = talk.expect_exit(0);
}

#[test]
fn doubtful_command_asks_the_user_for_approval() {
    let sandbox = sandbox();
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "sudo -n true; echo asked" }
        [[answer]]
        expect = '(?s)not run: a person .* has refused: '
        [[answer.call]]
        tool = "bash"
        input = { command = "sudo -n true; echo as''ked" }
        [[answer]]
        expect = '(?s)output:.*\basked'
        text = "Thank you."
    "#;
    let mut talk = TerminalSession::start(&sandbox, script);
    talk.type_line("ask me");
    talk.terminal.wait_for_row("run it? y or n");
    assert!(sandbox.task_ids().is_empty(), "the command ran without approval");
    talk.terminal.send_keys(ESCAPE);
    talk.terminal.wait_for_row("$ sudo -n true; echo as''ked");
    talk.terminal.wait_for_row("run it? y or n");
    talk.type_line("y");
    talk.terminal.wait_for_text("Thank you.");
    talk.terminal.wait_for_row("ready");
    assert_eq!(sandbox.task_ids().len(), 1);
    talk.terminal.send_keys(CTRL_D);
    let _shown = talk.expect_exit(0);
}

#[test]
fn agent_works_in_a_small_terminal() {
    let sandbox = sandbox();
    let script = r#"
        [[answer]]
        text = "一二三四五六七八九十 and words after them"
    "#;
    let mut talk = TerminalSession::start(&sandbox, script);
    talk.terminal.resize(24, 8);
    talk.agent.signal(Signal::WINCH);
    talk.type_line("count, in words that take more than one row");
    talk.terminal.wait_for_text("after them");
    talk.terminal.wait_for_row("ready");
    let screen = talk.terminal.screen();
    assert!(screen.iter().any(|row| row == "一二三四五六七八九十 and"), "{screen:#?}");
    talk.terminal.send_keys(CTRL_D);
    let _shown = talk.expect_exit(0);
}

/// `--resume` at a terminal shows the earlier conversation and continues it.
#[test]
fn conversation_can_be_resumed_at_a_terminal() {
    let sandbox = sandbox();
    let script =
        "[[answer]]\ntext = \"First.\"\n[[answer]]\nexpect = '^again$'\ntext = \"Second.\"\n";
    let done = agent_with_script(&sandbox, script, &["-p", "begin"]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "First.\n");
    let session = only_session(&sandbox);
    let mut talk = TerminalSession::start_with_args(&sandbox, script, &["--resume", &session]);
    talk.terminal.wait_for_text("> begin\n\nFirst.\n");
    // The Up key recalls the previous prompt, and Ctrl-U deletes the recalled text.
    talk.terminal.send_keys("\x1b[A\x15again\r");
    talk.terminal.wait_for_text("Second.");
    talk.terminal.wait_for_row("ready");
    talk.terminal.send_keys(CTRL_D);
    let _shown = talk.expect_exit(0);
}

#[test]
fn without_a_terminal_the_error_names_the_prompt_flag() {
    let sandbox = Sandbox::new();
    let none = agent_with_script(&sandbox, "", &[]).run().expect_code(125);
    assert!(
        none.stderr_text().contains("is not a terminal") && none.stderr_text().contains("-p TEXT"),
        "{}",
        none.stderr_text()
    );
    let json = agent_with_script(&sandbox, "", &["--json"]).run().expect_code(125);
    assert!(json.stderr_text().contains("-p TEXT"), "{}", json.stderr_text());
    let mut terminal = Terminal::new(80, 24);
    let dumb =
        agent_with_script(&sandbox, "", &[]).on_terminal(&terminal).env("TERM", "dumb").run();
    let _refused = dumb.expect_code(125);
    terminal.wait_for_text("TERM=dumb");
    assert!(!terminal.scrollback_text().contains("ready"), "the agent started too early");
}
