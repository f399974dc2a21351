//! Tasks with a terminal on another machine, which persons and agents use from this one.

use rustix::process::Signal;
use serde_json::{Value, json};
use siding_e2e::{
    Invocation, Process, ProgramOutput, RunningProgram, Sandbox, Terminal, eventually,
};

use crate::input::files_with;
use crate::local_tasks::{kill_process, kill_shim, show_task, task_id, wait_for_outcome};
use crate::slurm_cluster::SlurmCluster;
use crate::ssh_remote::SshRemote;
use crate::{create_file, sandbox, wait_for_file_command};

/// Answers each line after a moment; for the line `size` it prints the size of its terminal.
const ANSWER: &str = "echo up; while read -r line; do sleep .2; echo \"got:$line\"; \
                      [ \"$line\" = size ] && stty size; done";
/// The output of [`ANSWER`] before it reads.
const FIRST_OUTPUT: &str = "up\r\n";
/// The flags of a call for [`start_with_terminal`].
const TERMINAL_FLAGS: [&str; 2] = ["--background", "--pty"];
const CTRL_C: &str = "\x03";
/// The keys that detach: Ctrl-\ twice.
const DETACH: &str = "\x1c\x1c";

/// A person's terminal of 100 columns and 30 rows that is connected with a task.
struct Person {
    terminal: Terminal,
    call: RunningProgram,
}

impl Person {
    /// Attaches a terminal, and waits until it shows `row`.
    #[track_caller]
    fn attach(sandbox: &Sandbox, id: &str, row: &str) -> Self {
        let mut terminal = Terminal::new(100, 30);
        let call = sandbox.siding(&["attach", id]).on_terminal(&terminal).spawn();
        terminal.wait_for_row(row);
        Self { terminal, call }
    }

    /// Types a line, and waits until the program has answered it.
    #[track_caller]
    fn say(&mut self, line: &str) {
        self.terminal.send_keys(&format!("{line}\r"));
        self.terminal.wait_for_row(&format!("got:{line}"));
    }

    /// Changes the size of the terminal, as by a person who resizes its window.
    fn resize(&mut self, columns: u16, rows: u16) {
        self.terminal.resize(columns, rows);
        self.call.signal(Signal::WINCH);
    }

    #[track_caller]
    fn detach(self) {
        self.terminal.send_keys(DETACH);
        let _left = self.call.wait().expect_code(0);
    }
}

/// Starts a prepared call with [`TERMINAL_FLAGS`], and returns the task's id. Only a
/// detachment returns the terminal of the task to agents: with the default `attach_idle`, the
/// terminal would be returned while a test waits for the effect of a detachment, and on a slow
/// machine between two keys of a person.
#[track_caller]
fn start_with_terminal(run: Invocation) -> String {
    task_id(&run.env("SIDING_ATTACH_IDLE", "1h").run().expect_code(0))
}

/// Types as an agent.
fn type_keys(sandbox: &Sandbox, id: &str, args: &[&str]) -> ProgramOutput {
    sandbox.siding(&[&["keys", id], args].concat()).run()
}

/// Waits for a condition of a task's terminal.
#[track_caller]
fn wait_for(sandbox: &Sandbox, id: &str, condition: &str) {
    let args = ["wait", "--timeout", "30s", id, "--for", condition];
    let _met = sandbox.siding(&args).run().expect_code(0);
}

/// Types a line as an agent, waits until the program reads again, and returns the screen that the
/// call prints.
#[track_caller]
fn say(sandbox: &Sandbox, id: &str, line: &str) -> Value {
    let args = [line, "Enter", "--wait-for", "input", "--timeout", "30s", "--json"];
    let done = type_keys(sandbox, id, &args).expect_code(0);
    let view = done.json();
    assert_eq!(view["wait"], "met", "{done}");
    let screen = view["screen"].clone();
    assert!(screen["rows"].to_string().contains(&format!("got:{line}")), "{done}");
    screen
}

#[track_caller]
fn expect_agent_refused(done: ProgramOutput) {
    let done = done.expect_code(125);
    assert!(done.stderr_text().contains("a person has had the terminal"), "{done}");
}

#[track_caller]
fn stop(sandbox: &Sandbox, id: &str) {
    let args = ["stop", "--grace", "0s", "--json", id];
    let stopped = sandbox.siding(&args).run().expect_code(0).json();
    assert_eq!(stopped["outcome"]["kind"], "stopped", "{stopped}");
}

