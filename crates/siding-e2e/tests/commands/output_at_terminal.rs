//! What a person sees of a task's output at a terminal: the pager, colors and links.

use siding_e2e::{Sandbox, Terminal};

use crate::support::{
    HANG_COMMAND, PROGRAM_WITH_INTERRUPT, interrupt_and_end_program, make_file, run_to_end,
    sandbox, siding_on_controlling_terminal, start_task, stop_all, task_id, until_file_exists,
    write,
};

/// A pager that stores the text in a file.
const PAGER: &str = "cat > paged";

/// Runs `siding output` at a terminal of ten rows, and returns what the terminal shows and the text
/// in the pager.
#[track_caller]
fn show_output(sandbox: &Sandbox, args: &[&str], env: &[(&str, &str)]) -> (String, Option<String>) {
    let paged = sandbox.path("paged");
    let _already_removed = std::fs::remove_file(&paged);
    let mut terminal = Terminal::new(80, 10);
    let call = sandbox.siding(&[&["output"], args].concat()).on_terminal(&terminal);
    let call = call.env("SIDING_PAGER", PAGER);
    let call = env.iter().fold(call, |call, (name, value)| call.env(name, value));
    let _done = call.run().expect_code(0);
    terminal.wait_for_text("exited 0");
    (terminal.scrollback_text(), std::fs::read_to_string(paged).ok())
}

#[test]
fn only_a_text_that_is_longer_than_the_screen_is_paged() {
    let sandbox = sandbox();
    let long = run_to_end(&sandbox, "seq 100000");
    let short = run_to_end(&sandbox, "seq 5");
    let numbers: String = (1..=100_000).map(|number| format!("{number}\n")).collect();

    let (shown, paged) = show_output(&sandbox, &[&long], &[]);
    assert_eq!(paged.as_deref(), Some(numbers.as_str()), "nothing is cut in a pager");
    assert!(!shown.contains("99999"), "{shown}");
    let (shown, paged) = show_output(&sandbox, &[&long, "--all"], &[]);
    assert_eq!(paged.as_deref(), Some(numbers.as_str()));
    assert!(!shown.contains("99999"), "{shown}");

    let (shown, paged) = show_output(&sandbox, &[&short], &[]);
    assert_eq!(paged, None);
    assert!(shown.starts_with("1\n2\n3\n4\n5\n"), "{shown}");
    for (args, env) in [
        (["--no-pager"].as_slice(), [("SIDING_PAGER", PAGER)].as_slice()),
        (&[], &[("SIDING_PAGER", "cat")]),
        (&[], &[("CLAUDECODE", "1")]),
    ] {
        let args = [&[long.as_str(), "--tail", "20"], args].concat();
        let (shown, paged) = show_output(&sandbox, &args, env);
        assert_eq!(paged, None, "{args:?} {env:?}");
        assert!(shown.contains("99981\n") && shown.contains("100000\n"), "{shown}");
    }
}

/// A terminal whose locale is not UTF-8 gets siding's symbols as ASCII. The text of the task, and
/// the text for a program, are unchanged.
#[test]
fn a_terminal_without_utf8_gets_ascii_symbols() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "printf 'same\\nsame\\nsame\\n\\303\\274\\342\\200\\246\\n'");
    let c_locale = [("LC_ALL", "C")];
    let (shown, _) = show_output(&sandbox, &[&id], &c_locale);
    assert!(shown.starts_with("same\n~ repeated 2 times\nü…\n"), "{shown}");
    let (shown, _) = show_output(&sandbox, &[&id], &[("LC_ALL", "C.UTF-8")]);
    assert!(shown.starts_with("same\n… repeated 2 times\n"), "{shown}");
    let piped = sandbox.siding(&["stats"]).env("LC_ALL", "C").run().expect_code(0).stdout_text();
    assert!(!piped.is_ascii(), "a program gets the same text in each locale: {piped}");
    let mut terminal = Terminal::new(80, 10);
    let stats = sandbox.siding(&["stats"]).on_terminal(&terminal).env("LC_ALL", "C");
    let _done = stats.run().expect_code(0);
    terminal.wait_for_text("COMMAND");
    let shown = terminal.scrollback_text();
    assert!(shown.is_ascii(), "{shown}");
}

