//! Direct exec: a text that consists of the plain words of one command runs without a shell, with
//! the same result.

use siding_e2e::{Sandbox, eventually, processes};

use crate::support::{Task, sandbox};

/// Texts of plain words, and texts that look plain but need a shell.
const COMMAND_TEXTS: &[&str] = &[
    "true",
    "false",
    "  printenv   HOME\t",
    "printenv SHLVL PWD _",
    "ls /nonexistent-directory",
    "nosuchprogram a b",
    "/etc/passwd",
    "/etc",
    "./no-such-script",
    "env",
    "sh -c exit",
    "expr 1 + 1",
    "dirname a=b/c:d@e/f",
    "PLAIN=1 printenv PLAIN",
    "true --help",
    "pwd -P",
];

/// Runs a text with bash alone and under siding, and asserts that exit code and output are equal.
fn assert_same_as_bash(sandbox: &Sandbox, text: &str, variables: &[(&str, &str)]) {
    // Only a task has these variables, because siding sets them.
    let own = |line: &&str| {
        !["SIDING_TASK=", "GIT_", "DEBIAN_FRONTEND=", "PAGER="]
            .iter()
            .any(|own| line.starts_with(own))
    };
    let seen = |out: &str| {
        let mut lines: Vec<String> = out.lines().filter(own).map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let mut alone = sandbox.host("bash", &["-c", text]);
    let mut kept = sandbox.siding(&["run", "--allow-duplicate", "--", text]);
    for (name, value) in variables {
        alone = alone.env(name, value);
        kept = kept.env(name, value);
    }
    let (alone, kept) = (alone.run(), kept.run());
    let code = alone.code.unwrap_or_else(|| 128 + alone.signal.expect("an exit code or a signal"));
    assert_eq!(kept.code, Some(code), "`{text}` {variables:?}: {kept}");
    assert_eq!(
        seen(&kept.stdout_text()),
        seen(&(alone.stdout_text() + &alone.stderr_text())),
        "`{text}` {variables:?}"
    );
}

/// Failure F34: exit code, output, error messages and environment are those of `bash -c`.
#[test]
fn direct_exec_behaves_like_bash() {
    let sandbox = sandbox();
    for text in COMMAND_TEXTS {
        assert_same_as_bash(&sandbox, text, &[]);
    }
}

/// Variables that change the behavior of bash, and variables that bash itself changes, have the
/// same effect under siding.
#[test]
fn environment_that_affects_bash_still_applies() {
    let sandbox = sandbox();
    let first = sandbox.path("first");
    std::fs::write(&first, "PATH=/nowhere\necho read\n").expect("a writable directory");
    let first = first.to_str().expect("a plain path");
    assert_same_as_bash(&sandbox, "ls /", &[("BASH_ENV", first)]);
    assert_same_as_bash(&sandbox, "ls /", &[("BASH_FUNC_ls%%", "() { echo \"a function: $1\"; }")]);
    assert_same_as_bash(&sandbox, "ls /", &[("SHELLOPTS", "noexec")]);
    assert_same_as_bash(
        &sandbox,
        "printenv PWD OLDPWD SHLVL",
        &[("OLDPWD", "/usr"), ("SHLVL", "7")],
    );
    assert_same_as_bash(&sandbox, "printenv PWD OLDPWD SHLVL", &[("PWD", "/usr"), ("SHLVL", "x")]);
}

/// The task's only process is the program, without a shell that waits for the program, and the
/// outcome is that of the program.
#[test]
fn single_program_runs_without_a_shell() {
    let sandbox = sandbox();
    let task = Task::start(&sandbox, "sleep 300");
    let commands: Vec<String> = task
        .marked_processes()
        .iter()
        .map(|process| processes::command_line(process.pid))
        .collect();
    assert_eq!(commands, ["sleep 300"]);
    for process in task.marked_processes() {
        process.kill();
    }
    assert_eq!(task.wait_outcome()["kind"], "signaled");
    let done = sandbox.siding(&["run", "--json", "--", "sleep 0"]).run().expect_code(0).json();
    assert_eq!(done["final_cwd"], done["cwd"], "a direct exec has no final directory");
    assert_eq!(done["pipeline_statuses"], serde_json::Value::Null);
}

/// Failure F13: the command line of a shim that `siding run` has forked does not contain the
/// arguments of that call, whatever their length.
#[test]
fn shim_command_line_shows_only_the_task_id() {
    let sandbox = sandbox();
    for command in
        [":;sleep 300", "sleep 300; echo a-word-that-nobody-must-find-in-the-process-list"]
    {
        let task = Task::start(&sandbox, command);
        let shim = task.show()["shim_pid"].as_u64().expect("the process is alive");
        let shim = u32::try_from(shim).expect("a process number");
        assert_eq!(processes::command_line(shim), format!("siding __shim {}", task.id));
        let found: Vec<u32> = processes::list_pids()
            .into_iter()
            .filter(|pid| processes::command_line(*pid).contains("nobody-must-find"))
            .collect();
        assert!(found.is_empty(), "{found:?} can be found by the command's text");
        task.stop(&["--grace", "0s"]);
    }
}

/// Returns the number of resident bytes of a process's initial stack, and the size of the part that
/// the kernel fills before the first frame. This part contains the arguments, the environment and
/// the pointers to both.
fn initial_stack_bytes(pid: u32) -> (u64, u64) {
    let read = |name: &str| {
        std::fs::read_to_string(format!("/proc/{pid}/{name}")).expect("the process is alive")
    };
    let (stat, maps) = (read("stat"), read("smaps"));
    // Field 28 of proc_pid_stat(5). The text after the name starts with field 3.
    let (_, fields) = stat.rsplit_once(") ").expect("a name in brackets");
    let start: u64 =
        fields.split(' ').nth(28 - 3).and_then(|it| it.parse().ok()).expect("a start address");
    let mut lines = maps.lines().skip_while(|line| !line.ends_with("[stack]"));
    let (range, _) =
        lines.next().and_then(|line| line.split_once(' ')).expect("the stack is mapped");
    let end = range.split_once('-').and_then(|(_, end)| u64::from_str_radix(end, 16).ok());
    let resident = lines.find_map(|line| line.strip_prefix("Rss:")?.trim().strip_suffix(" kB"));
    let resident: u64 = resident.and_then(|size| size.parse().ok()).expect("a size");
    (resident << 10, end.expect("a range") - (start & !4095))
}

/// Upper bound for the stack that a waiting shim uses (its frames and the red zone below the
/// frames), in bytes.
const MAX_FRAME_BYTES: u64 = 24 << 10;

/// A forked shim frees the stack pages that its frames do not use.
#[test]
fn forked_shim_frees_its_unused_stack() {
    let sandbox = sandbox();
    let task = Task::start(&sandbox, "sleep 300");
    let shim = task.show()["shim_pid"].as_u64().expect("the process is alive");
    let shim = u32::try_from(shim).expect("a process number");
    eventually("the shim has checked a silent task", || {
        let (resident, above) = initial_stack_bytes(shim);
        0 < resident && resident <= above + MAX_FRAME_BYTES
    });
    assert_eq!(processes::command_line(shim), format!("siding __shim {}", task.id));
    task.stop(&["--grace", "0s"]);
}