/// Starts a call of siding in the foreground of a terminal that controls its session.
#[track_caller]
fn start_on(remote: &SshRemote<'_>, terminal: &Terminal, args: &[&str]) -> RunningProgram {
    let line = format!("exec {}", remote.sandbox.siding_line(args));
    let args = ["--ctty", "--wait", "bash", "--norc", "--noprofile", "-c", &line];
    let call = remote.sandbox.host("setsid", &args).env("PATH", remote.path_variable());
    call.on_terminal(terminal).spawn()
}

/// Returns the id of the only task of a sandbox, once it exists.
#[track_caller]
fn only_task(sandbox: &Sandbox) -> String {
    eventually("the task is recorded", || !sandbox.task_ids().is_empty());
    let ids = sandbox.task_ids();
    let [id] = ids.as_slice() else { panic!("expected one task: {ids:?}") };
    id.clone()
}

/// An agent holds a dialog with a program on the other machine.
#[track_caller]
fn expect_dialog(sandbox: &Sandbox, id: &str) {
    // The call returns only when the answer has arrived, although the other machine reports earlier
    // that the program reads.
    let first = say(sandbox, id, "one");
    let hash = first["hash"].as_str().expect("a text").to_owned();
    let _screen = say(sandbox, id, "two");
    let done = type_keys(sandbox, id, &["--if-screen", &hash, "x"]).expect_code(125);
    assert!(done.stderr_text().contains("the screen has changed"), "{done}");
    let screen = sandbox.siding(&["screen", "--json", id]).run().expect_code(0).json();
    let hash = screen["hash"].as_str().expect("a text");
    let args = ["--if-screen", hash, "three", "Enter"];
    let _typed = type_keys(sandbox, id, &args).expect_code(0);
    wait_for(sandbox, id, "screen:^got:three$");
}

