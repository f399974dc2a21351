//! The completion scripts of `siding completions`.

use siding_e2e::{Sandbox, Terminal};

use crate::support::{
    list_subcommands, run_ok, run_refused, run_to_end, sandbox, start_task, stop_all, write,
};

/// The shells whose scripts call siding at each completion.
const DYNAMIC_SHELLS: [&str; 3] = ["bash", "fish", "zsh"];
/// The shells whose scripts contain all commands, and do not call siding.
const STATIC_SHELLS: [&str; 2] = ["elvish", "powershell"];

#[test]
fn the_static_scripts_list_every_command() {
    let sandbox = sandbox();
    let commands = list_subcommands(&sandbox, &[]);
    for shell in STATIC_SHELLS {
        let script = run_ok(&sandbox, &["completions", shell]).stdout_text();
        for command in &commands {
            assert!(script.contains(command), "the completions of {shell} lack {command}");
        }
        assert!(script.contains("--owner-pid") || script.contains("owner-pid"), "{shell}");
    }
}

/// Writes the script for a shell into the sandbox.
fn write_script(sandbox: &Sandbox, shell: &str) {
    let script = run_ok(sandbox, &["completions", shell]).stdout_text();
    write(sandbox, &format!("siding.{shell}"), script);
}

/// Returns the lines that bash would show for the last of the words.
#[track_caller]
fn complete_in_bash(sandbox: &Sandbox, words: &[&str]) -> Vec<String> {
    let last = words[words.len() - 1];
    let text = format!(
        ". ./siding.bash; COMP_TYPE=63; COMP_WORDS=(siding {}); COMP_CWORD={}; \
         _siding {} '{last}' ''; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
        words.len(),
        sandbox.siding_line::<&str>(&[]),
    );
    let done = sandbox.host("bash", &["--norc", "-c", &text]).run().expect_code(0);
    let lines = done.stdout_text();
    lines.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// bash parses the script without errors and uses it to complete partial words.
#[test]
fn bash_completes_commands_and_flags() {
    let sandbox = sandbox();
    write_script(&sandbox, "bash");
    let checked = sandbox.host("bash", &["-n", "siding.bash"]).run().expect_code(0);
    assert_eq!(checked.stderr_text(), "");
    for (words, wanted) in [
        (["sess"].as_slice(), "session"),
        (&["session", "o"], "open"),
        (&["output", "--fol"], "--follow"),
        (&["run", "--on-timeout", "s"], "stop"),
        (&["config", "unset", "kill_g"], "kill_grace"),
        (&["doctor", "--host", "=", "open"], "opencode"),
    ] {
        assert_eq!(complete_in_bash(&sandbox, words), [wanted], "{words:?}");
    }
}

/// Each id is shown with the command of its task. Subcommands that need a running task, such as
/// `wait`, do not offer ended tasks.
#[test]
fn bash_completes_tasks_with_their_commands_and_sessions() {
    let sandbox = sandbox();
    write_script(&sandbox, "bash");
    assert!(complete_in_bash(&sandbox, &["wait", ""]).is_empty());
    let ended = run_to_end(&sandbox, "printf 'a\\tb'");
    let running = start_task(&sandbox, &["--name", "web"], "exec sleep 100");
    assert_eq!(
        complete_in_bash(&sandbox, &["output", ""]),
        [
            "web  running: exec sleep 100".to_owned(),
            format!("{running}  running: exec sleep 100"),
            format!("{ended}  exited 0: printf 'a\\tb'"),
        ]
    );
    for words in [&["logs", "b-"][..], &["notices", "ack", "b-"]] {
        assert_eq!(complete_in_bash(&sandbox, words).len(), 2, "{words:?}");
    }
    assert_eq!(complete_in_bash(&sandbox, &["stop", "b-"]), [running], "it is inserted alone");
    let owner = std::process::id().to_string();
    let _opened = run_ok(&sandbox, &["session", "open", "deploy-1", "--owner-pid", &owner]);
    assert_eq!(complete_in_bash(&sandbox, &["ps", "--session", "=", "dep"]), ["deploy-1"]);
    stop_all(&sandbox);
}

/// The words after `--` are completed as a command of their own, if bash-completion is loaded.
#[test]
fn bash_completes_the_command_of_a_run() {
    let sandbox = sandbox();
    write_script(&sandbox, "bash");
    let text = ". ./siding.bash; _command_offset() { echo \"offset $1\"; }; \
                COMP_WORDS=(siding run --keep -- car); COMP_CWORD=4; _siding siding car --";
    let done = sandbox.host("bash", &["--norc", "-c", text]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "offset 4\n");
}

/// A person's bash inserts the only candidate when the tab key is pressed.
#[test]
fn the_tab_key_completes_an_id() {
    let sandbox = sandbox();
    write_script(&sandbox, "bash");
    let id = run_to_end(&sandbox, "echo the output");
    let setup = format!(
        "PS1='> '; bind 'set bell-style none'; siding() {{ {} \"$@\"; }}; . ./siding.bash\n",
        sandbox.siding_line::<&str>(&[])
    );
    write(&sandbox, "rc", setup);
    let mut terminal = Terminal::new(80, 24);
    let args = ["--ctty", "--wait", "bash", "--noprofile", "--rcfile", "rc", "-i"];
    let shell = sandbox.host("setsid", &args).on_terminal(&terminal).spawn();
    terminal.wait_for_row(">");
    terminal.send_keys("siding output b-\t");
    terminal.wait_for_row(&format!("> siding output {id}"));
    terminal.send_keys("\x15exit\r");
    let _ended = shell.wait().expect_code(0);
}

/// fish and zsh complete the same values, with descriptions. A shell that is not installed is
/// skipped.
#[test]
fn fish_and_zsh_complete_tasks_with_their_commands() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "echo the output");
    let program = sandbox.siding_line::<&str>(&[]);
    for (shell, text, wanted) in [
        (
            "fish",
            format!(
                "function siding; {program} $argv; end; source siding.fish; \
                 complete -C 'siding output b-'"
            ),
            format!("{id}\texited 0: echo the output"),
        ),
        (
            "zsh",
            format!(
                "compdef() {{ }}; _default() {{ }}; _describe() {{ print -rl -- $candidates; }}; \
                 . ./siding.zsh; words=({program} output b-); CURRENT=3; _siding"
            ),
            format!("{id}:exited 0: echo the output"),
        ),
    ] {
        let look = format!("command -v {shell}");
        if sandbox.host("sh", &["-c", &look]).run().code != Some(0) {
            eprintln!("skipped: {shell} is not installed");
            continue;
        }
        write_script(&sandbox, shell);
        let done = sandbox.host(shell, &["-c", &text]).run().expect_code(0);
        assert_eq!(done.stdout_text().trim_end(), wanted, "{shell}: {done}");
    }
}

#[test]
fn an_unknown_shell_is_rejected_with_the_known_ones() {
    let sandbox = sandbox();
    let err = run_refused(&sandbox, &["completions", "tcsh"]);
    let mut shells = DYNAMIC_SHELLS.iter().chain(&STATIC_SHELLS);
    assert!(shells.all(|shell| err.contains(shell)), "{err}");
}
