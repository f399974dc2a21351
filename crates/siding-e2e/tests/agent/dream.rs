//! `siding dream`, which rewrites a project's notes, and the delivery of these notes to agents.

use siding_e2e::{Sandbox, eventually, eventually_some, processes};

use super::terminal::{CTRL_D, TerminalSession};
use super::{agent_with_script, sandbox};

/// Runs a conversation of one turn and returns the id of its session.
#[track_caller]
fn finished_conversation(sandbox: &Sandbox) -> String {
    let script = "[[answer]]\ntext = \"It is built with ninja.\"\n";
    let done = agent_with_script(sandbox, script, &["-p", "how is it built?", "--json"])
        .run()
        .expect_code(0);
    done.json()["session_id"].as_str().expect("an id").to_owned()
}

/// Prepares `siding dream` with a model that answers from a script.
#[track_caller]
fn dream_call(
    sandbox: &Sandbox,
    session: &str,
    script: &str,
    args: &[&str],
) -> siding_e2e::Invocation {
    let file = sandbox.path("dream.toml");
    std::fs::write(&file, script).expect("test file");
    let call = [&["dream", "--session", session, "--model", "script:dream.toml"], args].concat();
    sandbox.siding(&call)
}

fn read_notes(sandbox: &Sandbox) -> Option<String> {
    std::fs::read_to_string(sandbox.path(".siding/memory.md")).ok()
}

const WRITE_NOTES_SCRIPT: &str = r#"
    [[answer]]
    expect = '(?s)no notes yet.*user: how is it built\?.*agent: It is built with ninja'
    [[answer.call]]
    tool = "rewrite_notes"
    input = { content = "- built with ninja\n" }
"#;

#[test]
fn dream_writes_notes_that_the_next_one_receives() {
    let sandbox = sandbox();
    let session = finished_conversation(&sandbox);
    let would =
        dream_call(&sandbox, &session, WRITE_NOTES_SCRIPT, &["--dry-run"]).run().expect_code(0);
    assert!(would.stdout_text().starts_with("would change `.siding/memory.md`\n@@"), "{would}");
    assert_eq!(read_notes(&sandbox), None);
    let done =
        dream_call(&sandbox, &session, WRITE_NOTES_SCRIPT, &["--json"]).run().expect_code(0).json();
    assert_eq!(done["kind"], "dream", "{done}");
    let text = done["output"]["text"].as_str().expect("a text");
    assert!(text.contains("\n+- built with ninja\n"), "{text}");
    assert_eq!(read_notes(&sandbox).as_deref(), Some("- built with ninja\n"));
    let again =
        "[[answer]]\nexpect = '<notes>\\n- built with ninja\\n</notes>'\ntext = \"Fine.\"\n";
    let same = dream_call(&sandbox, &session, again, &[]).run().expect_code(0);
    assert!(same.stdout_text().starts_with("nothing to change: Fine.\n"), "{same}");
}

/// The conversation of an ended session can be read, but the session cannot own the task, even if
/// `SIDING_SESSION` still names it.
#[test]
fn dream_of_an_ended_session_belongs_to_the_implicit_session() {
    let sandbox = sandbox();
    let session = finished_conversation(&sandbox);
    let args = ["--background", "--json"];
    let started = dream_call(&sandbox, &session, WRITE_NOTES_SCRIPT, &args)
        .env("SIDING_SESSION", &session)
        .run()
        .expect_code(0)
        .json();
    assert_eq!(started["session_id"], "cli", "{started}");
    let id = started["task_id"].as_str().expect("an id");
    let _ended = sandbox.siding(&["wait", id]).run().expect_code(0);
    assert_eq!(read_notes(&sandbox).as_deref(), Some("- built with ninja\n"));
}

/// A dream that is stopped during its request leaves the notes unchanged and creates no second
/// file.
#[test]
fn stopped_dream_leaves_the_notes_unchanged() {
    let sandbox = sandbox();
    let session = finished_conversation(&sandbox);
    std::fs::create_dir_all(sandbox.path(".siding")).expect("test path");
    std::fs::write(sandbox.path(".siding/memory.md"), "- mine\n").expect("test file");
    let slow = "[[answer]]\ndelay_ms = 60000\ntext = \"zzz\"\n";
    let started = dream_call(&sandbox, &session, slow, &["--background", "--json"]).run();
    let started = started.expect_code(0).json();
    let id = started["task_id"].as_str().expect("an id").to_owned();
    assert!(id.starts_with("d-"), "{id}");
    // The task has no name, so the list shows its command as a user types it, without siding's full
    // path.
    let listed = sandbox.siding(&["ps"]).run().expect_code(0);
    assert!(listed.stdout_text().contains("  siding dream"), "{listed}");
    let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
    eventually("all its processes have exited", || processes::with_birthmark(&id).is_empty());
    assert_eq!(read_notes(&sandbox).as_deref(), Some("- mine\n"));
    let remaining = std::fs::read_dir(sandbox.path(".siding")).expect("the entry exists").flatten();
    let remaining: Vec<_> = remaining.map(|entry| entry.file_name()).collect();
    assert_eq!(remaining, ["memory.md"]);
}

