//! Tasks that are started inside other tasks.

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};
use siding_e2e::processes::Process;
use siding_e2e::{Sandbox, eventually, eventually_some, processes, words};

use crate::support::{
    Task, as_each_user, create_file, ended_processes, listed_pids, sandbox, wait_for_file_command,
};

/// Returns a shell line that starts a background task. The tests run this line inside another task.
fn inner_task_line(sandbox: &Sandbox, flags: &[&str], text: &str) -> String {
    let args = [&["run", "--background"], flags, &["--", text]].concat();
    sandbox.siding_line(&args)
}

/// Waits until `outer` has printed the id of the task that it started, and returns that task.
fn wait_for_started_task<'s>(sandbox: &'s Sandbox, outer: &Task<'_>) -> Task<'s> {
    let id = eventually_some("the inner task's id is printed", || {
        let output = outer.output();
        // The line after the id is siding's advice.
        let (id, _advice) = output.split_once('\n')?;
        id.starts_with("b-").then(|| id.to_owned())
    });
    Task::from_view(sandbox, &json!({ "task_id": id }))
}

/// Promise P39: an inner task survives the stop of the outer task. A stop of the inner task ends
/// the inner task, including its daemons.
#[test]
fn inner_task_survives_the_stop_of_the_outer() {
    as_each_user(|sandbox| {
        let deep = sandbox.puppet_line(&words("fork daemon mark inner hang -- mark inner hang"));
        let start_inner = inner_task_line(&sandbox, &["--timeout", "20m"], &deep);
        let own = sandbox.puppet_line(&words("--quiet fork daemon mark outer hang -- hang"));
        let outer =
            Task::start_with(&sandbox, &["--timeout", "10m"], &format!("{start_inner}; {own}"));
        let inner = wait_for_started_task(&sandbox, &outer);
        let outers = sandbox.wait_for_mark("outer");
        let inners: Vec<_> =
            eventually_some("both processes of the inner task have started", || {
                let steps = sandbox.announcements().into_iter();
                let steps = steps
                    .filter(|step| step.fields.get("text").is_some_and(|text| text == "inner"));
                let found: Vec<_> = steps.map(|step| step.process).collect();
                (found.len() == 2).then_some(found)
            });

        let stopped = outer.stop(&[]);
        let report = ended_processes(&stopped);
        assert!(report.contains_key(&outers.pid) && !outers.is_alive(), "{stopped}");
        for process in &inners {
            assert!(process.is_alive() && !report.contains_key(&process.pid), "{stopped}");
        }
        assert!(outer.marked_processes().is_empty());
        assert_eq!(stopped["outcome"]["kind"], "stopped");

        let view = inner.stop(&[]);
        inner.expect_stopped();
        assert_eq!(view["parent_task"], outer.id);
        assert_eq!(view["outcome"]["kind"], "stopped");
        for process in &inners {
            assert_eq!(ended_processes(&view)[&process.pid], "SIGTERM");
        }
    });
}

