//! Commands that fail to start, and background starts.

use siding_e2e::{Sandbox, Terminal, is_root};

use crate::support::{Task, create_file, expect_prompt, sandbox, wait_for_file_command};

/// Asserts that the command fails to start with the outcome `failed_to_start`, this exit code, and
/// `because` in the error.
#[track_caller]
fn expect_start_failure(
    sandbox: &Sandbox,
    flags: &[&str],
    command: &[&str],
    code: i32,
    because: &str,
) {
    let args = [&["run", "--json", "--allow-duplicate"], flags, &["--"], command].concat();
    let done = expect_prompt(format!("{command:?}"), sandbox.siding(&args).run()).expect_code(code);
    let view = done.json();
    assert_eq!(view["phase"], "ended", "{done}");
    assert_eq!(view["outcome"]["kind"], "failed_to_start", "{done}");
    let error = view["outcome"]["error"].as_str().expect("a reason");
    assert!(error.contains(because), "`{because}` in {done}");
    assert!(error.contains(command[0]) || error.contains("shell"), "a name in {done}");
}

/// Promise P9: a failed exec has its own outcome, which contains the system's error, and the exit
/// code that a shell would return.
#[test]
fn failed_exec_reports_its_reason() {
    let sandbox = sandbox();
    create_file(&sandbox, "plain");
    std::fs::create_dir(sandbox.path("dir")).expect("test directory");
    expect_start_failure(&sandbox, &[], &["nosuchprogram", "x"], 127, "No such file");
    expect_start_failure(&sandbox, &[], &["./nosuchprogram", "x"], 127, "No such file");
    expect_start_failure(&sandbox, &[], &["", "x"], 127, "No such file");
    expect_start_failure(&sandbox, &[], &["plain/below", "x"], 127, "Not a directory");
    expect_start_failure(&sandbox, &[], &["./plain", "x"], 126, "Permission denied");
    expect_start_failure(&sandbox, &[], &["./dir", "x"], 126, "Permission denied");
    let shell = ["--shell", "/no/such/shell"];
    expect_start_failure(&sandbox, &shell, &["exit 0"], 127, "No such file");
    expect_start_failure(&sandbox, &["--background"], &["nosuchprogram", "x"], 127, "No such file");
    // If a shell runs the command, the outcome of the same failure is only an exit of the shell.
    let call = sandbox.siding(&["run", "--json", "--", "nosuchprogram"]);
    assert_eq!(call.run().expect_code(127).json()["outcome"]["kind"], "exited");
}

/// Promise P9: a script without an interpreter line runs as in every shell.
#[test]
fn a_script_without_an_interpreter_line_runs() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = sandbox();
    std::fs::write(sandbox.path("script"), "echo \"$1\"; exit 6\n").expect("test directory");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(sandbox.path("script"), executable).expect("test file");
    let done = sandbox.siding(&["run", "--", "./script", "word"]).run().expect_code(6);
    assert_eq!(done.stdout_text(), "word\n");
}

/// Promise P9: a start at the user's process limit fails with the system's error and starts
/// nothing.
#[test]
fn start_at_the_process_limit_reports_unavailable() {
    if !is_root() {
        return;
    }
    let sandbox = crate::support::ordinary_user_sandbox().expect("a sandbox for another user");
    // The user's first process is the client and the second is the shim; the command would be the
    // third.
    let line = sandbox.siding_line(&["run", "--json", "--", "/bin/true", "x"]);
    for max_processes in 0..4 {
        let text = format!("ulimit -u {max_processes} && exec {line}");
        let done = sandbox.host("bash", &["-c", &text]).run();
        println!("{max_processes} processes: {done}");
        match done.code {
            Some(0) => assert_eq!(done.json()["outcome"]["kind"], "exited"),
            Some(125) => assert!(done.stderr_text().contains("unavailable"), "{done}"),
            _ => {
                let view = done.json();
                assert_eq!(view["outcome"]["kind"], "failed_to_start", "{done}");
                let error = view["outcome"]["error"].as_str().expect("a reason");
                assert!(error.contains("unavailable"), "{done}");
            }
        }
    }
}

/// `stop --all` normally stops tasks in several threads. If no thread can be created, the calling
/// thread stops all tasks.
#[test]
fn stop_all_works_at_the_process_limit() {
    let Some(sandbox) = crate::support::ordinary_user_sandbox() else { return };
    let tasks = [Task::start(&sandbox, "sleep 300"), Task::start(&sandbox, "sleep 301")];
    let line = sandbox.siding_line(&["stop", "--all", "--json"]);
    let done = sandbox.host("bash", &["-c", &format!("ulimit -u 1 && exec {line}")]).run();
    assert_eq!(done.expect_code(0).json().as_array().map(Vec::len), Some(2));
    tasks.iter().for_each(Task::expect_stopped);
}

