//! A stop ends all processes of a task, proves that no process is left, and reports the processes
//! that it has ended.

use std::net::TcpListener;
use std::time::Duration;

use siding_e2e::{Process, ProgramOutput, Sandbox, eventually, eventually_some, processes, words};

use crate::support::{
    Task, as_each_user, ended_processes, expect_prompt, sandbox, wait_for_file_command,
};

/// Trees that SIGTERM ends (promise P31, failure F7): the number of members that announce the mark
/// `m`, and the verbs.
const TERMINATING_TREES: &[(usize, &str)] = &[
    (1, "mark m hang"),
    (3, "fork mark m hang -- fork mark m hang -- mark m wait"),
    (2, "fork setsid mark m hang -- mark m hang"),
    (2, "fork setpgid mark m hang -- mark m hang"),
    (2, "fork daemon mark m hang -- mark m hang"),
    (2, "fork daemon fork daemon mark m hang -- mark m hang -- mark m hang"),
    (2, "fork orphan setsid clearenv closefds rename kworker mark m hang -- mark m hang"),
    (2, "fork subreaper fork daemon mark m hang -- hang -- mark m hang"),
    (3, "subreaper fork subreaper fork daemon mark m hang -- mark m wait -- mark m wait"),
    (1, "leader-exits mark m hang"),
    (2, "fork setsid leader-exits mark m hang -- leader-exits mark m hang"),
    (1, "vfork mark m hang --"),
    (1, "grow 8M mark m hang"),
    (1, "mark m burn"),
    (1, "hold-fds 4096 mark m hang"),
    (2, "fork lower-rttime daemon mark m hang -- lower-rttime mark m hang"),
    (1, "fork relaunch mark m hang -- -- hang"),
    (1, "exec-self exec-self clearenv mark m hang"),
];

/// Starts puppets as a task and waits until `count` of them have announced their mark. Returns the
/// task and these puppets.
#[track_caller]
fn start_puppets<'s>(
    sandbox: &'s Sandbox,
    flags: &[&str],
    count: usize,
    verbs: &str,
) -> (Task<'s>, Vec<Process>) {
    let before = marked_processes(sandbox).len();
    let task = Task::start_puppet(sandbox, flags, &words(verbs));
    let marked = eventually_some(&format!("{count} members of `{verbs}` have started"), || {
        let marked = marked_processes(sandbox).split_off(before);
        (marked.len() >= count).then_some(marked)
    });
    (task, marked)
}

fn marked_processes(sandbox: &Sandbox) -> Vec<Process> {
    let mut steps = sandbox.announcements();
    steps.retain(|step| step.verb == "mark");
    steps.iter().map(|step| step.process).collect()
}

/// Promise P31, failures F7, F8 and F20: all processes receive SIGTERM, and all have exited when
/// the stop returns.
#[test]
fn stop_ends_the_whole_tree_with_sigterm() {
    as_each_user(|sandbox| {
        for (count, verbs) in TERMINATING_TREES {
            let (task, marked) = start_puppets(&sandbox, &[], *count, verbs);
            let view = task.stop(&[]);
            task.expect_stopped();
            assert_eq!(view["phase"], "ended");
            assert_eq!(view["outcome"], serde_json::json!({"kind": "stopped", "by": "user"}));
            assert_eq!(view["stop_report"]["survivors"], serde_json::json!([]));
            let report = ended_processes(&view);
            for process in marked {
                let signal = report.get(&process.pid).map(String::as_str);
                assert_eq!(signal, Some("SIGTERM"), "`{verbs}`: {view}");
            }
        }
    });
}

/// Promise P31: without a grace, SIGKILL ends all processes of these trees.
#[test]
fn stop_without_grace_kills_the_whole_tree() {
    as_each_user(|sandbox| {
        for (count, verbs) in TERMINATING_TREES {
            let (task, marked) = start_puppets(&sandbox, &[], *count, verbs);
            let view = task.stop(&["--grace", "0s"]);
            task.expect_stopped();
            let report = ended_processes(&view);
            for process in marked {
                assert!(report.contains_key(&process.pid), "`{verbs}`: {view}");
            }
        }
    });
}

