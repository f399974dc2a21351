//! `siding agent` with a scripted model and real commands.

mod activity_labels;
mod approval;
mod crash;
mod dream;
mod headless;
mod messages_api;
mod model_messages;
mod model_setting;
mod provider_failures;
mod remote_agents;
mod stream_json;
mod subagents;
mod task_kinds;
mod teammate_messages;
mod teammates;
mod terminal;
mod tutorial_prompts;
mod usage_errors;
#[path = "../output/schema/validator.rs"]
mod validator;

use siding_e2e::{Invocation, Sandbox, eventually_some};

/// Returns a sandbox whose test must end all processes.
fn sandbox() -> Sandbox {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    sandbox
}

/// Prepares `siding agent` with a model that answers from a script.
fn agent_with_script(sandbox: &Sandbox, script: &str, args: &[&str]) -> Invocation {
    let file = sandbox.path("script.toml");
    std::fs::write(&file, script).expect("test file");
    let model = format!("script:{}", file.display());
    sandbox.siding(&[&["agent", "--model", &model], args].concat())
}

/// Returns the entries of a session's transcript, in order.
fn transcript(sandbox: &Sandbox, session: &str) -> Vec<serde_json::Value> {
    let path = sandbox.state_dir().join("sessions").join(session).join("transcript.jsonl");
    let text = std::fs::read_to_string(path).expect("the transcript exists");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn entries_of_kind<'t>(
    transcript: &'t [serde_json::Value],
    kind: &str,
) -> Vec<&'t serde_json::Value> {
    transcript.iter().filter(|line| line["entry"] == kind).collect()
}

/// Returns a shell text that waits until an agent has said `text`. The transcript of the model that
/// runs it contains the shell text too, so the last letter of the searched text is in brackets.
fn wait_until_said_command(sandbox: &Sandbox, text: &str) -> String {
    let (begin, last) = text.split_at(text.len() - 1);
    let sessions = sandbox.state_dir().join("sessions");
    let is_said = format!("grep -rqs '{begin}[{last}]' {}", sessions.display());
    format!("for n in $(seq 1200); do {is_said} && break; sleep 0.05; done")
}

/// Waits until an agent has started a conversation, and returns the name of its session.
fn wait_for_session(sandbox: &Sandbox) -> String {
    eventually_some("a session exists", || {
        let sessions = std::fs::read_dir(sandbox.state_dir().join("sessions")).ok()?;
        sessions.flatten().find_map(|entry| {
            let has_lines = |path: std::path::PathBuf| {
                std::fs::read(path).is_ok_and(|bytes| bytes.contains(&b'\n'))
            };
            let has_transcript = has_lines(entry.path().join("transcript.jsonl"));
            has_transcript.then(|| entry.file_name().into_string().ok()).flatten()
        })
    })
}
