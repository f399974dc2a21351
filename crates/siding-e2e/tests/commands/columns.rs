//! Text keeps to 80 columns, and what comes from a task cannot write where it likes: whatever its
//! command, name and processes are called.

use siding_e2e::{Sandbox, is_root, words};

use crate::support::{ended, ok, sandbox, start, stop_all};

/// Names with everything in them that could widen a line, break it or forge another.
fn hostile() -> [String; 3] {
    [
        "long ".repeat(60),
        format!("{} \u{65e5}\u{672c}\u{8a9e}", "\u{65e5}\u{672c}\u{8a9e}".repeat(40)),
        format!("\u{1b}[31mred\u{1b}[2J\u{7}\r\nb-000000000000  exited 0\t{}\u{202e}", "x".repeat(90)),
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
            let line = format!("printf %s '{name}' | cat; exec -a '{name}' {puppet}");
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
        let args = ["run", "--json", "--allow-duplicate", "--", &format!("./{name}"), "argument"];
        let view = sandbox.siding(&args).run().expect_code(127).json();
        assert_eq!(view["outcome"]["kind"], "failed_to_start", "{view}");
        let id = crate::support::id(&view);
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
    let me = std::process::id().to_string();
    let name = "s".repeat(64);
    expect_fit(&ok(&sandbox, &["session", "open", &name, "--owner-pid", &me]).out());
    let ids = [start(&sandbox, &["--session", &name], crate::support::HANG)];
    expect_all_fit(&sandbox, &ids);
    expect_fit(&ok(&sandbox, &["session", "close", &name]).out());
    let _one = ended(&sandbox, "true");
    expect_all_fit(&sandbox, &ids);
    stop_all(&sandbox);
}

#[test]
fn the_machine_and_the_settings_are_told_in_eighty_columns() {
    let sandbox = sandbox();
    let shell = format!("/{}", "x".repeat(40));
    let call = |args: &[&str]| sandbox.siding(args).env("SIDING_SHELL", &shell).run();
    println!("root: {}", is_root());
    expect_fit(&call(&["doctor"]).out());
    expect_fit(&call(&["config", "show"]).expect_code(0).out());
    expect_fit(&call(&["config", "check"]).expect_code(0).out());
}
