//! An adopted command is a task like any.

use rustix::process::Signal;
use serde_json::json;
use siding_e2e::{eventually, processes, words};

use crate::support::{
    Kept, adopting, ended, journal, kept, sandbox, shell, shims, shown, start, tasks, until_no_shim,
};

/// A session has thousands of commands that last milliseconds.
#[test]
fn a_short_command_leaves_nothing() {
    let sandbox = sandbox();
    for (text, code) in [("true", 0), ("exit 7", 7), ("ls / | wc -l >/dev/null; false", 1)] {
        let _done = shell(&sandbox, text).run().expect_code(code);
    }
    until_no_shim(&sandbox);
    assert_eq!(tasks(&sandbox), Vec::<serde_json::Value>::new());
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
    for directory in ["tasks", "live", "same"] {
        let left = std::fs::read_dir(sandbox.state_dir().join(directory)).expect("is there");
        assert_eq!(left.count(), 0, "{directory}");
    }
}

/// C1, C2: the code is the command's own, though it is nobody's child here.
#[test]
fn the_exit_code_is_known() {
    let sandbox = sandbox();
    for code in [0, 3, 255] {
        let kept = start(
            &sandbox,
            kept(&sandbox, &format!("until [ -e go{code} ]; do sleep .02; done; exit {code}")),
        );
        let view = shown(&sandbox, &kept.id);
        assert_eq!((&view["adopted"], &view["kind"]), (&json!(true), &json!("local_bash")));
        assert_eq!(view["phase"], "running");
        assert_eq!(view["cwd"], sandbox.path("").to_string_lossy().trim_end_matches('/'));
        assert!(view["command"].as_str().is_some_and(|text| text.starts_with("until [")), "{view}");
        std::fs::write(sandbox.path(&format!("go{code}")), "").expect("own directory");
        let _done = kept.shell.wait().expect_code(code);
        let view = ended(&sandbox, &kept.id);
        assert_eq!(view["outcome"], json!({"kind": "exited", "code": code}));
    }
}

#[test]
fn a_signal_of_the_host_is_told_as_one() {
    let sandbox = sandbox();
    let kept = start(&sandbox, kept(&sandbox, "exec sleep 60"));
    kept.shell.process().kill();
    let view = ended(&sandbox, &kept.id);
    assert_eq!(view["outcome"], json!({"kind": "signaled", "signal": "SIGKILL", "by": null}));
}

/// SPEC 2.6: where neither the kernel nor the zombie tells, the outcome is lost and says why.
#[test]
fn a_status_that_nobody_tells_is_lost() {
    let sandbox = sandbox();
    let text = "until [ -e go ]; do sleep .02; done; exit 5";
    let other = sandbox.host("bash", &["-c", text]).spawn();
    let pid = other.process().pid.to_string();
    let call = sandbox.siding(&["adopt", "--json", &pid]).env("SIDING_ADOPT_KEEP_AFTER", "0s");
    let adopted = call.without_syscalls(&[libc::SYS_ioctl]).run().expect_code(0).json();
    let id = adopted["task_id"].as_str().expect("an id").to_owned();
    eventually("it is on record", || journal(&sandbox, &id).contains("spawned"));
    let [shim] = shims(&sandbox)[..] else { panic!("not one shim") };
    // Its parent takes the status before the shim can look.
    shim.signal(Signal::STOP);
    eventually("it stands still", || processes::state(shim.pid) == Some('T'));
    std::fs::write(sandbox.path("go"), "").expect("own directory");
    let _done = other.wait().expect_code(5);
    shim.signal(Signal::CONT);
    let outcome = ended(&sandbox, &id)["outcome"].clone();
    assert_eq!(outcome["kind"], "lost");
    assert!(outcome["why"].as_str().is_some_and(|why| why.contains("adopted")), "{outcome}");
}

