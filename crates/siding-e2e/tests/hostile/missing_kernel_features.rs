//! Machines that lack or hide kernel features that siding needs (promise P12).

use std::path::Path;

use siding_e2e::{ProgramOutput, Sandbox, eventually, is_root, mounts, processes};

use crate::{
    OTHER_UID, Task, assert_no_crash_or_hang, assert_refused, assert_task_exits, entries_when_idle,
    live_shim,
};

/// Returns the state that `siding doctor` reports for a check.
#[track_caller]
fn check_state(doctor: &ProgramOutput, name: &str) -> String {
    let checks = doctor.json()["checks"].as_array().expect("a list").clone();
    let found = checks.iter().find(|check| check["name"] == name);
    found.expect("the check is listed")["state"].as_str().expect("a state").to_owned()
}

fn start_task(sandbox: &Sandbox, text: &str) -> Task {
    let args = ["run", "--background", "--json", "--", text];
    Task::of(&sandbox.siding(&args).run().expect_code(0))
}

#[test]
fn without_pidfd_nothing_starts_and_doctor_reports_it() {
    let calls =
        [libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal].map(|call| [call]).map(Vec::from);
    for missing in calls {
        let mut sandbox = Sandbox::new();
        sandbox.expect_clean();
        let run = sandbox.siding(&["run", "--", "echo started >> trace"]);
        assert_refused(&run.without_syscalls(&missing).run(), "pidfd (needs Linux 5.3)");
        assert!(!sandbox.path("trace").exists(), "nothing was started");
        let files = entries_when_idle(&sandbox);
        assert!(
            files.iter().all(|path| path.is_dir() && sandbox.task_ids().is_empty()),
            "{files:?}"
        );
        let doctor = sandbox.siding(&["doctor", "--json"]).without_syscalls(&missing).run();
        assert_eq!(check_state(&doctor, "pidfd_open"), "missing", "{doctor}");
    }
}

#[test]
fn without_close_range_nothing_starts_and_doctor_reports_it() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let missing = [libc::SYS_close_range];
    let run = sandbox.siding(&["run", "--", "echo started >> trace"]);
    assert_refused(&run.without_syscalls(&missing).run(), "siding doctor");
    assert!(!sandbox.path("trace").exists(), "nothing was started");
    let doctor = sandbox.siding(&["doctor", "--json"]).without_syscalls(&missing).run();
    assert_eq!(check_state(&doctor, "close_range"), "missing", "{doctor}");
}

/// With `hidepid=2` an ordinary user cannot see other users' processes in `/proc`, but siding can
/// still show, stop and take over this user's tasks.
#[test]
fn stop_ends_the_tree_under_hidepid() {
    if !is_root() {
        eprintln!("skipped: only root can mount");
        return;
    }
    let mut sandbox = Sandbox::new_for_uid(OTHER_UID + 7);
    sandbox.expect_clean();
    if let Err(error) = mounts::unshare_mounts().and_then(|()| mounts::mount_proc("hidepid=2")) {
        eprintln!("skipped: mounting is not permitted here: {error}");
        return;
    }
    let listing = sandbox.host("ls", &["-d", "/proc/1"]).run();
    assert_ne!(listing.code, Some(0), "the process must be hidden: {listing}");
    let text = "setsid sleep 300 & (setsid env -i sleep 300 &); sleep 300";
    for is_rescued in [false, true] {
        let task = start_task(&sandbox, text);
        let sleeps = || {
            let all = processes::with_birthmark(task.id());
            all.iter().filter(|one| processes::comm(one.pid) == "sleep").count()
        };
        eventually("all its processes run", || sleeps() == 3);
        if is_rescued {
            let shim = live_shim(&task);
            shim.kill();
            eventually("its shim is dead", || !shim.is_alive());
        }
        let stopped = sandbox.siding(&["stop", "--json", task.id()]).run().expect_code(0);
        assert_eq!(Task::of(&stopped).number("/stop_report/ended_total"), 4, "{stopped}");
        assert_task_exits(task.id());
    }
    let doctor = sandbox.siding(&["doctor", "--json"]).run();
    assert_eq!(check_state(&doctor, "hidepid"), "limited", "{doctor}");
}

#[test]
fn without_proc_every_command_reports_it() {
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
    assert_no_crash_or_hang(&doctor);
    assert_eq!(check_state(&doctor, "boot id"), "missing", "{doctor}");
}
