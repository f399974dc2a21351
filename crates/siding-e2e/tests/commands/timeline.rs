//! `siding timeline` as text, as SVG and as JSON, for real tasks.

use std::fs;

use serde_json::Value;
use siding_e2e::{Sandbox, Terminal, words};

use crate::support::{
    HANG_COMMAND, run_ok, run_refused, run_to_end, sandbox, start_task, stop_all,
};

#[track_caller]
fn unicode_timeline(sandbox: &Sandbox, args: &[&str]) -> String {
    let call = sandbox.siding(&[&["timeline"], args].concat()).env("LC_ALL", "C.UTF-8");
    call.run().expect_code(0).stdout_text()
}

/// Returns the rows of all lanes whose bar represents one task.
fn task_rows(timeline: &Value) -> Vec<&Value> {
    let lanes = timeline["lanes"].as_array().expect("a list");
    lanes.iter().flat_map(|lane| lane["rows"].as_array().expect("a list")).collect()
}

/// The text shows how each task ended, who stopped it, a hand-over, and a task below the task that
/// has started it. The JSON and the SVG contain the same tasks.
#[test]
fn a_timeline_shows_how_tasks_ran_and_ended() {
    let sandbox = sandbox();
    let failed = run_to_end(&sandbox, "exit 7");
    let handed_over = ["run", "--budget", "100ms", "--json", "--", HANG_COMMAND];
    let handed_over = sandbox.siding(&handed_over).run().json()["task_id"].to_string();
    let inner = sandbox.siding_line(&["run", "--budget", "none", "--", "sleep 301"]);
    let outer = start_task(&sandbox, &[], &inner);
    siding_e2e::eventually("the inner task runs", || {
        let listed = run_ok(&sandbox, &["ps", "--running", "--json"]).json();
        listed.as_array().is_some_and(|tasks| tasks.iter().any(|one| one["parent_task"] == outer))
    });
    let _stopped = run_ok(&sandbox, &["stop", &outer]);

    let text = unicode_timeline(&sandbox, &[]);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    assert!(text.contains("session cli: 4 tasks, 2 running, 1 failed, 1 stopped"), "{text}");
    let row = |part: &str| {
        let line = text.lines().find(|line| line.contains(part));
        line.unwrap_or_else(|| panic!("no {part}:\n{text}"))
    };
    assert!(row("exit 7").contains("exited 7") && row("exit 7").contains(&failed[..6]), "{text}");
    assert!(row(&format!("  {} ", &outer[..6])).contains("stopped by user"), "{text}");
    assert!(row("sleep 301").starts_with("    b-"), "a started task is below: {text}");
    assert!(text.contains("» hand-over") && text.contains("now"), "{text}");

    let json = run_ok(&sandbox, &["timeline", "--json"]).json();
    assert_eq!(json["counts"]["tasks"], 4);
    let rows = task_rows(&json);
    assert_eq!(rows.len(), 4);
    let depths: Vec<_> = rows.iter().map(|row| row["depth"].as_u64()).collect();
    assert_eq!(depths, [Some(0), Some(0), Some(0), Some(1)]);
    let marks = rows[1]["bars"][0]["marks"].to_string();
    assert_eq!(rows[1]["bars"][0]["task"]["task_id"].to_string(), handed_over);
    assert!(marks.contains("hand_over") && marks.contains("its budget had passed"), "{marks}");

    let _done = run_ok(&sandbox, &["timeline", "--svg", "picture.svg"]);
    let picture = fs::read_to_string(sandbox.path("picture.svg")).expect("the picture");
    assert!(picture.starts_with("<svg") && picture.contains("stopped by user"), "{picture}");
    let printed = run_ok(&sandbox, &["timeline", "--svg", "-"]).stdout_text();
    assert!(printed.starts_with("<svg") && printed.ends_with("</svg>\n"), "{printed}");
    stop_all(&sandbox);
}

