//! Keys and sizes for a terminal on a machine whose answer is lost, late or a refusal. A script
//! takes the place of the machine.

use std::path::{Path, PathBuf};

use siding_e2e::{ProgramOutput, RunningProgram, Sandbox, Terminal, eventually};
use siding_model::process::{MonotonicMs, UnixMs};
use siding_model::protocol::{MAX_TERMINAL_WRITE_BYTES, ShimMessage};
use siding_model::remote::RemoteMessage;
use siding_model::terminal::{TerminalFacts, TerminalInput, TerminalSize};

use crate::fake_ssh::FakeSsh;
use crate::local_tasks::{task_id, wait_for_outcome};
use crate::pending_stops::{hello, print_command};
use crate::{create_file, sandbox, wait_for_file_command};

/// The keys that detach: Ctrl-\ twice.
const DETACH: &str = "\x1c\x1c";
/// Breaks the connection without an answer.
const BREAK: &str = "exit 255";

/// Returns a shell text that sends a message in response to the request `$number`.
fn respond(message: ShimMessage) -> String {
    let number = 987_654_321;
    let line = serde_json::to_string(&RemoteMessage::Shim { number, message });
    let line = line.expect("a message is JSON");
    let (before, after) = line.split_once(&number.to_string()).expect("the number is in the line");
    format!("printf '%s%s%s\\n' '{before}' \"$number\" '{after}'")
}

/// Returns a shell text that answers the request `$number` to write, as after all keys were typed.
fn accept_keys() -> String {
    let written = respond(ShimMessage::TerminalWritten { accepted: MAX_TERMINAL_WRITE_BYTES });
    format!("{written}; {}", respond(ShimMessage::Done))
}

/// The answers of a machine that runs a task with a terminal, as shell texts.
struct Answers<'a> {
    before_hello: &'a str,
    /// Whether the terminal echoes typed lines.
    echo: bool,
    on_resize: &'a str,
    on_keys: &'a str,
}

impl Answers<'_> {
    /// Returns the script of the machine, which appends each received request to `log`.
    fn script(&self, log: &Path) -> String {
        let Self { before_hello, echo, on_resize, on_keys } = self;
        let accepted =
            print_command(&RemoteMessage::Accepted { at: MonotonicMs(1), wall: UnixMs(1) });
        let facts = respond(ShimMessage::Terminal {
            facts: TerminalFacts {
                output_bytes: 0,
                size: TerminalSize::DEFAULT,
                input: TerminalInput { echo: *echo, canonical: true, reader: None },
                is_reader_hidden: false,
                has_unread_input: false,
                taken_for_ms: None,
                is_leader_in_foreground: true,
            },
        });
        let (hello, done, log) = (hello(), respond(ShimMessage::Done), log.display());
        format!(
            "{before_hello}\n{hello}; read -r _; {accepted}\n\
             while read -r line; do\n\
             printf '%s\\n' \"$line\" >> {log}\n\
             number=${{line#*'\"number\":'}}; number=${{number%%,*}}\n\
             case $line in\n\
             *'\"do\":\"terminal\"'*) {facts}; {done};;\n\
             *'\"do\":\"terminal_resize\"'*) {on_resize};;\n\
             *'\"do\":\"terminal_write\"'*) {on_keys};;\n\
             *'\"do\":\"stop\"'*) {BREAK};;\n\
             *) {done};;\n\
             esac; done"
        )
    }
}

/// A task with a terminal on such a machine.
struct RemoteTerminal<'s> {
    sandbox: &'s Sandbox,
    id: String,
    log: PathBuf,
}

impl<'s> RemoteTerminal<'s> {
    /// Starts the task. The next connection finds that the machine does not know the task.
    #[track_caller]
    fn start(sandbox: &'s Sandbox, answers: &Answers<'_>) -> Self {
        let (log, connected) = (sandbox.path("requests"), sandbox.path("connected"));
        let script = format!(": > {}; {}", connected.display(), answers.script(&log));
        let fake = FakeSsh::new(sandbox, &script);
        let args = ["run", "--background", "--pty", "--json", "--on", "build", "--", "true"];
        let id = task_id(&fake.siding(&args).run().expect_code(0));
        eventually("the script runs", || connected.exists());
        let unknown = print_command(&RemoteMessage::Unknown);
        fake.replace(&format!("{}; read -r _; {unknown}", hello()));
        Self { sandbox, id, log }
    }

    /// Waits until requests are forwarded to the machine.
    #[track_caller]
    fn wait_until_followed(&self) {
        eventually("requests reach the machine", || {
            self.call("keys", &["--wait-for", "idle"]).code == Some(0)
        });
    }

    fn call(&self, command: &str, args: &[&str]) -> ProgramOutput {
        self.sandbox.siding(&[&[command, &self.id], args].concat()).run()
    }

    /// Attaches a terminal of 100 columns and 30 rows.
    #[track_caller]
    fn attach(&self) -> (Terminal, RunningProgram) {
        let terminal = Terminal::new(100, 30);
        let before = terminal.modes();
        let call = self.sandbox.siding(&["attach", &self.id]).on_terminal(&terminal).spawn();
        eventually("the call reads keys", || terminal.modes() != before);
        (terminal, call)
    }

    /// Returns the number of the received requests that contain `part`.
    fn received(&self, part: &str) -> usize {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        log.lines().filter(|line| line.contains(part)).count()
    }

