//! `siding notices`, which delivers a session's notices, and the calls that acknowledge notices.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use siding_e2e::{Process, Sandbox, Terminal, eventually, eventually_some, processes, words};

use crate::support::{
    HANG_COMMAND, make_file, run_at_terminal, run_ok, run_refused, run_to_end, sandbox, show_task,
    start_task, stop_all, task_id, until_file_exists,
};

/// Returns the unread notices of the implicit session's agent, or of the session and the consumer
/// that `flags` name.
#[track_caller]
pub(super) fn list_notices(sandbox: &Sandbox, flags: &[&str]) -> Vec<Value> {
    let view = run_ok(sandbox, &[&["notices", "--json"], flags].concat()).json();
    view.as_array().expect("a list").clone()
}

#[track_caller]
pub(super) fn notified_tasks(sandbox: &Sandbox, flags: &[&str]) -> Vec<String> {
    list_notices(sandbox, flags).iter().map(task_id).collect()
}

/// Runs a background command that ends after `siding run` has returned, so that its end is a
/// notice. The wait for the end is in another session, so that it acknowledges nothing. Returns the
/// task's id.
#[track_caller]
pub(crate) fn run_in_background_to_end(sandbox: &Sandbox, flags: &[&str], command: &str) -> String {
    let id = start_with_open_gate(sandbox, flags, command);
    wait_for_end(sandbox, &id);
    id
}

#[track_caller]
fn start_with_open_gate(sandbox: &Sandbox, flags: &[&str], command: &str) -> String {
    static NEXT_GATE_NUMBER: AtomicU32 = AtomicU32::new(0);
    let gate = format!("gate{}", NEXT_GATE_NUMBER.fetch_add(1, Ordering::Relaxed));
    let gate = sandbox.path(&gate).display().to_string();
    let id = start_task(sandbox, flags, &format!("{}; {command}", until_file_exists(&gate)));
    std::fs::write(gate, "").expect("test directory");
    id
}

#[track_caller]
pub(crate) fn wait_for_end(sandbox: &Sandbox, id: &str) {
    let wait = ["wait", "--all", "--timeout", "30s", id];
    let _ended = sandbox.siding(&wait).env("SIDING_SESSION", "other").run().expect_code(0);
    eventually("the shim has exited", || processes::with_birthmark(id).is_empty());
}

/// Failures F24 and F28: a notice has the exit code, the duration, the last lines, the path and the
/// size of the output, and each consumer receives the notice once.
#[test]
fn the_end_of_a_background_task_is_notified_once_per_consumer() {
    let sandbox = sandbox();
    let id = run_in_background_to_end(
        &sandbox,
        &["--name", "build"],
        "echo 'error: no'; seq 1 3; exit 7",
    );
    let [notice] = &list_notices(&sandbox, &["--ack"])[..] else { panic!("expected exactly one") };
    let path = sandbox.state_dir().join("tasks").join(&id).join("output");
    let expected = json!({
        "task_id": id, "session_id": "cli", "kind": "ended", "status": "failed", "priority": "later",
        "exit_code": 7, "signal": null, "limit": null, "name": "build",
        "output": {"path": path, "bytes": 16}, "summary": "error: no\n1\n2\n3",
    });
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(&notice[key], value, "{key}");
    }
    let command = notice["command"].as_str().expect("a text");
    assert!(command.ends_with("; echo 'error: no'; seq 1 3; exit 7"), "{command}");
    assert!(notice["elapsed_ms"].as_u64().is_some(), "{notice}");
    assert!(notice["at"].as_str().is_some_and(|at| at.starts_with("20")), "{notice}");
    assert!(notice["notice_id"].as_str().is_some_and(|name| name.starts_with(&id)), "{notice}");
    assert!(list_notices(&sandbox, &["--ack"]).is_empty(), "delivered twice");
    // Another consumer still receives the notice, because each has its own acknowledgements.
    assert_eq!(notified_tasks(&sandbox, &["--consumer", "other", "--ack"]), [&*id]);
    assert!(list_notices(&sandbox, &["--consumer", "other"]).is_empty());
}

