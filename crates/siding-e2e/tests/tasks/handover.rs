//! The hand-over, which moves a running command from the foreground to the background.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use siding_e2e::tree_plan::SplitMix64;
use siding_e2e::{Sandbox, Terminal, eventually, eventually_some, processes, words};

use crate::support::{
    PROMPT_RETURN, Task, as_each_user, create_file, expect_prompt, listed_pids, sandbox, shell_on,
    wait_for_file_command,
};

/// siding's messages start on a new terminal line, even after output of the command that ends
/// without a newline.
#[test]
fn hand_over_message_starts_on_its_own_terminal_line() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let call = sandbox.siding(&["run", "--budget", "2s", "--", "printf 'sure? '; sleep 300"]);
    let done = call.on_terminal(&terminal).spawn().wait();
    assert_eq!(done.code, Some(75), "{done}");
    terminal.wait_for_text("siding: still running");
    let rows = terminal.screen();
    let prompt_row = rows.iter().position(|row| row.trim_end() == "sure?");
    let message_row = rows.iter().position(|row| row.starts_with("siding: still running"));
    assert_eq!(prompt_row.map(|row| row + 1), message_row, "{rows:?}");
    Task::only(&sandbox).stop(&["--grace", "0s"]);
}

/// The same holds for an agent, whose host reads both streams through one pipe or file.
#[test]
fn hand_over_message_starts_on_its_own_line_of_a_file() {
    let sandbox = sandbox();
    let terminal = Terminal::new(80, 24);
    let run = ["run", "--budget", "2s", "--", "printf 'sure? '; sleep 300"];
    let line = format!("{} > both 2>&1", sandbox.siding_line(&run));
    let call = shell_on(&sandbox, &terminal, &["-c", &line]).env("CLAUDECODE", "1");
    let _moved = call.spawn().wait().expect_code(75);
    let text = std::fs::read_to_string(sandbox.path("both")).expect("the shell creates it");
    assert!(text.starts_with("sure? \nsiding: still running"), "{text}");
    Task::only(&sandbox).stop(&["--grace", "0s"]);
}

/// Promise P14: for a person, the text of a hand-over is two lines that contain the id once.
#[test]
fn hand_over_message_for_a_person_is_two_lines() {
    let sandbox = sandbox();
    let mut terminal = Terminal::new(80, 24);
    let run = ["run", "--budget", "300ms", "--", "sleep 300"];
    let call = sandbox.siding(&run);
    assert_eq!(call.on_terminal(&terminal).run().code, Some(75));
    terminal.wait_for_text("(deadline in 30m)");
    let task = Task::only(&sandbox);
    let rows = terminal.screen();
    let rows: Vec<&str> = rows.iter().map(|row| row.trim()).filter(|row| !row.is_empty()).collect();
    let [state, commands] = rows[..] else { panic!("{rows:?}") };
    assert!(
        state.starts_with("siding: still running after ") && state.ends_with(", in the background"),
        "{state}"
    );
    let id = &task.id;
    let expected = format!("siding wait, output, extend or stop {id} (deadline in 30m)");
    assert_eq!(commands, expected);
    task.stop(&["--grace", "0s"]);
}

/// Promise P13, failures F5 and F18: the call returns when its budget has passed, the same process
/// continues, and its real exit code is recorded.
#[test]
fn command_continues_in_the_background_at_its_budget() {
    as_each_user(|sandbox| {
        let text = format!("echo $$; {}; echo $$; exit 7", wait_for_file_command("go"));
        let call = sandbox.siding(&["run", "--budget", "1s", "--", &text]);
        let done = call.run().expect_code(75);
        println!("budget 1s: returned after {:?}", done.elapsed);
        assert!(done.elapsed >= Duration::from_millis(950), "{done}");
        assert!(done.elapsed < PROMPT_RETURN, "{done}");
        let task = Task::only(&sandbox);
        eventually("the first line is stored", || task.output().ends_with('\n'));
        let first = task.output();
        assert!(
            first.starts_with(&done.stdout_text()),
            "the output before the hand-over is not shown: {done}"
        );
        assert_eq!(first.lines().count(), 1, "{first}");
        create_file(&sandbox, "go");
        assert_eq!(task.wait_outcome(), serde_json::json!({"kind": "exited", "code": 7}));
        assert_eq!(
            task.output(),
            first.repeat(2),
            "the command must run once, in the same process"
        );
        task.expect_stopped();
    });
}

