//! The texts of `--help`, and the errors for mistyped commands and flags.

use siding_e2e::Sandbox;

use crate::support::{
    HANG_COMMAND, list_subcommands, read_docs_file, run_ok, run_refused, run_to_end, sandbox,
    start_task, task_ids,
};

/// Returns all commands and subcommands, each as a list of words.
fn all_commands(sandbox: &Sandbox) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for name in list_subcommands(sandbox, &[]) {
        let below = list_subcommands(sandbox, &[&name]);
        all.extend(below.into_iter().map(|below| vec![name.clone(), below]));
        all.push(vec![name]);
    }
    all
}

/// Asserts that a help text has examples, and that no example is wrapped, because a wrapped command
/// cannot be copied.
#[track_caller]
fn assert_examples(words: &[&str], help: &str) {
    let (_, examples) = help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{help}"));
    let examples = examples.split("\n\n").next().unwrap_or_default();
    assert!(!examples.is_empty(), "{words:?}: {help}");
    for line in examples.lines() {
        let whole = line.starts_with("  siding ");
        assert!(whole, "{words:?}: a wrapped line: {line}");
    }
    for line in help.lines() {
        assert!(line.chars().count() <= 80, "{words:?}: {line}");
        assert!(!line.contains("docs/"), "{words:?}: an installed siding has no pages: {line}");
    }
}

#[test]
fn every_command_has_examples_in_eighty_columns() {
    let sandbox = sandbox();
    let all = all_commands(&sandbox);
    assert!(all.len() >= 20, "{all:?}");
    assert_examples(&[], &run_ok(&sandbox, &["--help"]).stdout_text());
    for words in &all {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        for flag in ["--help", "-h"] {
            let done = run_ok(&sandbox, &[&words[..], &[flag]].concat());
            assert_examples(&words, &done.stdout_text());
            assert_eq!(done.stderr_text(), "");
        }
        let done = run_ok(&sandbox, &[&["help"], &words[..]].concat());
        assert_examples(&words, &done.stdout_text());
    }
}

/// The help of each command describes every flag that its examples use.
#[test]
fn every_flag_in_an_example_is_in_the_help() {
    let sandbox = sandbox();
    let mut checked = 0;
    for words in all_commands(&sandbox) {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let help = run_ok(&sandbox, &[&words[..], &["--help"]].concat()).stdout_text();
        let (_, examples) = help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{help}"));
        for line in examples.lines().take_while(|line| line.starts_with("  siding ")) {
            // The explanation after two spaces, and the command after `--`, contain no flags of
            // siding.
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
fn a_missing_subcommand_prints_usage_and_examples() {
    let sandbox = sandbox();
    for args in [&[][..], &["session"], &["config"]] {
        let err = run_refused(&sandbox, args);
        assert!(err.contains("Usage: siding") && err.contains("Examples:"), "{err}");
    }
}

#[test]
fn a_mistyped_argument_gets_a_suggestion() {
    let sandbox = sandbox();
    for (args, hint) in [
        (&["runn", "--", "true"][..], "`siding run -- true`"),
        (&["sesion", "list"], "`siding session list`"),
        (&["session", "opne"], "'open'"),
        // `sleep` is a program and not a command of siding.
        (&["sleep", "18"], "`siding run -- sleep 18`"),
        (&["tail", "-f", "b-1"], "`siding output --follow b-1`"),
        (&["delete", "b-1"], "`siding rm b-1`"),
        (&["kill", "-9", "b-1"], "`siding stop --grace 0s b-1`"),
        (&["ps", "aux"], "`siding ps --all`"),
        (&["logs", "-5", "b-1"], "`siding output --tail 5 b-1`"),
        (&["ps", "--runing"], "'--running'"),
        (&["run", "--backgroud", "--", "true"], "'--background'"),
        (&["output", "--folow", "b-1"], "'--follow'"),
        (&["completions", "bsh"], "'bash'"),
        (&["run", "--on-timeout", "stopp", "--", "true"], "'stop'"),
    ] {
        let err = run_refused(&sandbox, args);
        assert!(err.contains("tip: ") && err.contains(hint), "{args:?}: {err}");
    }
    for args in [
        &["ps", "--bogus"][..],
        &["bogus"],
        &["run"],
        &["input"],
        &["extend", "b-1"],
        &["session", "open", "x"],
        &["stop", "--session", "x"],
    ] {
        let err = run_refused(&sandbox, args);
        assert!(err.contains("try '--help'"), "{args:?}: {err}");
    }
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
}

/// The names and flags that docker, tail and ps have for the same purpose.
#[test]
fn familiar_names_and_flags_of_other_tools_work() {
    let sandbox = sandbox();
    let ended = run_to_end(&sandbox, "seq 3");
    for args in [&["ls", "--json"][..], &["list", "-a", "--json"], &["ps", "-a", "--json"]] {
        assert_eq!(task_ids(&run_ok(&sandbox, args).json()), [&*ended], "{args:?}");
    }
    for (args, text) in
        [(&["logs", "-n", "2", &ended][..], "2\n3\n"), (&["output", "-n1", "-f", &ended], "3\n")]
    {
        assert_eq!(run_ok(&sandbox, args).stdout_text(), text, "{args:?}");
    }
    let running = start_task(&sandbox, &[], HANG_COMMAND);
    let _stopped = run_ok(&sandbox, &["kill", "-s", "TERM", &running]);
    for (flag, command) in [("-b", "sleep 301"), ("-d", "sleep 302")] {
        let id = run_ok(&sandbox, &["run", flag, "--", command]).stdout_text();
        let _stopped = run_ok(&sandbox, &["stop", id.trim()]);
    }
}

/// A script that waits and continues depends on the exit code, so the texts begin with that code.
#[test]
fn the_exit_code_of_a_wait_is_explained_first() {
    let help = run_ok(&sandbox(), &["wait", "--help"]).stdout_text();
    let about = help.split("Usage:").next().unwrap_or_default();
    assert!(about.contains("Returns the exit code of the task"), "{help}");
    let page = read_docs_file("exit-codes.md");
    let first = page.lines().nth(2).unwrap_or_default();
    assert!(first.contains("`siding wait` return the exit code of the command"), "{first}");
}

#[test]
fn the_version_is_printed() {
    let sandbox = sandbox();
    for word in ["--version", "-V", "-v", "version"] {
        let out = run_ok(&sandbox, &[word]).stdout_text();
        assert_eq!(out, format!("siding {}\n", env!("CARGO_PKG_VERSION")), "{word}");
    }
}

/// A command neither fails nor panics if the reader of its stdout closes the pipe early.
#[test]
fn a_closed_stdout_is_not_an_error() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &[], HANG_COMMAND);
    for args in [
        &["show", &id][..],
        &["ps"],
        &["extend", &id, "1m"],
        &["stop", &id],
        &["wait", "--all", &id],
        &["output", &id],
        &["reap"],
        &["session", "list"],
        &["config", "show"],
        &["doctor"],
        &["man"],
        &["completions", "bash"],
        &["--help"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let done = sandbox.siding(args).stdout_to(writer).run();
        let fine = matches!(done.code, Some(0)) || args == ["doctor"] && done.code == Some(1);
        assert!(fine && !done.stderr_text().contains("panicked"), "{done}");
    }
}