#[test]
fn an_unacknowledged_notice_is_delivered_again() {
    let sandbox = sandbox();
    let id = run_in_background_to_end(&sandbox, &[], "true");
    let first = list_notices(&sandbox, &[]);
    assert_eq!(first, list_notices(&sandbox, &[]), "the notices must be equal");
    // A damaged cache, as after a crash, changes nothing: siding rebuilds it.
    let state = sandbox.state_dir();
    std::fs::write(state.join("notices.cache"), "siding-notices-1 00000000\nnonsense").unwrap();
    assert_eq!(first, list_notices(&sandbox, &[]));
    let name = first[0]["notice_id"].as_str().expect("a name");
    let _done = run_ok(&sandbox, &["notices", "ack", name]);
    assert!(list_notices(&sandbox, &[]).is_empty());
    let mut acks = std::fs::read(state.join("sessions/cli/acks")).unwrap();
    let whole = acks.len();
    acks.extend_from_slice(b"0123abcd 9 {\"record\":\"told\",\"cons");
    std::fs::write(state.join("sessions/cli/acks"), acks).unwrap();
    std::fs::remove_file(state.join("notices.cache")).unwrap();
    assert!(list_notices(&sandbox, &[]).is_empty(), "an earlier acknowledgement was lost");
    let other = run_in_background_to_end(&sandbox, &[], "false");
    assert_eq!(notified_tasks(&sandbox, &["--ack"]), [&*other]);
    assert!(list_notices(&sandbox, &[]).is_empty(), "the line after a torn one must count");
    assert!(std::fs::read(state.join("sessions/cli/acks")).unwrap().len() > whole);
    assert_ne!(id, other);
}

#[test]
fn an_end_reported_to_the_caller_gives_no_notice() {
    let sandbox = sandbox();
    let _foreground = run_to_end(&sandbox, "exit 7");
    let run = ["run", "--budget", "none", "--", "echo text"];
    assert_eq!(run_ok(&sandbox, &run).stdout_text(), "text\n");
    let early = ["run", "--background", "--settle", "20s", "--json", "--", "exit 3"];
    assert_eq!(sandbox.siding(&early).run().json()["phase"], "ended");
    assert!(list_notices(&sandbox, &[]).is_empty());
    assert!(
        list_notices(&sandbox, &["--consumer", "person"]).is_empty(),
        "the person must get no notice"
    );
}

/// Failure F24: each call that reports the end of a task acknowledges the notice of this end for
/// the caller's session.
#[test]
fn reading_a_result_cancels_its_notice() {
    let sandbox = sandbox();
    let calls: [&[&str]; 8] = [
        &["wait", "ID"],
        &["wait", "--json", "ID"],
        &["output", "ID"],
        &["output", "--json", "--tail", "1", "ID"],
        &["output", "--follow", "ID"],
        &["output", "--raw", "ID"],
        &["show", "ID"],
        &["stop", "ID"],
    ];
    for call in calls {
        let id = run_in_background_to_end(&sandbox, &[], "echo text");
        let call: Vec<&str> =
            call.iter().map(|word| if *word == "ID" { &id } else { *word }).collect();
        let stranger = sandbox.siding(&call).env("SIDING_SESSION", "other").run();
        let _not_his = stranger.expect_code(0);
        assert_eq!(notified_tasks(&sandbox, &[]), [&*id], "{call:?} from another session");
        let _done = run_ok(&sandbox, &call);
        assert!(list_notices(&sandbox, &[]).is_empty(), "{call:?}");
    }
}

/// Failure F22: a call that reports the end of a monitor does not acknowledge the monitor's
/// `matched` notices, because the call has not shown their lines.
#[test]
fn reading_the_end_keeps_the_notices_of_unread_matches() {
    let sandbox = sandbox();
    // The command ends after the call that starts it has returned, because that call would
    // otherwise report the end.
    let text = format!("{}; echo FAIL one; echo ok", until_file_exists("go"));
    let monitor = ["monitor", "--json", "--match", "FAIL", "--", &text];
    let id = task_id(&run_ok(&sandbox, &monitor).json());
    make_file(&sandbox, "go");
    wait_for_end(&sandbox, &id);
    for call in [&["wait", &id][..], &["stop", &id], &["show", &id]] {
        let _done = run_ok(&sandbox, call);
        let left = list_notices(&sandbox, &[]);
        let kinds: Vec<&Value> = left.iter().map(|notice| &notice["kind"]).collect();
        assert_eq!(kinds, ["matched"], "{call:?}: {left:?}");
    }
    let _all = run_ok(&sandbox, &["output", &id]);
    assert!(list_notices(&sandbox, &[]).is_empty(), "`output` showed the matched line");
}