/// B1, B3: the whole tree goes, by the mark alone; the host sees its shell end by the signal.
#[test]
fn a_stop_ends_the_whole_tree() {
    let sandbox = sandbox();
    let line = sandbox
        .puppet_line(&words("--quiet fork daemon mark far hang -- ignore TERM mark near hang"));
    let kept = start(&sandbox, kept(&sandbox, &format!("{line}; echo on")));
    let (far, near) = (sandbox.wait_for_mark("far"), sandbox.wait_for_mark("near"));
    let args = ["stop", "--json", "--grace", "300ms", &kept.id];
    let view = sandbox.siding(&args).run().expect_code(0).json();
    assert!(!far.is_alive() && !near.is_alive(), "{view}");
    assert_eq!(view["outcome"], json!({"kind": "stopped", "by": "user"}));
    assert_eq!(view["stop_report"]["survivors"], json!([]));
    let done = kept.shell.wait();
    assert_eq!(done.signal, Some(15), "{done}");
    assert!(journal(&sandbox, &kept.id).contains("no process carries its mark"));
}

/// E7: what it waits for is found as with any task.
#[test]
fn why_looks_at_it() {
    let sandbox = sandbox();
    let kept = start(&sandbox, kept(&sandbox, "sleep 60; true"));
    eventually("the sleep has begun", || {
        shown(&sandbox, &kept.id)["processes"].as_array().is_some_and(|list| list.len() == 2)
    });
    let why = sandbox.siding(&["why", "--json", &kept.id]).run().expect_code(0).json();
    assert_eq!(
        (&why["verdict"], &why["waiting_on"]),
        (&json!("waiting"), &json!("timer")),
        "{why}"
    );
    let _stopped = sandbox.siding(&["stop", &kept.id]).run().expect_code(0);
    let _ended = kept.shell.wait();
}

/// It is marked already: one task, not two.
#[test]
fn a_task_of_sidings_own_is_not_adopted() {
    let sandbox = sandbox();
    let text = "bash -c 'echo inner; ulimit -R'; ulimit -R";
    let call = sandbox.siding(&["run", "--json", "--", text]);
    let call = adopting(&sandbox, call).env("SIDING_ADOPT_KEEP_AFTER", "0s");
    let view = call.run().expect_code(0).json();
    assert_eq!(view["adopted"], false);
    let id = view["task_id"].as_str().expect("an id");
    let mark = processes::birthmark_from_id(id).expect("an id");
    assert_eq!(view["output"]["text"], format!("inner\n{mark}\n{mark}\n"));
    until_no_shim(&sandbox);
    assert_eq!(tasks(&sandbox).len(), 1);
}

/// G6: a plain run inside an agent's shell joins the agent's session, also where nobody opened one.
#[test]
fn a_run_inside_joins_the_session_of_the_host() {
    let sandbox = sandbox();
    let run = sandbox.siding_line(&["run", "--background", "--", "sleep 60"]);
    let text = format!("until [ -e go ]; do sleep .02; done; {run}; sleep 60");
    let kept = start(&sandbox, kept(&sandbox, &text));
    let session = shown(&sandbox, &kept.id)["session_id"].clone();
    assert_ne!(session, "cli");
    std::fs::write(sandbox.path("go"), "").expect("own directory");
    eventually("both run", || tasks(&sandbox).len() == 2);
    for task in tasks(&sandbox) {
        assert_eq!(task["session_id"], session, "{task}");
        if task["task_id"] != kept.id.as_str() {
            assert_eq!(task["parent_task"], kept.id.as_str());
        }
    }
    let _stopped = sandbox.siding(&["stop", "--all", "--grace", "0s"]).run().expect_code(0);
    let _ended = kept.shell.wait();
}

/// C8: that its command ended the host has seen itself; that siding ended it, it has not.
#[test]
fn only_what_the_host_does_not_know_is_news() {
    let sandbox = sandbox();
    let first = start(&sandbox, kept(&sandbox, "until [ -e go ]; do sleep .02; done"));
    let session = shown(&sandbox, &first.id)["session_id"].as_str().expect("a name").to_owned();
    std::fs::write(sandbox.path("go"), "").expect("own directory");
    let _done = first.shell.wait().expect_code(0);
    let _view = ended(&sandbox, &first.id);
    let second = start(&sandbox, kept(&sandbox, "sleep 60").env("SIDING_MAX_ELAPSED", "300ms"));
    let _ended = second.shell.wait();
    eventually("it has ended", || shown(&sandbox, &second.id)["phase"] == "ended");
    let args = ["notices", "--session", &session, "--json"];
    let told = sandbox.siding(&args).run().expect_code(0).json();
    let told = told.as_array().expect("a list").clone();
    let ids: Vec<_> = told.iter().map(|notice| notice["task_id"].as_str()).collect();
    assert_eq!(ids, [Some(second.id.as_str())], "{told:?}");
}

