//! The text and the JSON that `siding why` prints.

use siding_e2e::Sandbox;

use crate::support::{sandbox, start_task, stop_all, wait_for_verdict, why};

fn why_text(sandbox: &Sandbox, id: &str) -> String {
    sandbox.siding(&["why", id]).run().expect_code(0).stdout_text()
}

#[test]
fn why_shows_the_process_chain_the_last_line_and_advice() {
    let sandbox = sandbox();
    let text_of = "printf 'a\\nProceed? [Y/n] '; cat; true";
    let id = start_task(&sandbox, &["--stdin", "pipe"], "45s", text_of);
    let found = wait_for_verdict(&sandbox, &id, "input_wait");
    assert_eq!(found["task_id"], id.as_str());
    assert_eq!(found["tail"], "Proceed? [Y/n]");
    assert_eq!(found["waiting_on"], serde_json::Value::Null);
    let chain = found["chain"].as_array().expect("a wait chain");
    let calls: Vec<_> = chain.iter().map(|link| link["syscall"].as_str()).collect();
    assert_eq!(calls, [Some("wait4"), Some("read")], "{found:#}");
    assert_eq!(chain[0]["command"], text_of);
    assert_eq!(chain[1]["command"], "cat");
    let screen = why_text(&sandbox, &id);
    for part in [
        "waits for input (certain)",
        "| Proceed? [Y/n]",
        "the task's standard input",
        "siding input",
    ] {
        assert!(screen.contains(part), "no {part} in {screen}");
    }
    assert!(screen.lines().count() < 24 && screen.lines().all(|line| line.chars().count() <= 80));
    // `siding why` does not affect the task, which still accepts input.
    let _input = sandbox.siding(&["input", &id, "y", "--eof"]).run().expect_code(0);
    let _over = sandbox.siding(&["wait", &id]).run().expect_code(0);
}

/// A shell that has replaced itself with another program is no longer named: neither by the text of
/// the task, nor by the arguments with which the shell was started.
#[test]
fn why_and_show_name_the_program_that_the_leader_has_become() {
    let sandbox = sandbox();
    let start = |args: &[&str]| {
        let done = sandbox.siding(args).run().expect_code(0);
        done.json()["task_id"].as_str().expect("a task id").to_owned()
    };
    let head = ["run", "--background", "--json", "--"];
    let text = start(&[&head[..], &["echo begin; exec sleep 300"]].concat());
    let argv = start(&[&head[..], &["bash", "-c", "echo begin; exec sleep 301"]].concat());
    for (id, program) in [(&text, "sleep 300"), (&argv, "sleep 301")] {
        siding_e2e::eventually(&format!("`{program}` is the leader of {id}"), || {
            let shown = sandbox.siding(&["show", "--json", id]).run().expect_code(0).json();
            let found = why(&sandbox, id);
            shown["processes"][0]["command"] == program && found["chain"][0]["command"] == program
        });
    }
    stop_all(&sandbox);
}

/// `siding why` shows a lock together with its holder and file, a full pipe with its reader, and a
/// socket with its remote address.
#[test]
fn why_names_the_process_or_peer_that_is_waited_for() {
    let sandbox = sandbox();
    let assert_named = |text: &str, on: &str, parts: &[&str]| {
        let id = start_task(&sandbox, &[], "45s", text);
        siding_e2e::eventually(&format!("`{text}` waits on {on}, described by {parts:?}"), || {
            let found = why(&sandbox, &id);
            let Some(last) = found["chain"].as_array().and_then(|chain| chain.last()) else {
                return false;
            };
            let explained = format!("{} {}", last["object"], last["detail"]);
            println!("{explained}");
            found["waiting_on"] == on && parts.iter().all(|part| explained.contains(part))
        });
    };
    // The second `flock` starts only when the first one has the lock.
    let lock = "flock lock sleep 300 & while flock -n lock true; do sleep .02; done; \
                flock lock true";
    assert_named(lock, "lock", &["/lock", "flock lock sleep 300"]);
    let shared = "(exec 9>shared; flock 9; exec sleep 302) & \
                  while flock -n shared true; do sleep .02; done; flock shared true";
    assert_named(shared, "lock", &["/shared", "sleep 302"]);
    assert_named("yes | sleep 301", "pipe", &["full; its reader is", "sleep 301"]);
    assert_named("mkfifo fifo; cat fifo", "fifo", &["fifo"]);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("a local address");
    let text = format!("exec 7<>/dev/tcp/127.0.0.1/{}; cat <&7", address.port());
    assert_named(&text, "network", &[&address.to_string()]);
    stop_all(&sandbox);
}