#[test]
fn a_partial_read_does_not_cancel_the_end_notice() {
    let sandbox = sandbox();
    let id = run_in_background_to_end(&sandbox, &[], "seq 1 1000");
    let readings: [&[&str]; 4] = [
        &["output", "--grep", "nothing"],
        &["output", "--errors"],
        &["output", "--since", "0", "--max-bytes", "100"],
        &["ps", "--all"],
    ];
    for reading in readings {
        let args = if reading[0] == "ps" { reading.to_vec() } else { [reading, &[&*id]].concat() };
        let _done = run_ok(&sandbox, &args);
        assert_eq!(notified_tasks(&sandbox, &[]), [&*id], "{reading:?}");
    }
    // Calls on a running task acknowledge nothing either.
    let running = start_task(&sandbox, &[], &format!("echo text; {}", until_file_exists("end")));
    let _done = run_ok(&sandbox, &["output", &running]);
    let _done = run_ok(&sandbox, &["show", &running]);
    make_file(&sandbox, "end");
    wait_for_end(&sandbox, &running);
    assert_eq!(notified_tasks(&sandbox, &[]), [&*id, &*running]);
}

/// Failure F22: twenty tasks that end at the same time cause twenty notices.
#[test]
fn twenty_tasks_that_end_together_give_twenty_notices() {
    let sandbox = sandbox();
    let ids: Vec<String> =
        (0..20).map(|_| start_task(&sandbox, &[], &until_file_exists("end"))).collect();
    let mut follower = sandbox.siding(&["notices", "--follow", "--json", "--ack"]).spawn();
    make_file(&sandbox, "end");
    for id in &ids {
        let _all = follower.wait_for_stdout(id);
    }
    let lines: Vec<Value> = follower
        .stdout_text()
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let mut delivered: Vec<String> = lines.iter().map(task_id).collect();
    delivered.sort();
    let mut expected = ids;
    expected.sort();
    assert_eq!(delivered, expected);
    eventually("all are acknowledged", || list_notices(&sandbox, &[]).is_empty());
}

#[test]
fn notices_that_need_attention_come_first() {
    let sandbox = sandbox();
    let first = run_in_background_to_end(&sandbox, &[], "true");
    let second =
        run_in_background_to_end(&sandbox, &["--timeout", "2s", "--grace", "0s"], HANG_COMMAND);
    let third = run_in_background_to_end(&sandbox, &[], "false");
    let all = list_notices(&sandbox, &[]);
    let delivered: Vec<_> = all.iter().map(|one| (task_id(one), one["status"].clone())).collect();
    assert_eq!(
        delivered,
        [(second, json!("timed_out")), (first, json!("completed")), (third, json!("failed"))]
    );
    assert_eq!((&all[0]["limit"], &all[0]["priority"]), (&json!("2s"), &json!("next")));
}

/// Failure F19: a task causes one notice when it lingers, and another when it has ended.
#[test]
fn lingering_and_the_later_end_are_both_notified() {
    let sandbox = sandbox();
    let text = format!("({}) & true", until_file_exists("end"));
    let id = start_with_open_gate(&sandbox, &[], &text);
    let lingering =
        eventually_some("the task lingers", || list_notices(&sandbox, &["--ack"]).pop());
    assert_eq!((&lingering["status"], &lingering["exit_code"]), (&json!("lingering"), &json!(0)));
    assert_eq!(lingering["kind"], "lingering");
    // The call that starts the second task itself reports that the task is lingering, so there is
    // no notice of this.
    let run = ["run", "--budget", "none", "--json", "--allow-duplicate", "--", &text];
    let second = run_ok(&sandbox, &run).json();
    assert_eq!(second["phase"], "lingering");
    assert!(list_notices(&sandbox, &[]).is_empty());
    make_file(&sandbox, "end");
    let mut delivered = Vec::new();
    eventually("both ends are reported", || {
        delivered.extend(list_notices(&sandbox, &["--ack"]));
        delivered.len() >= 2
    });
    assert!(delivered.iter().all(|one| one["kind"] == "ended"), "{delivered:?}");
    let ids: Vec<String> = delivered.iter().map(crate::support::task_id).collect();
    assert!(ids.contains(&id) && ids.contains(&crate::support::task_id(&second)), "{delivered:?}");
}

