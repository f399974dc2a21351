//! The standard input of a command.

use siding_e2e::{Terminal, eventually, words};

use crate::support::{Task, expect_prompt, sandbox, shell_on};

/// Promise P8, failure F37: without input, every program that prompts exits immediately with its
/// own exit code and message.
#[test]
fn prompts_end_immediately_without_input() {
    let sandbox = sandbox();
    for (text, code, out) in [
        ("cat", 0, ""),
        ("read -p 'Ok? (y/n) ' x; echo \"$? [$x]\"", 0, "1 []\n"),
        ("read -rsp 'Password: ' x || exit 3", 3, ""),
        ("read x </dev/tty || exit 4", 4, ""),
        ("wc -c", 0, "0\n"),
        ("head -c1 | od -c; test -t 0 || exit 5", 5, "0000000\n"),
        ("bash", 0, ""),
        ("rm -i file; ls file", 0, "file\n"),
    ] {
        std::fs::write(sandbox.path("file"), "").expect("test directory");
        // The call has no budget, so a prompt that waited for input would block the call.
        let call = sandbox.siding(&["run", "--budget", "none", "--", text]);
        let done = expect_prompt(format!("`{text}`"), call.run()).expect_code(code);
        assert!(done.stdout_text().ends_with(out), "`{text}`: {done}");
    }
}

/// A file or the pipe of a pipeline is passed on, in the foreground and in the background, byte for
/// byte, even if the shell still holds its copy of the read end, as it does for a moment after it
/// has started the pipeline.
#[test]
fn own_stdin_is_passed_on() {
    let sandbox = sandbox();
    let content: String = (0..40_000).map(|number| format!("line {number}\n")).collect();
    std::fs::write(sandbox.path("file"), &content).expect("test directory");
    let run = sandbox.siding_line(&["run", "--", "cat"]);
    for text in [
        format!("{run} < file"),
        format!("cat file | {run}"),
        format!("cat file | {run} | cat"),
        format!("exec 3< <(cat file); {run} <&3; true"),
        format!("cat file | {}", sandbox.siding_line(&["run", "--", "tr -d q | cat"])),
        sandbox.siding_line(&["run", "--stdin", "./file", "--", "cat"]),
    ] {
        let done = sandbox.host("bash", &["-c", &text]).run().expect_code(0);
        assert!(done.stdout_text() == content, "`{text}`: {} bytes", done.stdout.len());
    }
    let back = sandbox.siding_line(&["run", "--background", "--", "sha256sum"]);
    let text = format!("sha256sum < file; id=$(cat file | {back}); {} >&2", "siding wait $id");
    let text = text.replace("siding wait", &sandbox.siding_line(&["wait"]));
    let text = format!("{text}; {} $id", sandbox.siding_line(&["output", "--all"]));
    let done = sandbox.host("bash", &["-c", &text]).run().expect_code(0);
    let sums = done.stdout_text();
    let (expected, found) = sums.split_once('\n').expect("two lines");
    assert_eq!(expected, found.trim_end(), "{done}");
}

/// `--stdin auto` does not pass on a pipe that the caller's parent also holds, because a command of
/// an agent could wait for its end forever. `--stdin inherit` passes it on.
#[test]
fn shared_stdin_is_passed_on_only_on_request() {
    let sandbox = sandbox();
    // The test holds the write end of the pipe until the call has ended.
    let call = sandbox.siding(&["run", "--budget", "none", "--", "cat"]).stdin_pipe();
    let done = call.spawn().wait().expect_code(0);
    assert_eq!(done.stdout_text(), "");
    let run = sandbox.siding_line(&["run", "--stdin", "inherit", "--", "cat"]);
    let text = format!("{run}; cat");
    let done = sandbox.host("bash", &["-c", &text]).stdin("all\n").run().expect_code(0);
    assert_eq!(done.stdout_text(), "all\n");
}

/// A command with a terminal would wait for keys forever, and the input of the call would be lost. An
/// agent's command still starts, because its host may connect a pipe that no program writes to.
#[test]
fn a_person_cannot_pass_a_pipe_or_file_to_a_command_with_a_terminal() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    std::fs::write(sandbox.path("file"), "x\n").expect("test directory");
    let cat = sandbox.siding_line(&["run", "--pty", "--", "cat"]);
    for text in [format!("echo x | {cat}"), format!("{cat} < file")] {
        let _refused = shell_on(&sandbox, &terminal, &["-c", &text]).run().expect_code(125);
    }
    let shown = terminal.scrollback_text();
    assert_eq!(shown.matches("leave out --pty").count(), 2, "{shown}");
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
    let run = sandbox.siding_line(&["run", "--pty", "--", "test -t 0 && echo typed"]);
    let text = format!("{run} < /dev/null");
    let _ended = shell_on(&sandbox, &terminal, &["-c", &text]).run().expect_code(0);
    terminal.wait_for_text("typed");
    // The test holds the write end of the pipe until the call has ended.
    let call = sandbox.siding(&["run", "--pty", "--", "test -t 0 && echo typed"]).stdin_pipe();
    let done = call.spawn().wait().expect_code(0);
    assert_eq!((done.stdout_text().as_str(), done.stderr_text().as_str()), ("typed\r\n", ""));
    let text = format!("echo x | {run}");
    let done = sandbox.host("bash", &["-c", &text]).run().expect_code(0);
    assert!(done.stderr_text().contains("is not read, because --pty"), "{done}");
}