/// A dream ends at its deadline like every task.
#[test]
fn dream_ends_at_its_deadline() {
    let sandbox = sandbox();
    let session = finished_conversation(&sandbox);
    let slow = "[[answer]]\ndelay_ms = 60000\ntext = \"zzz\"\n";
    let _over =
        dream_call(&sandbox, &session, slow, &["--timeout", "500ms"]).run().expect_code(124);
    assert_eq!(read_notes(&sandbox), None);
}

/// A dream that is started during a turn of the conversation fails and affects neither the turn nor
/// the notes.
#[test]
fn dream_during_a_turn_is_refused() {
    let sandbox = sandbox();
    let script = r#"
        [[answer]]
        [[answer.call]]
        tool = "bash"
        input = { command = "echo $SIDING_SESSION > session; until [ -e go ]; do sleep .02; done", budget = 60 }
        [[answer]]
        text = "done"
    "#;
    let working = agent_with_script(&sandbox, script, &["-p", "work"]).spawn();
    let session = siding_e2e::eventually_some("the agent works", || {
        let text = std::fs::read_to_string(sandbox.path("session")).ok()?;
        text.ends_with('\n').then(|| text.trim().to_owned())
    });
    let busy = dream_call(&sandbox, &session, WRITE_NOTES_SCRIPT, &[]).run().expect_code(1);
    let output = format!("{}{}", busy.stdout_text(), busy.stderr_text());
    assert!(output.contains("is in progress; the notes were not changed"), "{busy}");
    std::fs::write(sandbox.path("go"), "").expect("test file");
    let _done = working.wait().expect_code(0);
    assert_eq!(read_notes(&sandbox), None);
}

#[test]
fn dream_usage_errors_name_the_fix() {
    let sandbox = sandbox();
    let none = sandbox.siding(&["dream", "--model", "script:x"]).run().expect_code(125);
    assert!(none.stderr_text().contains("--session ID"), "{none}");
    let gone = dream_call(&sandbox, "nowhere", WRITE_NOTES_SCRIPT, &[]).run().expect_code(125);
    assert!(gone.stderr_text().contains("no conversation `nowhere`"), "{gone}");
    let session = finished_conversation(&sandbox);
    let model = sandbox.siding(&["dream", "--session", &session]).run().expect_code(125);
    assert!(model.stderr_text().contains("--model"), "{model}");
    assert!(sandbox.task_ids().is_empty());
}

/// Starts an agent that dreams after a second of idle time, and runs a first turn with enough
/// entries for an automatic dream. `dream` is the script of the dream; `next` is appended to the
/// agent's script.
fn start_idle_session(sandbox: &Sandbox, dream: &str, next: &str) -> TerminalSession {
    std::fs::write(sandbox.path("dream.toml"), dream).expect("test file");
    let call = "[[answer.call]]\ntool = \"bash\"\ninput = { command = \"true\" }\n".repeat(6);
    let script = format!("[[answer]]\n{call}[[answer]]\ntext = \"I have looked.\"\n{next}");
    let talk = agent_with_script(sandbox, &script, &[])
        .env("SIDING_DREAM_AFTER", "1s")
        .env("SIDING_SMALL_MODEL", "script:dream.toml")
        .env("SIDING_SESSION_GRACE", "100ms");
    let mut talk = TerminalSession::spawn_on_terminal(talk);
    talk.type_line("look around");
    talk.terminal.wait_for_text("I have looked.");
    talk
}

fn dream_task_ids(sandbox: &Sandbox) -> Vec<String> {
    let mut ids = sandbox.task_ids();
    ids.retain(|id| id.starts_with("d-"));
    ids
}

/// Waits for the end of a task and returns its outcome.
#[track_caller]
fn ended_outcome(sandbox: &Sandbox, id: &str) -> serde_json::Value {
    eventually_some("the task has ended", || {
        let view = sandbox.siding(&["show", id, "--json"]).run().expect_code(0).json();
        Some(view["outcome"].clone()).filter(|outcome| !outcome.is_null())
    })
}

