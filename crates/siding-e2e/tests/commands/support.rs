//! Helpers that run calls with an expected exit code, and that start tasks whose end the test
//! controls.

use std::time::Duration;

use serde_json::Value;
use siding_e2e::{Invocation, ProgramOutput, Sandbox, Terminal, eventually, processes};

/// A shell script that prints `waiting`, and after Ctrl-C `interrupted`, and then ends with the next
/// line that a person types.
pub(crate) const PROGRAM_WITH_INTERRUPT: &str = "\
trap 'kill $!; echo interrupted; read -r key </dev/tty; exit 0' INT
sleep 60 &
echo waiting
wait $!
";

/// A command that runs longer than any test. SIGTERM ends the command.
pub(crate) const HANG_COMMAND: &str = "sleep 300";

/// Upper bound for the duration of a call that does not wait. It suffices on a machine with forty
/// busy processes per core.
pub(crate) const MAX_PROMPT_TIME: Duration = Duration::from_secs(8);

/// Returns a sandbox that fails its test if the test leaves processes running.
pub(crate) fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    sandbox
}

/// Runs a call and asserts that it exits with 0.
#[track_caller]
pub(crate) fn run_ok(sandbox: &Sandbox, args: &[&str]) -> ProgramOutput {
    sandbox.siding(args).run().expect_code(0)
}

/// Runs a call at the terminal of a person, and asserts that it exits with 0. Waits until the
/// terminal shows `end`, and returns everything that it shows.
#[track_caller]
pub(crate) fn run_at_terminal(sandbox: &Sandbox, args: &[&str], end: &str) -> String {
    let mut terminal = Terminal::new(80, 40);
    let _done = sandbox.siding(args).on_terminal(&terminal).run().expect_code(0);
    terminal.wait_for_text(end);
    terminal.scrollback_text()
}

/// Runs a call, asserts that it fails with siding's own exit code 125, and returns stderr. Asserts
/// that stdout is empty, because a program would read it as the answer.
#[track_caller]
pub(crate) fn run_refused(sandbox: &Sandbox, args: &[&str]) -> String {
    let done = sandbox.siding(args).run().expect_code(125);
    assert_eq!(done.stdout_text(), "", "{done}");
    assert!(!done.stderr_text().contains("panicked"), "{done}");
    done.stderr_text()
}

/// Starts a shell text in the background and returns the task's id.
#[track_caller]
pub(crate) fn start_task(sandbox: &Sandbox, flags: &[&str], command: &str) -> String {
    let head = ["run", "--background", "--allow-duplicate", "--json"];
    task_id(&run_ok(sandbox, &[&head, flags, &["--", command]].concat()).json())
}

/// Runs a shell text to its end with any exit code, waits until the task's shim has exited, and
/// returns the task's id.
#[track_caller]
pub(crate) fn run_to_end(sandbox: &Sandbox, command: &str) -> String {
    let args = ["run", "--budget", "none", "--json", "--", command];
    let done = sandbox.siding(&args).run();
    assert_eq!(done.json()["phase"], "ended", "{done}");
    let id = task_id(&done.json());
    eventually("the shim has exited", || processes::with_birthmark(&id).is_empty());
    id
}

#[track_caller]
pub(crate) fn task_id(view: &Value) -> String {
    view["task_id"].as_str().expect("a task id").to_owned()
}

#[track_caller]
pub(crate) fn task_ids(list: &Value) -> Vec<String> {
    list.as_array().expect("a list").iter().map(task_id).collect()
}

#[track_caller]
pub(crate) fn show_task(sandbox: &Sandbox, id: &str) -> Value {
    run_ok(sandbox, &["show", "--json", id]).json()
}

/// Waits up to 30 s for the end of a task and returns its outcome.
#[track_caller]
pub(crate) fn wait_for_outcome(sandbox: &Sandbox, id: &str) -> Value {
    let done = run_ok(sandbox, &["wait", "--all", "--json", "--timeout", "30s", id]);
    done.json()["by"][0]["detail"].clone()
}

#[track_caller]
pub(crate) fn stop_all(sandbox: &Sandbox) {
    let _stopped = run_ok(sandbox, &["stop", "--all"]);
}

/// Returns a shell text that waits until the test creates the file `name`, or until the sandbox
/// kills the shell.
pub(crate) fn until_file_exists(name: &str) -> String {
    format!("until [ -e {name} ]; do sleep .02; done")
}

/// Creates the file that [`until_file_exists`] waits for.
pub(crate) fn make_file(sandbox: &Sandbox, name: &str) {
    write(sandbox, name, "");
}

/// Writes a file below the working directory of all calls, and creates its parent directory.
pub(crate) fn write(sandbox: &Sandbox, name: &str, text: impl AsRef<[u8]>) {
    let path = sandbox.path(name);
    let parent = path.parent().expect("the path has a parent directory");
    std::fs::create_dir_all(parent).expect("test directory");
    std::fs::write(path, text).expect("test directory");
}

/// Prepares a call of siding whose controlling terminal is `terminal`, so that Ctrl-C and Ctrl-Z
/// send signals to it and to the programs that it runs in the foreground.
pub(crate) fn siding_on_controlling_terminal(
    sandbox: &Sandbox,
    terminal: &Terminal,
    args: &[&str],
) -> Invocation {
    let text = format!("exec {}", sandbox.siding_line(args));
    let shell = ["--ctty", "--wait", "bash", "--norc", "--noprofile", "-c", &text];
    sandbox.host("setsid", &shell).on_terminal(terminal)
}

/// Presses Ctrl-C while [`PROGRAM_WITH_INTERRUPT`] runs, and then ends the program.
#[track_caller]
pub(crate) fn interrupt_and_end_program(terminal: &mut Terminal) {
    terminal.wait_for_row("waiting");
    terminal.send_keys("\x03");
    terminal.wait_for_row("interrupted");
    terminal.send_keys("\n");
}

/// Returns the names of the subcommands that the help of a command lists, without `help` itself.
#[track_caller]
pub(crate) fn list_subcommands(sandbox: &Sandbox, below: &[&str]) -> Vec<String> {
    let help = run_ok(sandbox, &[below, &["--help"]].concat()).stdout_text();
    let list = help.split("Commands:\n").nth(1).unwrap_or_default();
    let list = list.split("\n\n").next().unwrap_or_default();
    list.lines()
        // Skips continuation lines, which are indented further.
        .filter_map(|line| line.strip_prefix("  ").filter(|name| !name.starts_with(' ')))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Returns the text of a file below `docs`.
#[track_caller]
pub(crate) fn read_docs_file(name: &str) -> String {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}
