//! What a command receives from `siding run` (arguments, variables, directory, session), what the
//! call reports, and the refusal of duplicate commands.

use std::path::Path;

use siding_core::task::run::NONINTERACTIVE_VARIABLES;
use siding_e2e::{ProgramOutput, Sandbox, Terminal, eventually, processes, words};

use crate::support::{
    Task, as_each_user, create_file, expect_prompt, sandbox, wait_for_file_command,
};

/// Failure F6: a command that has ended is not shown as running.
#[test]
fn finished_command_is_shown_as_ended() {
    as_each_user(|sandbox| {
        let call = sandbox.siding(&["run", "--json", "--", "true"]);
        let done = expect_prompt("true", call.run()).expect_code(0);
        let view = done.json();
        assert_eq!(view["phase"], "ended", "{done}");
        assert_eq!(view["outcome"]["kind"], "exited");
        assert_eq!(view["outcome"]["code"], 0);
        assert_eq!(view["placement"]["kind"], "foreground");
        assert!(view["stop_report"].is_null(), "{done}");
    });
}

/// Failure F18: the exit code is that of the command, and the output has stdout and stderr in the
/// order of the writes.
#[test]
fn output_order_and_exit_code_are_preserved() {
    let sandbox = sandbox();
    let text = "echo one; echo two >&2; echo three; exit 7";
    let done = sandbox.siding(&["run", "--", text]).run().expect_code(7);
    assert_eq!(done.stdout_text(), "one\ntwo\nthree\n");
    assert_eq!(done.stderr_text(), "");
    assert_eq!(Task::only(&sandbox).output(), "one\ntwo\nthree\n");
}

/// Failure F36: a command given as several arguments is a program and its words, which siding
/// neither splits nor expands.
#[test]
fn arguments_are_passed_unchanged() {
    let sandbox = sandbox();
    let odd = [
        "",
        " ",
        "it's",
        "\"",
        "$HOME",
        "*",
        "-x",
        "--",
        "--json",
        "a\nb",
        "a\\n",
        "ü…\u{1f980}",
        "`id`",
        "a;b|c&",
        "\u{1b}[31m",
        "=",
        "~",
        "!!",
        "%d",
        "\t",
    ];
    let argv = [&["run", "--", "/usr/bin/printf", "<%s>"], &odd[..]].concat();
    let done = sandbox.siding(&argv).run().expect_code(0);
    let expected: String = odd.iter().map(|word| format!("<{word}>")).collect();
    assert_eq!(done.stdout_text(), expected);
}

/// Failure F13: a search for the command's text in the arguments of all processes finds neither the
/// task nor its shim, so that `pkill -f` in a task does not signal that task.
#[test]
fn command_text_is_not_in_any_process_arguments() {
    let sandbox = sandbox();
    let word = format!("needle{}", std::process::id());
    let child = sandbox.puppet_line(&words("mark up hang"));
    for shell in ["bash", "sh", "dash"] {
        for text in [
            format!(": {word}; {child}; :"),
            format!(": {word} | {child}"),
            format!("({child}; : {word}); :"),
        ] {
            let seen = sandbox.announcements().len();
            let task = Task::start_with(&sandbox, &["--shell", shell], &text);
            eventually("the command runs", || sandbox.announcements().len() > seen);
            assert!(
                processes::with_birthmark(&task.id).len() > 2,
                "expected a shim, a shell and a child"
            );
            let found: Vec<String> = processes::list_pids()
                .into_iter()
                .map(processes::command_line)
                .filter(|line| line.contains(&word))
                .collect();
            assert!(found.is_empty(), "{shell}, `{text}`: {found:?}");
            let _view = task.stop(&[]);
        }
    }
}

/// Failures F18 and F36: `run --json` reports the shell's final directory and the status of each
/// stage of its last pipeline.
#[test]
fn final_directory_and_pipeline_statuses_are_reported() {
    let sandbox = sandbox();
    std::fs::create_dir(sandbox.path("sub")).expect("test directory");
    let sub = sandbox.path("sub").display().to_string();
    for (text, code, cwd, stages) in [
        ("cd sub; (exit 3) | true", 0, Some(&*sub), vec![3, 0]),
        ("false | (exit 4) | (exit 5)", 5, None, vec![1, 4, 5]),
        ("cd sub; exit 2", 2, Some(&*sub), vec![]),
        ("set -o pipefail; (exit 6) | true", 6, None, vec![6, 0]),
        ("true | false; true", 0, None, vec![]),
        ("cd /; exec true", 0, None, vec![]),
    ] {
        let call = sandbox.siding(&["run", "--json", "--", text]);
        let view = call.run().expect_code(code).json();
        let expected =
            if stages.is_empty() { serde_json::Value::Null } else { serde_json::json!(stages) };
        assert_eq!(view["pipeline_statuses"], expected, "{text}");
        if let Some(cwd) = cwd {
            assert_eq!(view["final_cwd"], cwd, "{text}");
        }
    }
}