/// Promise P39: the outer task ends with its own last process, although the inner task still runs.
#[test]
fn outer_task_ends_while_the_inner_runs() {
    as_each_user(|sandbox| {
        let start_inner = inner_task_line(&sandbox, &[], &wait_for_file_command("go"));
        let args = ["run", "--json", "--", &format!("{start_inner}; exit 3")];
        let view = sandbox.siding(&args).run().expect_code(3).json();
        assert_eq!(view["phase"], "ended", "{view}");
        let outer = Task::from_view(&sandbox, &view);
        let inner = wait_for_started_task(&sandbox, &outer);
        assert!(!inner.marked_processes().is_empty());
        let proof = r#""proof":"no descendant of its shim belongs to it""#;
        assert!(outer.journal().contains(proof), "the inner shim is a child of the outer one");
        create_file(&sandbox, "go");
        assert_eq!(inner.wait_outcome(), json!({"kind": "exited", "code": 0}));
        inner.expect_stopped();
        assert!(inner.journal().contains(r#""proof":"ECHILD""#));
        assert_eq!(outer.wait_outcome(), json!({"kind": "exited", "code": 3}));
    });
}

/// A siding command that runs inside one task can take over another task, and the new shim outlives
/// the first task. An unprivileged process can lower its birthmark but not raise it, so the test
/// uses the harder case, in which the calling task has the smaller birthmark.
#[test]
fn task_recovered_from_inside_another_outlives_it() {
    as_each_user(|sandbox| {
        let rescue = sandbox.siding_line(&["show"]);
        for (flags, files) in [(&["--on-leader-exit", "reap"][..], ["a", "b"]), (&[], ["c", "d"])] {
            let mut tasks = files.map(|file| {
                let wait = format!("until [ -s {file} ]; do sleep .02; done");
                let text = format!("{wait}; {rescue} $(cat {file})");
                (Task::start_with(&sandbox, flags, &text), file)
            });
            // Ids sort in the order of their birthmarks.
            tasks.sort_by(|(one, _), (two, _)| one.id.cmp(&two.id));
            let [(outer, file), (lost, _)] = &tasks;
            let shim = || {
                let title = format!("siding __shim {}", lost.id);
                let is_its = |pid: &u32| processes::command_line(*pid) == title;
                processes::list_pids().into_iter().find(is_its).and_then(Process::from_pid)
            };
            let first = eventually_some("its shim runs", shim);
            first.kill();
            eventually("the process is dead", || !first.is_alive());
            std::fs::write(sandbox.path(file), &lost.id).expect("test directory");
            assert_eq!(outer.wait_outcome(), json!({"kind": "exited", "code": 0}));
            outer.expect_one_end();
            let second = shim().expect("a second shim");
            assert_eq!(lost.show()["outcome"], Value::Null);
            assert!(second.is_alive() && !lost.marked_processes().is_empty());
            let _view = lost.stop(&[]);
            lost.expect_stopped();
        }
    });
}

/// A lingering outer task lists its own processes and not those of the inner task.
#[test]
fn outer_task_lingers_only_for_its_own_processes() {
    let sandbox = sandbox();
    let start_inner =
        inner_task_line(&sandbox, &[], &sandbox.puppet_line(&words("mark inner hang")));
    let lingering = sandbox.puppet_line(&words("--quiet daemon mark left hang"));
    let args = ["run", "--json", "--", &format!("{start_inner}; {lingering}; exit 0")];
    let view = sandbox.siding(&args).run().expect_code(0).json();
    assert_eq!(view["phase"], "lingering");
    let outer = Task::from_view(&sandbox, &view);
    let inner = wait_for_started_task(&sandbox, &outer);
    let (own, other) = (sandbox.wait_for_mark("left"), sandbox.wait_for_mark("inner"));
    let named = listed_pids(&view);
    assert!(!named.contains(&other.pid), "{view}");
    own.kill();
    assert_eq!(outer.wait_outcome(), json!({"kind": "exited", "code": 0}));
    assert!(other.is_alive());
    let _view = inner.stop(&[]);
    inner.expect_stopped();
}

/// The exit code of an inner foreground task becomes the exit code of the outer task.
#[test]
fn outer_task_receives_the_exit_code_of_a_foreground_inner_task() {
    let sandbox = sandbox();
    let run = sandbox.siding_line(&["run", "--", "echo inside; exit 6"]);
    let done = sandbox.siding(&["run", "--", &run]).run().expect_code(6);
    assert_eq!(done.stdout_text(), "inside\n");
    // Stopping the outer task ends the call that waits for the inner task, but not the inner task.
    let child = sandbox.puppet_line(&words("mark inner hang"));
    let run = sandbox.siding_line(&["run", "--budget", "none", "--", &child]);
    let outer = Task::start(&sandbox, &run);
    let process = sandbox.wait_for_mark("inner");
    let _view = outer.stop(&[]);
    assert!(outer.marked_processes().is_empty() && process.is_alive());
    let ids = sandbox.task_ids();
    let views =
        ids.into_iter().map(|id| Task::from_view(&sandbox, &json!({ "task_id": id })).stop(&[]));
    let view = views.into_iter().find(|view| view["parent_task"] == outer.id);
    let view = view.expect("an inner task");
    assert_eq!(view["placement"], json!({"kind": "background", "why": "user"}));
    assert!(!process.is_alive());
}

/// Promise P39, three levels deep: each stop ends only the stopped task, whatever the order of the
/// stops.
#[test]
fn three_nested_levels_stop_independently_in_any_order() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
        let sandbox = sandbox();
        let lowest = sandbox.puppet_line(&words("--quiet fork daemon mark 2 hang -- hang"));
        let start_inner = inner_task_line(&sandbox, &[], &lowest);
        let own = sandbox.puppet_line(&words("--quiet fork daemon mark 1 hang -- hang"));
        let start_inner = inner_task_line(&sandbox, &[], &format!("{start_inner}; {own}"));
        let own = sandbox.puppet_line(&words("--quiet fork daemon mark 0 hang -- hang"));
        let first = Task::start(&sandbox, &format!("{start_inner}; {own}"));
        let second = wait_for_started_task(&sandbox, &first);
        let third = wait_for_started_task(&sandbox, &second);
        let members = ["0", "1", "2"].map(|name| sandbox.wait_for_mark(name));
        let tasks = [first, second, third];
        let mut living = vec![0, 1, 2];
        let mut views = vec![Value::Null; 3];
        for level in order {
            views[level] = tasks[level].stop(&[]);
            living.retain(|other| *other != level);
            for (other, member) in members.iter().enumerate() {
                assert_eq!(member.is_alive(), living.contains(&other), "{order:?}, {level}");
            }
        }
        assert_eq!(views[0]["parent_task"], Value::Null);
        assert_eq!(views[1]["parent_task"], tasks[0].id);
        assert_eq!(views[2]["parent_task"], tasks[1].id);
        tasks.iter().for_each(Task::expect_stopped);
    }
}