#[test]
fn notices_can_be_acknowledged_by_notice_or_task_id() {
    let sandbox = sandbox();
    let (one, two) = (
        run_in_background_to_end(&sandbox, &[], "true"),
        run_in_background_to_end(&sandbox, &[], "false"),
    );
    let name = list_notices(&sandbox, &[])[0]["notice_id"].as_str().expect("a name").to_owned();
    assert!(name.starts_with(&one));
    let unknown = format!("{one}.99");
    let error =
        sandbox.siding(&["notices", "ack", &unknown, &name]).run().expect_code(125).stderr_text();
    assert!(error.contains(&format!("no notice `{unknown}`")), "{error}");
    assert_eq!(notified_tasks(&sandbox, &[]), [&*two], "the other notice must be acknowledged");
    let _again = run_ok(&sandbox, &["notices", "ack", &name]);
    let _by_task = run_ok(&sandbox, &["notices", "ack", &two]);
    assert!(list_notices(&sandbox, &[]).is_empty());
    assert!(run_refused(&sandbox, &["notices", "ack", "b-0000000000"]).contains("no task"));
    assert!(run_refused(&sandbox, &["notices", "--session", "nobody"]).contains("is not open"));
    let bad = run_refused(&sandbox, &["notices", "--consumer", "../x"]);
    assert!(bad.contains("cannot name a consumer"), "{bad}");
}

#[test]
fn each_session_has_its_own_notices() {
    let sandbox = sandbox();
    let owner = sandbox.puppet(&words("--quiet hang")).spawn();
    let pid = owner.process().pid.to_string();
    let _open = run_ok(&sandbox, &["session", "open", "mine", "--owner-pid", &pid]);
    let mine = run_in_background_to_end(&sandbox, &["--session", "mine"], "true");
    let common = run_in_background_to_end(&sandbox, &[], "true");
    assert_eq!(notified_tasks(&sandbox, &["--session", "mine"]), [&*mine]);
    assert_eq!(notified_tasks(&sandbox, &[]), [&*common]);
    let inside = sandbox.siding(&["notices", "--json", "--ack"]).env("SIDING_SESSION", "mine");
    assert_eq!(task_id(&inside.run().expect_code(0).json()[0]), mine);
    assert!(list_notices(&sandbox, &["--session", "mine"]).is_empty());
    // Acknowledgements create the directory of the implicit session. The session's running tasks
    // must still be listed.
    let _ack = run_ok(&sandbox, &["notices", "--ack"]);
    let running = start_task(&sandbox, &[], HANG_COMMAND);
    let list = run_ok(&sandbox, &["session", "list", "--json"]).json();
    let cli = list.as_array().expect("a list").iter().find(|one| one["session_id"] == "cli");
    assert_eq!(cli.map(|one| one["running"].clone()), Some(json!([running])), "{list}");
    stop_all(&sandbox);
}

/// `notices --ack` acknowledges nothing if its reader has closed the pipe, so the notices are
/// delivered again.
#[test]
fn notices_written_to_a_closed_pipe_are_delivered_again() {
    let sandbox = sandbox();
    let id = run_in_background_to_end(&sandbox, &[], "true");
    for form in [&["--json"][..], &["--xml"], &[]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let call = sandbox.siding(&[&["notices", "--ack"], form].concat()).stdout_to(writer);
        let _done = call.run();
        assert_eq!(notified_tasks(&sandbox, &[]), [&*id], "{form:?}");
    }
}