/// Failure F36: `--cwd` sets the directory of the process, and siding does not put a `cd` before
/// the text.
#[test]
fn cwd_flag_applies_to_the_whole_script() {
    let sandbox = sandbox();
    for dir in ["sub", "it's a dir", "-dash"] {
        std::fs::create_dir(sandbox.path(dir)).expect("test directory");
        let dir_arg = format!("--cwd={dir}");
        let call = sandbox.siding(&["run", &dir_arg, "--", "sleep .1 &\npwd; wait"]);
        let expected = format!("{}\n", sandbox.path(dir).display());
        assert_eq!(call.run().expect_code(0).stdout_text(), expected);
    }
}

/// A missing directory is reported before anything is recorded.
#[test]
fn missing_cwd_is_an_error_that_names_it() {
    let sandbox = sandbox();
    create_file(&sandbox, "file");
    for dir in ["/nowhere/at/all", "file"] {
        let call = sandbox.siding(&["run", "--cwd", dir, "--", "true"]);
        let done = call.run().expect_code(125);
        assert!(done.stderr_text().contains(dir), "{done}");
        assert_eq!(sandbox.task_ids(), Vec::<String>::new());
    }
}

fn task_environment(sandbox: &Sandbox, flags: &[&str], caller: &[(&str, &str)]) -> Vec<String> {
    let args = [&["run"], flags, &["--", "/usr/bin/env", "-0"]].concat();
    let call =
        caller.iter().fold(sandbox.siding(&args), |call, (name, value)| call.env(name, value));
    let done: ProgramOutput = call.run().expect_code(0);
    let mut variables: Vec<String> =
        done.stdout_text().split_terminator('\0').map(str::to_owned).collect();
    variables.sort();
    variables
}

/// Failure F37: siding sets variables from which an agent's command can detect that no person is
/// present. The caller can override these variables.
#[test]
fn environment_is_the_callers_plus_unattended_variables() {
    let sandbox = sandbox();
    let plain = task_environment(&sandbox, &[], &[("MINE", "a=b\nc")]);
    for (name, value) in NONINTERACTIVE_VARIABLES.into_iter().chain([("TERM", "dumb")]) {
        let expected = format!("{name}={value}");
        assert!(plain.contains(&expected), "no {expected} in {plain:?}");
    }
    assert!(plain.iter().any(|entry| entry == "MINE=a=b\nc"), "{plain:?}");
    let flags = ["--env", "PAGER=less", "--env", "NEW=x=y", "--env", "EMPTY="];
    let caller = [("GIT_EDITOR", "vi"), ("PAGER", "more"), ("NEW", "old")];
    let set = task_environment(&sandbox, &flags, &caller);
    for expected in ["PAGER=less", "NEW=x=y", "EMPTY=", "GIT_EDITOR=vi", "GIT_TERMINAL_PROMPT=0"] {
        assert!(set.iter().any(|entry| entry == expected), "no {expected} in {set:?}");
    }
    assert_eq!(set.iter().filter(|entry| entry.starts_with("PAGER=")).count(), 1);
    let call = sandbox.siding(&["run", "--env", "NOTHING", "--", "true"]);
    assert!(call.run().expect_code(125).stderr_text().contains("NOTHING"));
}

/// Promise P7: for a person at a terminal, and with `--env-plain`, siding sets no variables against
/// prompts.
#[test]
fn a_person_and_env_plain_get_only_the_callers_variables() {
    let sandbox = sandbox();
    let terminal = Terminal::new(80, 24);
    let persons_call = sandbox.siding(&["run", "--", "env > variables; true"]);
    let persons_call = persons_call.env("MINE", "1").on_terminal(&terminal);
    assert_eq!(persons_call.run().code, Some(0));
    let written = std::fs::read_to_string(sandbox.path("variables")).expect("the command wrote it");
    let of_person: Vec<String> = written.lines().map(str::to_owned).collect();
    let plain = task_environment(&sandbox, &["--env-plain"], &[("MINE", "1")]);
    for variables in [of_person, plain] {
        assert!(variables.iter().any(|entry| entry == "MINE=1"), "{variables:?}");
        for (name, _) in NONINTERACTIVE_VARIABLES {
            let is_set = variables.iter().any(|entry| entry.starts_with(&format!("{name}=")));
            assert!(!is_set, "{name} in {variables:?}");
        }
    }
}

