//! Cleanup of control groups: of a task whose shim is dead, of an ended task, and of a task whose
//! group contains a process of another task.

use std::collections::BTreeSet;

use rustix::process::Signal;
use serde_json::{Value, json};
use siding_e2e::{eventually, processes, test_cgroup, words};

use crate::cgroups::{
    as_each_cgroup_owner, expect_cgroup_removed, shim_of, start_in_cgroup, string_field,
};
use crate::support::{Task, ended_processes, listed_pids};

/// Kills a task's shim and waits until it is dead.
#[track_caller]
fn kill_shim(task: &Task<'_>) {
    let shim = shim_of(task);
    shim.kill();
    eventually("the shim is dead", || !shim.is_alive());
}

/// A takeover finds a process that has lowered its birthmark, cleared its environment and closed
/// its descriptors, because this process is still in the task's group.
#[test]
fn takeover_finds_an_unmarked_escapee_by_its_cgroup() {
    const ESCAPE_VERBS: &str =
        "lower-rttime daemon clearenv rename init ignore TERM mark gone hang";
    // In the first round, the leader stays alive. In the second round, no process with the
    // birthmark is left.
    for rest in ["ignore TERM hang", "exit 5"] {
        as_each_cgroup_owner(|sandbox, ground| {
            let task =
                start_in_cgroup(sandbox, ground, &[], &format!("fork {ESCAPE_VERBS} -- {rest}"));
            let escapee = sandbox.wait_for_mark("gone");
            if rest == "exit 5" {
                eventually("it lingers", || task.show()["phase"] == "lingering");
            }
            kill_shim(&task);
            assert!(task.marked_processes().iter().all(|process| *process != escapee));
            let dry_run = sandbox.siding(&["reap", "--dry-run", "--json"]).run().expect_code(0);
            assert!(dry_run.stdout_text().contains("rescued"), "{dry_run}");
            assert!(escapee.is_alive());
            let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
            let view = task.show();
            assert!(listed_pids(&view).contains(&escapee.pid), "{view}");
            assert_eq!(view["rescues"], 1, "{view}");
            let view = task.stop(&["--grace", "50ms"]);
            assert!(!escapee.is_alive(), "{view}");
            assert_eq!(ended_processes(&view)[&escapee.pid], "SIGKILL", "{view}");
            task.expect_stopped();
            expect_cgroup_removed(&ground.task_group_dir(&task.id));
        });
    }
}

/// A shim that is killed after the task's last process has ended leaves an empty group, which the
/// next command removes.
#[test]
fn next_command_removes_an_empty_leftover_cgroup() {
    as_each_cgroup_owner(|sandbox, ground| {
        for command in [&["ps"][..], &["reap"]] {
            let task = start_in_cgroup(sandbox, ground, &[], &format!("mark {} hang", command[0]));
            let process = sandbox.wait_for_mark(command[0]);
            let shim = shim_of(&task);
            shim.signal(Signal::STOP);
            process.kill();
            eventually("only the shim is left", || !process.is_alive());
            shim.kill();
            eventually("the shim is dead", || !shim.is_alive());
            let group = ground.task_group_dir(&task.id);
            assert!(group.exists());
            let done = sandbox.siding(command).run().expect_code(0);
            assert!(!group.exists(), "{done}");
        }
    });
}

/// The reaper removes the group of an ended task, ends the processes in that group, and touches no
/// other group.
#[test]
fn reap_clears_cgroups_of_ended_tasks_and_no_others() {
    as_each_cgroup_owner(|sandbox, ground| {
        let ended = |count: usize| -> Vec<Task<'_>> {
            let args = ["run", "--json", "--", "true", "x"];
            let run = || ground.siding(sandbox, &args).wait().expect_code(0).json();
            let tasks = (0..count).map(|_| Task::from_view(sandbox, &run())).collect();
            eventually("no group is left", || ground.group_names().is_empty());
            tasks
        };
        let tasks = ended(2);
        let strange = ["siding-b-4k7q0n2m8x5t", "siding-x", "else"];
        for name in strange {
            std::fs::create_dir(ground.dir().join(name)).expect("root has the permission");
        }
        // Such groups remain if the shim could not remove them, because the kernel released the
        // last process too late or a survivor was in the group.
        for task in &tasks {
            std::fs::create_dir(ground.task_group_dir(&task.id)).expect("root has the permission");
        }
        let stray = sandbox.puppet(&words("mark stray hang")).spawn();
        test_cgroup::move_process(&ground.task_group_dir(&tasks[1].id), stray.process());
        let reap = |flags: &[&str]| {
            let args = [&["reap", "--json"], flags].concat();
            let done = sandbox.siding(&args).run().expect_code(0);
            let steps = done.json()["steps"].as_array().expect("a list").clone();
            let kind = |step: &Value| (string_field(step, "kind"), string_field(step, "task_id"));
            steps.iter().map(kind).collect::<BTreeSet<_>>()
        };
        let step = |kind: &str, task: &Task<'_>| (kind.to_owned(), task.id.clone());
        let dry_run = reap(&["--dry-run"]);
        let expected = [step("cleared", &tasks[0]), step("stray_ended", &tasks[1])];
        assert_eq!(dry_run, expected.clone().into());
        assert!(stray.process().is_alive());
        let done = reap(&[]);
        assert!(done.is_superset(&expected.into()), "{done:?}");
        drop(stray);
        assert_eq!(reap(&[]), BTreeSet::new());
        assert_eq!(ground.group_names(), strange.map(str::to_owned).into());
    });
}

