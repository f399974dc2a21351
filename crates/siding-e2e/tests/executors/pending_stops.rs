//! A stop of a task whose machine is not reachable.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;
use siding_e2e::{Terminal, eventually, eventually_some};
use siding_model::process::{MonotonicMs, UnixMs};
use siding_model::remote::{REMOTE_PROTOCOL, RemoteMessage};

use crate::fake_ssh::FakeSsh;
use crate::local_tasks::task_id;
use crate::{create_file, sandbox, wait_for_file_command};

/// Returns a shell text that prints a message of the remote machine.
pub(crate) fn print_command(message: &RemoteMessage) -> String {
    let line = serde_json::to_string(message).expect("a message is JSON");
    format!("printf '%s\\n' '{line}'")
}

pub(crate) fn hello() -> String {
    print_command(&RemoteMessage::Hello {
        protocol: REMOTE_PROTOCOL,
        version: "0.1.0".to_owned(),
        machine: "there".to_owned(),
        now: MonotonicMs(1),
        wall: UnixMs(1),
    })
}

/// Returns the script of a machine that receives each task, adds a line to `received`, and sends no
/// answer. When the test creates `gate`, the connection breaks.
fn silent_machine(received: &Path, gate: &Path) -> String {
    let received = received.display();
    let wait = wait_for_file_command(gate);
    format!("{}; read -r _; echo >> {received}; {wait}; exit 255", hello())
}

/// Lets the machine refuse the tasks that it receives from now on.
fn refuse_tasks(fake: &FakeSsh<'_>) {
    let refused = print_command(&RemoteMessage::Refused { why: "no space".to_owned() });
    fake.replace(&format!("{}; read -r _; {refused}", hello()));
}

/// The connection breaks after the task was sent and before the answer.
#[test]
fn a_stop_of_an_unreachable_task_is_recorded_and_not_a_failure() {
    let sandbox = sandbox();
    let fake = FakeSsh::new(&sandbox, &format!("{}; read -r _; exit 255", hello()));
    let run = fake.siding(&["run", "--background", "--json", "--on", "build", "--", "true"]);
    let id = task_id(&run.run().expect_code(0));
    let show = || sandbox.siding(&["show", "--json", &id]).run().expect_code(0).json();
    eventually("the machine is unreachable", || show()["unreachable"].is_object());

    let done = sandbox.siding(&["stop", &id]).run().expect_code(75);
    let text = done.stdout_text();
    // The text is wrapped.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [&*id, "not stopped yet", "build is not reachable", "the stop is recorded"] {
        assert!(text.contains(part), "no {part}: {done}");
    }
    assert_eq!(done.stderr_text(), "", "{done}");
    let done = sandbox.siding(&["stop", "--json", &id]).run().expect_code(75);
    assert_eq!(done.json()["unreachable"]["stop_pending"], true, "{done}");
    assert!(done.stderr_text().contains("the stop is recorded"), "{done}");
    // A failure of another task decides the exit code.
    let done = sandbox.siding(&["stop", &id, "b-none"]).run().expect_code(125);
    assert!(done.stdout_text().contains("not stopped yet"), "{done}");

    refuse_tasks(&fake);
    let outcome = eventually_some("the machine has answered", || {
        let view = show();
        view["outcome"].is_object().then(|| view["outcome"].clone())
    });
    assert_eq!(outcome["kind"], json!("failed_to_start"), "{outcome}");
}

/// Longer than a call may take, and shorter than the time after which ssh gives up.
const PROMPT: Duration = Duration::from_secs(15);

/// The machine accepts the connection and sends nothing.
#[test]
fn a_machine_that_hangs_delays_neither_a_call_nor_its_stop() {
    let sandbox = sandbox();
    let fake = FakeSsh::new(&sandbox, "exec sleep 60");
    let show = |id: &str| sandbox.siding(&["show", "--json", id]).run().expect_code(0).json();
    let began = Instant::now();
    for (option, code) in [("--background", 0), ("--budget=1200ms", 75)] {
        let run = fake.siding(&["run", option, "--json", "--on", "build", "--", "true"]);
        let id = task_id(&run.run().expect_code(code));
        let view = show(&id);
        assert_eq!(view["phase"], "starting", "{view}");
        assert_eq!(view["placement"]["kind"], "background", "{view}");
        let list = sandbox.siding(&["ps"]).run().expect_code(0);
        assert!(list.stdout_text().contains("connecting"), "{list}");

        let _stopped = sandbox.siding(&["stop", &id]).run().expect_code(0);
        assert_eq!(show(&id)["outcome"]["kind"], "stopped");
    }
    assert!(began.elapsed() < PROMPT, "{:?}", began.elapsed());
}