/// `--env-clear` keeps only the requested variables and the task's id.
#[test]
fn env_clear_leaves_only_requested_variables_and_task_id() {
    let sandbox = sandbox();
    let remaining = task_environment(&sandbox, &["--env-clear", "--env", "A=1"], &[]);
    let [a, task] = &remaining[..] else { panic!("{remaining:?}") };
    assert_eq!(a, "A=1");
    assert!(task.starts_with("SIDING_TASK=b-"), "{remaining:?}");
}

/// Promise P7: the values of the caller's environment are not written to disk.
#[test]
fn environment_values_are_not_written_to_disk() {
    let sandbox = sandbox();
    let secret = format!("hunter{}", std::process::id());
    let text =
        format!("{}; test \"$SECRET:$OTHER\" = \"$WANTED:$WANTED\"", wait_for_file_command("go"));
    let flag = format!("OTHER={secret}");
    let call = sandbox.siding(&["run", "--background", "--json", "--env", &flag, "--", &text]);
    let started = call.env("SECRET", &secret).env("WANTED", &secret).run();
    let task = Task::from_view(&sandbox, &started.expect_code(0).json());
    assert_eq!(files_containing(&sandbox.state_dir(), &secret), Vec::<String>::new());
    create_file(&sandbox, "go");
    assert_eq!(task.wait_outcome()["code"], 0, "the variables must be set");
    assert_eq!(files_containing(&sandbox.state_dir(), &secret), Vec::<String>::new());
}

fn files_containing(dir: &Path, needle: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("test directory");
    entries
        .flatten()
        .flat_map(|entry| {
            let path = entry.path();
            let kind = entry.file_type().expect("test directory");
            if kind.is_dir() {
                return files_containing(&path, needle);
            }
            let bytes =
                if kind.is_file() { std::fs::read(&path).unwrap_or_default() } else { vec![] };
            let holds = String::from_utf8_lossy(&bytes).contains(needle);
            holds.then(|| path.display().to_string()).into_iter().collect()
        })
        .collect()
}

/// Failures F14 and F41: a task has its own session and process group, default signal dispositions,
/// and no descriptors except its standard streams and a read end of its output pipe.
#[test]
fn task_has_its_own_session_and_default_signals_and_descriptors() {
    as_each_user(|sandbox| {
        let argv = sandbox.puppet_argv(&["report"]);
        let args = [vec!["run".to_owned(), "--".to_owned()], argv].concat();
        let _done = sandbox.siding(&args).run().expect_code(0);
        let report = sandbox.wait_for_announcement("report");
        let pid = report.process.pid;
        assert_eq!(report.field::<u32>("session"), pid);
        assert_eq!(report.field::<u32>("group"), pid);
        for mask in ["blocked", "ignored"] {
            let mask = report.field::<String>(mask);
            assert_eq!(mask.trim_matches('0'), "", "signals in {report:?}");
        }
        let id = Task::only(&sandbox).id;
        let mark = processes::birthmark_from_id(&id).expect("an id");
        assert_eq!(report.field::<u64>("birthmark"), mark);
        let text = &report.fields["text"];
        let mut fds: Vec<&str> = text.split(' ').filter(|word| !word.starts_with("cwd=")).collect();
        assert_eq!(fds.remove(0), "0=/dev/null");
        let output = format!("{}/tasks/{id}/out.fifo", sandbox.state_dir().display());
        for fd in fds {
            let (_number, leads_to) = fd.split_once('=').expect("a descriptor");
            // Puppet's log may be open too, because puppet opens the log for each announcement.
            let known =
                [&*output, &*sandbox.puppet_log().display().to_string()].contains(&leads_to);
            assert!(known, "{fd} of {text}");
        }
    });
}

