//! Notices of approaching deadlines, one for each deadline (promise P65).

use serde_json::Value;
use siding_e2e::{Process, Sandbox, eventually, eventually_some};

use crate::support::{HANG_COMMAND, run_ok, sandbox, show_task, stop_all, task_id};

/// Starts a background task with a deadline notice that is due 9 min 58 s before the deadline. With
/// a timeout of 10 minutes, this is two seconds after the start.
#[track_caller]
fn start_with_timeout(sandbox: &Sandbox, timeout: &str) -> String {
    let args = ["run", "--background", "--allow-duplicate", "--json", "--timeout", timeout, "--"];
    let call = sandbox.siding(&[&args[..], &[HANG_COMMAND]].concat());
    task_id(&call.env("SIDING_DEADLINE_NOTICE", "9m58s").run().expect_code(0).json())
}

/// Returns the `expiring` notices for a consumer that has acknowledged nothing.
#[track_caller]
fn expiring_notices(sandbox: &Sandbox) -> Vec<Value> {
    let view = run_ok(sandbox, &["notices", "--json", "--consumer", "looker"]).json();
    let all = view.as_array().expect("a list").iter();
    all.filter(|notice| notice["kind"] == "expiring").cloned().collect()
}

/// Returns the number of `expiring` records in a task's journal.
fn count_expiring_records(sandbox: &Sandbox, id: &str) -> usize {
    let path = sandbox.state_dir().join("tasks").join(id).join("journal");
    let journal = std::fs::read_to_string(path).unwrap_or_default();
    journal.matches(r#""record":"expiring""#).count()
}

/// Promise P65: the notice of an approaching deadline names the command that extends the deadline,
/// and is withdrawn when the deadline is moved. A deadline of less than ten minutes causes no
/// notice.
#[test]
fn a_near_deadline_is_notified_until_it_is_extended() {
    let sandbox = sandbox();
    let short = start_with_timeout(&sandbox, "9m59s");
    let long = start_with_timeout(&sandbox, "10m");
    let notice =
        eventually_some("the deadline notice is recorded", || expiring_notices(&sandbox).pop());
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
    assert_eq!(
        (count_expiring_records(&sandbox, &short), count_expiring_records(&sandbox, &long)),
        (0, 1)
    );

    let _moved = run_ok(&sandbox, &["extend", &long, "10m"]);
    assert_eq!(
        expiring_notices(&sandbox),
        [Value::Null; 0],
        "the notice of the old deadline must be withdrawn"
    );
    // The new deadline causes another notice.
    let _moved = run_ok(&sandbox, &["extend", &long, "--to", "601s"]);
    eventually("the notice of the new deadline is recorded", || {
        count_expiring_records(&sandbox, &long) == 2
    });
    assert_eq!(expiring_notices(&sandbox).len(), 1);
    stop_all(&sandbox);
    assert_eq!(expiring_notices(&sandbox), [Value::Null; 0], "the notice must end with the task");
}

#[test]
fn an_acknowledged_task_has_no_notice_of_its_deadline() {
    let sandbox = sandbox();
    let id = start_with_timeout(&sandbox, "10m");
    eventually("the deadline notice is recorded", || expiring_notices(&sandbox).len() == 1);
    let _acknowledged = run_ok(&sandbox, &["notices", "ack", "--consumer", "looker", &id]);
    assert_eq!(expiring_notices(&sandbox), [Value::Null; 0]);
    stop_all(&sandbox);
}

/// Promise P77: a shim that takes over a task does not repeat a recorded notice.
#[test]
fn a_near_deadline_is_notified_once_across_takeover() {
    let sandbox = sandbox();
    let id = start_with_timeout(&sandbox, "10m");
    eventually("the deadline notice is recorded", || count_expiring_records(&sandbox, &id) == 1);
    let shim = show_task(&sandbox, &id)["shim_pid"].as_u64().expect("a shim");
    Process::from_pid(u32::try_from(shim).expect("a pid")).expect("the process is alive").kill();
    eventually("another shim has taken over", || show_task(&sandbox, &id)["rescues"] == 1);
    assert_eq!(
        run_ok(&sandbox, &["why", "--json", &id]).json()["task_id"],
        id.as_str(),
        "the new shim must answer"
    );
    assert_eq!((count_expiring_records(&sandbox, &id), expiring_notices(&sandbox).len()), (1, 1));
    stop_all(&sandbox);
}

/// There is no notice with `deadline_notice = "0s"`, nor for a foreground task, because its caller
/// is waiting.
#[test]
fn there_is_no_deadline_notice_when_it_is_off_or_waited_for() {
    let sandbox = sandbox();
    let reported = start_with_timeout(&sandbox, "10m");
    let head = ["run", "--background", "--allow-duplicate", "--json", "--timeout", "10m", "--"];
    let never = sandbox
        .siding(&[&head[..], &[HANG_COMMAND]].concat())
        .env("SIDING_DEADLINE_NOTICE", "0s")
        .run()
        .expect_code(0);
    let never = task_id(&never.json());
    let args = ["run", "--budget", "none", "--timeout", "10m", "--", "sleep 2.5"];
    let waited = sandbox.siding(&args).env("SIDING_DEADLINE_NOTICE", "9m59s").run();
    let _ended = waited.expect_code(0);
    eventually("the first notice is recorded", || count_expiring_records(&sandbox, &reported) == 1);
    let silent = sandbox.task_ids().into_iter().filter(|id| *id != reported);
    for id in silent {
        assert_eq!(
            count_expiring_records(&sandbox, &id),
            0,
            "{id} of {never} and the waited-for task"
        );
    }
    stop_all(&sandbox);
}
