//! A control group for each task, where one is delegated.
//!
//! All of these need root, to give groups away; what they say about ordinary users is tested as one.

use std::collections::BTreeSet;
use std::path::Path;

use rustix::process::Signal;
use serde_json::{Value, json};
use siding_e2e::{Given, Ground, Process, Sandbox, eventually, ground, processes, words};

use crate::support::{Task, ended, ordinary, pids, sandbox};

/// Runs a test as root and as an ordinary user, each in a group of their own.
fn as_each_owner(test: impl Fn(&Sandbox, &Ground)) {
    if let Some(ground) = Ground::new(Given::ToRoot) {
        test(&sandbox(), &ground);
    }
    if let Some(mut user) = ordinary() {
        user.expect_clean();
        let uid = std::os::unix::fs::MetadataExt::uid(&user.home().metadata().expect("is there"));
        if let Some(ground) = Ground::new(Given::To(uid)) {
            test(&user, &ground);
        }
    }
}

/// Starts puppets as a task in the background, from inside the group.
#[track_caller]
fn start<'s>(sandbox: &'s Sandbox, ground: &Ground, flags: &[&str], verbs: &str) -> Task<'s> {
    let line = sandbox.puppet_line(&words(verbs));
    let line = format!("exec {line}");
    let args = [&["run", "--background", "--json"], flags, &["--", &line]].concat();
    Task::of(sandbox, &ground.siding(sandbox, &args).wait().expect_code(0).json())
}

fn shim_of(task: &Task<'_>) -> Process {
    let pid = task.shown()["shim_pid"].as_u64().expect("it is kept");
    Process::of(pid.try_into().expect("a number")).expect("it lives")
}

/// Kills a task's shim, and waits until it is dead.
#[track_caller]
fn kill_shim(task: &Task<'_>) {
    let shim = shim_of(task);
    shim.kill();
    eventually("the shim is dead", || !shim.alive());
}

#[track_caller]
fn expect_removed(group: &Path) {
    eventually("the group is removed", || !group.exists());
}