/// A notice that a person has read at a terminal is shown there again only with `--all`, and the
/// agent of the session still receives it.
#[test]
fn a_terminal_shows_each_notice_once_and_takes_none_from_the_agent() {
    let sandbox = sandbox();
    let first = run_in_background_to_end(&sandbox, &[], "exit 7");
    let shown = run_at_terminal(&sandbox, &["notices"], "them again");
    assert!(shown.contains(&first), "{shown}");
    assert!(shown.contains("siding: the notices above are acknowledged here"), "{shown}");
    let nothing = run_at_terminal(&sandbox, &["notices"], "--all shows earlier notices");
    assert!(!nothing.contains(&first), "{nothing}");
    let second = run_in_background_to_end(&sandbox, &[], "true");
    let shown = run_at_terminal(&sandbox, &["notices"], "them again");
    assert!(shown.contains(&second) && !shown.contains(&first), "{shown}");
    let all = run_at_terminal(&sandbox, &["notices", "--all"], &second);
    assert!(all.contains(&first), "{all}");
    assert_eq!(notified_tasks(&sandbox, &[]), [&*first, &*second]);
    // A notice whose result a call in the session has shown is not shown at the terminal either.
    let third = run_in_background_to_end(&sandbox, &[], "true");
    let _ended = run_ok(&sandbox, &["wait", &third]);
    let nothing = run_at_terminal(&sandbox, &["notices"], "--all shows earlier notices");
    assert!(!nothing.contains(&third), "{nothing}");
}

/// A call that is still writing when its terminal is closed acknowledges nothing.
#[test]
fn a_notice_that_a_closed_terminal_did_not_show_is_shown_again() {
    let sandbox = sandbox();
    let id = run_in_background_to_end(&sandbox, &[], "true");
    let terminal = Terminal::new(80, 24);
    terminal.suspend_output();
    let call = sandbox.siding(&["notices"]).on_terminal(&terminal).spawn();
    let syscall = format!("/proc/{}/syscall", call.process().pid);
    let write = format!("{} 0x1 ", libc::SYS_write);
    eventually("the call writes to its standard output", || {
        std::fs::read_to_string(&syscall).is_ok_and(|text| text.starts_with(&write))
    });
    terminal.close();
    let _failed = call.wait().expect_code(125);
    let shown = run_at_terminal(&sandbox, &["notices"], "them again");
    assert!(shown.contains(&id), "{shown}");
}

#[test]
fn a_person_acknowledges_what_was_printed_last_without_naming_it() {
    let sandbox = sandbox();
    let id = run_in_background_to_end(&sandbox, &[], "true");
    let terminal = Terminal::new(80, 24);
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let print = sandbox.siding(&["notices"]).on_terminal(&terminal).stdout_to(writer);
    let _printed = print.run().expect_code(0);
    drop(reader);
    let _done = run_at_terminal(&sandbox, &["notices", "ack"], "siding: acknowledged 1 notice");
    let _again = run_at_terminal(&sandbox, &["notices", "ack"], "siding: nothing to acknowledge");
    let nothing = run_at_terminal(&sandbox, &["notices"], "--all shows earlier notices");
    assert!(!nothing.contains(&id), "{nothing}");
    // An agent names the notices, because a person may have printed other ones in between.
    let refused = run_refused(&sandbox, &["notices", "ack"]);
    assert!(refused.contains("no notice and no task is named"), "{refused}");
    assert_eq!(notified_tasks(&sandbox, &[]), [&*id]);
}