#[test]
fn idle_agent_dreams_once_and_the_end_does_not_wake_it() {
    let sandbox = sandbox();
    let note = r#"
        [[answer]]
        expect = '(?s)no notes yet.*user: look around.*agent: I have looked'
        [[answer.call]]
        tool = "rewrite_notes"
        input = { content = "- looked at\n" }
    "#;
    let next =
        "[[answer]]\nexpect = '(?s)<task_notification>.*d-.*what now$'\ntext = \"Nothing.\"\n";
    let mut talk = start_idle_session(&sandbox, note, next);
    eventually("there are notes", || read_notes(&sandbox).as_deref() == Some("- looked at\n"));
    let [id] = &dream_task_ids(&sandbox)[..] else { panic!("{:?}", dream_task_ids(&sandbox)) };
    eventually("the task has ended", || processes::with_birthmark(id).is_empty());
    // This pause is longer than the idle time after which a second dream would start.
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert_eq!(
        dream_task_ids(&sandbox).len(),
        1,
        "without new messages there must be no second dream"
    );
    talk.type_line("what now");
    talk.terminal.wait_for_text("Nothing.");
    talk.terminal.wait_for_row("ready");
    talk.terminal.send_keys(CTRL_D);
    let _shown = talk.expect_exit(0);
}

/// The agent stops the dream, unless the dream detects the turn first and ends by itself.
#[test]
fn next_turn_ends_a_running_dream() {
    let sandbox = sandbox();
    let slow = "[[answer]]\ndelay_ms = 60000\ntext = \"zzz\"\n";
    let next = "[[answer]]\ntext = \"I am awake.\"\n";
    let mut talk = start_idle_session(&sandbox, slow, next);
    let id = eventually_some("a dream task exists", || dream_task_ids(&sandbox).pop());
    eventually("the dream's shim runs", || !processes::with_birthmark(&id).is_empty());
    talk.type_line("what now");
    talk.terminal.wait_for_text("I am awake.");
    let outcome = ended_outcome(&sandbox, &id);
    if outcome["kind"] != "stopped" {
        assert_eq!(outcome, serde_json::json!({ "kind": "exited", "code": 1 }));
        let output = sandbox.siding(&["output", &id]).run().expect_code(0);
        assert!(output.stdout_text().contains("is in progress"), "{output}");
    } else {
        assert_eq!(outcome["by"], "agent", "{outcome}");
    }
    assert_eq!(read_notes(&sandbox), None);
    talk.terminal.wait_for_row("ready");
    talk.terminal.send_keys(CTRL_D);
    let _shown = talk.expect_exit(0);
}

/// When the agent is killed, its automatic dream ends with the session, and the notes stay
/// unchanged.
#[test]
fn dream_ends_when_its_agent_is_killed() {
    let sandbox = sandbox();
    let talk = start_idle_session(&sandbox, "[[answer]]\ndelay_ms = 60000\ntext = \"zzz\"\n", "");
    let id = eventually_some("a dream task exists", || dream_task_ids(&sandbox).pop());
    eventually("the dream's shim runs", || !processes::with_birthmark(&id).is_empty());
    talk.kill();
    let outcome = ended_outcome(&sandbox, &id);
    assert_eq!(outcome, serde_json::json!({ "kind": "stopped", "by": "session" }));
    eventually("nothing of it is left", || processes::with_birthmark(&id).is_empty());
    assert_eq!(read_notes(&sandbox), None);
}

/// When the client that waits for a dream is killed, the dream continues and writes the notes.
#[test]
fn dream_continues_when_its_waiting_client_is_killed() {
    let sandbox = sandbox();
    let session = finished_conversation(&sandbox);
    let slow = WRITE_NOTES_SCRIPT.replacen("[[answer]]", "[[answer]]\ndelay_ms = 1000", 1);
    let waiting = dream_call(&sandbox, &session, &slow, &[]).spawn();
    let id = eventually_some("a dream task exists", || dream_task_ids(&sandbox).pop());
    // The previous line waits for the task's directory, which exists before a shim supervises the
    // task.
    eventually("the dream's shim runs", || !processes::with_birthmark(&id).is_empty());
    drop(waiting);
    let _over = sandbox.siding(&["wait", &id, "--timeout", "60s"]).run().expect_code(0);
    assert_eq!(read_notes(&sandbox).as_deref(), Some("- built with ninja\n"));
}

/// An agent starts dreams only if `SIDING_DREAM_AFTER` is set, because each dream costs model
/// requests. An invalid value of the variable is reported when the agent starts.
#[test]
fn dream_needs_an_explicit_setting() {
    let sandbox = sandbox();
    let mut terminal = siding_e2e::Terminal::new(80, 24);
    let answer = "[[answer]]\ntext = \"x\"\n";
    let wrong = agent_with_script(&sandbox, answer, &[])
        .env("SIDING_DREAM_AFTER", "soon")
        .on_terminal(&terminal);
    let wrong = wrong.spawn().wait();
    assert_eq!(wrong.code, Some(125), "{wrong}");
    terminal.wait_for_text("SIDING_DREAM_AFTER: ");
    // With `-p` the agent is never idle, so it ignores the variable.
    let done = agent_with_script(&sandbox, answer, &["-p", "x"]);
    let _done = done.env("SIDING_DREAM_AFTER", "soon").run().expect_code(0);
    assert!(sandbox.task_ids().is_empty());
}