/// `--session` draws the tasks of one session, in each format.
#[test]
fn a_session_is_drawn_alone() {
    let sandbox = sandbox();
    let owner = sandbox.puppet(&words("--quiet hang")).spawn();
    let pid = owner.process().pid.to_string();
    let _open = run_ok(&sandbox, &["session", "open", "chat", "--owner-pid", &pid]);
    let mine = start_task(&sandbox, &["--session", "chat"], HANG_COMMAND);
    let _other = run_to_end(&sandbox, "exit 3");
    let text = unicode_timeline(&sandbox, &["--session", "chat"]);
    assert!(text.contains("session chat") && text.contains(&mine[..6]), "{text}");
    assert!(!text.contains("session cli") && !text.contains("exited 3"), "{text}");
    let json = run_ok(&sandbox, &["timeline", "--session", "chat", "--json"]).json();
    assert_eq!(json["counts"]["tasks"], 1);
    assert_eq!(task_rows(&json)[0]["bars"][0]["task"]["task_id"], mine);
    let picture = run_ok(&sandbox, &["timeline", "--session", "chat", "--svg", "-"]).stdout_text();
    assert!(picture.contains(&mine[..6]) && !picture.contains("exited 3"), "{picture}");
    let both = run_ok(&sandbox, &["timeline", "--svg", "-"]).stdout_text();
    assert!(both.contains(&mine[..6]) && both.contains("exited 3"), "{both}");
    stop_all(&sandbox);
}

#[test]
fn without_tasks_a_timeline_says_so() {
    let sandbox = sandbox();
    let done = run_ok(&sandbox, &["timeline"]);
    assert_eq!(done.stdout_text(), "");
    assert!(done.stderr_text().contains("no task ran in the last 1h"), "{done}");
    assert!(run_refused(&sandbox, &["timeline", "--since", "0s"]).contains("30m"));
    let unknown = run_refused(&sandbox, &["timeline", "--session", "nowhere"]);
    assert!(unknown.contains("nowhere"), "{unknown}");
}

/// The picture is ASCII if the locale is not UTF-8. At a terminal it uses the terminal's width.
#[test]
fn a_picture_suits_its_locale_and_terminal() {
    let sandbox = sandbox();
    let _ended = run_to_end(&sandbox, &format!("true {}", "x".repeat(300)));
    let call = sandbox.siding(&["timeline"]).env("LC_ALL", "C");
    let text = call.run().expect_code(0).stdout_text();
    assert!(text.is_ascii() && text.contains("+ succeeded"), "{text}");

    let mut terminal = Terminal::new(120, 40);
    let call = sandbox.siding(&["timeline"]).env("LC_ALL", "C.UTF-8");
    let _done = call.on_terminal(&terminal).run().expect_code(0);
    terminal.wait_for_text("succeeded");
    let widest =
        terminal.scrollback_text().lines().map(|line| line.trim_end().chars().count()).max();
    assert!((81..=120).contains(&widest.unwrap_or(0)), "{widest:?}");
}

/// A picture that is longer than the screen is shown in the pager of a person.
#[test]
fn a_picture_that_is_longer_than_the_screen_is_paged() {
    let sandbox = sandbox();
    let _ended = run_to_end(&sandbox, "true");
    let paged = || fs::read_to_string(sandbox.path("paged")).ok();
    for (args, rows, is_paged) in [
        (&["timeline"][..], 40, false),
        (&["timeline", "--no-pager"], 3, false),
        (&["timeline"], 3, true),
    ] {
        let mut terminal = Terminal::new(80, rows);
        let call = sandbox.siding(args).env("SIDING_PAGER", "cat > paged");
        let _done = call.on_terminal(&terminal).run().expect_code(0);
        assert_eq!(paged().is_some(), is_paged, "{args:?} {rows}");
        assert_eq!(terminal.scrollback_text().contains("succeeded"), !is_paged, "{args:?} {rows}");
    }
}

/// `siding timeline` is a viewer: it does not repair a task whose shim is dead.
#[test]
fn a_timeline_changes_nothing() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &[], HANG_COMMAND);
    let view = run_ok(&sandbox, &["show", "--json", &id]).json();
    let shim = i32::try_from(view["shim_pid"].as_i64().expect("a pid")).expect("a pid");
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(shim).expect("a pid"),
        rustix::process::Signal::KILL,
    )
    .expect("the shim runs");
    let journal = sandbox.state_dir().join("tasks").join(&id).join("journal");
    let before = fs::read(&journal).expect("the journal");
    assert!(unicode_timeline(&sandbox, &[]).contains("1 running"));
    assert_eq!(fs::read(&journal).expect("the journal"), before);
    stop_all(&sandbox);
}
