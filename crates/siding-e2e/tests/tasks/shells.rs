//! A shell interprets a text under siding as without siding. Only the prefix of `set -x` and the
//! messages about syntax errors may differ.

use siding_e2e::Sandbox;

use crate::support::sandbox;

/// Texts that would have a different result under a careless wrapper around the shell.
const SHELL_SCRIPTS: &[&str] = &[
    "echo \"$0\" $#; echo \"$-\"",
    "echo one\necho two",
    "exit 3",
    "false; exit",
    "exit 300",
    "exit -1",
    "(exit 9)",
    "! true",
    "false | true",
    "set -o pipefail; false | true",
    "true | false",
    "set -e; false; echo no",
    "set -e; false | false; echo no",
    "set -e; true | (exit 4); echo no",
    "set -u; echo \"$nope\"; echo no",
    "trap 'echo bye' EXIT; exit 3",
    "trap 'echo bye' EXIT; true | false",
    "trap 'echo bye $?' EXIT; kill -TERM $$",
    "trap 'echo got; exit 5' TERM; kill -TERM $$; echo no",
    "trap 'echo error' ERR; false; true",
    "exec sh -c 'exit 4'",
    "exec /bin/echo x | cat",
    "exec nosuchprogram",
    "nosuchprogram",
    "nosuchprogram 2>/dev/null | cat",
    "f() { return 5; }; f",
    "f() { return 5; }; f | cat; echo ${PIPESTATUS[@]}",
    "echo a | while read l; do echo \"<$l>\"; done",
    "read x; echo \"$? [$x]\"",
    "cat <<X\n$((1 + 1)) | y\nX",
    "cat <<'X' | tr a b\na $HOME\nX",
    "cat <<< 'here | string'",
    "set -- a b c; echo $2 $#; shift 5; echo $?",
    "echo ${BASH_SUBSHELL} $(echo $BASH_SUBSHELL)",
    "echo 'a|b' \"c|d\" e\\|f",
    "exec 3>&1 4>&3; echo x >&4; exec 3>&- 4>&-; echo y",
    "exec 9<>/dev/null; echo z >&9; echo ok",
    "{ echo a; echo b >&2; } 2>&1 | sort -r",
    "echo $LINENO\necho $LINENO",
    "sleep 60 & kill %1; wait; echo $?",
    "sleep 60 & kill $(jobs -p); wait",
    "true & wait $!; echo $?",
    "x=$(exit 6); echo $?",
    "cd /usr; pwd; cd - >/dev/null; [ \"$PWD\" != /usr ]",
    "umask; ulimit -c",
    "echo ${!nope*} \"$@\" \"$*\"",
    "source /dev/stdin <<< 'echo sourced; return 3'; echo $?",
    "eval 'echo a | cat; (exit 8)'",
    "bash -c 'exit 11' | cat; exit ${PIPESTATUS[0]}",
    "kill -9 $BASHPID",
    "x=$(kill -9 $BASHPID); echo $?",
    "echo no newline at the end | tr -d '\\n'",
    "# only a comment | here",
    ":",
    "echo \\",
    "{ time -p true; } 2>/dev/null",
    "[[ a == a ]] && (( 1 )) || echo no",
    "for i in 1 2 3; do [ $i = 2 ] && break; echo $i; done; echo $i",
    "select x in a; do :; done; echo $?",
    "shopt -s expand_aliases\nalias hi='echo hello'\nhi",
    "set -f; echo *; set +f",
    "printf '%s\\n' {1..3} | tac",
];

/// Promise P5, failures F18 and F34: the exit code, the output and details such as `$?` are those
/// of a plain `bash -c`.
#[test]
fn bash_scripts_behave_as_without_siding() {
    let sandbox = sandbox();
    for text in SHELL_SCRIPTS {
        let (code, out) = run_without_siding(&sandbox, "bash", text);
        let done = sandbox.siding(&["run", "--allow-duplicate", "--", text]).run();
        assert_eq!(done.code, Some(code), "`{text}`: {done}");
        assert_eq!(done.stdout_text(), out, "`{text}`");
    }
}

/// `set -x` shows only the command's own steps. bash prefixes each line with an additional `+`,
/// because siding passes the text to `eval`, so that the text is not in the shell's arguments.
#[test]
fn shell_trace_shows_only_the_commands_own_steps() {
    let sandbox = sandbox();
    for text in ["set -x; true; (exit 3)", "set -x; echo a | cat; cd /", "set -x; exit 4"] {
        let (code, out) = run_without_siding(&sandbox, "bash", text);
        let done = sandbox.siding(&["run", "--", text]).run();
        assert_eq!(done.code, Some(code), "`{text}`: {done}");
        let steps = |text: &str| {
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(steps(&done.stdout_text().replace("++ ", "+ ")), steps(&out), "`{text}`");
    }
}

/// A syntax error has the exit code of bash. The error message may name the text differently.
#[test]
fn syntax_errors_have_the_same_exit_code_as_in_bash() {
    let sandbox = sandbox();
    for text in ["if", "echo 'open", "(", "a | | b", "for", "cat <<X", "${", "fi | true"] {
        let (code, _) = run_without_siding(&sandbox, "bash", text);
        let done = sandbox.siding(&["run", "--", text]).run();
        assert_eq!(done.code, Some(code), "`{text}`: {done}");
    }
}

/// `--shell` selects another shell, by name or path.
#[test]
fn shell_flag_selects_another_shell() {
    let sandbox = sandbox();
    for shell in ["sh", "dash", "/bin/sh", "bash"] {
        for text in [
            "echo $#; exit 3",
            "false | true",
            "set -e; false; echo no",
            "trap 'echo bye' EXIT; exit 4",
            "exec sh -c 'exit 5'",
            "nosuchprogram",
            "echo ${BASH_VERSION:+bash}",
            "kill -TERM $$",
        ] {
            let (code, out) = run_without_siding(&sandbox, shell, text);
            let args = ["run", "--allow-duplicate", "--shell", shell, "--", text];
            let done = sandbox.siding(&args).run();
            assert_eq!(done.code, Some(code), "{shell} `{text}`: {done}");
            // In error messages, each shell has a different form for its own name and the line
            // number.
            if !text.contains("nosuchprogram") {
                assert_eq!(done.stdout_text(), out, "{shell} `{text}`");
            }
        }
    }
}

/// A text of nearly the maximum length of an argument runs completely, and its non-ASCII bytes are
/// unchanged.
#[test]
fn long_script_runs_completely() {
    let sandbox = sandbox();
    let filler = "#".repeat(120_000);
    let text = format!("{filler}\necho 'ü|…' | cat; exit 7");
    let done = sandbox.siding(&["run", "--", &text]).run().expect_code(7);
    assert_eq!(done.stdout_text(), "ü|…\n");
}

/// Runs a text with the shell alone. Returns the exit code as a shell reports it, and the text that
/// was written to stdout and stderr together.
fn run_without_siding(sandbox: &Sandbox, shell: &str, text: &str) -> (i32, String) {
    let host = r#"exec 2>&1; exec "$0" -c "$1""#;
    let done = sandbox.host("bash", &["-c", host, shell, text]).run();
    let signalled = || 128 + done.signal.expect("without an exit code there is a signal");
    (done.code.unwrap_or_else(signalled), done.stdout_text())
}