/// Promise P31: a process with much memory takes time to exit, and the stop returns only after this
/// process has exited.
#[test]
fn stop_returns_after_a_large_process_is_gone() {
    let sandbox = sandbox();
    for grace in ["0s", "10s"] {
        let (task, marked) = start_puppets(&sandbox, &[], 1, "grow 200M mark m hang");
        let view = task.stop(&["--grace", grace]);
        task.expect_stopped();
        assert!(ended_processes(&view).contains_key(&marked[0].pid), "{view}");
    }
}

/// Promise P32, failure F7: a process that ignores SIGTERM is killed after the grace period, and
/// the report names the signal.
#[test]
fn processes_ignoring_sigterm_are_killed_after_the_grace() {
    as_each_user(|sandbox| {
        let verbs = "ignore ALL fork setsid mark m hang -- \
                     fork default TERM daemon ignore TERM mark m hang -- \
                     fork default TERM mark polite hang -- mark m hang";
        let (task, ignoring) = start_puppets(&sandbox, &["--grace", "400ms"], 4, verbs);
        let polite = sandbox.wait_for_mark("polite");
        let done = run_stop(&sandbox, &task, &[]);
        println!("grace 400ms: {:?}", done.elapsed);
        assert!(done.elapsed >= Duration::from_millis(400), "{done}");
        assert!(done.elapsed < Duration::from_secs(8), "{done}");
        task.expect_stopped();
        let report = ended_processes(&done.json());
        for process in ignoring {
            let signal = if process == polite { "SIGTERM" } else { "SIGKILL" };
            assert_eq!(report.get(&process.pid).map(String::as_str), Some(signal), "{report:?}");
        }
    });
}

#[track_caller]
fn run_stop(sandbox: &Sandbox, task: &Task<'_>, flags: &[&str]) -> ProgramOutput {
    let args = [&["stop", "--json"], flags, &[&task.id]].concat();
    sandbox.siding(&args).run().expect_code(0)
}

/// Failure F7: a shell that traps the signal does not protect its children.
#[test]
fn shell_trap_does_not_save_its_children() {
    let sandbox = sandbox();
    let child = sandbox.puppet_line(&words("mark m hang"));
    let text = format!("trap '' TERM; {child} & wait");
    let task = Task::start_with(&sandbox, &["--grace", "300ms"], &text);
    // The child inherits the ignored SIGTERM, so SIGKILL ends it.
    let child = sandbox.wait_for_mark("m");
    assert_eq!(ended_processes(&task.stop(&[]))[&child.pid], "SIGKILL");
    task.expect_stopped();

    let text = format!(
        "trap 'echo cleaned up; exit 3' TERM; : > trapped; {} & wait",
        wait_for_file_command("never")
    );
    let task = Task::start(&sandbox, &text);
    eventually("the trap is set", || sandbox.path("trapped").exists());
    let view = task.stop(&[]);
    assert_eq!(view["leader_outcome"], serde_json::json!({"kind": "exited", "code": 3}));
    assert!(task.output().starts_with("cleaned up\n[siding] stopped by user; ended "));
    task.expect_stopped();
}

/// Failure F7: a stop ends every stage of a pipeline.
#[test]
fn stop_ends_every_stage_of_a_pipeline() {
    as_each_user(|sandbox| {
        let stage = sandbox.puppet_line(&words("--quiet mark stage hang"));
        let task = Task::start(&sandbox, &format!("{stage} | {stage} | ({stage}) | cat"));
        let stages = sandbox.wait_for_announcements("mark", 3);
        let report = ended_processes(&task.stop(&[]));
        task.expect_stopped();
        assert!(stages.iter().all(|stage| report.contains_key(&stage.process.pid)));
    });
}