/// A stop ends the processes in subgroups that the task has created in its own group, and removes
/// these subgroups.
#[test]
fn stop_removes_subcgroups_created_by_the_task() {
    as_each_cgroup_owner(|sandbox, ground| {
        let deep = sandbox.puppet_line(&words("--quiet lower-rttime ignore TERM mark deep hang"));
        let text = format!(
            "g={}/siding-$SIDING_TASK; mkdir -p $g/x/y $g/z; \
             echo $BASHPID >$g/x/y/cgroup.procs; exec {deep}",
            ground.dir().display()
        );
        let args = ["run", "--background", "--json", "--", &text];
        let view = ground.siding(sandbox, &args).wait().expect_code(0).json();
        let task = Task::from_view(sandbox, &view);
        let process = sandbox.wait_for_mark("deep");
        let group = ground.task_group_dir(&task.id);
        assert!(test_cgroup::member_pids(&group.join("x/y")).contains(&process.pid));
        kill_shim(&task);
        let view = task.stop(&["--grace", "0s"]);
        assert!(!process.is_alive(), "{view}");
        task.expect_stopped();
        expect_cgroup_removed(&group);
    });
}

/// A takeover finds the leader by the task's group if the shim was killed before it recorded the
/// leader and the leader has lowered its birthmark.
#[test]
fn takeover_finds_an_unrecorded_leader_by_its_cgroup() {
    as_each_cgroup_owner(|sandbox, ground| {
        let line = sandbox.puppet_line(&words("lower-rttime ignore TERM mark m hang"));
        let args = ["run", "--background", "--json", "--", &format!("exec {line}")];
        let before: BTreeSet<String> = sandbox.task_ids().into_iter().collect();
        let run = format!("SIDING_PAUSE_AT=spawned {}", sandbox.siding_line(&args));
        let mut host =
            sandbox.host("bash", &["-c", &format!("read -r _; {run}")]).stdin_pipe().spawn();
        test_cgroup::move_process(ground.dir(), host.process());
        host.write_stdin(b"\n");
        host.close_stdin();
        let process = sandbox.wait_for_mark("m");
        let id = sandbox
            .task_ids()
            .into_iter()
            .find(|id| !before.contains(id))
            .expect("exactly one entry");
        let shims = processes::with_birthmark(&id);
        let [shim] = shims.as_slice() else { panic!("{shims:?}") };
        shim.kill();
        eventually("the shim is dead", || !shim.is_alive());
        let _told = host.wait();
        let task = Task::from_view(sandbox, &json!({ "task_id": id }));
        let view = task.stop(&["--grace", "0s"]);
        assert!(!process.is_alive(), "{view}");
        task.expect_stopped();
        expect_cgroup_removed(&ground.task_group_dir(&id));
    });
}

/// A stop does not use `cgroup.kill` if a process of another task was moved into the group, because
/// `cgroup.kill` would kill that process too.
#[test]
fn stop_spares_another_tasks_process_in_the_cgroup() {
    as_each_cgroup_owner(|sandbox, ground| {
        let one =
            start_in_cgroup(sandbox, ground, &[], "ignore TERM fork daemon mark a hang -- hang");
        let other = start_in_cgroup(sandbox, ground, &[], "ignore TERM mark b hang");
        let [a, b] = ["a", "b"].map(|name| sandbox.wait_for_mark(name));
        let shim = shim_of(&other);
        for guest in [b, shim] {
            test_cgroup::move_process(&ground.task_group_dir(&one.id), guest);
        }
        kill_shim(&one);
        let _rescued = sandbox.siding(&["ps"]).run().expect_code(0);
        assert!(!listed_pids(&one.show()).contains(&b.pid));
        let view = one.stop(&["--grace", "0s"]);
        assert!(!a.is_alive() && b.is_alive() && shim.is_alive(), "{view}");
        assert_eq!(view["stop_report"]["survivors"], json!([]));
        // The shim tries to remove the group just before it exits.
        eventually("its shim has exited", || processes::with_birthmark(&one.id).is_empty());
        let _view = other.stop(&["--grace", "0s"]);
        other.expect_stopped();
        // The shim could not remove the group, because it contained the processes of the other
        // task.
        assert!(ground.task_group_dir(&one.id).exists());
        let _reaped = sandbox.siding(&["reap"]).run().expect_code(0);
        assert_eq!(ground.group_names(), BTreeSet::new());
    });
}
