//! Text output about tasks fits 80 columns and cannot control the terminal, whatever the names of
//! commands and processes contain.

use siding_e2e::{Sandbox, forge_task_name, stand_in_name, words};

use crate::support::{HANG_COMMAND, run_ok, sandbox, start_task, task_id};

/// Returns a very long name, a name with wide characters, and a name with control characters that
/// could forge a line.
fn hostile_names() -> [String; 3] {
    [
        "long ".repeat(60),
        format!("{} \u{65e5}\u{672c}\u{8a9e}", "\u{65e5}\u{672c}\u{8a9e}".repeat(40)),
        format!(
            "\u{1b}[31mred\u{1b}[2J\u{7}\r\nb-000000000000  exited 0\t{}\u{202e}",
            "x".repeat(90)
        ),
    ]
}

/// Returns the number of columns that a character takes on a terminal: two for wide East Asian
/// characters.
fn char_columns(character: char) -> usize {
    let wide = matches!(character, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ff60}');
    if wide { 2 } else { 1 }
}

#[track_caller]
fn assert_fits_80_columns(text: &str) {
    assert!(!text.is_empty());
    for line in text.lines() {
        let width: usize = line.chars().map(char_columns).sum();
        assert!(width <= 80, "{width} columns: {line}");
        let control = |char: char| char.is_control() || ('\u{202a}'..='\u{202e}').contains(&char);
        assert!(!line.contains(control), "{line:?}");
        assert!(!line.starts_with("b-000000000000"), "a forged line in\n{text}");
    }
}

/// Asserts that the lists of tasks and sessions and the view of each task fit 80 columns.
#[track_caller]
fn assert_listings_fit(sandbox: &Sandbox, ids: &[String]) {
    for args in [&["ps"][..], &["ps", "--all"], &["session", "list"], &["reap", "--dry-run"]] {
        assert_fits_80_columns(&run_ok(sandbox, args).stdout_text());
    }
    for id in ids {
        assert_fits_80_columns(&run_ok(sandbox, &["show", id]).stdout_text());
    }
}

#[test]
fn output_about_running_tasks_fits_80_columns() {
    let sandbox = sandbox();
    let ids: Vec<String> = hostile_names()
        .iter()
        .map(|name| {
            let puppet = sandbox.puppet_line(&words("--quiet mark m hang"));
            // The task prints the name without line ends. A task's output may contain any line, and
            // a whole line could look like one that the check for forged lines rejects.
            let line = format!("printf %s '{name}' | tr -d '\\r\\n'; exec -a '{name}' {puppet}");
            let id = start_task(&sandbox, &["--name", &stand_in_name(name)], &line);
            forge_task_name(&sandbox, &id, name);
            id
        })
        .collect();
    let _all = sandbox.wait_for_announcements("mark", ids.len());
    assert_listings_fit(&sandbox, &ids);
    assert_fits_80_columns(&run_ok(&sandbox, &["stop", &ids[0]]).stdout_text());
    assert_fits_80_columns(&run_ok(&sandbox, &["stop", "--all"]).stdout_text());
    let wait = ["wait", "--all", &ids[0], &ids[1], &ids[2]];
    assert_fits_80_columns(&run_ok(&sandbox, &wait).stdout_text());
    assert_listings_fit(&sandbox, &ids);
}

#[test]
fn output_about_failed_starts_fits_80_columns() {
    let sandbox = sandbox();
    for name in hostile_names() {
        let args = ["run", "--json", "--", &format!("./{name}"), "argument"];
        let done = sandbox.siding(&args).run();
        // If the name is too long for the kernel (ENAMETOOLONG), the code is 126 instead of 127.
        assert!(matches!(done.code, Some(126 | 127)), "{done}");
        assert_eq!(done.json()["outcome"]["kind"], "failed_to_start", "{done}");
        let id = task_id(&done.json());
        for args in [&["wait", "--all", &id][..], &["stop", &id]] {
            assert_fits_80_columns(&run_ok(&sandbox, args).stdout_text());
        }
        let out = run_ok(&sandbox, &["show", &id]).stdout_text();
        let screen = out.split("\nnote ").next().unwrap_or_default();
        assert_fits_80_columns(screen);
        assert_fits_80_columns(&run_ok(&sandbox, &["ps"]).stdout_text());
    }
}

#[test]
fn output_about_sessions_with_long_names_fits_80_columns() {
    let sandbox = sandbox();
    let [_, _, hostile] = hostile_names();
    let puppet = sandbox.puppet_line(&words("--quiet mark owner hang"));
    let text = format!("exec -a '{hostile}' {puppet}");
    let owner = sandbox.host("bash", &["-c", &text]).spawn();
    let pid = sandbox.wait_for_mark("owner").pid.to_string();
    let name = "s".repeat(64);
    assert_fits_80_columns(
        &run_ok(&sandbox, &["session", "open", &name, "--owner-pid", &pid]).stdout_text(),
    );
    let ids = [start_task(&sandbox, &["--session", &name], HANG_COMMAND)];
    assert_listings_fit(&sandbox, &ids);
    assert_fits_80_columns(&run_ok(&sandbox, &["session", "close", &name]).stdout_text());
    assert_listings_fit(&sandbox, &ids);
    drop(owner);
}

#[test]
fn doctor_and_config_output_fits_80_columns() {
    let sandbox = sandbox();
    let shell = format!("/{}", "x".repeat(30));
    let call = |args: &[&str]| sandbox.siding(args).env("SIDING_SHELL", &shell).run();
    assert_fits_80_columns(&call(&["doctor"]).stdout_text());
    assert_fits_80_columns(&call(&["config", "show"]).expect_code(0).stdout_text());
    assert_fits_80_columns(&call(&["config", "check"]).expect_code(0).stdout_text());
}