#[test]
fn a_task_has_a_group_of_its_own_until_it_ends() {
    as_each_owner(|sandbox, ground| {
        let verbs = "fork setsid mark a hang -- fork daemon mark b hang -- mark c hang";
        let task = start(sandbox, ground, &[], verbs);
        let group = ground.of_task(&task.id);
        let tree: BTreeSet<u32> = ["a", "b", "c"].map(|name| sandbox.marked(name).pid).into();
        assert_eq!(ground::members(&group), tree);
        assert!(task.journal().contains(&format!(r#""cgroup":"{}""#, group.display())));
        // A record comes first: no rescuer may meet a group that it cannot find.
        let shim = shim_of(&task);
        assert!(!tree.contains(&shim.pid) && ground::members(ground.dir()).contains(&shim.pid));
        let view = task.stop(&[]);
        task.expect_gone();
        assert_eq!(view["stop_report"]["survivors"], json!([]));
        expect_removed(&group);

        let args = ["run", "--json", "--", "exit 3"];
        let view = ground.siding(sandbox, &args).wait().expect_code(3).json();
        let task = Task::of(sandbox, &view);
        assert!(task.journal().contains(r#""cgroup":""#));
        expect_removed(&ground.of_task(&task.id));
        let none = ["run", "--json", "--", "/no/such/program", "x"];
        let view = ground.siding(sandbox, &none).wait().expect_code(127).json();
        assert_eq!(view["outcome"]["kind"], "failed_to_start");
        eventually("no group is left", || ground.names().is_empty());
    });
}

/// LINUX fault 39: a group that was killed kills whoever is born into it later, so each task has a
/// new one.
#[test]
fn what_was_killed_can_be_run_again() {
    as_each_owner(|sandbox, ground| {
        for _ in 0..5 {
            let args = ["--name", "same"];
            let task = start(sandbox, ground, &args, "ignore TERM fork daemon mark m hang -- hang");
            let view = task.stop(&["--grace", "0s"]);
            task.expect_gone();
            assert_eq!(view["outcome"], json!({"kind": "stopped", "by": "user"}));
        }
        let args = ["run", "--json", "--name", "same", "--", "exit 4"];
        let view = ground.siding(sandbox, &args).wait().expect_code(4).json();
        assert_eq!(view["outcome"], json!({"kind": "exited", "code": 4}));
    });
}

/// The same trap from the other side: the kernel compares with the group of whoever starts the
/// process. A host's group that was killed once must not kill every task.
#[test]
fn a_host_whose_group_was_killed_once_can_run_tasks() {
    as_each_owner(|sandbox, ground| {
        std::fs::write(ground.dir().join("cgroup.kill"), "1").expect("nobody is in it");
        let task = start(sandbox, ground, &[], "mark m hang");
        let process = sandbox.marked("m");
        assert_eq!(ground::members(&ground.of_task(&task.id)), [process.pid].into());
        let view = task.stop(&[]);
        assert_eq!(ended(&view)[&process.pid], "SIGTERM");
        expect_removed(&ground.of_task(&task.id));
        let _code = ground.siding(sandbox, &["run", "--", "exit 7"]).wait().expect_code(7);
    });
}

/// LINUX fault 9: the kernel's own kill of a group misses a process whose first thread has left.
#[test]
fn a_process_whose_first_thread_has_left_is_ended() {
    as_each_owner(|sandbox, ground| {
        let verbs = "ignore ALL fork setsid leader-exits mark a hang -- leader-exits mark b hang";
        let task = start(sandbox, ground, &[], verbs);
        let tree = ["a", "b"].map(|name| sandbox.marked(name));
        let view = task.stop(&["--grace", "0s"]);
        task.expect_gone();
        for process in tree {
            assert_eq!(ended(&view)[&process.pid], "SIGKILL", "{view}");
        }
        expect_removed(&ground.of_task(&task.id));
    });
}

/// Whoever lowers its mark, clears its environment, closes its descriptors and loses its shim is
/// still the task's.
#[test]
fn an_escapee_without_a_mark_is_found_after_its_shim_is_killed() {
    const ESCAPE: &str = "lower-rttime daemon clearenv rename init ignore TERM mark gone hang";
    // With the leader alive, and with nobody left who carries the mark.
    for rest in ["ignore TERM hang", "exit 5"] {
        as_each_owner(|sandbox, ground| {
            let task = start(sandbox, ground, &[], &format!("fork {ESCAPE} -- {rest}"));
            let escapee = sandbox.marked("gone");
            if rest == "exit 5" {
                eventually("it lingers", || task.shown()["phase"] == "lingering");
            }
            kill_shim(&task);
            assert!(task.marked().iter().all(|process| *process != escapee));
            let foreseen = sandbox.siding(&["reap", "--dry-run", "--json"]).run().expect_code(0);
            assert!(foreseen.out().contains("rescued"), "{foreseen}");
            assert!(escapee.alive());
            let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
            let view = task.shown();
            assert!(pids(&view).contains(&escapee.pid), "{view}");
            assert_eq!(view["rescues"], 1, "{view}");
            let view = task.stop(&["--grace", "50ms"]);
            assert!(!escapee.alive(), "{view}");
            assert_eq!(ended(&view)[&escapee.pid], "SIGKILL", "{view}");
            task.expect_gone();
            expect_removed(&ground.of_task(&task.id));
        });
    }
}

/// SPEC 2.4b: the kernel kills a group with all groups below it, so an inner task's is beside.
#[test]
fn a_task_inside_a_task_has_its_group_beside_it() {
    as_each_owner(|sandbox, ground| {
        let inner =
            sandbox.puppet_line(&words("ignore TERM fork daemon mark b hang -- mark a hang"));
        let begin = sandbox.siding_line(&["run", "--background", "--name", "inner", "--", &inner]);
        let own =
            sandbox.puppet_line(&words("--quiet ignore TERM fork daemon mark c hang -- hang"));
        let args = ["run", "--background", "--json", "--", &format!("{begin}; {own}")];
        let view = ground.siding(sandbox, &args).wait().expect_code(0).json();
        let outer = Task::of(sandbox, &view);
        let [a, b, c] = ["a", "b", "c"].map(|name| sandbox.marked(name));
        let list = sandbox.siding(&["ps", "--json"]).run().expect_code(0).json();
        let list = list.as_array().expect("a list").clone();
        let inner = list.iter().find(|view| view["name"] == "inner").expect("it runs");
        let inner = Task::of(sandbox, inner);
        let shim = shim_of(&inner);
        let group = ground.of_task(&inner.id);
        let inners = ground::members(&group);
        assert!(inners.contains(&a.pid) && inners.contains(&b.pid), "{inners:?}");
        let outers = ground::members(&ground.of_task(&outer.id));
        assert!(outers.contains(&c.pid) && !outers.contains(&shim.pid), "{outers:?}");
        let both = [&outer.id, &inner.id].map(|id| format!("siding-{id}"));
        assert_eq!(ground.names(), both.into());

        let view = outer.stop(&["--grace", "0s"]);
        assert!(!c.alive() && a.alive() && b.alive() && shim.alive(), "{view}");
        expect_removed(&ground.of_task(&outer.id));
        let view = inner.stop(&["--grace", "0s"]);
        assert_eq!(view["parent_task"], outer.id);
        inner.expect_gone();
        expect_removed(&group);
    });
}

/// Somebody may have put another task's process into a group. The kernel's kill would take it along.
#[test]
fn a_guest_of_another_task_is_spared() {
    as_each_owner(|sandbox, ground| {
        let one = start(sandbox, ground, &[], "ignore TERM fork daemon mark a hang -- hang");
        let other = start(sandbox, ground, &[], "ignore TERM mark b hang");
        let [a, b] = ["a", "b"].map(|name| sandbox.marked(name));
        let shim = shim_of(&other);
        for guest in [b, shim] {
            ground::put(&ground.of_task(&one.id), guest);
        }
        kill_shim(&one);
        let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
        assert!(!pids(&one.shown()).contains(&b.pid));
        let view = one.stop(&["--grace", "0s"]);
        assert!(!a.alive() && b.alive() && shim.alive(), "{view}");
        assert_eq!(view["stop_report"]["survivors"], json!([]));
        let _view = other.stop(&["--grace", "0s"]);
        other.expect_gone();
        // It could not be removed while they were in it.
        assert!(ground.of_task(&one.id).exists());
        let _reaped = sandbox.siding(&["reap"]).run().expect_code(0);
        assert_eq!(ground.names(), BTreeSet::new());
    });
}

/// A task may divide its own group further. All of it ends with the task.
#[test]
fn groups_that_a_task_has_made_go_with_it() {
    as_each_owner(|sandbox, ground| {
        let deep = sandbox.puppet_line(&words("--quiet lower-rttime ignore TERM mark deep hang"));
        let text = format!(
            "g={}/siding-$SIDING_TASK; mkdir -p $g/x/y $g/z; \
             echo $BASHPID >$g/x/y/cgroup.procs; exec {deep}",
            ground.dir().display()
        );
        let args = ["run", "--background", "--json", "--", &text];
        let view = ground.siding(sandbox, &args).wait().expect_code(0).json();
        let task = Task::of(sandbox, &view);
        let process = sandbox.marked("deep");
        let group = ground.of_task(&task.id);
        assert!(ground::members(&group.join("x/y")).contains(&process.pid));
        kill_shim(&task);
        let view = task.stop(&["--grace", "0s"]);
        assert!(!process.alive(), "{view}");
        task.expect_gone();
        expect_removed(&group);
    });
}

/// A shim that is killed between the end and its leaving leaves an empty group to the next command.
#[test]
fn an_empty_group_is_removed_by_the_next_command() {
    as_each_owner(|sandbox, ground| {
        for command in [&["ps"][..], &["reap"]] {
            let task = start(sandbox, ground, &[], &format!("mark {} hang", command[0]));
            let process = sandbox.marked(command[0]);
            let shim = shim_of(&task);
            shim.signal(Signal::STOP);
            process.kill();
            eventually("only the shim is left", || !process.alive());
            shim.kill();
            eventually("the shim is dead", || !shim.alive());
            let group = ground.of_task(&task.id);
            assert!(group.exists());
            let done = sandbox.siding(command).run().expect_code(0);
            assert!(!group.exists(), "{done}");
        }
    });
}

/// The reaper removes the group of a task that has ended on record, ends who is in it, and touches
/// no other.
#[test]
fn the_reaper_clears_the_groups_of_ended_tasks_and_no_others() {
    as_each_owner(|sandbox, ground| {
        let ended = |count: usize| -> Vec<Task<'_>> {
            let args = ["run", "--json", "--", "true", "x"];
            let run = || ground.siding(sandbox, &args).wait().expect_code(0).json();
            let tasks = (0..count).map(|_| Task::of(sandbox, &run())).collect();
            eventually("no group is left", || ground.names().is_empty());
            tasks
        };
        let tasks = ended(2);
        let strange = ["siding-b-4k7q0n2m8x5t", "siding-x", "else"];
        for name in strange {
            std::fs::create_dir(ground.dir().join(name)).expect("root may");
        }
        // As a kernel that was slow to let go, or a survivor of back then, would leave them.
        for task in &tasks {
            std::fs::create_dir(ground.of_task(&task.id)).expect("root may");
        }
        let stray = sandbox.puppet(&words("mark stray hang")).spawn();
        ground::put(&ground.of_task(&tasks[1].id), stray.process());
        let reap = |flags: &[&str]| {
            let args = [&["reap", "--json"], flags].concat();
            let done = sandbox.siding(&args).run().expect_code(0);
            let steps = done.json()["steps"].as_array().expect("a list").clone();
            let kind = |step: &Value| (text(step, "what"), text(step, "task_id"));
            steps.iter().map(kind).collect::<BTreeSet<_>>()
        };
        let step = |kind: &str, task: &Task<'_>| (kind.to_owned(), task.id.clone());
        let foreseen = reap(&["--dry-run"]);
        let expected = [step("cleared", &tasks[0]), step("stray_ended", &tasks[1])];
        assert_eq!(foreseen, expected.clone().into());
        assert!(stray.process().alive());
        let done = reap(&[]);
        assert!(done.is_superset(&expected.into()), "{done:?}");
        drop(stray);
        assert_eq!(reap(&[]), BTreeSet::new());
        assert_eq!(ground.names(), strange.map(str::to_owned).into());
    });
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// Without a delegation everything is as it was, and `doctor` says which it is.
#[test]
fn what_was_not_delegated_is_left_alone() {
    let Some(ground) = Ground::new(Given::ToNobody) else { return };
    let mine = sandbox();
    let Some(others) = ordinary() else { return };
    for sandbox in [&mine, &others] {
        let task = start(sandbox, &ground, &[], "fork daemon mark a hang -- mark b hang");
        let tree = ["a", "b"].map(|name| sandbox.marked(name));
        assert_eq!(ground.names(), BTreeSet::new());
        assert!(!task.journal().contains(r#""cgroup":"#));
        let inside = ground::members(ground.dir());
        assert!(tree.iter().all(|process| inside.contains(&process.pid)));
        let view = task.stop(&["--grace", "0s"]);
        assert!(tree.iter().all(|process| ended(&view).contains_key(&process.pid)), "{view}");
        task.expect_gone();
        assert_eq!(delegation(sandbox, &ground)["state"], "limited");
    }
    as_each_owner(|sandbox, ground| {
        let check = delegation(sandbox, ground);
        assert_eq!(check["state"], "ok", "{check}");
        assert!(text(&check, "found").contains(&ground.dir().display().to_string()), "{check}");
    });
}

fn delegation(sandbox: &Sandbox, ground: &Ground) -> Value {
    let done = ground.siding(sandbox, &["doctor", "--json"]).wait();
    let checks = done.json()["checks"].as_array().expect("a list").clone();
    let found = checks.into_iter().find(|check| check["name"] == "cgroup2 delegation");
    found.expect("it is looked at")
}

/// Nothing but the group knows this task: no record says who leads it, and nobody carries its mark.
#[test]
fn a_shim_killed_before_it_noted_its_leader_is_rescued_by_the_group_too() {
    as_each_owner(|sandbox, ground| {
        let line = sandbox.puppet_line(&words("lower-rttime ignore TERM mark m hang"));
        let args = ["run", "--background", "--json", "--", &format!("exec {line}")];
        let before: BTreeSet<String> = sandbox.task_ids().into_iter().collect();
        let run = format!("SIDING_PAUSE_AT=spawned {}", sandbox.siding_line(&args));
        let mut host =
            sandbox.host("bash", &["-c", &format!("read -r _; {run}")]).stdin_open().spawn();
        ground::put(ground.dir(), host.process());
        host.write_stdin(b"\n");
        host.close_stdin();
        let process = sandbox.marked("m");
        let id = sandbox.task_ids().into_iter().find(|id| !before.contains(id)).expect("one");
        let shims = processes::with_birthmark(&id);
        let [shim] = shims.as_slice() else { panic!("{shims:?}") };
        shim.kill();
        eventually("the shim is dead", || !shim.alive());
        let _told = host.wait();
        let task = Task::of(sandbox, &json!({ "task_id": id }));
        let view = task.stop(&["--grace", "0s"]);
        assert!(!process.alive(), "{view}");
        task.expect_gone();
        expect_removed(&ground.of_task(&id));
    });
}
