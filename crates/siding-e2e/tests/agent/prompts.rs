//! The prompts of docs/agent.md, with the scripts that stand there.

use siding_e2e::Sandbox;

use super::{entries, transcript};

/// Runs a script of the documentation, with the prompt that stands in its first line.
fn run(sandbox: &Sandbox, name: &str) -> serde_json::Value {
    let file = format!("{}/../../docs/agent/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).expect("it is there");
    let first = text.lines().next().expect("it has a first line");
    let (_, prompt) = first.split_once(" -p '").expect("there is the prompt");
    let prompt = prompt.trim_end_matches('\'');
    let model = format!("script:{file}");
    sandbox
        .siding(&["agent", "--model", &model, "-p", prompt, "--json"])
        .run()
        .expect_code(0)
        .json()
}

fn notices(sandbox: &Sandbox, report: &serde_json::Value) -> usize {
    let lines = transcript(sandbox, report["session_id"].as_str().expect("an id"));
    let told = entries(&lines, "told");
    told.iter().filter(|entry| entry["told"][0]["told"] == "notice").count()
}

/// The tutorial's second and third prompt: an installation in the background while a file is read, and
/// a project that is set up before something is listed in the background.
#[test]
fn a_project_is_set_up_and_what_it_needs_installed() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let report = run(&sandbox, "setup");
    let text = report["text"].as_str().expect("a text");
    assert!(text.starts_with("The project is set up"), "{report:#}");
    assert_eq!(notices(&sandbox, &report), 1, "{report:#}");
    let report = run(&sandbox, "install");
    assert_eq!(report["text"], "Everything is installed.");
    assert_eq!(notices(&sandbox, &report), 0, "its end was waited for");
}

/// The first prompt: a slow list in the background while files are looked for.
#[test]
fn packages_are_listed_while_files_are_looked_for() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    std::fs::write(sandbox.path("own.toml"), "").expect("own directory");
    let report = run(&sandbox, "packages");
    let text = report["text"].as_str().expect("a text");
    assert!(text.ends_with("is one of the last."), "{report:#}");
    assert_eq!(notices(&sandbox, &report), 1, "{report:#}");
}