/// Commands that inherit their input are not duplicates, because siding does not know the content
/// of an inherited input.
#[test]
fn commands_with_inherited_input_are_not_duplicates() {
    let sandbox = sandbox();
    std::fs::write(sandbox.path("file"), "x\n").expect("test directory");
    let line = sandbox.puppet_line(&words("--quiet mark up hang"));
    let run = sandbox.siding_line(&["run", "--background", "--", &line]);
    let text = format!("{run} < file && {run} < file");
    let done = sandbox.host("bash", &["-c", &text]).run().expect_code(0);
    let ids: Vec<String> = done.stdout_text().lines().map(ToOwned::to_owned).collect();
    assert_eq!(ids.len(), 2, "{done}");
    let _done = sandbox.siding(&["stop", "--all", "--grace", "0s"]).run().expect_code(0);
}

/// The command does not inherit the descriptors of its caller, so it could not open such a file.
#[test]
fn argument_that_names_a_descriptor_of_the_caller_is_refused() {
    let sandbox = sandbox();
    std::fs::write(sandbox.path("file"), "x\n").expect("test directory");
    let run = sandbox.siding_line(&["run", "--", "cat"]);
    for text in [
        format!("{run} <(cat file)"),
        format!("{run} 5< file /dev/fd/5"),
        format!("{run} 5< file --file=/proc/self/fd/5"),
    ] {
        let done = sandbox.host("bash", &["-c", &text]).run().expect_code(125);
        let err = done.stderr_text();
        assert!(err.contains("does not inherit this descriptor of the calling shell"), "{done}");
        assert!(err.contains("as one text in quotes"), "{done}");
    }
    assert!(sandbox.task_ids().is_empty());
    // The command itself reports a descriptor that the caller does not have.
    let done = sandbox.host("bash", &["-c", &format!("{run} /dev/fd/77")]).run();
    let _failed = done.expect_code(1);
    let text = sandbox.siding_line(&["run", "--", "cat <(cat file) - 5< file <&5"]);
    let done = sandbox.host("bash", &["-c", &text]).run().expect_code(0);
    assert_eq!(done.stdout_text(), "x\nx\n");
}

/// A missing file is an error that names the file, and nothing is started.
#[test]
fn missing_stdin_file_is_an_error() {
    let sandbox = sandbox();
    let done = sandbox.siding(&["run", "--stdin", "absent", "--", "cat"]).run().expect_code(125);
    assert!(done.stderr_text().contains("absent"), "{done}");
    assert!(done.stderr_text().contains("inherit"), "{done}");
}

/// The writer of a pipeline gets SIGPIPE when the command has closed its input, even if the call
/// still waits for the command.
#[test]
fn the_writer_ends_when_the_command_closes_its_input() {
    let sandbox = sandbox();
    let command = "exec 0<&-; until [ -e ended ]; do sleep .02; done";
    let writer = "(yes; echo > ended)";
    for source in ["auto", "inherit", "./fifo"] {
        let _absent = std::fs::remove_file(sandbox.path("ended"));
        let options = ["--budget", "none", "--timeout", "30s", "--stdin", source];
        let call = [&["run"][..], &options, &["--", command]].concat();
        let call = sandbox.siding_line(&call);
        let text = match source {
            "./fifo" => format!("mkfifo fifo; {writer} > fifo & {call}"),
            _ => format!("{writer} | {call}"),
        };
        let _done = sandbox.host("bash", &["-c", &text]).run().expect_code(0);
    }
}

/// `--stdin auto` does not pass on a pipe that the calling shell also holds, so a shell loop that
/// reads lines from this pipe and calls `siding run` loses no line.
#[test]
fn callers_stdin_is_not_consumed() {
    let sandbox = sandbox();
    let run = sandbox.siding_line(&["run", "--allow-duplicate", "--", "cat; true"]);
    let text = format!("while read line; do echo \"<$line>\"; {run}; done");
    let call = sandbox.host("bash", &["-c", &text]).stdin("one\ntwo\nthree\n");
    assert_eq!(call.run().expect_code(0).stdout_text(), "<one>\n<two>\n<three>\n");
}

/// `--stdin pipe` keeps the input open until `siding input --eof` closes it, and the task receives
/// the bytes of `siding input`.
#[test]
fn piped_stdin_receives_input_until_eof() {
    let sandbox = sandbox();
    let line = sandbox.puppet_line(&words("--quiet mark up read-stdin mark over"));
    let task = Task::start_with(&sandbox, &["--stdin", "pipe"], &line);
    let process = sandbox.wait_for_mark("up");
    for args in [&["input", &task.id, "hello"][..], &["input", &task.id, "ü $x"]] {
        let _done = sandbox.siding(args).run().expect_code(0);
    }
    eventually("both have arrived", || {
        task.output().contains("hello") && task.output().contains("ü $x")
    });
    assert!(process.is_alive(), "the input must still be open");
    let _done = sandbox.siding(&["input", &task.id, "--eof"]).run().expect_code(0);
    assert_eq!(task.wait_outcome()["code"], 0);
    let _over = sandbox.wait_for_mark("over");
    task.expect_stopped();
}

/// `siding input` to a task without a pipe fails and says how a task gets one.
#[test]
fn input_to_a_task_without_a_pipe_is_an_error() {
    let sandbox = sandbox();
    let task = Task::start_puppet(&sandbox, &[], &["hang"]);
    let done = sandbox.siding(&["input", &task.id, "hello"]).run().expect_code(125);
    assert!(done.stderr_text().contains("--stdin pipe"), "{done}");
    let _view = task.stop(&[]);
    task.expect_stopped();
}
