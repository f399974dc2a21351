//! Each task gets its own control group if a directory for groups is delegated. These tests need
//! root to create groups and to change the owners of groups. The calls of an unprivileged user run
//! with that user's uid.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};
use siding_e2e::{CgroupOwner, Process, Sandbox, TestCgroup, eventually, test_cgroup, words};

use crate::support::{Task, ended_processes, ordinary_user_sandbox, sandbox};

/// Runs a test as root and as an unprivileged user, each with a separate delegated group.
pub(crate) fn as_each_cgroup_owner(test: impl Fn(&Sandbox, &TestCgroup)) {
    if let Some(ground) = TestCgroup::new(CgroupOwner::Root) {
        test(&sandbox(), &ground);
    }
    if let Some(mut user) = ordinary_user_sandbox() {
        user.expect_clean();
        let uid =
            std::os::unix::fs::MetadataExt::uid(&user.home().metadata().expect("the entry exists"));
        if let Some(ground) = TestCgroup::new(CgroupOwner::User(uid)) {
            test(&user, &ground);
        }
    }
}

/// Starts puppets as a background task, by a call that runs inside the test's group.
#[track_caller]
pub(crate) fn start_in_cgroup<'s>(
    sandbox: &'s Sandbox,
    ground: &TestCgroup,
    flags: &[&str],
    verbs: &str,
) -> Task<'s> {
    let line = sandbox.puppet_line(&words(verbs));
    let line = format!("exec {line}");
    let args = [&["run", "--background", "--json"], flags, &["--", &line]].concat();
    Task::from_view(sandbox, &ground.siding(sandbox, &args).wait().expect_code(0).json())
}

pub(crate) fn shim_of(task: &Task<'_>) -> Process {
    let pid = task.show()["shim_pid"].as_u64().expect("the entry exists");
    Process::from_pid(pid.try_into().expect("a number")).expect("the process is alive")
}

#[track_caller]
pub(crate) fn expect_cgroup_removed(group: &Path) {
    eventually("the group is removed", || !group.exists());
}

