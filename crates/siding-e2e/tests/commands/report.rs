//! The content of `siding report` in its text, Markdown and JSON formats.

use siding_e2e::{Sandbox, eventually};

use crate::support::{
    HANG_COMMAND, make_file, run_ok, run_refused, run_to_end, sandbox, start_task, stop_all,
};

#[track_caller]
fn report_text(sandbox: &Sandbox, args: &[&str]) -> String {
    run_ok(sandbox, &[&["report"], args].concat()).stdout_text()
}

#[test]
fn an_empty_report_says_that_nothing_ran() {
    let sandbox = sandbox();
    let done = run_ok(&sandbox, &["report"]);
    assert_eq!(done.stdout_text(), "last 24 hours: nothing ran\n");
    assert!(done.stderr_text().contains("--since"), "{done}");
    assert!(
        report_text(&sandbox, &["--markdown", "--since", "7d"])
            .contains("last 7 days: nothing ran")
    );
    let json = run_ok(&sandbox, &["report", "--json"]).json();
    assert_eq!(json["counts"]["ran"], 0);
    let bad = run_refused(&sandbox, &["report", "--since", "0s"]);
    assert!(bad.contains("24h"), "{bad}");
}

/// On one screen, the report shows the numbers of all tasks, of failed tasks and of stopped tasks,
/// the lingering tasks, and the slowest and noisiest tasks.
#[test]
fn the_report_shows_all_events_on_one_screen() {
    let sandbox = sandbox();
    make_file(&sandbox, "go");
    run_to_end(&sandbox, "echo fine");
    let failed = run_to_end(&sandbox, "seq 20000; exit 7");
    let run = ["run", "--timeout", "200ms", "--grace", "0s", "--json", "--", "sleep 61"];
    let late = sandbox.siding(&run).run().json();
    let stopped = start_task(&sandbox, &[], HANG_COMMAND);
    let _done = run_ok(&sandbox, &["stop", &stopped]);
    let left = start_task(&sandbox, &[], "sleep 62 & :");
    eventually("the task lingers", || {
        run_ok(&sandbox, &["show", "--json", &left]).json()["phase"] == "lingering"
    });
    let runs = start_task(&sandbox, &[], "sleep 63");
    let log = r#"{"at":"9000-01-01T00:00:00.000Z","rule":"claude-sandbox","pid":7,"start_ticks":8,
        "top_pid":7,"age_ms":9,"signal":"SIGTERM","command":"socat UNIX-LISTEN:/tmp/x"}"#;
    std::fs::write(sandbox.state_dir().join("reaped.log"), log.replace('\n', "") + "\n")
        .expect("test directory");

    let screen = report_text(&sandbox, &[]);
    let headline =
        "last 24 hours: 6 tasks, 1 succeeded, 1 failed, 1 stopped, 1 timed out, 2 running";
    assert_eq!(screen.lines().next(), Some(headline), "{screen}");
    let row = |label: &str| {
        let line = screen.lines().find(|line| line.starts_with(label));
        line.unwrap_or_else(|| panic!("no {label}:\n{screen}"))
    };
    assert!(row("failed").contains("exited 7") && row("failed").contains(&failed), "{screen}");
    assert!(row("stopped by").contains("1x"), "{screen}");
    assert!(screen.contains("deadline") && screen.contains("user"), "{screen}");
    assert!(row("reaped by").contains("claude-sandbox") && row("reaped by").contains("socat"));
    assert!(row("lingering").contains(&left), "{screen}");
    assert!(row("noisiest").contains(&failed), "{screen}");
    assert!(row("disk:").contains("6 kept tasks"), "{screen}");
    assert!(screen.lines().count() <= 24 && screen.lines().all(|line| line.chars().count() <= 80));

    let json = run_ok(&sandbox, &["report", "--json", "--since", "1h"]).json();
    assert_eq!(json["counts"]["ran"], 6);
    assert_eq!(json["failed"][0]["task_id"], failed);
    let rules: Vec<_> = json["stopped_by"].as_array().expect("a list").iter().collect();
    assert!(rules.iter().any(|cause| cause["last"]["task_id"] == late["task_id"]), "{json}");
    assert_eq!(json["lingering"][0]["task_id"], left);
    assert!(
        json["slowest"].as_array().is_some_and(|all| all.iter().any(|one| one["task_id"] == runs))
    );

    let markdown = report_text(&sandbox, &["--markdown"]);
    assert!(markdown.contains("## Failed\n\n- `") && markdown.contains("exit 7`"), "{markdown}");
    let both = sandbox.siding(&["report", "--json", "--markdown"]).run();
    assert_eq!(both.code, Some(125), "{both}");
    stop_all(&sandbox);
}

/// The report also counts tasks that have been removed, because the history still contains their
/// results.
#[test]
fn the_report_counts_removed_tasks_from_the_history() {
    let sandbox = sandbox();
    make_file(&sandbox, "go");
    let removed = run_to_end(&sandbox, "exit 3");
    let _history = run_ok(&sandbox, &["history"]);
    let reaped = sandbox.siding(&["reap"]).env("SIDING_RETENTION_TASKS", "0").run().expect_code(0);
    assert!(reaped.stdout_text().contains(&removed), "{reaped}");
    let json = run_ok(&sandbox, &["report", "--json"]).json();
    assert_eq!((&json["counts"]["ran"], &json["disk"]["tasks"]), (&1.into(), &0.into()));
    assert_eq!(json["failed"][0]["task_id"], removed);
    assert!(json["failed"][0]["output_bytes"].is_null(), "{json}");
}
