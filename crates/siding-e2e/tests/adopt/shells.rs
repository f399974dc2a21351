//! Adoption changes nothing in a shell except the variable `SIDING_SESSION`, and treats a tree of
//! nested shells as one task.

use siding_e2e::{Sandbox, processes};

use crate::support::{
    adopted_shell, list_tasks, recorded_shell, sandbox, shell_init, start_recorded,
    wait_until_no_shims, with_adoption,
};

/// Argument lists with which bash is started. `TEXT` is replaced by [`STATE_SCRIPT`], which prints
/// the shell's state.
const SHELL_INVOCATIONS: [&[&str]; 10] = [
    &["-c", "TEXT", "zero", "one", "two three"],
    &["-euo", "pipefail", "-c", "TEXT", "zero", "one"],
    &["-l", "-c", "TEXT"],
    &["-lc", "TEXT"],
    &["-u", "-c", "TEXT"],
    &["-f", "-B", "-c", "TEXT"],
    &["-O", "extglob", "-O", "nullglob", "-c", "TEXT"],
    &["--posix", "-c", "TEXT"],
    &["-O", "lastpipe", "-c", "TEXT"],
    &["-m", "-c", "TEXT"],
];

const STATE_SCRIPT: &str = r#"printf '<%s>' "$?" "$_" "${!-}" "$0" "$#" "$@" "$-" "${PWD-}" "${IFS@Q}"; echo
set +o; shopt -p || true; trap; jobs; declare -F; ulimit -S -n; umask; readlink /proc/$$/fd/0
cat; case "${#PIPESTATUS[@]}" in 0) ;; esac; exit 3"#;

#[track_caller]
fn run_shell(sandbox: &Sandbox, call: &[&str], adopted: bool) -> (String, String) {
    let args: Vec<&str> =
        call.iter().map(|word| if *word == "TEXT" { STATE_SCRIPT } else { word }).collect();
    let mut call = sandbox.host("bash", &args).stdin("what it reads\n");
    if adopted {
        call = with_adoption(sandbox, call);
    }
    let done = call.run().expect_code(3);
    (done.stdout_text(), done.stderr_text())
}

