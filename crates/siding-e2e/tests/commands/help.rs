//! `--help`, and what is said to those who mistype.

use siding_e2e::Sandbox;

use crate::support::{HANG, commands, ok, refused, sandbox, start};

/// All commands there are, each as its words.
fn all(sandbox: &Sandbox) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for name in commands(sandbox, &[]) {
        let below = commands(sandbox, &[&name]);
        all.extend(below.into_iter().map(|below| vec![name.clone(), below]));
        all.push(vec![name]);
    }
    all
}

/// Checks the examples of a help: they are there, and none is folded, which would make it a
/// command that nobody can copy.
#[track_caller]
fn expect_examples(words: &[&str], help: &str) {
    let (_, examples) = help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{help}"));
    let examples = examples.split("\n\n").next().unwrap_or_default();
    assert!(!examples.is_empty(), "{words:?}: {help}");
    for line in examples.lines() {
        let whole = line.starts_with("  siding ");
        assert!(whole, "{words:?}: the end of a folded line: {line}");
    }
    for line in help.lines() {
        assert!(line.chars().count() <= 80, "{words:?}: {line}");
    }
}

#[test]
fn every_command_has_examples_in_eighty_columns() {
    let sandbox = sandbox();
    let all = all(&sandbox);
    assert!(all.len() >= 20, "{all:?}");
    expect_examples(&[], &ok(&sandbox, &["--help"]).out());
    for words in &all {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        for flag in ["--help", "-h"] {
            let done = ok(&sandbox, &[&words[..], &[flag]].concat());
            expect_examples(&words, &done.out());
            assert_eq!(done.err(), "");
        }
        let done = ok(&sandbox, &[&["help"], &words[..]].concat());
        expect_examples(&words, &done.out());
    }
}

/// What an example says is a call that siding understands.
#[test]
fn the_examples_are_understood() {
    let sandbox = sandbox();
    let mut checked = 0;
    for words in all(&sandbox) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let help = ok(&sandbox, &[&words[..], &["--help"]].concat()).out();
        let (_, examples) = help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{help}"));
        for line in examples.lines().take_while(|line| line.starts_with("  siding ")) {
            // The text behind two blanks says what it is for; `--` begins the command that is run.
            let call = line.trim_start().split("  ").next().unwrap_or_default();
            let call = call.split([';', '|', '>', '&']).next().unwrap_or_default();
            let call = call.split(" -- ").next().unwrap_or_default();
            let flags: Vec<&str> = call.split(' ').filter(|word| word.starts_with("--")).collect();
            for flag in flags {
                assert!(
                    help.contains(&format!("{flag} ")) || help.contains(&format!("{flag}\n")),
                    "`{line}`: {flag} is nowhere in the help"
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "{checked} flags");
}

#[test]
fn siding_alone_shows_what_there_is() {
    let sandbox = sandbox();
    for args in [&[][..], &["session"], &["config"]] {
        let err = refused(&sandbox, args);
        assert!(err.contains("Usage: siding") && err.contains("Examples:"), "{err}");
    }
}

#[test]
fn whoever_mistypes_is_told_what_was_meant() {
    let sandbox = sandbox();
    for (args, hint) in [
        (&["runn", "--", "true"][..], "'run'"),
        (&["sesion", "list"], "'session'"),
        (&["session", "opne"], "'open'"),
        (&["ps", "--runing"], "'--running'"),
        (&["run", "--backgroud", "--", "true"], "'--background'"),
        (&["output", "--folow", "b-1"], "'--follow'"),
        (&["completions", "bsh"], "'bash'"),
        (&["run", "--on-timeout", "stopp", "--", "true"], "'stop'"),
    ] {
        let err = refused(&sandbox, args);
        assert!(err.contains("tip: ") && err.contains(hint), "{args:?}: {err}");
    }
    for args in [
        &["ps", "--bogus"][..],
        &["bogus"],
        &["show"],
        &["wait"],
        &["stop"],
        &["run"],
        &["input"],
        &["extend", "b-1"],
        &["session", "open", "x"],
        &["stop", "--session", "x"],
    ] {
        let err = refused(&sandbox, args);
        assert!(err.contains("try '--help'"), "{args:?}: {err}");
    }
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
}

#[test]
fn the_version_is_told() {
    let sandbox = sandbox();
    let out = ok(&sandbox, &["--version"]).out();
    assert_eq!(out, format!("siding {}\n", env!("CARGO_PKG_VERSION")));
}

/// A reader who has seen enough is no failure of whoever still has something to say.
#[test]
fn a_closed_pipe_is_no_failure() {
    let sandbox = sandbox();
    let id = start(&sandbox, &[], HANG);
    for args in [
        &["show", &id][..],
        &["ps"],
        &["extend", &id, "1m"],
        &["stop", &id],
        &["wait", &id],
        &["output", &id],
        &["reap"],
        &["session", "list"],
        &["config", "show"],
        &["doctor"],
        &["man"],
        &["completions", "bash"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().expect("descriptors are to be had");
        drop(reader);
        let done = sandbox.siding(args).stdout_to(writer).run();
        let fine = matches!(done.code, Some(0)) || args == ["doctor"] && done.code == Some(1);
        assert!(fine && !done.err().contains("panicked"), "{done}");
    }
}