/// If siding itself fails, the exit code is 125.
#[test]
fn siding_errors_exit_with_code_125() {
    let sandbox = sandbox();
    for args in [
        &["run"][..],
        &["run", "--no-such-flag", "--", "true"],
        &["run", "--timeout", "soon", "--", "true"],
        &["run", "--timeout", "0s", "--", "true"],
        &["run", "--budget", "-1s", "--", "true"],
        &["run", "--signal", "NOPE", "--", "true"],
        &["run", "--session", "s-nosuch", "--", "true"],
        &["dance"],
        &["stop", "b-zzzzzzzzzzzz"],
        &["wait", "b-zzzzzzzzzzzz"],
        &["stop"],
    ] {
        let done = sandbox.siding(args).run().expect_code(125);
        assert!(!done.stderr_text().is_empty(), "{done}");
        assert_eq!(done.stdout_text(), "", "{done}");
    }
    assert_eq!(sandbox.task_ids(), Vec::<String>::new(), "nothing was recorded");
}

/// Failure F33: a background start returns once the command runs, and prints only the task's id.
#[test]
fn background_start_prints_only_the_task_id() {
    let sandbox = sandbox();
    let text = format!("echo noise; {}; exit 3", wait_for_file_command("go"));
    let call = sandbox.siding(&["run", "--background", "--name", "web", "--", &text]);
    let done = expect_prompt("--background", call.run()).expect_code(0);
    let task = Task::only(&sandbox);
    assert_eq!(done.stdout_text(), format!("{}\n", task.id));
    assert!(!task.marked_processes().is_empty(), "the command must run");
    create_file(&sandbox, "go");
    assert_eq!(task.wait_outcome()["code"], 3);
    let view = task.stop(&[]);
    assert_eq!((&view["placement"]["why"], &view["name"]), (&"asked".into(), &"web".into()));
}

/// A relative `SIDING_STATE_DIR` is absolute in the task's environment, so that siding inside the
/// task uses the same state directory from any working directory.
#[test]
fn relative_state_directory_is_made_absolute_for_the_task() {
    let sandbox = sandbox();
    let args = ["run", "--cwd", "/", "--", "echo $SIDING_STATE_DIR"];
    let done = sandbox.siding(&args).env("SIDING_STATE_DIR", "relative").run().expect_code(0);
    assert_eq!(done.stdout_text(), format!("{}\n", sandbox.path("relative").display()));
}

/// A background start reports a failure that happens within the time of `--settle`, together with
/// the output so far.
#[test]
fn background_start_reports_a_failure_within_settle() {
    let sandbox = sandbox();
    let text = "echo 'cannot bind'; exit 3";
    let args = ["run", "--background", "--settle", "20s", "--", text];
    let done = expect_prompt("--settle", sandbox.siding(&args).run()).expect_code(3);
    let id = &sandbox.task_ids()[0];
    assert_eq!(done.stdout_text(), format!("{id}\n"), "the id must be printed");
    assert!(
        done.stderr_text().contains("exited 3") && done.stderr_text().contains("cannot bind\n"),
        "{done}"
    );
    let notices = sandbox.siding(&["notices", "--json"]).run().expect_code(0).json();
    assert_eq!(notices, serde_json::json!([]), "the failure is already in the answer");
    let text = wait_for_file_command("go");
    let args = ["run", "--background", "--settle", "150ms", "--", &text];
    let done = sandbox.siding(&args).run().expect_code(0);
    assert!(done.elapsed.as_millis() >= 150, "{done}");
    create_file(&sandbox, "go");
}

/// A background start by a person waits for an early end, unless `--settle` says otherwise.
#[test]
fn background_start_at_a_terminal_waits_for_an_early_failure() {
    let sandbox = sandbox();
    let terminal = Terminal::new(80, 24);
    let call = sandbox.siding(&["run", "--background", "--", &wait_for_file_command("go")]);
    let done = call.on_terminal(&terminal).run().expect_code(0);
    assert!(done.elapsed.as_millis() >= 200, "{done}");
    let failing = ["run", "--background", "--settle", "20s", "--", "exit 3"];
    let done = sandbox.siding(&failing).on_terminal(&terminal).run();
    assert_eq!(done.code, Some(3), "{done}");
    create_file(&sandbox, "go");
}