/// For `cat | sleep`, the verdict is about `sleep`, and the chain also names `cat`, which reads the
/// input.
#[test]
fn why_names_a_pipeline_reader_next_to_the_working_process() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--stdin", "pipe"], "45s", "cat | sleep 300");
    siding_e2e::eventually("the chain names all three", || {
        let found = wait_for_verdict(&sandbox, &id, "waiting");
        let links = found["chain"].as_array().expect("a wait chain").iter();
        let commands: Vec<_> =
            links.map(|link| link["command"].as_str().unwrap_or_default()).collect();
        found["waiting_on"] == "timer" && commands == ["cat | sleep 300", "sleep 300", "cat"]
    });
    stop_all(&sandbox);
}

/// Neither the output nor the arguments of a task can add a line to the text of `siding why`.
#[test]
fn control_characters_cannot_forge_lines_of_why() {
    let sandbox = sandbox();
    let forged =
        r"printf 'x\r\033[2J\nnext  all is well\033[1A? '; exec -a $'evil\nnext  forged' sleep 300";
    let id = start_task(&sandbox, &[], "45s", forged);
    let _found = wait_for_verdict(&sandbox, &id, "waiting");
    let screen = why_text(&sandbox, &id);
    assert!(!screen.contains('\x1b') && !screen.contains('\r'), "{screen:?}");
    assert_eq!(screen.lines().filter(|line| line.starts_with("next")).count(), 1, "{screen}");
    stop_all(&sandbox);
}

#[test]
fn why_shows_how_an_ended_task_ended() {
    let sandbox = sandbox();
    let args = ["run", "--json", "--", "echo the last line; exit 7"];
    let done = sandbox.siding(&args).run().expect_code(7).json();
    let id = done["task_id"].as_str().expect("a task id");
    let screen = why_text(&sandbox, id);
    for part in ["has ended: exited 7 after ", "| the last line", "siding output"] {
        assert!(screen.contains(part), "no {part} in {screen}");
    }
    let view = why(&sandbox, id);
    assert_eq!((&view["verdict"], &view["certainty"]), (&"unknown".into(), &"none".into()));
    assert_eq!((&view["tail"], &view["chain"]), (&"the last line".into(), &serde_json::json!([])));
    assert_eq!(view["advice"], "It has ended: exited 7.");
    let _unknown = sandbox.siding(&["why", "b-0000"]).run().expect_code(125);
}

/// A shim answers forty concurrent requests of `siding why`.
#[test]
fn concurrent_why_requests_are_all_answered() {
    let sandbox = sandbox();
    let id = start_task(&sandbox, &["--stdin", "pipe"], "45s", "cat");
    let calls: Vec<_> = (0..40).map(|_| sandbox.siding(&["why", "--json", &id]).spawn()).collect();
    for call in calls {
        assert_eq!(call.wait().expect_code(0).json()["task_id"], id.as_str());
    }
    stop_all(&sandbox);
}

/// The JSON of `siding why` has every field that the published schema requires.
#[test]
fn why_json_has_every_field_that_the_schema_requires() {
    let schema = siding_e2e::output_schema("why");
    let sandbox = sandbox();
    let id = start_task(&sandbox, &[], "45s", "sleep 300");
    let found = why(&sandbox, &id);
    let required = schema["required"].as_array().expect("a list");
    for name in required.iter().filter_map(serde_json::Value::as_str) {
        assert!(found.get(name).is_some(), "no {name} in {found:#}");
    }
    stop_all(&sandbox);
}