    /// Waits until the machine has received keys, as hexadecimal digits.
    #[track_caller]
    fn wait_for_keys(&self, digits: &str) {
        let bytes = format!("\"bytes\":\"{digits}\"");
        eventually("the keys reach the machine", || self.received(&bytes) == 1);
    }

    #[track_caller]
    fn expect_lost(&self) {
        assert_eq!(wait_for_outcome(self.sandbox, &self.id)["kind"], "lost");
    }

    /// Leaves the attached terminal, ends the task, and returns all text that was shown.
    #[track_caller]
    fn finish(self, mut terminal: Terminal, call: RunningProgram) -> String {
        terminal.send_keys(DETACH);
        let _left = call.wait().expect_code(0);
        let _ended = self.call("stop", &[]);
        assert!(wait_for_outcome(self.sandbox, &self.id)["kind"].is_string());
        terminal.scrollback_text()
    }
}

/// The machine may have typed the keys, so a caller must not repeat them unseen.
#[test]
fn keys_whose_answer_is_lost_are_not_reported_as_refused() {
    let sandbox = sandbox();
    let answers = Answers { before_hello: ":", echo: true, on_resize: ":", on_keys: BREAK };
    let remote = RemoteTerminal::start(&sandbox, &answers);
    remote.wait_until_followed();
    let done = remote.call("keys", &["y", "Enter"]).expect_code(125);
    let message = done.stderr_text();
    let screen = format!("read the screen with `siding screen {}`", remote.id);
    for part in ["unknown whether the keys were typed", "broke before its answer", &screen] {
        assert!(message.contains(part), "no {part}: {done}");
    }
    assert!(!message.contains("try again") && !message.contains("no key was sent"), "{done}");
    remote.wait_for_keys("790d");
    remote.expect_lost();
}

#[test]
fn a_secret_whose_answer_is_lost_is_not_reported_as_refused() {
    let sandbox = sandbox();
    let answers = Answers { before_hello: ":", echo: false, on_resize: ":", on_keys: BREAK };
    let remote = RemoteTerminal::start(&sandbox, &answers);
    remote.wait_until_followed();
    // One row contains the whole message.
    let mut terminal = Terminal::new(300, 24);
    let call = sandbox.siding(&["answer", &remote.id]).on_terminal(&terminal).spawn();
    terminal.wait_for_text("secret:");
    terminal.send_keys("hunter2\r");
    let _unknown = call.wait().expect_code(125);
    let shown = terminal.scrollback_text();
    assert!(shown.contains("unknown whether the secret was typed"), "{shown}");
    assert!(!shown.contains("hunter2") && !shown.contains("try again"), "{shown}");
    remote.expect_lost();
}

/// A person at the terminal sees the same, and the next keys are refused as before.
#[test]
fn a_person_learns_that_keys_may_have_been_typed() {
    let sandbox = sandbox();
    let on_resize = respond(ShimMessage::Done);
    let answers = Answers { before_hello: ":", echo: true, on_resize: &on_resize, on_keys: BREAK };
    let remote = RemoteTerminal::start(&sandbox, &answers);
    remote.wait_until_followed();
    let (mut terminal, call) = remote.attach();
    terminal.send_keys("y");
    let ended = call.wait();
    let shown = terminal.scrollback_text();
    assert!(shown.contains("unknown whether the last keys were typed"), "{ended}: {shown}");
    assert!(!shown.contains("not typed"), "{shown}");
    remote.wait_for_keys("79");
    remote.expect_lost();
}

/// The machine refuses the size while keys are unanswered, and then accepts the keys.
#[test]
fn a_refused_size_drops_no_keys() {
    let sandbox = sandbox();
    let refused = respond(ShimMessage::ResizeRefused { why: "the disk is full".to_owned() });
    let on_keys = format!(
        "if [ -n \"$resize\" ]; then keys=$number; number=$resize; {refused}; number=$keys; \
         resize=; fi; {}",
        accept_keys()
    );
    let on_resize = "resize=$number";
    let answers = Answers { before_hello: ":", echo: true, on_resize, on_keys: &on_keys };
    let remote = RemoteTerminal::start(&sandbox, &answers);
    remote.wait_until_followed();
    let (terminal, call) = remote.attach();
    eventually("the size is unanswered", || remote.received("terminal_resize") == 1);
    terminal.send_keys("a");
    remote.wait_for_keys("61");
    terminal.send_keys("b");
    remote.wait_for_keys("62");
    let shown = remote.finish(terminal, call);
    assert!(!shown.contains("not typed"), "{shown}");
}

/// The mirror keeps a size and keys until the machine answers for the first time.
#[test]
fn a_size_before_the_first_answer_of_the_machine_is_kept() {
    let sandbox = sandbox();
    let gate = sandbox.path("gate");
    let (wait, on_resize) = (wait_for_file_command(&gate), respond(ShimMessage::Done));
    let on_keys = accept_keys();
    let answers =
        Answers { before_hello: &wait, echo: true, on_resize: &on_resize, on_keys: &on_keys };
    let remote = RemoteTerminal::start(&sandbox, &answers);
    let (terminal, call) = remote.attach();
    terminal.send_keys("k");
    create_file(&gate);
    eventually("the size reaches the machine", || remote.received("\"columns\":100") > 0);
    remote.wait_for_keys("6b");
    let shown = remote.finish(terminal, call);
    assert!(!shown.contains("not typed"), "{shown}");
}