/// Promise P11, failure F54: a command that already runs in the same directory is not started again
/// for an agent, unless the agent requests it.
#[test]
fn duplicate_launch_is_refused_and_names_the_running_task() {
    let sandbox = sandbox();
    let text = wait_for_file_command("go");
    let first = Task::start(&sandbox, &text);
    let again = expect_prompt("again", sandbox.siding(&["run", "--", &text]).run()).expect_code(79);
    assert!(again.stderr_text().contains(&first.id), "{again}");
    let call = sandbox.siding(&["run", "--json", "--", &text]);
    let view = call.run().expect_code(79).json();
    let offer = format!("`siding output --follow {}`", first.id);
    assert!(view["message"].as_str().is_some_and(|text| text.contains(&offer)), "{view:#}");
    assert_eq!(view["task_id"], first.id);
    assert_eq!(view["duplicate_of"], first.id);
    assert_eq!(sandbox.task_ids().len(), 1);

    let flags = ["--allow-duplicate"];
    let second = Task::start_with(&sandbox, &flags, &text);
    assert_ne!(second.id, first.id);
    let _elsewhere = Task::start_with(&sandbox, &["--cwd", "/tmp"], &text).stop(&[]);
    create_file(&sandbox, "go");
    for task in [&first, &second] {
        assert_eq!(task.wait_outcome()["code"], 0);
    }
    assert_eq!(second.stop(&[])["duplicate_of"], first.id);
    // The command of an ended task can be run again.
    let _done = sandbox.siding(&["run", "--", &text]).run().expect_code(0);
}

/// Promise P11: for a person at a terminal the second command runs, and a note names the first. An
/// agent at a terminal is refused.
#[test]
fn persons_second_launch_runs_with_a_note() {
    let sandbox = sandbox();
    let text = wait_for_file_command("go");
    let first = Task::start(&sandbox, &text);
    let mut terminal = Terminal::new(80, 24);
    let agents_call = sandbox.siding(&["run", "--", &text]).env("CLAUDECODE", "1");
    assert_eq!(agents_call.on_terminal(&terminal).run().code, Some(79));
    terminal.wait_for_text(&format!("siding: not started: {} already runs", first.id));
    assert_eq!(sandbox.task_ids().len(), 1);

    let call = sandbox.siding(&["run", "--", &text]).on_terminal(&terminal).spawn();
    terminal.wait_for_text(&format!("siding: {} already runs", first.id));
    create_file(&sandbox, "go");
    assert_eq!(call.wait().code, Some(0));
    let ids = sandbox.task_ids();
    let second = ids.iter().find(|id| **id != first.id).expect("a second task");
    let view = sandbox.siding(&["show", "--json", second]).run().expect_code(0).json();
    assert_eq!(view["duplicate_of"], first.id);
    assert_eq!(first.wait_outcome()["code"], 0);
}

/// If a person gives a task the name of a running one, a note says which task the name now refers
/// to.
#[test]
fn a_note_names_the_task_that_a_repeated_name_means() {
    let sandbox = sandbox();
    let first = Task::start_with(&sandbox, &["--name", "web"], &wait_for_file_command("go"));
    let mut terminal = Terminal::new(80, 24);
    let call = sandbox.siding(&["run", "--name", "web", "--", "echo second"]);
    assert_eq!(call.on_terminal(&terminal).run().code, Some(0));
    terminal.wait_for_text("siding: `web` now means b-");
    let shown = terminal.scrollback_text();
    assert!(shown.contains(&format!("; {} has the same name", first.id)), "{shown}");
    create_file(&sandbox, "go");
    assert_eq!(first.wait_outcome()["code"], 0);
}

/// Promise P11: the same text with another environment, input or shell is a different command.
#[test]
fn different_environment_input_or_shell_is_not_a_duplicate() {
    let sandbox = sandbox();
    let text = wait_for_file_command("go");
    let _first = Task::start(&sandbox, &text);
    let variants: [&[&str]; 6] = [
        &["--env", "PORT=3000"],
        &["--env", "PORT=3001"],
        &["--env", "PORT=3001", "--env", "HOST=::1"],
        &["--env-clear"],
        &["--stdin", "pipe"],
        &["--shell", "sh"],
    ];
    for flags in variants {
        let args = [&["run", "--background", "--json"], flags, &["--", &text]].concat();
        let started = sandbox.siding(&args).run().expect_code(0).json();
        assert!(started["duplicate_of"].is_null(), "{flags:?}: {started:#}");
        let again = sandbox.siding(&args).run().expect_code(79).json();
        assert_eq!(again["duplicate_of"], started["task_id"], "{flags:?}");
    }
    // The variables against prompts do not distinguish commands.
    let _refused = sandbox.siding(&["run", "--env-plain", "--", &text]).run().expect_code(79);
    let _ended = sandbox.siding(&["stop", "--all", "--grace", "0s"]).run().expect_code(0);
}
