//! Text keeps to 80 columns, and what comes from a task cannot write where it likes: whatever its
//! command, name and processes are called.

use siding_e2e::{Sandbox, words};

use crate::support::{HANG, id, ok, sandbox, start};

/// Names with everything in them that could widen a line, break it or forge another.
fn hostile() -> [String; 3] {
    [
        "long ".repeat(60),
        format!("{} \u{65e5}\u{672c}\u{8a9e}", "\u{65e5}\u{672c}\u{8a9e}".repeat(40)),
        format!(
            "\u{1b}[31mred\u{1b}[2J\u{7}\r\nb-000000000000  exited 0\t{}\u{202e}",
            "x".repeat(90)
        ),
    ]
}

/// Columns of a character on a terminal: East Asian wide ones have two.
fn columns(character: char) -> usize {
    let wide = matches!(character, '\u{1100}'..='\u{115f}' | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ff60}');
    if wide { 2 } else { 1 }
}

#[track_caller]
fn expect_fit(text: &str) {
    assert!(!text.is_empty());
    for line in text.lines() {
        let width: usize = line.chars().map(columns).sum();
        assert!(width <= 80, "{width} columns: {line}");
        let control = |char: char| char.is_control() || ('\u{202a}'..='\u{202e}').contains(&char);
        assert!(!line.contains(control), "{line:?}");
        assert!(!line.starts_with("b-000000000000"), "a forged line in\n{text}");
    }
}

/// Checks what every command says about tasks.
#[track_caller]
fn expect_all_fit(sandbox: &Sandbox, ids: &[String]) {
    for args in [&["ps"][..], &["ps", "--all"], &["session", "list"], &["reap", "--dry-run"]] {
        expect_fit(&ok(sandbox, args).out());
    }
    for id in ids {
        expect_fit(&ok(sandbox, &["show", id]).out());
    }
}

#[test]
fn what_runs_is_shown_and_stopped_in_eighty_columns() {
    let sandbox = sandbox();
    let ids: Vec<String> = hostile()
        .iter()
        .map(|name| {
            let puppet = sandbox.puppet_line(&words("--quiet mark m hang"));
            // What a task writes is its own; that it begins a line is no forgery.
            let line = format!("printf %s '{name}' | tr -d '\\r\\n'; exec -a '{name}' {puppet}");
            start(&sandbox, &["--name", name], &line)
        })
        .collect();
    let _all = sandbox.all_announced("mark", ids.len());
    expect_all_fit(&sandbox, &ids);
    expect_fit(&ok(&sandbox, &["stop", &ids[0]]).out());
    expect_fit(&ok(&sandbox, &["stop", "--all"]).out());
    expect_fit(&ok(&sandbox, &["wait", &ids[0], &ids[1], &ids[2]]).out());
    expect_all_fit(&sandbox, &ids);
}

#[test]
fn what_could_not_be_started_is_told_in_eighty_columns() {
    let sandbox = sandbox();
    for name in hostile() {
        let args = ["run", "--json", "--", &format!("./{name}"), "argument"];
        let done = sandbox.siding(&args).run();
        // A name may be too long for the kernel, which a shell reports with the other code.
        assert!(matches!(done.code, Some(126 | 127)), "{done}");
        assert_eq!(done.json()["outcome"]["kind"], "failed_to_start", "{done}");
        let id = id(&done.json());
        for command in ["wait", "stop"] {
            expect_fit(&ok(&sandbox, &[command, &id]).out());
        }
        let out = ok(&sandbox, &["show", &id]).out();
        let screen = out.split("\nnext ").next().unwrap_or_default();
        expect_fit(screen);
        expect_fit(&ok(&sandbox, &["ps"]).out());
    }
}

#[test]
fn sessions_with_long_names_keep_to_eighty_columns() {
    let sandbox = sandbox();
    let [_, _, hostile] = hostile();
    let puppet = sandbox.puppet_line(&words("--quiet mark owner hang"));
    let text = format!("exec -a '{hostile}' {puppet}");
    let owner = sandbox.host("bash", &["-c", &text]).spawn();
    let pid = sandbox.marked("owner").pid.to_string();
    let name = "s".repeat(64);
    expect_fit(&ok(&sandbox, &["session", "open", &name, "--owner-pid", &pid]).out());
    let ids = [start(&sandbox, &["--session", &name], HANG)];
    expect_all_fit(&sandbox, &ids);
    expect_fit(&ok(&sandbox, &["session", "close", &name]).out());
    expect_all_fit(&sandbox, &ids);
    drop(owner);
}

#[test]
fn the_machine_and_the_settings_are_told_in_eighty_columns() {
    let sandbox = sandbox();
    let shell = format!("/{}", "x".repeat(30));
    let call = |args: &[&str]| sandbox.siding(args).env("SIDING_SHELL", &shell).run();
    expect_fit(&call(&["doctor"]).out());
    expect_fit(&call(&["config", "show"]).expect_code(0).out());
    expect_fit(&call(&["config", "check"]).expect_code(0).out());
}
