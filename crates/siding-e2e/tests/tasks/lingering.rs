//! Lingering tasks, whose shell has exited while other processes of the task still run.

use siding_e2e::{Process, eventually, processes, words};

use crate::support::{
    Task, as_each_user, create_file, ended_processes, expect_prompt, listed_pids, sandbox,
    wait_for_file_command,
};

/// Texts whose shell exits before its children, each with the command line of a process that
/// remains.
const LINGERING_COMMANDS: &[(&str, &str)] = &[
    ("sleep 300 &", "sleep 300"),
    ("sleep 300 </dev/null >/dev/null &", "sleep 300"),
    ("setsid sleep 300 &", "sleep 300"),
    ("setsid sleep 300 & sleep .1", "sleep 300"),
    ("(setsid sleep 300 >/dev/null 2>&1 </dev/null &)", "sleep 300"),
    ("coproc sleep 300; echo hi", "sleep 300"),
    ("exec > >(tee x) 2>&1; (sleep 300 &); echo hi", "sleep 300"),
    ("nohup sleep 300 >/dev/null 2>&1 &", "sleep 300"),
    ("nohup sleep 300 & disown", "sleep 300"),
    ("(sleep 300 & disown); exec 1>&- 2>&-", "sleep 300"),
    ("for i in 1 2 3; do (while :; do sleep 300; done) & done", "sleep 300"),
    ("exec -a innocent sleep 300 & sleep .1", "innocent 300"),
];

/// Promise P15, failures F1, F12 and F19: the call returns when the shell has exited, and lists the
/// remaining processes.
#[test]
fn call_returns_when_the_shell_exits_and_lists_processes() {
    as_each_user(|sandbox| {
        for (text, lives) in LINGERING_COMMANDS {
            let call = sandbox.siding(&["run", "--json", "--budget", "20s", "--", text]);
            let done = expect_prompt(format!("`{text}`"), call.run()).expect_code(0);
            let view = done.json();
            assert_eq!(view["phase"], "lingering", "{done}");
            assert!(view["outcome"].is_null(), "{done}");
            let leader = serde_json::json!({"kind": "exited", "code": 0});
            assert_eq!(view["leader_outcome"], leader, "{done}");
            let task = Task::from_view(&sandbox, &view);
            let named = listed_pids(&view);
            let living: Vec<u32> =
                task.marked_processes().iter().map(|process| process.pid).collect();
            assert!(named.iter().any(|pid| living.contains(pid)), "{living:?}: {done}");
            eventually("the remaining process is the started one", || {
                let mut living = task.marked_processes().into_iter().map(|process| process.pid);
                living.any(|pid| processes::command_line(pid) == *lives)
            });
            let stopped = task.stop(&[]);
            assert_eq!(stopped["outcome"], leader, "the outcome must not change: {stopped}");
            assert!(
                !ended_processes(&stopped).is_empty(),
                "the report lacks the remaining processes: {stopped}"
            );
            task.expect_stopped();
        }
    });
}

/// Failure F1, promise P26: output that a child writes after the shell's exit is stored, and the
/// call reports the shell's exit code without waiting for that output.
#[test]
fn output_after_the_shell_exits_is_kept() {
    let sandbox = sandbox();
    let text = format!("echo early; ({}; echo late) & exit 7", wait_for_file_command("go"));
    let done = expect_prompt("a late writer", sandbox.siding(&["run", "--", &text]).run());
    assert_eq!(done.expect_code(7).stdout_text(), "early\n");
    let task = Task::only(&sandbox);
    assert!(!task.marked_processes().is_empty(), "the writer must be alive");
    create_file(&sandbox, "go");
    assert_eq!(task.wait_outcome(), serde_json::json!({"kind": "exited", "code": 7}));
    assert_eq!(task.output(), "early\nlate\n");
    assert!(task.stop(&[])["stop_report"].is_null(), "the task must end by itself");
}

/// A flood of output from a lingering process does not delay the call.
#[test]
fn call_returns_despite_a_flood_from_a_lingering_process() {
    let sandbox = sandbox();
    let text = "(while :; do printf '%1000s\\n' x; done) & echo $$";
    let call = sandbox.siding(&["run", "--json", "--budget", "20s", "--", text]);
    let done = expect_prompt("a flood", call.run()).expect_code(0);
    let task = Task::from_view(&sandbox, &done.json());
    assert_eq!(task.stop(&[])["outcome"]["code"], 0);
    task.expect_stopped();
}

/// Promise P38: with `--on-leader-exit reap` no process lingers, and the outcome is that of the
/// shell.
#[test]
fn on_leader_exit_reap_ends_lingering_processes() {
    as_each_user(|sandbox| {
        let child = sandbox.puppet_line(&words("fork daemon mark daemon hang -- mark child hang"));
        let text = format!("{child} & {}; exit 3", wait_for_file_command("go"));
        let args = ["run", "--json", "--on-leader-exit", "reap", "--", &text];
        let call = sandbox.siding(&args).spawn();
        let lingering: Vec<Process> =
            ["child", "daemon"].map(|name| sandbox.wait_for_mark(name)).into();
        create_file(&sandbox, "go");
        let done = call.wait().expect_code(3);
        let task = Task::from_view(&sandbox, &done.json());
        assert_eq!(task.wait_outcome(), serde_json::json!({"kind": "exited", "code": 3}));
        let report = ended_processes(&task.stop(&[]));
        for process in lingering {
            assert_eq!(report.get(&process.pid).map(String::as_str), Some("SIGTERM"));
        }
        task.expect_stopped();
    });
}

/// Failures F19 and F20: a task whose shell has exited is lingering, and ends only with its last
/// process.
#[test]
fn lingering_task_ends_with_its_last_process() {
    let sandbox = sandbox();
    let line = sandbox.puppet_line(&words("daemon mark last hang"));
    let args = ["run", "--json", "--", &format!("{line}; exit 9")];
    let view = sandbox.siding(&args).run().expect_code(9).json();
    assert_eq!(view["phase"], "lingering");
    let task = Task::from_view(&sandbox, &view);
    let waits = sandbox.siding(&["wait", "--timeout", "200ms", &task.id]);
    let _still = waits.run().expect_code(124);
    sandbox.wait_for_mark("last").kill();
    assert_eq!(task.wait_outcome(), serde_json::json!({"kind": "exited", "code": 9}));
    task.expect_stopped();
}
