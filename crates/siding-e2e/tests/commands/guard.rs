//! `siding guard`: its verdicts, exit codes and text, and the precedence of rules.

use siding_e2e::{Sandbox, Terminal};

use crate::support::{run_ok, run_refused, sandbox};

fn write(sandbox: &Sandbox, name: &str, text: &str) {
    let path = sandbox.path(name);
    std::fs::create_dir_all(path.parent().expect("a directory")).expect("test path");
    std::fs::write(path, text).expect("test file");
}

/// Runs `siding guard` on a text, asserts the exit code, and returns the JSON.
#[track_caller]
fn run_guard(sandbox: &Sandbox, text: &str, code: i32) -> serde_json::Value {
    sandbox.siding(&["guard", "--json", "--", text]).run().expect_code(code).json()
}

#[test]
fn the_exit_code_of_guard_reflects_the_verdict() {
    let sandbox = sandbox();
    let call = |args: &[&str], code| sandbox.siding(args).run().expect_code(code);
    assert_eq!(call(&["guard", "--", "cargo test"], 0).stdout_text(), "allow\n");
    let asked = call(&["guard", "--", "git fetch && git clean -fd"], 20).stdout_text();
    assert!(
        asked.starts_with("ask\n\nask   git-discard at 13–26\n      | git clean -fd\n"),
        "{asked}"
    );
    assert!(asked.contains("instead: "), "{asked}");
    let denied = call(&["guard", "--", "rm", "-rf", "/"], 21).stdout_text();
    assert!(denied.starts_with("deny\n\ndeny  rm-root at 0–8\n"), "{denied}");
    let _allowed = call(&["guard", "--", "tail -f log"], 0);
    let _asked = call(&["guard", "--background", "--", "tail -f log"], 20);
    run_refused(&sandbox, &["guard"]);
    // `--` is needed only before flags that are not quoted.
    let _denied = call(&["guard", "rm -rf /"], 21);
    let _asked = call(&["guard", "git push --force", "--json"], 20);
    let refused = run_refused(&sandbox, &["guard", "rm", "-rf", "/"]);
    assert!(refused.contains("`siding guard -- rm -rf /`"), "{refused}");
}

#[test]
fn a_person_gets_advice_for_a_person() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 40);
    let call = sandbox.siding(&["guard", "sudo ls"]).on_terminal(&terminal);
    let _asked = call.run().expect_code(20);
    terminal.wait_for_text("before it runs this command.");
    let text = terminal.scrollback_text();
    assert!(text.contains("instead: run it without these privileges"), "{text}");
    assert!(text.contains("An agent has to ask you before it runs this command."), "{text}");
    assert!(!text.contains("the user"), "{text}");
    let text = sandbox.siding(&["guard", "sudo ls"]).run().expect_code(20).stdout_text();
    assert!(text.contains("ask the user to run it") && !text.contains("An agent has to"), "{text}");
}

#[test]
fn guard_json_matches_the_contract() {
    let sandbox = sandbox();
    let view = run_guard(&sandbox, "sudo bash -c 'rm -rf /'", 21);
    assert_eq!(view["verdict"], "deny");
    assert_eq!(view["parse"], "clean");
    let findings = view["findings"].as_array().expect("a list");
    let root = findings.iter().find(|one| one["rule"] == "rm-root").expect("an entry");
    assert_eq!(root["text"], "rm -rf /");
    assert_eq!(root["span"], serde_json::json!({ "start": 14, "end": 22 }));
    assert!(root["why"].is_string() && root["instead"].is_string());
    assert!(findings.iter().any(|one| one["rule"] == "privilege" && one["verdict"] == "ask"));
    let partial = run_guard(&sandbox, "echo 'open", 20);
    assert_eq!(
        (&partial["parse"], &partial["findings"][0]["rule"]),
        (&"partial".into(), &"unparsable".into())
    );
    assert_eq!(
        run_guard(&sandbox, "ls", 0),
        serde_json::json!({ "verdict": "allow", "findings": [], "parse": "clean" })
    );
}

/// `siding guard` escapes control characters in the command, because they could move the cursor or
/// forge a line.
#[test]
fn control_characters_in_a_guarded_command_are_escaped() {
    let sandbox = sandbox();
    let text = "rm -rf / '\u{1b}[2Jallow\n\rallow'";
    let shown = sandbox.siding(&["guard", "--", text]).run().expect_code(21).stdout_text();
    assert!(!shown.contains('\u{1b}') && !shown.contains('\r'), "{shown:?}");
    assert!(!shown.lines().any(|line| line == "allow"), "{shown}");
}