#[test]
fn a_follower_receives_notices_promptly_and_exits_with_its_reader() {
    let sandbox = sandbox();
    let before = run_in_background_to_end(&sandbox, &[], "true");
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let follower =
        sandbox.siding(&["notices", "--follow", "--json", "--ack"]).stdout_to(writer).spawn();
    let mut next = || {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\n") {
            std::io::Read::read_exact(&mut reader, &mut byte).expect("the stream continues");
            line.push(byte[0]);
        }
        task_id(&serde_json::from_slice::<Value>(&line).expect("JSON"))
    };
    assert_eq!(next(), before);
    // The stream also reports tasks that start after the stream was opened.
    for _ in 0..3 {
        let started = Instant::now();
        let id = start_with_open_gate(&sandbox, &[], "true");
        assert_eq!(next(), id);
        assert!(
            started.elapsed() < Duration::from_secs(30),
            "the notice took {:?}",
            started.elapsed()
        );
    }
    // A foreground task causes no notice, because the result is delivered to its caller.
    let _foreground = run_to_end(&sandbox, "exit 1");
    // The stream also reports the end of a task that was killed together with its shim.
    let id = start_task(&sandbox, &[], HANG_COMMAND);
    let shim = show_task(&sandbox, &id)["shim_pid"].as_u64().expect("a shim");
    let members = processes::with_birthmark(&id);
    Process::from_pid(u32::try_from(shim).expect("a pid")).expect("the process is alive").kill();
    members.iter().for_each(|member| member.kill());
    assert_eq!(next(), id);
    // The outcome is `signaled` if the kernel still has the exit status, and `lost` if it does not.
    let outcome = show_task(&sandbox, &id)["outcome"]["kind"].clone();
    assert!(outcome == "lost" || outcome == "signaled", "{outcome}");
    drop(reader);
    assert_eq!(follower.wait().code, Some(0), "the follower must exit with its reader");
    assert!(list_notices(&sandbox, &[]).is_empty());
}

/// Promise P61: if the caller is killed before it has printed the result, the session receives a
/// notice.
#[test]
fn an_end_that_a_killed_caller_did_not_read_is_notified() {
    let sandbox = sandbox();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    // The task ends while its caller blocks, because the test does not read the caller's stdout.
    let text = "head -c 200000 /dev/zero | tr '\\0' x; touch end";
    let caller = sandbox.siding(&["run", "--budget", "none", "--", text]).stdout_to(writer).spawn();
    eventually("the command is done", || sandbox.path("end").exists());
    let id = eventually_some("the end is recorded", || {
        let list = run_ok(&sandbox, &["ps", "--json"]).json();
        let one = list.as_array()?.first()?.clone();
        (one["phase"] == "ended").then(|| crate::support::task_id(&one))
    });
    drop(caller);
    drop(reader);
    eventually("the session is notified", || notified_tasks(&sandbox, &[]) == [&*id]);
}

/// Promise P70: tasks with unacknowledged notices are removed last, and at most twice as many tasks
/// as the limit allows are retained.
#[test]
fn retention_removes_tasks_with_delivered_notices_first() {
    let sandbox = sandbox();
    let untold = run_in_background_to_end(&sandbox, &[], "true");
    let delivered: Vec<String> = (0..3).map(|_| run_to_end(&sandbox, "true")).collect();
    let reap = |tasks: &str| {
        let call = sandbox.siding(&["reap", "--json"]).env("SIDING_RETENTION_TASKS", tasks);
        let _done = call.run().expect_code(0);
    };
    let is_kept = |id: &str| sandbox.state_dir().join("tasks").join(id).exists();
    reap("2");
    assert!(
        is_kept(&untold)
            && !is_kept(&delivered[0])
            && !is_kept(&delivered[1])
            && is_kept(&delivered[2])
    );
    reap("1");
    assert!(is_kept(&untold) && !is_kept(&delivered[2]));
    let _ack = run_ok(&sandbox, &["notices", "--ack"]);
    let more: Vec<String> =
        (0..3).map(|_| run_in_background_to_end(&sandbox, &[], "true")).collect();
    reap("1");
    assert!(!is_kept(&untold), "the acknowledged notice was not removed");
    assert!(!is_kept(&more[0]) && is_kept(&more[1]), "expected at most twice the limit");
}

/// An invalid session name is an error. It does not select the implicit session, whose notices are
/// for another agent.
#[test]
fn an_invalid_or_unopened_session_is_rejected() {
    let sandbox = sandbox();
    let ended = run_in_background_to_end(&sandbox, &[], "true");
    for args in [&["notices", "--ack"][..], &["notices"]] {
        let done = sandbox.siding(args).env("SIDING_SESSION", "my session").run().expect_code(125);
        assert!(done.stderr_text().contains("my session"), "{done}");
    }
    assert_eq!(notified_tasks(&sandbox, &[]), [ended], "the notice is lost");
    for args in [&["stop", "--all", "--session", "typo"][..], &["ps", "--session", "typo"]] {
        let done = sandbox.siding(args).run().expect_code(125);
        assert!(done.stderr_text().contains("`typo` is not open"), "{done}");
    }
}
