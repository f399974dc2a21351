//! The completion scripts of `siding completions`.

use crate::support::{list_subcommands, run_ok, run_refused, sandbox, write};

const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

#[test]
fn the_completions_of_every_shell_list_every_command() {
    let sandbox = sandbox();
    let commands = list_subcommands(&sandbox, &[]);
    for shell in SHELLS {
        let script = run_ok(&sandbox, &["completions", shell]).stdout_text();
        for command in &commands {
            assert!(script.contains(command), "the completions of {shell} lack {command}");
        }
        assert!(script.contains("--owner-pid") || script.contains("owner-pid"), "{shell}");
    }
}

/// bash parses the script without errors and uses it to complete partial words.
#[test]
fn bash_completes_commands_and_flags() {
    let sandbox = sandbox();
    write(&sandbox, "siding.bash", run_ok(&sandbox, &["completions", "bash"]).stdout_text());
    let checked = sandbox.host("bash", &["-n", "siding.bash"]).run().expect_code(0);
    assert_eq!(checked.stderr_text(), "");
    for (words, wanted) in [
        ("siding sess", "session"),
        ("siding session o", "open"),
        ("siding output --fol", "--follow"),
        ("siding run --on-timeout s", "stop"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let (last, before) = (words[words.len() - 1], words[words.len() - 2]);
        let text = format!(
            ". ./siding.bash; COMP_WORDS=({}); COMP_CWORD={}; _siding siding '{last}' '{before}'; \
             echo \"${{COMPREPLY[@]}}\"",
            words.join(" "),
            words.len() - 1,
        );
        let done = sandbox.host("bash", &["--norc", "-c", &text]).run().expect_code(0);
        assert_eq!(done.stdout_text().trim_end(), wanted, "{done}");
    }
}

#[test]
fn an_unknown_shell_is_rejected_with_the_known_ones() {
    let sandbox = sandbox();
    let err = run_refused(&sandbox, &["completions", "tcsh"]);
    assert!(SHELLS.iter().all(|shell| err.contains(shell)), "{err}");
}