/// Promise P27: every call of a person shows the whole output. Such a call also moves the session's
/// read cursor, so the next call of a program shows only what is new since then.
#[test]
fn a_person_sees_the_output_at_every_call() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "echo one; echo two");
    let id = id.as_str();
    for args in [[id].as_slice(), &[id], &[id, "--follow"]] {
        let (shown, paged) = show_output(&sandbox, args, &[]);
        assert!(shown.starts_with("one\ntwo\n"), "{args:?}: {shown}");
        assert_eq!(paged, None);
    }
    let terminal = Terminal::new(80, 10);
    let pipeline = format!("{} | cat > piped", sandbox.siding_line(&["output", id]));
    let _done = sandbox.host("sh", &["-c", &pipeline]).on_terminal(&terminal).run().expect_code(0);
    let piped = std::fs::read_to_string(sandbox.path("piped")).expect("the pipeline wrote it");
    assert_eq!(piped, "one\ntwo\n");
    let long = run_to_end(&sandbox, "seq 100000; echo same; echo same; seq 100000");
    let count =
        format!("{} | grep -c -e same -e 9$ > piped", sandbox.siding_line(&["output", &long]));
    let _done = sandbox.host("sh", &["-c", &count]).on_terminal(&terminal).run().expect_code(0);
    let counted = std::fs::read_to_string(sandbox.path("piped")).expect("the pipeline wrote it");
    assert_eq!(counted, "20002\n", "a program that a person connects gets every line");
    let program = sandbox.siding(&["output", id]).run().expect_code(0);
    assert_eq!(program.stdout_text(), "");
    let (shown, _) = show_output(&sandbox, &[id], &[("CLAUDECODE", "1")]);
    assert!(shown.starts_with(&format!("siding: nothing new from {id}, exited 0")), "{shown}");
}

/// siding reports no failure if a person closes the pager early.
#[test]
fn a_pager_that_is_closed_early_is_no_failure() {
    let sandbox = sandbox();
    let long = run_to_end(&sandbox, "seq 100000");
    let terminal = Terminal::new(80, 10);
    let call = sandbox.siding(&["output", &long]).on_terminal(&terminal);
    let _done = call.env("SIDING_PAGER", "head -n 1 > paged").run().expect_code(0);
    let paged = std::fs::read_to_string(sandbox.path("paged")).expect("the pager has run");
    assert_eq!(paged, "1\n");
}

/// Ctrl-C reaches the pager, which decides what to do, and does not end the call, which waits for
/// the end of the pager (`seq 20`) or for room in the pipe to it.
#[test]
fn ctrl_c_reaches_the_pager_and_does_not_end_the_call() {
    let sandbox = sandbox();
    write(&sandbox, "pager.sh", PROGRAM_WITH_INTERRUPT);
    for text in ["seq 20", "seq 100000"] {
        let id = run_to_end(&sandbox, text);
        let mut terminal = Terminal::new(80, 10);
        let call = siding_on_controlling_terminal(&sandbox, &terminal, &["output", &id]);
        let call = call.env("SIDING_PAGER", "sh pager.sh").spawn();
        interrupt_and_end_program(&mut terminal);
        let _done = call.wait().expect_code(0);
    }
}

/// Colors reach the terminal of a person, and no other escape sequence does.
#[test]
fn only_colors_of_the_output_are_kept() {
    let sandbox = sandbox();
    let text = "for i in $(seq 20); do \
                printf '\\033[31mred\\033[m \\033]0;title\\007\\033[2Jx \\033[8mhidden %s\\n' $i; done";
    let id = run_to_end(&sandbox, text);
    let args = [id.as_str(), "--max-bytes", "none"];
    let (_, paged) = show_output(&sandbox, &args, &[]);
    let paged = paged.expect("the text is long");
    assert!(paged.starts_with("\x1b[31mred\x1b[m x hidden 1\n"), "{paged:?}");
    let args = [id.as_str(), "--all", "--max-bytes", "none"];
    let (_, plain) = show_output(&sandbox, &args, &[("NO_COLOR", "1")]);
    assert!(plain.expect("the text is long").starts_with("red x hidden 1\n"));
    let piped = sandbox.siding(&["output", &id, "--tail", "1"]).run().expect_code(0);
    assert_eq!(piped.stdout_text(), "red x hidden 20\n");
}

/// The colors are also kept while a person follows the output.
#[test]
fn a_followed_output_keeps_its_colors() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "printf '\\033[35mcolored\\033[m \\033]0;title\\007x\\n'");
    let magenta = "35".to_owned();
    for (value, keeps) in [("", true), ("1", false)] {
        let mut terminal = Terminal::new(80, 10);
        let call = sandbox.siding(&["output", &id, "--follow"]).on_terminal(&terminal);
        let _done = call.env("NO_COLOR", value).run().expect_code(0);
        terminal.wait_for_text("exited 0");
        let shown = terminal.scrollback_text();
        assert!(shown.starts_with("colored x\n"), "{shown}");
        assert_eq!(terminal.colors().contains(&magenta), keeps, "NO_COLOR={value}");
    }
}