#[test]
fn project_rules_add_to_the_built_in_rules_and_cannot_weaken_them() {
    let sandbox = sandbox();
    let rule = "[[rule]]\nname = \"no-foo\"\nverdict = \"deny\"\nreason = \"foo is gone\"\n\
                when = [{ program = [\"foo\"] }]\nexamples = { match = [\"foo x\"], mismatch = [\"bar\"] }\n";
    write(&sandbox, ".siding/guard.toml", &format!("{rule}[verdicts]\nrm-root = \"allow\"\n"));
    let call = |text: &str, code| sandbox.siding(&["guard", "--", text]).run().expect_code(code);
    let done = call("rm -rf /", 21);
    assert!(
        done.stderr_text()
            .contains("`rm-root` is ignored: a project can only make the guard stricter"),
        "{done}"
    );
    let _denied = call("foo", 21);
    let explained = run_ok(&sandbox, &["guard", "explain", "no-foo"]).stdout_text();
    assert!(explained.contains("from project ") && explained.contains("foo x"), "{explained}");
    let rules = run_ok(&sandbox, &["guard", "rules", "--json"]).json();
    let of = |name: &str| {
        rules.as_array().expect("a list").iter().find(|one| one["name"] == name).cloned()
    };
    assert_eq!(of("no-foo").expect("the entry exists")["layer"], "project");
    write(&sandbox, ".siding/guard.toml", "broken [");
    let done = call("rm -rf /", 21);
    assert!(done.stderr_text().contains("the file is ignored"), "{done}");
}

#[test]
fn an_error_in_the_user_rules_fails_with_file_and_line() {
    let sandbox = sandbox();
    let config = sandbox.path("config");
    std::fs::create_dir_all(config.join("siding")).expect("test path");
    let call = |args: &[&str]| sandbox.siding(args).env("XDG_CONFIG_HOME", &config).run();
    let file = config.join("siding/guard.toml");
    std::fs::write(&file, "[verdicts]\nprivilege = \"allow\"\n").expect("test file");
    let _allowed = call(&["guard", "--", "sudo ls"]).expect_code(0);
    std::fs::write(&file, "[verdicts]\nprivilege = \"maybe\"\n").expect("test file");
    let done = call(&["guard", "--", "ls"]).expect_code(125);
    assert!(done.stderr_text().contains("guard.toml` line 2: "), "{done}");
    assert!(done.stderr_text().contains("hint: `siding guard test FILE`"), "{done}");
}

#[test]
fn guard_test_runs_the_examples_of_a_rules_file() {
    let sandbox = sandbox();
    let right = "[[rule]]\nname = \"mine\"\nverdict = \"ask\"\nreason = \"x\"\n\
                 when = [{ program = [\"mine\"] }]\nexamples = { match = [\"sudo mine\"], mismatch = [\"echo mine\"] }\n";
    write(&sandbox, "rules.toml", right);
    let path = sandbox.path("rules.toml").display().to_string();
    assert_eq!(
        run_ok(&sandbox, &["guard", "test", &path]).stdout_text(),
        "2 examples tried, 0 wrong\n"
    );
    write(&sandbox, "rules.toml", &right.replace("echo mine", "mine x"));
    let done = sandbox.siding(&["guard", "test", &path]).run().expect_code(1);
    assert_eq!(
        done.stdout_text(),
        "mine matches, but should not\n      | mine x\n2 examples tried, 1 wrong\n"
    );
    let json = sandbox.siding(&["guard", "test", "--json", &path]).run().expect_code(1).json();
    assert_eq!(json["failed"][0]["should_match"], false);
    write(&sandbox, "rules.toml", "x = 1");
    assert!(run_refused(&sandbox, &["guard", "test", &path]).contains("unknown field `x`"));
}

#[test]
fn explain_shows_what_runs_behind_wrappers() {
    let sandbox = sandbox();
    let args = ["guard", "explain", "--", "sudo bash -c 'ls $X; make'"];
    let shown = sandbox.siding(&args).run().expect_code(20).stdout_text();
    assert!(
        shown.starts_with("runs\n      sudo bash -c ls ?; make\n")
            || shown.contains("      ls ?\n"),
        "{shown}"
    );
    assert!(shown.contains("      make\n") && shown.contains("\nask   privilege"), "{shown}");
    run_refused(&sandbox, &["guard", "explain", "no-such-rule"]);
}
