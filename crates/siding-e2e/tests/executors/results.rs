//! A command on another machine has the same result as on this one.

use serde_json::{Value, json};
use siding_e2e::{Invocation, ProgramOutput};

use crate::local_tasks::task_id;
use crate::ssh_remote::{SshRemote, write_executor};
use crate::{numbered_lines, sandbox};

/// Commands with their exit codes.
pub(crate) const COMMANDS: &[(&[&str], i32)] = &[
    (&["true"], 0),
    (&["echo out; echo err >&2; exit 3"], 3),
    (&["kill -9 $$"], 137),
    (&["kill -TERM $$"], 143),
    (&["exit 137"], 137),
    (&["no-such-command-of-this-test"], 127),
    (&["no-such-program-of-this-test", "argument"], 127),
    (&["/etc/passwd", "argument"], 126),
    (&["sh", "-c", "exit 9"], 9),
    (&["printf", "<%s>", "", "it's", "$HOME", "a\nb", "--", "\u{fc}"], 0),
    (&["cd /usr/bin && printf 'no line break'"], 0),
    (&["false | true"], 0),
    (&["printf 'a\\0\\377b\\n'"], 0),
];

/// Returns the parts of a task's JSON that must not depend on the machine.
fn result(view: &Value) -> Value {
    json!({
        "phase": view["phase"],
        "outcome": view["outcome"],
        "leader_outcome": view["leader_outcome"],
        "pipeline_statuses": view["pipeline_statuses"],
        "final_cwd": view["final_cwd"],
        "bytes": view["output"]["bytes"],
        "text": view["output"]["text"],
    })
}

/// Returns the bytes of the output file that a task's JSON names.
#[track_caller]
fn stored_output(view: &Value) -> Vec<u8> {
    std::fs::read(view["output"]["path"].as_str().expect("a path")).expect("the file is kept")
}

/// Runs a row of [`COMMANDS`] on this machine and on an executor, and asserts that the results are
/// equal. `prepare` prepares a call of siding.
#[track_caller]
pub(crate) fn expect_result_of_local_run(
    (command, code): &(&[&str], i32),
    executor: &str,
    prepare: impl Fn(&[&str]) -> Invocation,
) {
    let call = |flags: &[&str]| {
        let args = [&["run", "--budget", "none"], flags, &["--"], *command].concat();
        prepare(&args).run().expect_code(*code)
    };
    let printed = |done: ProgramOutput| (done.stdout_text(), done.stderr_text());
    let (local, distant) = (call(&[]), call(&["--on", executor]));
    assert_eq!(printed(distant), printed(local), "{command:?}");
    let local = call(&["--json"]).json();
    let distant = call(&["--json", "--on", executor]).json();
    assert_eq!(result(&distant), result(&local), "{command:?}");
    assert_eq!(stored_output(&distant), stored_output(&local), "{command:?}");
    assert_eq!(distant["executor"], executor, "{distant}");
    assert!(distant["machine"].is_string(), "{distant}");
    assert!(local["executor"].is_null() && local["machine"].is_null(), "{local}");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn results_equal_those_of_local_runs() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    for row in COMMANDS {
        expect_result_of_local_run(row, "build", |args| remote.siding(args));
    }
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn standard_error_and_final_directory_are_reported() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let done = remote.run(&[], "echo out; echo err >&2; cd /usr").run().expect_code(0);
    let view = done.json();
    assert_eq!(view["output"]["text"], "out\nerr\n", "{done}");
    assert_eq!(view["final_cwd"], "/usr", "{done}");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_large_output_is_complete() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let done = remote.run(&["--budget", "none"], "seq 1 1000000").run().expect_code(0);
    // The assertion does not print the millions of bytes.
    assert!(remote.output(&task_id(&done)) == numbered_lines(1_000_000));
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn only_listed_variables_reach_the_remote_command() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    write_executor(&sandbox, "env = [\"SENT_ONE\", \"SENT_BY_*\"]\n");
    let text = "echo \"$SENT_ONE,$SENT_BY_PREFIX,$SENT_OTHER,$HOME\"";
    let call = remote.run(&[], text).env("SENT_ONE", "1").env("SENT_BY_PREFIX", "a  b'");
    let done = call.env("SENT_OTHER", "3").run().expect_code(0);
    let expected = format!("1,a  b',,{}\n", remote.home().display());
    assert_eq!(remote.output(&task_id(&done)), expected);
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn the_working_directory_is_mapped() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let (local, distant) = (sandbox.path("project/sub"), remote.home().join("copy/sub"));
    for dir in [&local, &distant] {
        std::fs::create_dir_all(dir).expect("test directory");
    }
    let paths = format!(
        "paths = {{ \"{}\" = \"{}\" }}\n",
        sandbox.path("project").display(),
        remote.home().join("copy").display()
    );
    write_executor(&sandbox, &paths);
    let done = remote.run(&[], "pwd").cwd(&local).run().expect_code(0);
    assert_eq!(remote.output(&task_id(&done)), format!("{}\n", distant.display()));
    // A directory that is not mapped has the same path on both machines.
    let done = remote.run(&[], "pwd").cwd("/usr").run().expect_code(0);
    assert_eq!(remote.output(&task_id(&done)), "/usr\n");
}

#[test]
#[ignore = "needs sshd; `cargo xtask test --engines` runs it"]
fn a_missing_directory_is_reported_with_the_ways_out() {
    let sandbox = sandbox();
    let remote = SshRemote::start(&sandbox);
    let local = sandbox.path("project");
    std::fs::create_dir_all(&local).expect("test directory");
    let missing = remote.home().join("missing");
    let paths = format!("paths = {{ \"{}\" = \"{}\" }}\n", local.display(), missing.display());
    write_executor(&sandbox, &paths);
    let call = remote.siding(&["run", "--on", "build", "--", "true"]).cwd(&local);
    let text = call.run().expect_code(125).stderr_text();
    let directory = missing.display().to_string();
    for part in
        [directory.as_str(), "build (", "`--sync`", "`paths` of `[executor.build]`", "`--cwd`"]
    {
        assert!(text.contains(part), "no {part}: {text}");
    }
}

/// This test needs no other machine.
#[test]
fn an_unknown_executor_is_an_error_that_lists_the_names() {
    let sandbox = sandbox();
    write_executor(&sandbox, "[executor.second]\nhost = \"other\"\n");
    let call = sandbox.siding(&["run", "--on", "nowhere", "--", "true"]);
    let done = call.run().expect_code(125);
    assert_eq!(done.stdout_text(), "", "{done}");
    for part in ["nowhere", "build", "second"] {
        assert!(done.stderr_text().contains(part), "no {part}: {done}");
    }
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
}
