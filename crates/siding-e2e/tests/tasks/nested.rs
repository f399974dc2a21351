//! Tasks inside tasks.

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use serde_json::{Value, json};
use siding_e2e::processes::Process;
use siding_e2e::{Sandbox, eventually, eventually_some, processes, words};

use crate::support::{Task, as_each_user, ended, make_file, pids, sandbox, until_file};

/// A shell line that starts a task in the background inside another, without its output.
fn inner(sandbox: &Sandbox, flags: &[&str], text: &str) -> String {
    let args = [&["run", "--background"], flags, &["--", text]].concat();
    sandbox.siding_line(&args)
}

/// Waits until `outer` has printed the id of the task it has started.
fn started_by<'s>(sandbox: &'s Sandbox, outer: &Task<'_>) -> Task<'s> {
    let id = eventually_some("the inner task's id", || {
        let output = outer.output();
        // Advice follows, for who reads it.
        let (id, _advice) = output.split_once('\n')?;
        id.starts_with("b-").then(|| id.to_owned())
    });
    Task::of(sandbox, &json!({ "task_id": id }))
}

/// SPEC 2.4b: an inner task is a task of its own, with its own deadline, and outlives the stop
/// of the outer one; its own stop ends it, daemons included.
#[test]
fn an_inner_task_outlives_the_stop_of_the_outer() {
    as_each_user(|sandbox| {
        let deep = sandbox.puppet_line(&words("fork daemon mark inner hang -- mark inner hang"));
        let begin = inner(&sandbox, &["--timeout", "20m"], &deep);
        let own = sandbox.puppet_line(&words("--quiet fork daemon mark outer hang -- hang"));
        let outer = Task::start_with(&sandbox, &["--timeout", "10m"], &format!("{begin}; {own}"));
        let inner = started_by(&sandbox, &outer);
        let outers = sandbox.wait_for_mark("outer");
        let inners: Vec<_> = eventually_some("both members of the inner", || {
            let steps = sandbox.announcements().into_iter();
            let steps =
                steps.filter(|step| step.fields.get("text").is_some_and(|text| text == "inner"));
            let found: Vec<_> = steps.map(|step| step.process).collect();
            (found.len() == 2).then_some(found)
        });

        let stopped = outer.stop(&[]);
        let report = ended(&stopped);
        assert!(report.contains_key(&outers.pid) && !outers.is_alive(), "{stopped}");
        for process in &inners {
            assert!(process.is_alive() && !report.contains_key(&process.pid), "{stopped}");
        }
        assert!(outer.marked().is_empty());
        assert_eq!(stopped["outcome"]["kind"], "stopped");

        let view = inner.stop(&[]);
        inner.expect_gone();
        assert_eq!(view["parent_task"], outer.id);
        assert_eq!(view["outcome"]["kind"], "stopped");
        for process in &inners {
            assert_eq!(ended(&view)[&process.pid], "SIGTERM");
        }
    });
}

/// SPEC 2.4b: the outer task does not linger on account of the inner one.
#[test]
fn the_outer_task_does_not_wait_for_the_inner() {
    as_each_user(|sandbox| {
        let begin = inner(&sandbox, &[], &until_file("go"));
        let args = ["run", "--json", "--", &format!("{begin}; exit 3")];
        let view = sandbox.siding(&args).run().expect_code(3).json();
        assert_eq!(view["phase"], "ended", "{view}");
        let outer = Task::of(&sandbox, &view);
        let inner = started_by(&sandbox, &outer);
        assert!(!inner.marked().is_empty());
        make_file(&sandbox, "go");
        assert_eq!(inner.outcome(), json!({"kind": "exited", "code": 0}));
        inner.expect_gone();
        assert_eq!(outer.outcome(), json!({"kind": "exited", "code": 3}));
    });
}

/// A task that lost its shim, and gets another from inside a task whose mark is the smaller, which an
/// ordinary user's process cannot put off.
#[test]
fn a_task_that_is_rescued_inside_another_does_not_end_with_it() {
    as_each_user(|sandbox| {
        let rescue = sandbox.siding_line(&["show"]);
        for (flags, files) in [(&["--on-leader-exit", "reap"][..], ["a", "b"]), (&[], ["c", "d"])] {
            let mut tasks = files.map(|file| {
                let wait = format!("until [ -s {file} ]; do sleep .02; done");
                let text = format!("{wait}; {rescue} $(cat {file})");
                (Task::start_with(&sandbox, flags, &text), file)
            });
            // Ids are in the order of their marks.
            tasks.sort_by(|(one, _), (two, _)| one.id.cmp(&two.id));
            let [(outer, file), (lost, _)] = &tasks;
            let shim = || {
                let title = format!("siding __shim {}", lost.id);
                let is_its = |pid: &u32| processes::command_line(*pid) == title;
                processes::list_pids().into_iter().find(is_its).and_then(Process::from_pid)
            };
            let first = eventually_some("its shim", shim);
            first.kill();
            eventually("it is dead", || !first.is_alive());
            std::fs::write(sandbox.path(file), &lost.id).expect("own directory");
            assert_eq!(outer.outcome(), json!({"kind": "exited", "code": 0}));
            outer.expect_one_end();
            let second = shim().expect("its second shim");
            assert_eq!(lost.shown()["outcome"], Value::Null);
            assert!(second.is_alive() && !lost.marked().is_empty());
            let _view = lost.stop(&[]);
            lost.expect_gone();
        }
    });
}

