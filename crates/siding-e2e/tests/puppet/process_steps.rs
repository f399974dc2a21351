//! Verbs that act on puppet's own process.

use rustix::process::Signal;
use siding_e2e::processes::{self, is_heartbeat_running, is_heartbeat_stopped};
use siding_e2e::{Sandbox, eventually, words};

use crate::{set_birthmark, unique_birthmark};

#[test]
fn fork_runs_the_block_in_the_child_only() {
    let sandbox = Sandbox::new();
    let verbs = words("fork mark child exit 3 -- fork die KILL -- wait");
    let _done = sandbox.puppet(&verbs).run().expect_code(0);
    let parent = sandbox.wait_for_announcement("forked");
    let child = sandbox.wait_for_mark("child");
    assert_eq!(parent.field::<u32>("child"), child.pid);
    let mut ends: Vec<String> = sandbox
        .wait_for_announcements("reaped", 2)
        .iter()
        .map(|step| format!("{:?} {:?}", step.fields.get("code"), step.fields.get("signal")))
        .collect();
    ends.sort();
    assert_eq!(ends, ["None Some(\"9\")", "Some(\"3\") None"]);
}

#[test]
fn setsid_and_setpgid_create_a_session_and_a_group() {
    let sandbox = Sandbox::new();
    let verbs = words("fork setsid report -- fork setpgid report -- wait");
    let _done = sandbox.puppet(&verbs).run().expect_code(0);
    let reports = sandbox.wait_for_announcements("report", 2);
    for report in &reports {
        assert_eq!(report.field::<u32>("group"), report.process.pid);
    }
    let leaders = reports.iter().filter(|step| step.field::<u32>("session") == step.process.pid);
    assert_eq!(leaders.count(), 1);
}

#[test]
fn daemon_detaches_from_session_environment_and_descriptors() {
    let mut sandbox = Sandbox::new();
    let beat = sandbox.path("beat");
    let verbs = ["daemon", "beat", &beat.display().to_string()];
    let _done = sandbox.puppet(&verbs).run().expect_code(0);
    let daemon = sandbox.wait_for_announcement("daemon").process;
    assert!(is_heartbeat_running(&beat));
    let stat = processes::stat(daemon.pid).expect("the process is alive");
    assert_ne!(stat.session, daemon.pid, "a session leader could acquire a terminal");
    assert_eq!(processes::environment(daemon.pid), Vec::<String>::new());
    assert_eq!(processes::comm(daemon.pid), "innocent");
    assert_eq!(processes::command_line(daemon.pid), "innocent");
    let held = processes::descriptors(daemon.pid);
    assert!(held.iter().all(|(_, path)| *path == beat), "{held:?}");
    daemon.kill();
    eventually("the beat has stopped", || is_heartbeat_stopped(&beat));
    sandbox.expect_clean();
}

#[test]
fn orphan_survives_its_parent() {
    let sandbox = Sandbox::new();
    let verbs = words("setsid fork mark parent orphan mark orphan hang -- wait");
    let _done = sandbox.puppet(&verbs).run().expect_code(0);
    let (parent, orphan) = (sandbox.wait_for_mark("parent"), sandbox.wait_for_mark("orphan"));
    assert!(!parent.is_alive() && orphan.is_alive());
}

#[test]
fn subreaper_becomes_the_parent_of_orphans() {
    let sandbox = Sandbox::new();
    let verbs = words("subreaper fork daemon mark far hang -- mark top hang");
    let _keeps_alive = sandbox.puppet(&verbs).spawn();
    let (top, far) = (sandbox.wait_for_mark("top"), sandbox.wait_for_mark("far"));
    eventually("the subreaper is the daemon's parent", || {
        processes::descendants(top.pid).contains(&far.pid)
    });
}

#[test]
fn clearenv_and_exec_leave_an_empty_environment() {
    let sandbox = Sandbox::new();
    let verbs = words("env HOME clearenv exec-self env HOME mark bare hang");
    let mut running = sandbox.puppet(&verbs).spawn();
    let bare = sandbox.wait_for_mark("bare");
    assert_eq!(processes::environment(bare.pid), Vec::<String>::new());
    assert_eq!(bare, running.process(), "exec must keep the process");
    let home = format!("HOME={}\n", sandbox.home().display());
    let text = running.wait_for_stdout("HOME unset\n");
    assert!(text.contains(&home), "{text}");
}

#[test]
fn stopped_puppet_resumes_on_sigcont() {
    let sandbox = Sandbox::new();
    let running = sandbox.puppet(&["stop-self", "exit", "5"]).spawn();
    let me = running.process();
    eventually("it is stopped", || processes::state(me.pid) == Some('T'));
    running.signal(Signal::CONT);
    let _done = running.wait().expect_code(5);
}

#[test]
fn process_without_its_main_thread_is_alive() {
    let sandbox = Sandbox::new();
    let beat = sandbox.path("beat");
    let running = sandbox.puppet(&["leader-exits", "beat", &beat.display().to_string()]).spawn();
    let me = running.process();
    eventually("the leader has exited", || processes::state(me.pid) == Some('Z'));
    assert!(me.is_alive() && is_heartbeat_running(&beat));
    assert!(
        !processes::environment(me.pid).is_empty(),
        "the second thread must show the environment"
    );
    running.signal(Signal::KILL);
    let _done = running.wait().expect_signal(9);
    assert!(!me.is_alive());
    eventually("the beat has stopped", || is_heartbeat_stopped(&beat));
}

#[test]
fn vfork_parent_waits_in_state_d() {
    let sandbox = Sandbox::new();
    let running = sandbox.puppet(&words("vfork mark child hang -- exit 4")).spawn();
    let child = sandbox.wait_for_mark("child");
    let parent = running.process();
    eventually("the parent is in state D", || processes::state(parent.pid) == Some('D'));
    child.kill();
    let _done = running.wait().expect_code(4);
}

#[test]
fn birthmark_is_inherited_until_lowered() {
    let sandbox = Sandbox::new();
    let (mark, id) = unique_birthmark(1);
    assert_eq!(processes::birthmark_from_id(&id), Some(mark));
    let script = "mark root read-stdin exec-self fork daemon mark daemon hang -- \
                  lower-rttime mark lowered hang";
    let mut running = sandbox.puppet(&words(script)).stdin_pipe().spawn();
    set_birthmark(sandbox.wait_for_mark("root"), mark);
    running.close_stdin();
    let (daemon, lowered) = (sandbox.wait_for_mark("daemon"), sandbox.wait_for_mark("lowered"));
    // The process between the parent and the daemon may not have exited yet.
    eventually("only the daemon has the mark", || processes::with_birthmark(&id) == [daemon]);
    assert_eq!(processes::read_birthmark(lowered.pid), Some(mark / 2));
}