/// A line that the task rewrites, slowly enough that each of its states is shown, is rewritten on a
/// person's terminal, and follows on a line of its own in a pipe.
#[test]
fn a_followed_line_is_rewritten_where_it_is_shown() {
    let sandbox = sandbox();
    let (first, second) = (until_file_exists("first"), until_file_exists("second"));
    let text = format!("printf 10%%; {first}; printf '\\r100%%'; {second}; printf ' done\\n'");
    for flags in [&[][..], &["--pty"]] {
        let id = start_task(&sandbox, flags, &text);
        let args = ["output", id.as_str(), "--follow"];
        let mut terminal = Terminal::new(80, 10);
        let shown = sandbox.siding(&args).env("TERM", "xterm").on_terminal(&terminal).spawn();
        let mut piped = sandbox.siding(&args).spawn();
        terminal.wait_for_row("10%");
        let _so_far = piped.wait_for_stdout("10%");
        make_file(&sandbox, "first");
        terminal.wait_for_row("100%");
        make_file(&sandbox, "second");
        terminal.wait_for_row(&format!("siding: {id}  exited 0"));
        let _done = shown.wait().expect_code(0);
        let rows = terminal.scrollback_text();
        assert!(rows.starts_with("100% done\nsiding: "), "{flags:?}: {rows}");
        let done = piped.wait().expect_code(0);
        assert_eq!(done.stdout_text(), "10%\n100% done\n", "{flags:?}: {done}");
        for name in ["first", "second"] {
            std::fs::remove_file(sandbox.path(name)).expect("the file exists");
        }
    }
}

/// The control sequences of a task with a terminal do not reach the terminal of a person, not even
/// with `--all`: they would erase its screen.
#[test]
fn all_output_of_a_terminal_is_shown_as_text() {
    let sandbox = sandbox();
    let flags = ["run", "--pty", "--budget", "none", "--json", "--"];
    let text = "printf 'first\\n\\033[2J\\033[H\\033]0;t\\007second\\n'";
    let run = sandbox.siding(&[&flags[..], &[text]].concat()).run().expect_code(0);
    let id = task_id(&run.json());
    for args in [[id.as_str(), "--all"].as_slice(), &[&id, "--all", "--follow"]] {
        let (shown, _) = show_output(&sandbox, args, &[]);
        assert!(shown.starts_with("first\nsecond\n"), "{args:?}: {shown}");
    }
    let raw = sandbox.siding(&["output", &id, "--raw"]).run().expect_code(0).stdout_text();
    assert!(raw.contains("\u{1b}[2J"), "{raw:?}");
}

/// Ids and paths link to the output in terminals that support it, but not for an agent.
#[test]
fn a_person_gets_links_to_the_output() {
    let sandbox = sandbox();
    let id = run_to_end(&sandbox, "echo up");
    for args in [["show", &id].as_slice(), &["ps", "--all"]] {
        let mut terminal = Terminal::new(100, 40);
        let call = sandbox.siding(args).on_terminal(&terminal);
        let _done = call.env("FORCE_HYPERLINK", "1").run().expect_code(0);
        terminal.wait_for_text(&id);
        let links = terminal.links();
        let suffix = format!("/tasks/{id}/output");
        assert!(!links.is_empty(), "{args:?}");
        assert!(
            links.iter().all(|link| link.starts_with("file://") && link.ends_with(&suffix)),
            "{links:?}"
        );
        for (name, value) in [("CLAUDECODE", "1"), ("FORCE_HYPERLINK", "0")] {
            let mut terminal = Terminal::new(100, 40);
            let call = sandbox.siding(args).on_terminal(&terminal);
            let call = call.env("FORCE_HYPERLINK", "1").env(name, value);
            let _done = call.run().expect_code(0);
            terminal.wait_for_text(&id);
            assert!(terminal.links().is_empty(), "{args:?} {name}");
        }
    }
}

/// The id in the note about a hand-over is also a link.
#[test]
fn the_note_of_a_hand_over_links_to_the_output() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(100, 40);
    let call = sandbox.siding(&["run", "--budget", "100ms", "--", HANG_COMMAND]);
    let call = call.on_terminal(&terminal).env("FORCE_HYPERLINK", "1");
    let _moved = call.run().expect_code(75);
    let ids = sandbox.task_ids();
    let [id] = ids.as_slice() else { panic!("expected one task: {ids:?}") };
    terminal.wait_for_text(id);
    let suffix = format!("/tasks/{id}/output");
    let links = terminal.links();
    assert!(!links.is_empty() && links.iter().all(|link| link.ends_with(&suffix)), "{links:?}");
    stop_all(&sandbox);
}