/// Failure F8: a loop does not start its next command when its current command is stopped.
#[test]
fn stopped_shell_loop_starts_no_further_command() {
    as_each_user(|sandbox| {
        for (round, name) in ["", "timeout 50 ", "setsid -w "].iter().enumerate() {
            let child = sandbox.puppet_line(&words("mark turn hang"));
            let text = format!("for m in a b c; do {name}{child} || true; done; echo over");
            let task = Task::start(&sandbox, &text);
            let _first = sandbox.wait_for_announcements("mark", round + 1);
            let _view = task.stop(&[]);
            task.expect_stopped();
            assert_eq!(
                sandbox.wait_for_announcements("mark", round + 1).len(),
                round + 1,
                "{text}"
            );
            assert!(!task.output().contains("over"));
        }
    });
}

/// Failure F8: a stop also ends a process that starts its child again whenever the child dies.
#[test]
fn stop_ends_a_relauncher_that_ignores_sigterm() {
    as_each_user(|sandbox| {
        let verbs = "ignore TERM fork relaunch setsid default TERM mark m hang -- -- \
                     relaunch mark m hang --";
        let (task, _marked) = start_puppets(&sandbox, &["--grace", "200ms"], 2, verbs);
        let view = task.stop(&[]);
        task.expect_stopped();
        assert!(ended_processes(&view).values().any(|signal| signal == "SIGKILL"), "{view}");
    });
}

/// Kernel fact K16: SIGTERM followed by SIGCONT also ends a stopped process.
#[test]
fn stop_ends_sigstopped_processes() {
    as_each_user(|sandbox| {
        let verbs = "fork setsid mark m stop-self -- fork leader-exits mark m stop-self -- \
                     mark m stop-self hang";
        let (task, marked) = start_puppets(&sandbox, &[], 3, verbs);
        eventually("all are stopped", || {
            marked.iter().all(|process| {
                let threads = processes::threads(process.pid);
                processes::state(process.pid) == Some('T') || threads.len() == 2
            })
        });
        let shown = task.show();
        let states = shown["processes"].as_array().expect("a list");
        assert!(states.iter().any(|one| one["state"] == "T"), "{shown}");
        let report = ended_processes(&task.stop(&[]));
        task.expect_stopped();
        for process in marked {
            assert_eq!(report.get(&process.pid).map(String::as_str), Some("SIGTERM"));
        }
    });
}

/// Failure F16: the report names the freed ports, which can be bound immediately.
#[test]
fn stop_reports_and_frees_listening_ports() {
    as_each_user(|sandbox| {
        let file = |name: &str| sandbox.path(name).display().to_string();
        let script = [
            "fork",
            "daemon",
            "listen",
            &file("one"),
            "mark",
            "m",
            "hang",
            "--", //
            "listen",
            &file("two"),
            "mark",
            "m",
            "hang",
        ];
        let task = Task::start_puppet(&sandbox, &[], &script);
        let _listening = sandbox.wait_for_announcements("listen", 2);
        let mut ports = ["one", "two"].map(|name| {
            let text = std::fs::read_to_string(sandbox.path(name)).expect("an announcement");
            text.parse::<u16>().expect("a port")
        });
        ports.sort();
        let view = task.stop(&[]);
        let mut freed: Vec<u16> =
            serde_json::from_value(view["stop_report"]["ports_freed"].clone()).expect("ports");
        freed.sort();
        assert_eq!(freed, ports, "{view}");
        for port in ports {
            let _bound = TcpListener::bind(("127.0.0.1", port)).expect("the port can be bound");
        }
        task.expect_stopped();
    });
}