#[test]
fn adopting_by_hand_says_what_it_did() {
    let sandbox = sandbox();
    let other = sandbox.host("sleep", &["60"]).spawn();
    let pid = other.process().pid.to_string();
    let adopt = |pid: &str| sandbox.siding(&["adopt", "--json", pid]).run();
    let first = adopt(&pid).expect_code(0).json();
    let again = adopt(&pid).expect_code(0).json();
    assert_eq!((&first["already"], &again["already"]), (&json!(false), &json!(true)));
    assert_eq!(first["task_id"], again["task_id"]);
    let session = first["session_id"].as_str().expect("a name");
    assert!(session.starts_with("adopt-"), "{first}");
    assert_eq!(shims(&sandbox).len(), 1);
    other.process().kill();
    until_no_shim(&sandbox);
    let refused = adopt("2147483647").expect_code(125);
    assert!(refused.stderr_text().contains("no process 2147483647 runs"), "{refused}");
}

/// By hand all that can be wrong is told first. A shell is answered first: it waits.
#[test]
fn only_a_shell_is_answered_before_all_is_known() {
    let sandbox = sandbox();
    let other = sandbox.host("sleep", &["60"]).spawn();
    let pid = other.process().pid.to_string();
    let is_marked = || {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
        !limits.lines().any(|line| line.starts_with("Max realtime timeout") && line.contains("unl"))
    };
    let adopt = |args: &[&str]| sandbox.siding(args).env("SIDING_MAX_ELAPSED", "soon").run();
    let by_hand = adopt(&["adopt", &pid]).expect_code(125);
    assert_eq!((by_hand.stdout_text().as_str(), is_marked()), ("", false), "{by_hand}");
    let by_a_shell = adopt(&["adopt", &pid, "--at-once"]).expect_code(125);
    assert!(by_a_shell.stdout_text().contains(" adopt-") && is_marked(), "{by_a_shell}");
    for done in [by_hand, by_a_shell] {
        assert!(done.stderr_text().contains("SIDING_MAX_ELAPSED"), "{done}");
    }
    // Nobody keeps it: it is its host's, as it was.
    assert_eq!(shims(&sandbox), []);
    other.process().kill();
}

/// SPEC §3.1b: what was adopted is watched as well, though its host waits for it.
#[test]
fn an_adopted_command_is_watched() {
    let sandbox = sandbox();
    let leak = sandbox.puppet_line(&["hold-fds", "600", "hang"]);
    let call = kept(&sandbox, &format!("exec {leak}")).env("SIDING_WATCH_FDS", "400");
    let kept = start(&sandbox, call);
    eventually("the leak is told", || {
        journal(&sandbox, &kept.id).contains("\"detail\":\"watch_fds: ")
    });
    kept.shell.process().kill();
    let _ended = ended(&sandbox, &kept.id);
}

/// Its host reads what it writes from a pipe, where siding does not see it: that it writes is known.
#[test]
fn an_adopted_compiler_is_no_busy_loop() {
    let sandbox = sandbox();
    let watched = |text: &str| kept(&sandbox, text).env("SIDING_WATCH_CPU_SPIN", "4s");
    let computes = "for ((i = 0; i < 30000; i++)); do :; done";
    let compiler =
        start(&sandbox, watched(&format!("while :; do {computes}; echo compiled; done")));
    let spins = start(&sandbox, watched(&format!("while :; do {computes}; done")));
    let told = |kept: &Kept| journal(&sandbox, &kept.id).contains("\"which\":\"cpu_spin\"");
    eventually("the loop is told", || told(&spins));
    assert!(!told(&compiler));
    for kept in [compiler, spins] {
        kept.shell.process().kill();
        let _ended = ended(&sandbox, &kept.id);
    }
}
