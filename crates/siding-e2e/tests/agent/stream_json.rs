//! `--output-format stream-json`: the agent prints its actions as one JSON object per line.

use serde_json::{Value, json};
use siding_e2e::{Sandbox, eventually, output_schema};

use super::{agent_with_script, sandbox, wait_for_session};
use crate::validator::Schema;

/// Parses one JSON object per line and asserts that each matches the schema `agent_stream`.
#[track_caller]
fn parse_valid_lines(text: &str) -> Vec<Value> {
    let schema = Schema::new(&output_schema("agent_stream"));
    let read = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("a line is JSON");
        schema.assert_valid(&line);
        line
    };
    text.lines().map(read).collect()
}

fn line_types(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["type"].as_str().expect("a type")).collect()
}

/// A script with a call that fails, and with a background command whose end wakes the model. The
/// second answer is slow enough for a label to arrive first.
const SCRIPT: &str = r#"
    [[answer]]
    text = "I begin."
    [[answer.call]]
    tool = "bash"
    input = { command = "cat gate && echo made", run_in_background = true }
    [[answer.call]]
    tool = "read_file"
    input = { path = "missing" }
    [[answer]]
    delay_ms = 1500
    text = "I end my turn."
    usage = { input = 12, output = 3 }
    [[answer]]
    expect = '(?s)^<task_notification>'
    text = "It is made."
"#;

#[test]
fn every_event_is_one_line_valid_by_the_schema() {
    let sandbox = sandbox();
    let gate = sandbox.path("gate");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &gate, fifo, mode, 0).expect("test directory");
    let labels = sandbox.path("labels.toml");
    std::fs::write(&labels, "[[answer]]\ntext = \"Began a build\"\n").expect("test file");
    let small = format!("script:{}", labels.display());
    let args = ["-p", "make it", "--output-format", "stream-json", "--small-model", &small];
    let mut running = agent_with_script(&sandbox, SCRIPT, &args).spawn();
    eventually("the model has ended its turn", || running.stdout_text().contains("I end my turn."));
    std::fs::write(&gate, "").expect("test file");
    let done = running.wait().expect_code(0);
    assert_eq!(done.stderr_text(), "", "stderr must be empty");
    let lines = parse_valid_lines(&done.stdout_text());
    let kinds = line_types(&lines);
    assert_eq!((kinds[0], kinds[1], *kinds.last().expect("lines")), ("begin", "prompt", "end"));
    let find =
        |kind: &str| -> Vec<&Value> { lines.iter().filter(|line| line["type"] == kind).collect() };
    let calls = find("call");
    assert_eq!(
        (&calls[0]["tool"], &calls[1]["input"]),
        (&json!("bash"), &json!({ "path": "missing" }))
    );
    for call in &calls {
        let results = find("result").into_iter().filter(|one| one["call_id"] == call["call_id"]);
        let failed: Vec<_> = results.map(|result| &result["is_error"]).collect();
        assert_eq!(failed, [&json!(call["tool"] == "read_file")], "expected one result per call");
    }
    let [label] = find("label")[..] else { panic!("expected exactly one label: {kinds:?}") };
    let ids: Vec<_> = calls.iter().map(|call| call["call_id"].clone()).collect();
    assert_eq!((&label["text"], &label["calls"]), (&json!("Began a build"), &json!(ids)));
    let [notice] = find("notice")[..] else { panic!("expected exactly one notice: {kinds:?}") };
    assert!(notice["text"].as_str().is_some_and(|text| text.contains("completed")), "{notice}");
    assert!(find("usage").iter().any(|usage| usage["input"] == 12), "{kinds:?}");
    let end = lines.last().expect("lines");
    assert_eq!((&end["end"]["kind"], &end["text"]), (&json!("done"), &json!("It is made.")));
    assert_eq!(end["labels"], json!([{ "text": "Began a build", "calls": ids }]));
    assert_eq!(end["session_id"], lines[0]["session_id"]);
}

#[test]
fn killed_agent_leaves_only_complete_lines() {
    let sandbox = Sandbox::new();
    let content = format!("{}\\n", "x".repeat(60)).repeat(500);
    let script = format!(
        "[[answer]]\ntext = \"I write.\"\n[[answer.call]]\ntool = \"write_file\"\n\
         input = {{ path = \"much\", content = \"{content}\" }}\n\
         [[answer]]\n[[answer.call]]\ntool = \"bash\"\ninput = {{ command = \"sleep 300\" }}\n"
    );
    let args = ["-p", "go", "--output-format", "stream-json"];
    let mut running = agent_with_script(&sandbox, &script, &args).spawn();
    let session = wait_for_session(&sandbox);
    eventually("the agent waits for a command", || running.stdout_text().contains("sleep 300"));
    running.process().kill();
    let out = running.wait().stdout_text();
    assert!(out.ends_with('\n'), "a line was cut: {out}");
    let lines = parse_valid_lines(&out);
    assert_eq!(lines[0]["session_id"], session);
    assert!(!line_types(&lines).contains(&"end"), "{lines:?}");
    let call = lines.iter().find(|line| line["tool"] == "write_file").expect("a running call");
    assert!(call["input"]["content"].as_str().is_some_and(|text| text.len() > 30_000));
}

/// A slow reader never receives a part of a line, even if the agent is killed, because the agent
/// writes a line only when the pipe has room for the whole line.
#[test]
fn killed_agent_leaves_complete_lines_to_a_slow_reader() {
    let sandbox = Sandbox::new();
    let answer = format!(
        "[[answer]]\ntext = \"{}\"\n[[answer.call]]\ntool = \"list_tasks\"\n",
        "x".repeat(30_000)
    );
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let args = ["-p", "go", "--output-format", "stream-json"];
    let running = agent_with_script(&sandbox, &answer.repeat(60), &args).stdout_to(writer).spawn();
    let buffered_bytes = || rustix::io::ioctl_fionread(&reader).expect("the test's pipe");
    eventually("there is no room for another line", || buffered_bytes() > 450_000);
    running.process().kill();
    let _killed = running.wait();
    let mut out = String::new();
    std::io::Read::read_to_string(&mut reader, &mut out).expect("the test's pipe");
    assert!(out.ends_with('\n'), "a line was cut after {} bytes", out.len());
    assert!(parse_valid_lines(&out).len() > 30);
}

#[test]
fn failed_agent_reports_the_error_in_its_last_line() {
    let sandbox = sandbox();
    let script = "[[answer]]\nerror = { status = 401, message = \"no such key\" }\n";
    let args = ["-p", "go", "--output-format", "stream-json"];
    let done = agent_with_script(&sandbox, script, &args).run().expect_code(1);
    let lines = parse_valid_lines(&done.stdout_text());
    let end = lines.last().expect("lines");
    assert_eq!((&end["type"], &end["end"]["kind"]), (&json!("end"), &json!("failed")));
    assert!(end["end"]["why"].as_str().is_some_and(|why| why.contains("no such key")), "{end}");
    let both =
        agent_with_script(&sandbox, script, &["-p", "go", "--json", "--output-format", "json"])
            .run();
    assert!(both.stderr_text().contains("--output-format"), "{both}");
}
