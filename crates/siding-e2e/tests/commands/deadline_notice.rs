//! A deadline that is near: told once, until it has moved.

use serde_json::Value;
use siding_e2e::{Process, Sandbox, eventually, eventually_some};

use crate::support::{HANG, id, ok, sandbox, shown, stop_all};

/// Starts a task in the background whose notice is due two seconds after its start.
#[track_caller]
fn start(sandbox: &Sandbox, timeout: &str) -> String {
    let args = ["run", "--background", "--allow-duplicate", "--json", "--timeout", timeout, "--"];
    let call = sandbox.siding(&[&args[..], &[HANG]].concat());
    id(&call.env("SIDING_DEADLINE_NOTICE", "9m58s").run().expect_code(0).json())
}

/// What is told of deadlines, to somebody who acknowledges nothing.
#[track_caller]
fn expiring(sandbox: &Sandbox) -> Vec<Value> {
    let view = ok(sandbox, &["notices", "--json", "--consumer", "looker"]).json();
    let all = view.as_array().expect("a list").iter();
    all.filter(|notice| notice["kind"] == "expiring").cloned().collect()
}

/// The records of deadlines that are near.
fn records(sandbox: &Sandbox, id: &str) -> usize {
    let path = sandbox.state_dir().join("tasks").join(id).join("journal");
    let journal = std::fs::read_to_string(path).unwrap_or_default();
    journal.matches(r#""record":"expiring""#).count()
}

/// SPEC §5.1: two minutes before a deadline, with what would move it. A short task has none.
#[test]
fn a_near_deadline_is_told_until_it_is_moved() {
    let sandbox = sandbox();
    let short = start(&sandbox, "9m59s");
    let long = start(&sandbox, "10m");
    let notice = eventually_some("the deadline is told", || expiring(&sandbox).pop());
    assert_eq!(
        (&notice["task_id"], &notice["status"]),
        (&long.as_str().into(), &"expiring".into())
    );
    assert_eq!(notice["priority"], "next");
    let summary = notice["summary"].as_str().expect("a text");
    assert!(summary.starts_with("its deadline of 10m is 9m 5"), "{summary}");
    let extend = format!("`siding extend {long} 10m` moves it to 20m");
    assert!(summary.contains(&extend), "{summary}");
    assert_eq!(notice["evidence"]["deadline_ms"], 600_000);
    assert_eq!((records(&sandbox, &short), records(&sandbox, &long)), (0, 1));

    let _moved = ok(&sandbox, &["extend", &long, "10m"]);
    assert_eq!(expiring(&sandbox), [Value::Null; 0], "that deadline does not come");
    // Another deadline has a notice of its own.
    let _moved = ok(&sandbox, &["extend", &long, "--to", "601s"]);
    eventually("the new one is told", || records(&sandbox, &long) == 2);
    assert_eq!(expiring(&sandbox).len(), 1);
    stop_all(&sandbox);
    assert_eq!(expiring(&sandbox), [Value::Null; 0], "it has ended");
}

/// The record survives its shim: the next one does not tell again.
#[test]
fn a_rescued_task_is_told_of_its_deadline_once() {
    let sandbox = sandbox();
    let id = start(&sandbox, "10m");
    eventually("the deadline is told", || records(&sandbox, &id) == 1);
    let shim = shown(&sandbox, &id)["shim_pid"].as_u64().expect("a shim");
    Process::of(u32::try_from(shim).expect("a pid")).expect("it lives").kill();
    eventually("another shim is there", || shown(&sandbox, &id)["rescues"] == 1);
    assert_eq!(ok(&sandbox, &["why", "--json", &id]).json()["task_id"], id.as_str(), "it attends");
    assert_eq!((records(&sandbox, &id), expiring(&sandbox).len()), (1, 1));
    stop_all(&sandbox);
}

/// `0s` gives none, and a caller who waits needs none.
#[test]
fn no_notice_is_given_where_none_is_wanted() {
    let sandbox = sandbox();
    let told = start(&sandbox, "10m");
    let head = ["run", "--background", "--allow-duplicate", "--json", "--timeout", "10m", "--"];
    let never = sandbox
        .siding(&[&head[..], &[HANG]].concat())
        .env("SIDING_DEADLINE_NOTICE", "0s")
        .run()
        .expect_code(0);
    let never = id(&never.json());
    let args = ["run", "--budget", "none", "--timeout", "10m", "--", "sleep 4"];
    let waited = sandbox.siding(&args).env("SIDING_DEADLINE_NOTICE", "9m59s").run();
    let _ended = waited.expect_code(0);
    eventually("the first is told", || records(&sandbox, &told) == 1);
    let silent = sandbox.task_ids().into_iter().filter(|id| *id != told);
    for id in silent {
        assert_eq!(records(&sandbox, &id), 0, "{id} of {never} and the one waited for");
    }
    stop_all(&sandbox);
}