/// Promise P14: output shown at a hand-over counts as read, so `siding output` continues after it.
#[test]
fn output_shown_before_hand_over_is_not_repeated() {
    let sandbox = sandbox();
    let text = format!(
        "echo one; {}; echo two; {}",
        wait_for_file_command("go"),
        wait_for_file_command("end")
    );
    let call = sandbox.siding(&["run", "--budget", "2s", "--", &text]);
    let shown = call.run().expect_code(75).stdout_text();
    let task = Task::only(&sandbox);
    let new = |bytes: usize| {
        eventually("it has written", || task.output().len() == bytes);
        sandbox.siding(&["output", &task.id]).run().expect_code(0).stdout_text()
    };
    assert_eq!(shown + &new(4), "one\n");
    create_file(&sandbox, "go");
    assert_eq!(new(8), "two\n");
    create_file(&sandbox, "end");
    assert_eq!(task.wait_outcome()["code"], 0);
}

/// The JSON of a hand-over contains the reason and the output so far.
#[test]
fn hand_over_json_has_its_reason_and_output() {
    let sandbox = sandbox();
    let text = format!("echo early; {}", wait_for_file_command("go"));
    let args = ["run", "--json", "--budget", "2s", "--", &text];
    let view = sandbox.siding(&args).run().expect_code(75).json();
    assert_eq!(view["phase"], "running");
    let placement = serde_json::json!({"kind": "background", "why": "budget"});
    assert_eq!(view["placement"], placement);
    assert!(view["outcome"].is_null() && view["leader_outcome"].is_null());
    assert_eq!(view["output"]["text"], "early\n");
    assert!(!listed_pids(&view).is_empty());
    create_file(&sandbox, "go");
    assert_eq!(Task::from_view(&sandbox, &view).wait_outcome()["code"], 0);
}

/// Promise P14: a hand-over shows the errors, the first lines and the last lines of the output in
/// at most 4 KiB. The answer for a finished command shows more.
#[test]
fn hand_over_shows_a_short_excerpt_of_long_output() {
    let sandbox = sandbox();
    let much =
        "echo begin; seq 1 9000; echo 'error: early'; seq 1 9000; printf '1%%\\r2%%\\r'; echo end";
    let text = format!("{much}; {}", wait_for_file_command("go"));
    let args = ["run", "--json", "--budget", "2s", "--", &text];
    let view = sandbox.siding(&args).run().expect_code(75).json();
    let shown = view["output"]["text"].as_str().expect("text");
    assert!(shown.len() <= 4096, "{}", shown.len());
    assert!(shown.starts_with("error: early\n"), "{shown}");
    assert!(shown.contains("\nbegin\n1\n2\n") && shown.ends_with("\n9000\nend\n"), "{shown}");
    assert_eq!(view["output"]["truncated"], true);
    create_file(&sandbox, "go");
    assert_eq!(Task::from_view(&sandbox, &view).wait_outcome()["code"], 0);
    let args = ["run", "--json", "--budget", "20s", "--", much];
    let finished = sandbox.siding(&args).run().expect_code(0).json();
    let shown_bytes = finished["output"]["text"].as_str().expect("text").len();
    assert!((16 << 10..=32 << 10).contains(&shown_bytes), "{shown_bytes}");
    let args = ["run", "--json", "--background", "--settle", "1s", "--", &text];
    let call = sandbox.siding(&args).env("SIDING_HANDOVER_MAX_BYTES", "1KiB");
    std::fs::remove_file(sandbox.path("go")).expect("test directory");
    let view = call.run().expect_code(0).json();
    assert!(view["output"]["text"].as_str().is_some_and(|text| text.len() <= 1024));
    create_file(&sandbox, "go");
    assert_eq!(Task::from_view(&sandbox, &view).wait_outcome()["code"], 0);
}

/// Failure F35: a command that ends within its budget stays in the foreground; a call without a
/// budget waits until the command ends.
#[test]
fn command_within_its_budget_stays_in_the_foreground() {
    let sandbox = sandbox();
    let args = ["run", "--json", "--budget", "20s", "--", "exit 4"];
    let done = expect_prompt("an end within the budget", sandbox.siding(&args).run());
    assert_eq!(done.expect_code(4).json()["placement"]["kind"], "foreground");

    let text = wait_for_file_command("go");
    let args = ["run", "--json", "--budget", "none", "--", &text];
    let call = sandbox.siding(&args).env("SIDING_BLOCKING_BUDGET", "100ms");
    let started = Instant::now();
    let running = call.spawn();
    eventually("four budgets have passed", || started.elapsed().as_millis() > 400);
    create_file(&sandbox, "go");
    let view = running.wait().expect_code(0).json();
    assert_eq!(view["placement"]["kind"], "foreground");
}

