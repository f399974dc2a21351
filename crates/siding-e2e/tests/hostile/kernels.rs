//! LINUX fault 40: machines that lack, or hide, what siding is built on.

use std::path::Path;

use siding_e2e::{ProgramOutput, Sandbox, eventually, is_root, mounts, processes};

use crate::{STRANGER, Task, assert_gone, assert_refused, assert_sane, entries_at_rest, shim};

/// What `doctor` says of a check.
#[track_caller]
fn state(doctor: &ProgramOutput, name: &str) -> String {
    let checks = doctor.json()["checks"].as_array().expect("a list").clone();
    let found = checks.iter().find(|check| check["name"] == name);
    found.expect("it is looked at")["state"].as_str().expect("a state").to_owned()
}

fn start(sandbox: &Sandbox, text: &str) -> Task {
    let args = ["run", "--background", "--json", "--", text];
    Task::of(&sandbox.siding(&args).run().expect_code(0))
}

#[test]
fn without_pidfd_nothing_is_started_and_the_doctor_says_so() {
    let calls =
        [libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal].map(|call| [call]).map(Vec::from);
    for missing in calls {
        let mut sandbox = Sandbox::new();
        sandbox.expect_clean();
        let run = sandbox.siding(&["run", "--", "echo started >> trace"]);
        assert_refused(&run.without_syscalls(&missing).run(), "pidfd, Linux 5.3");
        assert!(!sandbox.path("trace").exists(), "nothing was started");
        let files = entries_at_rest(&sandbox);
        assert!(
            files.iter().all(|path| path.is_dir() && sandbox.task_ids().is_empty()),
            "{files:?}"
        );
        let doctor = sandbox.siding(&["doctor", "--json"]).without_syscalls(&missing).run();
        assert_eq!(state(&doctor, "pidfd_open"), "missing", "{doctor}");
    }
}

#[test]
fn without_close_range_nothing_is_started_and_the_doctor_says_so() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let missing = [libc::SYS_close_range];
    let run = sandbox.siding(&["run", "--", "echo started >> trace"]);
    assert_refused(&run.without_syscalls(&missing).run(), "siding doctor");
    assert!(!sandbox.path("trace").exists(), "nothing was started");
    let doctor = sandbox.siding(&["doctor", "--json"]).without_syscalls(&missing).run();
    assert_eq!(state(&doctor, "close_range"), "missing", "{doctor}");
}

/// An ordinary user sees nobody else there; his own tasks he sees, ends and rescues as ever.
#[test]
fn where_processes_of_others_are_hidden_a_tree_is_still_ended() {
    if !is_root() {
        eprintln!("skipped: only root can mount");
        return;
    }
    let mut sandbox = Sandbox::new_for_uid(STRANGER + 7);
    sandbox.expect_clean();
    if let Err(error) = mounts::unshare_mounts().and_then(|()| mounts::mount_proc("hidepid=2")) {
        eprintln!("skipped: mounting is not permitted here: {error}");
        return;
    }
    let look = sandbox.host("ls", &["-d", "/proc/1"]).run();
    assert_ne!(look.code, Some(0), "it is hidden: {look}");
    let text = "setsid sleep 300 & (setsid env -i sleep 300 &); sleep 300";
    for is_rescued in [false, true] {
        let task = start(&sandbox, text);
        let sleeps = || {
            let all = processes::with_birthmark(task.id());
            all.iter().filter(|one| processes::comm(one.pid) == "sleep").count()
        };
        eventually("all of it runs", || sleeps() == 3);
        if is_rescued {
            let keeper = shim(&task);
            keeper.kill();
            eventually("its shim is dead", || !keeper.is_alive());
        }
        let stopped = sandbox.siding(&["stop", "--json", task.id()]).run().expect_code(0);
        assert_eq!(Task::of(&stopped).number("/stop_report/ended_total"), 4, "{stopped}");
        assert_gone(task.id());
    }
    let doctor = sandbox.siding(&["doctor", "--json"]).run();
    assert_eq!(state(&doctor, "hidepid"), "limited", "{doctor}");
}

#[test]
fn without_proc_every_command_says_so() {
    if !is_root() {
        eprintln!("skipped: only root can mount");
        return;
    }
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    if !["/usr/bin/unshare", "/bin/unshare"].iter().any(|path| Path::new(path).exists()) {
        eprintln!("skipped: no unshare here");
        return;
    }
    let without_proc = |args: &[&str]| {
        let line = sandbox.siding_line(args);
        let script = format!("mount -t tmpfs none /proc && exec {line}");
        sandbox.host("unshare", &["-m", "sh", "-c", &script]).run()
    };
    let done = without_proc(&["run", "--", "echo started >> trace"]);
    if done.stderr_text().contains("ermi") {
        eprintln!("skipped: mounting is not permitted here: {done}");
        return;
    }
    assert_refused(&done, "siding doctor");
    assert!(!sandbox.path("trace").exists(), "nothing was started");
    for args in [&["ps"][..], &["reap"]] {
        assert_refused(&without_proc(args), "`/proc`");
    }
    let doctor = without_proc(&["doctor", "--json"]);
    assert_sane(&doctor);
    assert_eq!(state(&doctor, "boot id"), "missing", "{doctor}");
}