#[test]
fn adoption_leaves_the_shell_state_unchanged() {
    let sandbox = sandbox();
    for call in SHELL_INVOCATIONS {
        let (plain, plain_err) = run_shell(&sandbox, call, false);
        let (adopted, adopted_err) = run_shell(&sandbox, call, true);
        // Each call has a different pipe as its standard input, so the pipe's name is not compared.
        let known = |text: &str| {
            text.lines().filter(|line| !line.starts_with("pipe:")).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(known(&adopted), known(&plain), "{call:?}");
        assert_eq!(adopted_err, plain_err, "{call:?}");
    }
    wait_until_no_shims(&sandbox);
}

/// Adoption adds only the variable `SIDING_SESSION` to the shell and its children.
#[test]
fn adoption_adds_only_the_session_variable() {
    let sandbox = sandbox();
    let text = "compgen -v | sort; echo; env | cut -d= -f1 | sort";
    // bash sets some variables only after it has run a command, as the adoption code does. The
    // shell without adoption therefore reads a start-up file too.
    std::fs::write(sandbox.path("nothing"), ":\n").expect("test directory");
    let names = |adopted: bool| -> Vec<String> {
        let call = with_adoption(&sandbox, sandbox.host("bash", &["-c", text]));
        let call = if adopted { call } else { call.env("BASH_ENV", "nothing") };
        let out = call.run().expect_code(0).stdout_text();
        out.lines().map(str::to_owned).collect()
    };
    let (plain, mut adopted) = (names(false), names(true));
    adopted.retain(|name| name != "SIDING_SESSION");
    assert_eq!(adopted, plain);
    wait_until_no_shims(&sandbox);
}

/// The adoption code does not affect the traps, `set -e` and `wait` of the command.
#[test]
fn adoption_does_not_affect_traps_and_jobs() {
    let sandbox = sandbox();
    for (text, out) in [
        ("trap 'echo exit $?' EXIT; false; true", "exit 0\n"),
        ("set -e; trap 'echo err' ERR; false; echo not", "err\n"),
        ("trap 'echo debug' DEBUG; :", "debug\n"),
        ("sleep .05 & wait -n; echo $?; wait; echo $?", "0\n0\n"),
        ("true | false | true; echo ${PIPESTATUS[*]}", "0 1 0\n"),
        ("read -r line < <(echo inside); echo $line", "inside\n"),
        ("kill -TERM $BASHPID; echo not", ""),
    ] {
        let done = adopted_shell(&sandbox, text).run();
        assert_eq!(
            (done.stdout_text().as_str(), done.stderr_text().as_str()),
            (out, ""),
            "{text}: {done}"
        );
    }
    wait_until_no_shims(&sandbox);
}

/// Promise P83: a tree of shells is one task. A nested shell recognizes the tree by its birthmark,
/// because the command could clear a variable.
#[test]
fn nested_shells_are_adopted_once_as_one_task() {
    let sandbox = sandbox();
    let env = shell_init(&sandbox).display().to_string();
    let deep = format!(
        "ulimit -R; bash -c 'ulimit -R; bash -lc \"ulimit -R\"; env -i SIDING_ADOPT_WAIT=20 BASH_ENV={env} PATH=$PATH bash -c \"ulimit -R\"'; until [ -e go ]; do sleep .02; done"
    );
    let mut recorded = start_recorded(&sandbox, recorded_shell(&sandbox, &deep));
    let mark = processes::birthmark_from_id(&recorded.id).expect("an id");
    let four = format!("{mark}\n").repeat(4);
    assert_eq!(recorded.shell.wait_for_stdout(&four), four);
    std::fs::write(sandbox.path("go"), "").expect("test directory");
    let _done = recorded.shell.wait().expect_code(0);
    wait_until_no_shims(&sandbox);
    assert_eq!(list_tasks(&sandbox).len(), 1);
}

/// Promise P83: an interactive shell is not adopted, so a person's shell has no deadline.
#[test]
fn interactive_shell_is_not_adopted() {
    let sandbox = sandbox();
    let env = shell_init(&sandbox).display().to_string();
    let call = sandbox.host("bash", &["--noprofile", "--rcfile", &env, "-i"]);
    let done = call.stdin("ulimit -R; declare -F; exit\n").run();
    assert_eq!(done.stdout_text(), "unlimited\n", "{done}");
}

/// A user's start-up file may contain `eval "$(siding shell-init bash)"` instead of the code
/// itself.
#[test]
fn shell_init_output_can_be_evaluated() {
    let sandbox = sandbox();
    let file = sandbox.path("own-env");
    let line = sandbox.siding_line(&["shell-init", "bash"]);
    std::fs::write(&file, format!("eval \"$({line})\"\n")).expect("test directory");
    let call = sandbox.host("bash", &["-euc", "echo $?; ulimit -R"]);
    let call = with_adoption(&sandbox, call).env("BASH_ENV", &file);
    let out = call.run().expect_code(0).stdout_text();
    let mark = out.strip_prefix("0\n").expect("the exit code comes first");
    assert!(mark.trim().parse::<u64>().is_ok_and(|mark| mark >> 40 > 0), "{out}");
    wait_until_no_shims(&sandbox);
}

/// zsh reads the adoption code from `.zshenv` in `ZDOTDIR`.
#[test]
fn zsh_shell_is_adopted() {
    let sandbox = sandbox();
    let Ok(path) = find_in_path("zsh") else {
        eprintln!("left out: zsh is not installed");
        return;
    };
    let text = sandbox.siding(&["shell-init", "zsh"]).run().expect_code(0).stdout_text();
    std::fs::write(sandbox.path(".zshenv"), text).expect("test directory");
    let says = "echo \"<$?> <$0> <$*>\"; set -o; cat /proc/$$/limits | grep realtime.timeout";
    let run = |directory: &str| {
        let call = sandbox.host(&path, &["-euo", "pipefail", "-c", says, "zero", "one"]);
        let call = call.env("SIDING_ADOPT_WAIT", "20").env("ZDOTDIR", sandbox.path(directory));
        call.run().expect_code(0).stdout_text()
    };
    // Agents also source the file for bash in zsh, and some users evaluate the output of `siding
    // shell-init zsh`.
    let text = sandbox.siding_line(&["shell-init", "zsh"]);
    std::fs::create_dir(sandbox.path("eval")).expect("test directory");
    std::fs::write(sandbox.path("eval/.zshenv"), format!("eval \"$({text})\"")).expect("test file");
    let line = shell_init(&sandbox).display().to_string();
    let sourced = sandbox.host(
        &path,
        &["-fc", &format!("source {line}; echo only; grep realtime.timeout /proc/$$/limits")],
    );
    let sourced = sourced.env("SIDING_ADOPT_WAIT", "20").run().expect_code(0);
    assert!(
        sourced.stdout_text().starts_with("only\n") && sourced.stdout_text().lines().count() == 2,
        "{sourced}"
    );
    assert!(
        !sourced.stdout_text().contains("unlimited") && sourced.stderr_text().is_empty(),
        "{sourced}"
    );
    let (adopted, plain) = (run(""), run("nowhere"));
    assert!(!run("eval").contains("unlimited"));
    let split = |text: &str| text.rsplit_once("Max").map(|(rest, _)| rest.to_owned());
    assert_eq!(split(&adopted), split(&plain));
    assert!(plain.contains("unlimited") && !adopted.contains("unlimited"), "{adopted}");
    wait_until_no_shims(&sandbox);
}

fn find_in_path(program: &str) -> Result<String, ()> {
    let path = std::env::var("PATH").unwrap_or_default();
    let found = path.split(':').map(|dir| format!("{dir}/{program}"));
    found.into_iter().find(|file| std::path::Path::new(file).exists()).ok_or(())
}