/// The task was sent, and the machine does not answer, so the task may run there.
#[test]
fn a_stop_of_a_task_that_was_sent_waits_only_a_moment_for_the_answer() {
    let sandbox = sandbox();
    let gate = sandbox.path("gate");
    let script = format!("{}; {}; exit 255", hello(), wait_for_file_command(&gate));
    let fake = FakeSsh::new(&sandbox, &script);
    let run = fake.siding(&["run", "--background", "--json", "--on", "build", "--", "true"]);
    let id = task_id(&run.run().expect_code(0));
    let began = Instant::now();
    let done = sandbox.siding(&["stop", &id]).run().expect_code(75);
    assert!(began.elapsed() < PROMPT, "{:?}", began.elapsed());
    let text = done.stdout_text();
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("build has not answered yet; the stop is recorded"), "{done}");

    refuse_tasks(&fake);
    create_file(&gate);
    eventually("the machine has answered", || {
        let view = sandbox.siding(&["show", "--json", &id]).run().expect_code(0).json();
        view["outcome"]["kind"] == "failed_to_start"
    });
}

/// The first Ctrl-C requests the stop and says that it is not confirmed, and the second one returns.
#[test]
fn a_second_ctrl_c_ends_the_call_of_a_task_whose_machine_does_not_answer() {
    let sandbox = sandbox();
    let (gate, sent) = (sandbox.path("gate"), sandbox.path("sent"));
    let fake = FakeSsh::new(&sandbox, &silent_machine(&sent, &gate));
    let mut terminal = Terminal::new(80, 24);
    let call = fake.siding(&["run", "--on", "build", "--", "true"]);
    let call = call.on_terminal(&terminal).spawn();
    eventually("the task is sent", || sent.exists());
    // The terminal controls no session, so Ctrl-C is sent as its signal.
    call.signal(Signal::INT);
    terminal.wait_for_text("is not stopped yet");
    call.signal(Signal::INT);
    let _interrupted = call.wait();
    let [id] = &sandbox.task_ids()[..] else { panic!("expected one task") };
    let show = || sandbox.siding(&["show", "--json", id]).run().expect_code(0).json();
    assert!(show()["outcome"].is_null(), "only the machine knows whether it runs");

    refuse_tasks(&fake);
    create_file(&gate);
    eventually("the machine has answered", || show()["outcome"]["kind"] == "failed_to_start");
}

/// The workflow is stopped while the machines of two steps do not answer.
#[test]
fn a_stopped_workflow_requests_all_stops_and_ends_without_the_steps_that_do_not_confirm_theirs() {
    let sandbox = sandbox();
    let (gate, sent) = (sandbox.path("gate"), sandbox.path("sent"));
    let fake = FakeSsh::new(&sandbox, &silent_machine(&sent, &gate));
    let file = sandbox.path("flow.toml");
    let step = |id: &str| format!("[[step]]\nid = \"{id}\"\non = \"build\"\nrun = \"{id}\"\n");
    std::fs::write(&file, step("a") + &step("b")).expect("test directory");
    let file = file.display().to_string();
    let run = fake.siding(&["workflow", "run", "--background", "--json", &file]);
    let id = task_id(&run.run().expect_code(0));
    let count = || std::fs::read_to_string(&sent).unwrap_or_default().len();
    eventually("both steps are sent", || count() == 2);

    let began = Instant::now();
    let _pending = sandbox.siding(&["stop", &id]).run().expect_code(75);
    assert!(began.elapsed() < PROMPT, "{:?}", began.elapsed());
    let output = sandbox.siding(&["output", &id]).run().expect_code(0).stdout_text();
    assert_eq!(output.matches("not confirmed: build has not").count(), 2, "{output}");
    let show = || sandbox.siding(&["workflow", "show", "--json", &id]).run().expect_code(0).json();
    let view = show();
    assert_eq!(view["steps"][0]["state"], "running", "{view}");
    assert_eq!(view["steps"][1]["state"], "running", "{view}");

    refuse_tasks(&fake);
    create_file(&gate);
    eventually("the machine has answered", || {
        let steps = show()["steps"].clone();
        [0, 1].iter().all(|at| steps[*at]["state"] != "running")
    });
}