/// Promise P39: the deadline of an inner task does not end the outer task, and the deadline of the
/// outer task does not end the inner task.
#[test]
fn inner_and_outer_deadlines_are_independent() {
    let sandbox = sandbox();
    let short = inner_task_line(&sandbox, &["--timeout", "400ms"], "sleep 300");
    let text = format!("{short}; {}", wait_for_file_command("go"));
    let outer = Task::start(&sandbox, &text);
    let brief = wait_for_started_task(&sandbox, &outer);
    assert_eq!(brief.wait_outcome(), json!({"kind": "deadline", "limit_ms": 400}));
    assert!(!outer.marked_processes().is_empty());
    create_file(&sandbox, "go");
    assert_eq!(outer.wait_outcome()["code"], 0);

    let long = inner_task_line(&sandbox, &[], &wait_for_file_command("come"));
    let args = ["--timeout", "3s"];
    let outer = Task::start_with(&sandbox, &args, &format!("{long}; sleep 300"));
    let patient = wait_for_started_task(&sandbox, &outer);
    assert_eq!(outer.wait_outcome(), json!({"kind": "deadline", "limit_ms": 3000}));
    eventually("the outer task's shim has exited", || {
        siding_e2e::processes::with_birthmark(&outer.id).is_empty()
    });
    assert!(!patient.marked_processes().is_empty());
    create_file(&sandbox, "come");
    assert_eq!(patient.wait_outcome()["code"], 0);
}

/// The outer task's shim has no free descriptor when its command ends, so this shim cannot see that
/// only the inner task's shim is left among its descendants. The kernel does not report when a
/// descriptor becomes free, so the shim scans again after a while.
#[test]
fn outer_task_ends_once_its_shim_has_descriptors_again() {
    let sandbox = sandbox();
    let start_inner = inner_task_line(&sandbox, &["--timeout", "20m"], "sleep 300");
    let text = format!("{start_inner}; {}", wait_for_file_command("go"));
    let outer = Task::start_with(&sandbox, &["--timeout", "20m"], &text);
    let inner = wait_for_started_task(&sandbox, &outer);
    let shim = outer.show()["shim_pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let shim = shim.expect("a number");
    let set = |most: u64| {
        let limit = Rlimit { current: Some(most), ..getrlimit(Resource::Nofile) };
        prlimit(Pid::from_raw(shim), Resource::Nofile, limit)
            .expect("setting the shim's limit succeeded");
    };
    set(3);
    create_file(&sandbox, "go");
    eventually("its command has ended", || outer.journal().contains("leader_ended"));
    let before = processes::voluntary_switches(shim.cast_unsigned());
    eventually("the shim has scanned again", || {
        processes::voluntary_switches(shim.cast_unsigned()) > before
            || outer.journal().contains(r#""record":"closed""#)
    });
    assert!(
        !outer.journal().contains(r#""record":"closed""#),
        "the end was recorded without proof"
    );
    set(256);
    eventually("it sees the end", || outer.journal().contains(r#""record":"closed""#));
    assert_eq!(inner.show()["phase"], "running");
    let _stopped = inner.stop(&["--grace", "0s"]);
}
