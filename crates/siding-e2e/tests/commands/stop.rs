//! The text of `siding stop`.

use siding_e2e::eventually;

use crate::support::{HANG_COMMAND, run_ok, sandbox, start_task, task_ids};

#[test]
fn a_second_stop_says_that_the_task_had_already_ended() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &[], HANG_COMMAND);
    let first = run_ok(&sandbox, &["stop", &id]).stdout_text();
    assert!(first.starts_with(&format!("{id}  stopped by user\n  ended ")), "{first}");
    let second = run_ok(&sandbox, &["stop", &id]).stdout_text();
    assert_eq!(second, format!("{id}  had already ended: stopped by user\n"));
}

/// A task that several arguments name appears once, in the order of the arguments.
#[test]
fn a_task_that_is_named_twice_is_stopped_and_shown_once() {
    let sandbox = sandbox();
    let one = start_task(&sandbox, &["--name", "one"], HANG_COMMAND);
    let two = start_task(&sandbox, &[], "sleep 301");
    for args in
        [&["stop", "--json", "one", &two, &one][..], &["show", "--json", "one", &two, "one"]]
    {
        assert_eq!(task_ids(&run_ok(&sandbox, args).json()), [&*one, &two], "{args:?}");
    }
    let text = run_ok(&sandbox, &["stop", "one", "one"]).stdout_text();
    assert_eq!(text, format!("{one}  had already ended: stopped by user\n"));
}

/// A subshell of a command with a pipeline has siding's own text as its arguments, until it
/// executes a program.
#[test]
fn process_lists_hide_the_text_with_which_siding_starts_a_shell() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &[], "(sleep 300; true) | cat");
    eventually("the subshell is listed", || {
        run_ok(&sandbox, &["show", &id]).stdout_text().contains("(the task's shell)")
    });
    for command in ["show", "why", "stop"] {
        let text = run_ok(&sandbox, &[command, &id]).stdout_text();
        assert!(!text.contains("trap"), "{text}");
    }
}