#[test]
fn each_task_has_its_own_cgroup_until_it_ends() {
    as_each_cgroup_owner(|sandbox, ground| {
        let verbs = "fork setsid mark a hang -- fork daemon mark b hang -- mark c hang";
        let task = start_in_cgroup(sandbox, ground, &[], verbs);
        let group = ground.task_group_dir(&task.id);
        let tree: BTreeSet<u32> =
            ["a", "b", "c"].map(|name| sandbox.wait_for_mark(name).pid).into();
        // The intermediate parent of a daemon may still be exiting.
        eventually("the group is the tree", || test_cgroup::member_pids(&group) == tree);
        assert!(task.journal().contains(&format!(r#""cgroup":"{}""#, group.display())));
        // The shim stays outside the group, so that `cgroup.kill` does not kill it.
        let shim = shim_of(&task);
        assert!(
            !tree.contains(&shim.pid) && test_cgroup::member_pids(ground.dir()).contains(&shim.pid)
        );
        let shown = task.show();
        assert_eq!(shown["cgroup"], group.display().to_string());
        let table = sandbox.siding(&["show", &task.id]).run().expect_code(0).stdout_text();
        assert!(table.contains(&format!("\ncgroup       {}\n", group.display())), "{table}");
        let view = task.stop(&[]);
        task.expect_stopped();
        assert_eq!(view["stop_report"]["survivors"], json!([]));
        expect_cgroup_removed(&group);
        assert!(task.show()["cgroup"].is_null(), "the group must be removed");

        let args = ["run", "--json", "--", "exit 3"];
        let view = ground.siding(sandbox, &args).wait().expect_code(3).json();
        let task = Task::from_view(sandbox, &view);
        assert!(task.journal().contains(r#""cgroup":""#));
        expect_cgroup_removed(&ground.task_group_dir(&task.id));
        let none = ["run", "--json", "--", "/no/such/program", "x"];
        let view = ground.siding(sandbox, &none).wait().expect_code(127).json();
        assert_eq!(view["outcome"]["kind"], "failed_to_start");
        eventually("no group is left", || ground.group_names().is_empty());
    });
}

/// Kernel fact K6: a process that is created later in a group that was killed once is also killed,
/// so each task gets a new group.
#[test]
fn task_of_the_same_name_runs_again_after_a_cgroup_kill() {
    as_each_cgroup_owner(|sandbox, ground| {
        for _ in 0..5 {
            let args = ["--name", "same"];
            let task = start_in_cgroup(
                sandbox,
                ground,
                &args,
                "ignore TERM fork daemon mark m hang -- hang",
            );
            let view = task.stop(&["--grace", "0s"]);
            task.expect_stopped();
            assert_eq!(view["outcome"], json!({"kind": "stopped", "by": "user"}));
        }
        let args = ["run", "--json", "--name", "same", "--", "exit 4"];
        let view = ground.siding(sandbox, &args).wait().expect_code(4).json();
        assert_eq!(view["outcome"], json!({"kind": "exited", "code": 4}));
    });
}

/// Kernel fact K6: a child is killed as soon as it is created if the group of its parent was killed
/// once. A host in such a group can still start tasks.
#[test]
fn host_in_a_once_killed_cgroup_can_start_tasks() {
    as_each_cgroup_owner(|sandbox, ground| {
        std::fs::write(ground.dir().join("cgroup.kill"), "1").expect("the group is empty");
        let task = start_in_cgroup(sandbox, ground, &[], "mark m hang");
        let process = sandbox.wait_for_mark("m");
        assert_eq!(
            test_cgroup::member_pids(&ground.task_group_dir(&task.id)),
            [process.pid].into()
        );
        let view = task.stop(&[]);
        assert_eq!(ended_processes(&view)[&process.pid], "SIGTERM");
        expect_cgroup_removed(&ground.task_group_dir(&task.id));
        let _code = ground.siding(sandbox, &["run", "--", "exit 7"]).wait().expect_code(7);
    });
}

/// Kernel fact K5: `cgroup.kill` misses a process whose main thread has exited.
#[test]
fn stop_ends_a_process_whose_main_thread_exited() {
    as_each_cgroup_owner(|sandbox, ground| {
        let verbs = "ignore ALL fork setsid leader-exits mark a hang -- leader-exits mark b hang";
        let task = start_in_cgroup(sandbox, ground, &[], verbs);
        let tree = ["a", "b"].map(|name| sandbox.wait_for_mark(name));
        let view = task.stop(&["--grace", "0s"]);
        task.expect_stopped();
        for process in tree {
            assert_eq!(ended_processes(&view)[&process.pid], "SIGKILL", "{view}");
        }
        expect_cgroup_removed(&ground.task_group_dir(&task.id));
    });
}

/// An ordinary user cannot signal a process of root, such as a child of `sudo`, but `cgroup.kill`
/// ends such a process if it is in the task's group.
#[test]
fn cgroup_kill_ends_a_member_of_another_user() {
    as_each_cgroup_owner(|sandbox, ground| {
        let task = start_in_cgroup(sandbox, ground, &[], "mark m hang");
        let _member = sandbox.wait_for_mark("m");
        let roots = Sandbox::new();
        let guest = roots.puppet(&words("ignore TERM mark guest hang")).spawn();
        let process = roots.wait_for_mark("guest");
        test_cgroup::move_process(&ground.task_group_dir(&task.id), process);
        let _view = task.stop(&["--grace", "0s"]);
        eventually("the guest is dead, well before its own end", || !process.is_alive());
        let _killed = guest.wait().expect_signal(9);
        task.expect_stopped();
        // The guest may still have been a zombie child of this test when the shim exited, so the
        // shim may have failed to remove the group.
        let _reaped = sandbox.siding(&["reap"]).run().expect_code(0);
        expect_cgroup_removed(&ground.task_group_dir(&task.id));
    });
}

/// Promise P39: `cgroup.kill` also kills all subgroups, so the group of an inner task is a sibling
/// of the outer task's group.
#[test]
fn nested_task_has_a_sibling_cgroup() {
    as_each_cgroup_owner(|sandbox, ground| {
        let inner =
            sandbox.puppet_line(&words("ignore TERM fork daemon mark b hang -- mark a hang"));
        let start_inner =
            sandbox.siding_line(&["run", "--background", "--name", "inner", "--", &inner]);
        let own =
            sandbox.puppet_line(&words("--quiet ignore TERM fork daemon mark c hang -- hang"));
        let args = ["run", "--background", "--json", "--", &format!("{start_inner}; {own}")];
        let view = ground.siding(sandbox, &args).wait().expect_code(0).json();
        let outer = Task::from_view(sandbox, &view);
        let [a, b, c] = ["a", "b", "c"].map(|name| sandbox.wait_for_mark(name));
        let list = sandbox.siding(&["ps", "--json"]).run().expect_code(0).json();
        let list = list.as_array().expect("a list").clone();
        let inner = list.iter().find(|view| view["name"] == "inner").expect("the process is alive");
        let inner = Task::from_view(sandbox, inner);
        let shim = shim_of(&inner);
        let group = ground.task_group_dir(&inner.id);
        let inners = test_cgroup::member_pids(&group);
        assert!(inners.contains(&a.pid) && inners.contains(&b.pid), "{inners:?}");
        let outers = test_cgroup::member_pids(&ground.task_group_dir(&outer.id));
        assert!(outers.contains(&c.pid) && !outers.contains(&shim.pid), "{outers:?}");
        let both = [&outer.id, &inner.id].map(|id| format!("siding-{id}"));
        assert_eq!(ground.group_names(), both.into());

        let view = outer.stop(&["--grace", "0s"]);
        assert!(!c.is_alive() && a.is_alive() && b.is_alive() && shim.is_alive(), "{view}");
        expect_cgroup_removed(&ground.task_group_dir(&outer.id));
        let view = inner.stop(&["--grace", "0s"]);
        assert_eq!(view["parent_task"], outer.id);
        inner.expect_stopped();
        expect_cgroup_removed(&group);
    });
}

pub(crate) fn string_field(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// Without delegation siding creates no groups, and `siding doctor` reports whether groups are
/// delegated.
#[test]
fn no_cgroup_is_created_without_delegation() {
    let Some(ground) = TestCgroup::new(CgroupOwner::Undelegated) else { return };
    let root_sandbox = sandbox();
    let Some(user_sandbox) = ordinary_user_sandbox() else { return };
    for sandbox in [&root_sandbox, &user_sandbox] {
        let task = start_in_cgroup(sandbox, &ground, &[], "fork daemon mark a hang -- mark b hang");
        let tree = ["a", "b"].map(|name| sandbox.wait_for_mark(name));
        assert_eq!(ground.group_names(), BTreeSet::new());
        assert!(!task.journal().contains(r#""cgroup":"#));
        let inside = test_cgroup::member_pids(ground.dir());
        assert!(tree.iter().all(|process| inside.contains(&process.pid)));
        let view = task.stop(&["--grace", "0s"]);
        assert!(
            tree.iter().all(|process| ended_processes(&view).contains_key(&process.pid)),
            "{view}"
        );
        task.expect_stopped();
        assert_eq!(delegation_check(sandbox, &ground)["state"], "limited");
    }
    as_each_cgroup_owner(|sandbox, ground| {
        let check = delegation_check(sandbox, ground);
        assert_eq!(check["state"], "ok", "{check}");
        assert!(
            string_field(&check, "found").contains(&ground.dir().display().to_string()),
            "{check}"
        );
    });
}

fn delegation_check(sandbox: &Sandbox, ground: &TestCgroup) -> Value {
    let done = ground.siding(sandbox, &["doctor", "--json"]).wait();
    let checks = done.json()["checks"].as_array().expect("a list").clone();
    let found = checks.into_iter().find(|check| check["name"] == "cgroup2 delegation");
    found.expect("the check is listed")
}