/// Failures F17 and F20: the outcome of a stopped command is not a success, and a second stop
/// changes nothing.
#[test]
fn second_stop_changes_nothing() {
    let sandbox = sandbox();
    let text = format!("trap 'exit 0' TERM; {} & wait", wait_for_file_command("never"));
    let call = sandbox.siding(&["run", "--budget", "none", "--", &text]).spawn();
    eventually("it runs", || sandbox.task_ids().len() == 1);
    let task = Task::only(&sandbox);
    eventually("it runs", || task.marked_processes().len() > 2);
    let view = task.stop(&[]);
    assert_eq!(view["outcome"]["kind"], "stopped");
    let _waiter = call.wait().expect_code(143);
    assert_eq!(task.stop(&[]), view);
    assert_eq!(task.wait_outcome(), view["outcome"]);
    task.expect_stopped();
}

/// `--signal` of `siding run` or of `siding stop` sets the signal that a stop sends first.
#[test]
fn stop_signal_can_be_chosen() {
    let sandbox = sandbox();
    for (run, stop) in [(&["--signal", "INT"][..], &[][..]), (&[], &["--signal", "2"])] {
        let (task, marked) = start_puppets(&sandbox, run, 1, "ignore TERM mark m hang");
        assert_eq!(ended_processes(&task.stop(stop))[&marked[0].pid], "SIGINT");
        task.expect_stopped();
    }
}

/// The text report names every process and its signal, in lines of at most 80 columns.
#[test]
fn stop_report_names_processes_and_signals() {
    let sandbox = sandbox();
    let (task, marked) = start_puppets(&sandbox, &[], 1, "mark m hang");
    let short = &task.id[..8];
    let done = expect_prompt("stop", sandbox.siding(&["stop", short]).run()).expect_code(0);
    assert!(done.stdout_text().contains(&task.id), "a short id is enough: {done}");
    assert!(done.stdout_text().contains("stopped by user"), "{done}");
    let line = format!("{:>7}  SIGTERM", marked[0].pid);
    assert!(done.stdout_text().contains(&line), "{done}");
    assert!(done.stdout_text().lines().all(|line| line.chars().count() <= 80), "{done}");
}

/// `stop --all` ends all processes of all tasks.
#[test]
fn stop_all_ends_every_task() {
    let sandbox = sandbox();
    let tasks: Vec<Task<'_>> = (0..8)
        .map(|number| Task::start(&sandbox, &format!(": {number}; sleep 300 & sleep 300")))
        .collect();
    let done = sandbox.siding(&["stop", "--all", "--json"]).run().expect_code(0);
    assert_eq!(done.json().as_array().map(Vec::len), Some(8), "{done}");
    tasks.iter().for_each(Task::expect_stopped);
    let again = sandbox.siding(&["stop", "--all", "--json"]).run().expect_code(0);
    assert_eq!(again.json(), serde_json::json!([]));
}

/// `stop --all --session` ends only the tasks of one session.
#[test]
fn stop_all_of_a_session_spares_other_sessions() {
    let sandbox = sandbox();
    let owner = sandbox.host("sleep", &["300"]).spawn();
    let pid = owner.process().pid.to_string();
    let mut tasks = vec![];
    for session in ["one", "two"] {
        let open = ["session", "open", session, "--owner-pid", &pid];
        let _opened = sandbox.siding(&open).run().expect_code(0);
        for number in 0..2 {
            let text = format!(": {session} {number}; sleep 300");
            tasks.push(Task::start_with(&sandbox, &["--session", session], &text));
        }
    }
    let stop = ["stop", "--all", "--session", "one", "--json"];
    let views = sandbox.siding(&stop).run().expect_code(0).json();
    let views = views.as_array().expect("a list");
    assert_eq!(views.len(), 2);
    assert!(views.iter().all(|view| view["session_id"] == "one"));
    tasks[..2].iter().for_each(Task::expect_stopped);
    assert!(tasks[2..].iter().all(|task| !task.marked_processes().is_empty()));
    for task in &tasks[2..] {
        assert_eq!(task.stop(&[])["outcome"]["by"], "user");
    }
}