/// What the outer task leaves of its own is told apart from the inner task's.
#[test]
fn what_lingers_is_the_outer_tasks_own() {
    let sandbox = sandbox();
    let begin = inner(&sandbox, &[], &sandbox.puppet_line(&words("mark inner hang")));
    let left = sandbox.puppet_line(&words("--quiet daemon mark left hang"));
    let args = ["run", "--json", "--", &format!("{begin}; {left}; exit 0")];
    let view = sandbox.siding(&args).run().expect_code(0).json();
    assert_eq!(view["phase"], "lingering");
    let outer = Task::of(&sandbox, &view);
    let inner = started_by(&sandbox, &outer);
    let (own, other) = (sandbox.wait_for_mark("left"), sandbox.wait_for_mark("inner"));
    let named = pids(&view);
    assert!(!named.contains(&other.pid), "{view}");
    own.kill();
    assert_eq!(outer.outcome(), json!({"kind": "exited", "code": 0}));
    assert!(other.is_alive());
    let _view = inner.stop(&[]);
    inner.expect_gone();
}

/// An inner task that is waited for gives its code to the outer one.
#[test]
fn an_inner_task_in_the_foreground_is_a_command_like_any() {
    let sandbox = sandbox();
    let run = sandbox.siding_line(&["run", "--", "echo inside; exit 6"]);
    let done = sandbox.siding(&["run", "--", &run]).run().expect_code(6);
    assert_eq!(done.stdout_text(), "inside\n");
    // Stopping the outer task takes the caller of the inner one away, no more.
    let child = sandbox.puppet_line(&words("mark inner hang"));
    let run = sandbox.siding_line(&["run", "--budget", "none", "--", &child]);
    let outer = Task::start(&sandbox, &run);
    let process = sandbox.wait_for_mark("inner");
    let _view = outer.stop(&[]);
    assert!(outer.marked().is_empty() && process.is_alive());
    let ids = sandbox.task_ids();
    let views = ids.into_iter().map(|id| Task::of(&sandbox, &json!({ "task_id": id })).stop(&[]));
    let view = views.into_iter().find(|view| view["parent_task"] == outer.id);
    let view = view.expect("the inner task");
    assert_eq!(view["placement"], json!({"kind": "background", "why": "user"}));
    assert!(!process.is_alive());
}

/// SPEC 2.4b, three levels deep: each ends by its own deadline or stop, in any order.
#[test]
fn three_levels_end_one_by_one() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
        let sandbox = sandbox();
        let lowest = sandbox.puppet_line(&words("--quiet fork daemon mark 2 hang -- hang"));
        let begin = inner(&sandbox, &[], &lowest);
        let own = sandbox.puppet_line(&words("--quiet fork daemon mark 1 hang -- hang"));
        let begin = inner(&sandbox, &[], &format!("{begin}; {own}"));
        let own = sandbox.puppet_line(&words("--quiet fork daemon mark 0 hang -- hang"));
        let first = Task::start(&sandbox, &format!("{begin}; {own}"));
        let second = started_by(&sandbox, &first);
        let third = started_by(&sandbox, &second);
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
        tasks.iter().for_each(Task::expect_gone);
    }
}

/// An inner task has its own clock: the outer one's deadline is not its deadline.
#[test]
fn deadlines_are_each_tasks_own() {
    let sandbox = sandbox();
    let short = inner(&sandbox, &["--timeout", "400ms"], "sleep 300");
    let text = format!("{short}; {}", until_file("go"));
    let outer = Task::start(&sandbox, &text);
    let brief = started_by(&sandbox, &outer);
    assert_eq!(brief.outcome(), json!({"kind": "deadline", "limit_ms": 400}));
    assert!(!outer.marked().is_empty());
    make_file(&sandbox, "go");
    assert_eq!(outer.outcome()["code"], 0);

    let long = inner(&sandbox, &[], &until_file("come"));
    let args = ["--timeout", "3s"];
    let outer = Task::start_with(&sandbox, &args, &format!("{long}; sleep 300"));
    let patient = started_by(&sandbox, &outer);
    assert_eq!(outer.outcome(), json!({"kind": "deadline", "limit_ms": 3000}));
    eventually("the outer task's shim has left", || {
        siding_e2e::processes::with_birthmark(&outer.id).is_empty()
    });
    assert!(!patient.marked().is_empty());
    make_file(&sandbox, "come");
    assert_eq!(patient.outcome()["code"], 0);
}

/// The outer task's shim has no descriptor when its command ends, and cannot see that only the inner
/// one's shim is left below it. No signal comes for that: it looks again by itself.
#[test]
fn an_outer_task_whose_end_could_not_be_seen_ends_while_the_inner_runs() {
    let sandbox = sandbox();
    let begin = inner(&sandbox, &["--timeout", "20m"], "sleep 300");
    let text = format!("{begin}; {}", until_file("go"));
    let outer = Task::start_with(&sandbox, &["--timeout", "20m"], &text);
    let inner = started_by(&sandbox, &outer);
    let shim = outer.shown()["shim_pid"].as_i64().and_then(|pid| i32::try_from(pid).ok());
    let shim = shim.expect("a number");
    let set = |most: u64| {
        let limit = Rlimit { current: Some(most), ..getrlimit(Resource::Nofile) };
        prlimit(Pid::from_raw(shim), Resource::Nofile, limit).expect("one's own shim");
    };
    set(3);
    make_file(&sandbox, "go");
    eventually("its command has ended", || outer.journal().contains("leader_ended"));
    let before = processes::voluntary_switches(shim.cast_unsigned());
    eventually("it has looked again", || {
        processes::voluntary_switches(shim.cast_unsigned()) > before
            || outer.journal().contains(r#""record":"closed""#)
    });
    assert!(!outer.journal().contains(r#""record":"closed""#), "nothing proves that");
    set(256);
    eventually("it sees the end", || outer.journal().contains(r#""record":"closed""#));
    assert_eq!(inner.shown()["phase"], "running");
    let _stopped = inner.stop(&["--grace", "0s"]);
}