/// Failure F34: when the timeout is reached, a command continues or is stopped, as its caller
/// requested.
#[test]
fn timeout_stops_or_backgrounds_as_requested() {
    let sandbox = sandbox();
    let text = wait_for_file_command("go");
    let args = ["run", "--timeout", "300ms", "--on-timeout", "background", "--", &text];
    let _done = sandbox.siding(&args).run().expect_code(75);
    let placement = Task::only(&sandbox).show()["placement"].clone();
    assert_eq!(placement, serde_json::json!({ "kind": "background", "why": "timeout" }));
    create_file(&sandbox, "go");
    assert_eq!(Task::only(&sandbox).wait_outcome()["code"], 0);
    for flag in ["--timeout", "--budget"] {
        let args = ["run", flag, "1s", "--on-timeout", "stop", "--", "echo kept; sleep 60"];
        let done = sandbox.siding(&args).run().expect_code(124);
        assert!(done.stdout_text().starts_with("kept\n"), "earlier output must be kept: {done}");
        let advice = format!("a longer one is set with {flag}");
        assert!(done.stderr_text().contains(&advice), "{done}");
    }
}

/// Promise P35, failure F17: if a stop, the deadline and the hand-over happen within milliseconds,
/// there is one outcome, which all callers report.
#[test]
fn concurrent_stop_deadline_and_hand_over_give_one_outcome() {
    let sandbox = sandbox();
    let mut dice = SplitMix64(0x51d1);
    for round in 0..25 {
        let aim = 120 + dice.next_below(30);
        let spread = |dice: &mut SplitMix64| format!("{}ms", aim + dice.next_below(8));
        let (budget, deadline) = (spread(&mut dice), spread(&mut dice));
        let text = format!("trap 'exit 3' TERM; : {round}; sleep 60 & wait");
        let args = ["run", "--json", "--budget", &budget, "--timeout", &deadline, "--", &text];
        let started = Instant::now();
        let call = sandbox.siding(&args).spawn();
        let known = sandbox.task_ids();
        let mut seen = known.clone();
        eventually("the task exists", || {
            seen = sandbox.task_ids();
            seen.len() > round
        });
        let newest = seen.iter().find(|id| !known.contains(id));
        let stop_at = Duration::from_millis(aim + dice.next_below(8));
        std::thread::sleep(stop_at.saturating_sub(started.elapsed()));
        let stops = match newest {
            Some(id) => sandbox.siding(&["stop", "--json", id]),
            None => sandbox.siding(&["stop", "--json", "--all"]),
        };
        let _stopped = stops.run().expect_code(0);
        assert_call_matches_outcome(&sandbox, call.wait(), newest.cloned());
    }
    assert_eq!(sandbox.task_ids().len(), 25);
}

fn assert_call_matches_outcome(
    sandbox: &Sandbox,
    done: siding_e2e::ProgramOutput,
    newest: Option<String>,
) {
    let task = Task::from_view(sandbox, &done.json());
    assert!(newest.is_none_or(|id| id == task.id));
    let outcome = task.wait_outcome();
    let codes = match outcome["kind"].as_str() {
        // The signal may have been delivered before the shell had set its trap.
        Some("stopped") => [75, 3, 143],
        Some("deadline") => [75, 124, 124],
        _ => panic!("{outcome} of {done}"),
    };
    assert!(codes.contains(&done.code.expect("an exit")), "{outcome} of {done}");
    task.expect_one_end();
    assert_eq!(task.wait_outcome(), outcome, "the outcomes must be equal");
}

/// Output that was written before the caller subscribed is shown immediately, without waiting for
/// later output.
#[test]
fn output_before_subscription_is_shown_immediately() {
    let sandbox = sandbox();
    let line = sandbox.puppet_line(&words("--quiet say early mark said hang"));
    let call = sandbox.siding(&["run", "--budget", "none", "--", &line]).pause_at("running");
    let mut call = call.spawn();
    let _said = sandbox.wait_for_mark("said");
    let task = Task::only(&sandbox);
    let shim = eventually_some("its shim has stopped", || {
        let mut marked = processes::with_birthmark(&task.id).into_iter();
        marked.find(|process| processes::state(process.pid) == Some('T'))
    });
    let client = call.process().pid;
    eventually("the client waits", || processes::state(client) == Some('S'));
    shim.signal(Signal::CONT);
    let _shown = call.wait_for_stdout("early\n");
    let _view = task.stop(&[]);
}