/// A person takes the terminal with the first key, and releases it by detaching.
#[track_caller]
fn expect_lease(sandbox: &Sandbox, id: &str) {
    let mut person = Person::attach(sandbox, id, "up");
    person.say("person");
    // The lease must outlast the response to the key.
    expect_agent_refused(type_keys(sandbox, id, &["x", "Enter"]));
    person.say("again");
    expect_agent_refused(type_keys(sandbox, id, &["x", "Enter"]));
    eventually("it is recorded here that a person has the terminal", || {
        show_task(sandbox, id)["terminal"]["taken_since"].is_string()
    });
    person.detach();
    eventually("an agent may type again", || {
        type_keys(sandbox, id, &["agent", "Enter"]).code == Some(0)
    });
    let statuses = || -> Vec<Value> {
        let notices = sandbox.siding(&["notices", "--json"]).run().expect_code(0).json();
        let notices = notices.as_array().expect("a list").iter();
        let of_terminal =
            notices.filter(|notice| notice["task_id"] == id && notice["kind"] == "terminal");
        of_terminal.map(|notice| notice["status"].clone()).collect()
    };
    eventually("the agent learns of the return", || statuses() == ["terminal_returned"]);
    let journal = sandbox.state_dir().join("tasks").join(id).join("journal");
    let journal = std::fs::read_to_string(journal).expect("the task is recorded");
    for event in ["taken", "returned"] {
        assert_eq!(journal.matches(&format!(r#""terminal":"{event}""#)).count(), 1, "{journal}");
    }
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn an_agent_types_into_a_remote_terminal() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let id = start_with_terminal(remote.run(&TERMINAL_FLAGS, ANSWER));
    remote.wait_for_output(&id, FIRST_OUTPUT.len());
    expect_dialog(&sandbox, &id);
    stop(&sandbox, &id);
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_person_has_a_remote_terminal_on_both_machines() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let id = start_with_terminal(remote.run(&TERMINAL_FLAGS, ANSWER));
    remote.wait_for_output(&id, FIRST_OUTPUT.len());
    expect_lease(&sandbox, &id);
    let mut person = Person::attach(&sandbox, &id, "up");
    person.say("person2");
    expect_agent_refused(remote.remote_siding(&["keys", &id, "x"]).run());
    // The end of the person's program has the same effect as a detach.
    kill_process(person.call.process());
    eventually("an agent may type again", || {
        remote.remote_siding(&["keys", &id, "y"]).run().code == Some(0)
    });
    stop(&sandbox, &id);
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_person_sees_an_interruption_and_continues_after_it() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let id = start_with_terminal(remote.run(&TERMINAL_FLAGS, ANSWER));
    remote.wait_for_output(&id, FIRST_OUTPUT.len());
    let mut person = Person::attach(&sandbox, &id, "up");
    person.say("size");
    person.terminal.wait_for_row("30 100");
    remote.cut();
    person.terminal.wait_for_text("its machine is not reachable");
    person.resize(110, 35);
    person.terminal.send_keys("lost\r");
    person.terminal.wait_for_text("not typed:");
    let done = type_keys(&sandbox, &id, &["x"]).expect_code(125);
    assert!(done.stderr_text().contains("build is not reachable since"), "{done}");
    remote.restore();
    person.terminal.wait_for_text("reachable again");
    eventually("the other machine has the new size", || {
        remote.remote_show(&id)["terminal"]["size"] == json!({"columns": 110, "rows": 35})
    });
    person.say("after");
    person.detach();
    assert!(!remote.output(&id).contains("lost"), "{}", remote.output(&id));
    stop(&sandbox, &id);
}

/// Types until a key arrives on the other machine, because keys are lost until the next shim and
/// the next connection exist. Then types a line.
#[track_caller]
fn say_after_kill(remote: &SshRemote<'_>, id: &str, person: &mut Person, line: &str) {
    let known = remote.remote_output(id).len();
    eventually("a key arrives after the kill", || {
        person.terminal.send_keys("k");
        remote.remote_output(id)[known..].contains('k')
    });
    // Ctrl-U removes these keys.
    person.terminal.send_keys("\x15");
    person.say(line);
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_person_continues_after_the_kill_of_the_mirror() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let id = start_with_terminal(remote.run(&TERMINAL_FLAGS, ANSWER));
    remote.wait_for_output(&id, FIRST_OUTPUT.len());
    let mut person = Person::attach(&sandbox, &id, "up");
    person.say("before");
    kill_shim(&sandbox, &id);
    say_after_kill(&remote, &id, &mut person, "after");
    expect_agent_refused(type_keys(&sandbox, &id, &["x"]));
    person.detach();
    stop(&sandbox, &id);
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_person_continues_after_the_kill_of_the_remote_shim() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let id = start_with_terminal(remote.run(&TERMINAL_FLAGS, ANSWER));
    remote.wait_for_output(&id, FIRST_OUTPUT.len());
    let mut person = Person::attach(&sandbox, &id, "up");
    person.say("before");
    let pid = remote.remote_show(&id)["shim_pid"].as_u64().expect("it has a shim");
    kill_process(Process::from_pid(pid.try_into().expect("a pid")).expect("the shim runs"));
    say_after_kill(&remote, &id, &mut person, "after");
    expect_agent_refused(type_keys(&sandbox, &id, &["x"]));
    person.detach();
    // Both machines are this one, so the new remote shim finds the mirror, which has the same
    // birthmark, and terminates it with the task.
    let _stopped = remote.remote_siding(&["stop", "--grace", "0s", &id]).run().expect_code(0);
    assert_eq!(remote.wait_outcome(&id)["kind"], "stopped");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_secret_is_answered_on_a_remote_terminal_and_is_in_no_file() {
    const SECRET: &str = "hunter2-Zq7-remote";
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let text = "read -s -p 'PIN: ' pin; echo; echo \"length=${#pin}\"; unset pin; read -r _";
    let id = start_with_terminal(remote.run(&TERMINAL_FLAGS, text));
    remote.wait_for_output(&id, "PIN: ".len());
    wait_for(&sandbox, &id, "input");
    let done = type_keys(&sandbox, &id, &["1234", "Enter"]).expect_code(125);
    assert!(done.stderr_text().contains(&format!("siding answer {id}")), "{done}");
    let mut terminal = Terminal::new(80, 24);
    let call = sandbox.siding(&["answer", &id]).on_terminal(&terminal).spawn();
    terminal.wait_for_text("PIN:");
    terminal.send_keys(&format!("{SECRET}\r"));
    let _typed = call.wait().expect_code(0);
    assert!(!terminal.scrollback_text().contains(SECRET));
    let length = format!("length={}\r\n", SECRET.len());
    eventually("the length is here", || remote.output(&id).contains(&length));
    let found = files_with(sandbox.root(), SECRET.as_bytes());
    assert!(found.is_empty(), "{found:?}");
    eventually("an agent may type again", || type_keys(&sandbox, &id, &["Enter"]).code == Some(0));
    assert_eq!(remote.wait_outcome(&id), json!({"kind": "exited", "code": 0}));
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_persons_command_has_a_terminal_on_the_remote_machine() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let mut terminal = Terminal::new(80, 24);
    let before = terminal.modes();
    let text = "test -t 0 && test -t 1 && test -t 2 && stty size; \
                printf 'name? '; read -r name; echo \"hi $name\"; exec sleep 100";
    let call = start_on(&remote, &terminal, &["run", "--on", "build", "--", text]);
    terminal.wait_for_row("24 80");
    terminal.wait_for_row("name?");
    terminal.send_keys("Anna\r");
    terminal.wait_for_row("hi Anna");
    terminal.send_keys(CTRL_C);
    let done = call.wait();
    assert_ne!(done.code, Some(0), "{done}");
    assert_eq!(terminal.modes(), before);
    let outcome = remote.wait_outcome(&only_task(&sandbox));
    assert_eq!(outcome["signal"], "SIGINT", "the key belongs to the program: {outcome}");
}

/// Neither the first Ctrl-C nor the second one reaches the command.
#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn the_second_ctrl_c_stops_a_command_that_no_key_reaches() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let mut terminal = Terminal::new(100, 30);
    let before = terminal.modes();
    let call = start_on(&remote, &terminal, &["run", "--on", "build", "--pty", "--", ANSWER]);
    terminal.wait_for_row("up");
    let id = only_task(&sandbox);
    remote.cut();
    terminal.wait_for_text("its machine is not reachable");
    terminal.send_keys(CTRL_C);
    terminal.wait_for_text("not typed:");
    assert_eq!(remote.show(&id)["unreachable"]["stop_pending"], false, "one Ctrl-C is a key");
    terminal.send_keys(CTRL_C);
    terminal.wait_for_text("is not stopped yet");
    assert_eq!(remote.show(&id)["unreachable"]["stop_pending"], true);
    terminal.send_keys(CTRL_C);
    let done = call.wait();
    assert_ne!(done.code, Some(0), "{done}");
    assert_eq!(terminal.modes(), before);
    remote.restore();
    assert_eq!(remote.wait_outcome(&id)["kind"], "stopped");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn keys_before_the_first_answer_of_the_machine_are_typed() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let gate = sandbox.path("gate");
    let config = sandbox.root().join("ssh/ssh_config");
    let ssh = format!("exec /usr/bin/ssh -F {} \"$@\"", config.display());
    remote.write_local_program("ssh", &format!("{}; {ssh}", wait_for_file_command(&gate)));
    let mut terminal = Terminal::new(80, 24);
    let before = terminal.modes();
    let text = "read -r line; echo \"got:$line\"";
    let call = start_on(&remote, &terminal, &["run", "--on", "build", "--pty", "--", text]);
    eventually("the call passes keys on", || terminal.modes() != before);
    let _id = only_task(&sandbox);
    terminal.send_keys("early\r");
    create_file(&gate);
    terminal.wait_for_row("got:early");
    let _ended = call.wait().expect_code(0);
    assert!(!terminal.scrollback_text().contains("not typed"), "{}", terminal.scrollback_text());
}

#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_job_has_a_terminal_for_agents_and_persons() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let id = start_with_terminal(cluster.run(&TERMINAL_FLAGS, ANSWER));
    cluster.wait_for_output(&id, FIRST_OUTPUT.len());
    expect_dialog(&sandbox, &id);
    expect_lease(&sandbox, &id);
    let mut person = Person::attach(&sandbox, &id, "up");
    person.resize(110, 35);
    person.say("size");
    person.terminal.wait_for_row("35 110");
    // A shell that waits for a program would handle Ctrl-C later.
    wait_for(&sandbox, &id, "input");
    person.terminal.send_keys(CTRL_C);
    let _ended = person.call.wait();
    let outcome = wait_for_outcome(&sandbox, &id);
    assert_eq!(outcome["signal"], "SIGINT", "the key belongs to the program: {outcome}");
}

/// The second attempt begins with the size of the start, and its output continues that of the
/// interrupted attempt. Keys for a certain screen must still be accepted.
#[test]
#[ignore = "needs Slurm; `cargo xtask test --engines` runs it"]
fn a_requeued_job_continues_with_its_terminal() {
    let sandbox = sandbox();
    let cluster = SlurmCluster::start(&sandbox);
    let flags = [&TERMINAL_FLAGS[..], &["--engine-arg=--requeue"]].concat();
    let id = start_with_terminal(cluster.run(&flags, ANSWER));
    cluster.wait_for_output(&id, FIRST_OUTPUT.len());
    let mut person = Person::attach(&sandbox, &id, "up");
    person.say("size");
    person.terminal.wait_for_row("30 100");
    person.detach();
    let first = cluster.output(&id).len();
    cluster.client("scontrol", &["requeue", &cluster.job_id(&id)]);
    eventually("the second attempt runs", || {
        let view = show_task(&sandbox, &id);
        view["restarts"] == 1 && view["queued"].is_null()
    });
    cluster.wait_for_output(&id, first + FIRST_OUTPUT.len());
    let size = &show_task(&sandbox, &id)["terminal"]["size"];
    assert_eq!(*size, json!({"columns": 80, "rows": 24}));
    expect_dialog(&sandbox, &id);
    stop(&sandbox, &id);
}
