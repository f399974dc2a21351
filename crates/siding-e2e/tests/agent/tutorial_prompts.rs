//! Tests that run the scripts in docs/agent with their prompts.

use siding_e2e::Sandbox;

use super::{entries_of_kind, sandbox, transcript};

/// Returns the `--model` value for a script in docs/agent, and the prompt in the script's first
/// line.
fn documented_script(name: &str) -> (String, String) {
    let file = format!("{}/../../docs/agent/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).expect("the entry exists");
    let first = text.lines().next().expect("the script has a first line");
    let (_, prompt) = first.split_once(" -p '").expect("the first line has a prompt");
    (format!("script:{file}"), prompt.trim_end_matches('\'').to_owned())
}

/// Runs a script of the documentation and returns the JSON that the agent prints. Python is started
/// with a delay of one second, because the scripts expect a background command to end only after
/// the model's next answer.
fn run_documented_script(sandbox: &Sandbox, name: &str) -> serde_json::Value {
    let (model, prompt) = documented_script(name);
    let slow = sandbox.home().join("slow");
    std::fs::create_dir_all(&slow).expect("test directory");
    std::fs::write(slow.join("sitecustomize.py"), "import time\ntime.sleep(1)\n")
        .expect("test file");
    sandbox
        .siding(&["agent", "--model", &model, "-p", &prompt, "--json"])
        .env("PYTHONPATH", &slow)
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        // The scripts install only local packages, so npm needs no network.
        .env("npm_config_offline", "true")
        .env("npm_config_audit", "false")
        .run()
        .expect_code(0)
        .json()
}

/// Returns whether a program is installed. If it is not installed, prints its name, because the
/// calling test then returns without testing anything.
fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    if !found {
        eprintln!("left out: `{name}` is not installed");
    }
    found
}

/// The prompts are those of the tutorial, word for word.
#[test]
fn documented_prompts_are_those_of_the_tutorial() {
    let prompts = ["pip", "npm", "project"].map(|name| documented_script(name).1);
    assert_eq!(
        prompts,
        [
            "Run pip list in the background and find all Python files in this directory",
            "Run npm install (use run_in_background) and while waiting, read package.json",
            "Create a task to setup the project, then run pip list in the background",
        ]
    );
}

/// The three prompts of the tutorial run with the real pip and npm.
#[test]
fn tutorial_prompts_run_with_pip_and_npm() {
    if !is_installed("pip") || !is_installed("npm") {
        return;
    }
    let sandbox = sandbox();
    let report = run_documented_script(&sandbox, "project");
    assert_eq!(report["text"], "The project is set up, and pip list has completed.");
    let report = run_documented_script(&sandbox, "npm");
    assert_eq!(report["text"], "greeting 1.0.0 is there.");
    assert_eq!(notice_count(&sandbox, &report), 1, "{report:#}");
    assert!(sandbox.path("node_modules/greeting").exists());
    let report = run_documented_script(&sandbox, "pip");
    let text = report["text"].as_str().expect("a text");
    assert!(text.starts_with("Its last line is: "), "{report:#}");
    assert_eq!(notice_count(&sandbox, &report), 1, "{report:#}");
}

fn notice_count(sandbox: &Sandbox, report: &serde_json::Value) -> usize {
    let lines = transcript(sandbox, report["session_id"].as_str().expect("an id"));
    let delivered = entries_of_kind(&lines, "input");
    delivered.iter().filter(|entry| entry["content"][0]["type"] == "notice").count()
}

/// The scripts `setup` and `install` need no program except a shell.
#[test]
fn setup_and_install_prompts_run() {
    let sandbox = sandbox();
    let report = run_documented_script(&sandbox, "setup");
    let text = report["text"].as_str().expect("a text");
    assert!(text.starts_with("The project is set up"), "{report:#}");
    assert_eq!(notice_count(&sandbox, &report), 1, "{report:#}");
    let report = run_documented_script(&sandbox, "install");
    assert_eq!(report["text"], "Everything is installed.");
    assert_eq!(notice_count(&sandbox, &report), 0, "an end in a tool result must cause no notice");
}

/// The script `packages` runs a slow list in the background while the model searches files. The
/// script works in an empty directory.
#[test]
fn packages_prompt_runs_a_background_list() {
    let sandbox = sandbox();
    let report = run_documented_script(&sandbox, "packages");
    let text = report["text"].as_str().expect("a text");
    assert!(text.ends_with("is one of the last."), "{report:#}");
    assert_eq!(notice_count(&sandbox, &report), 1, "{report:#}");
}
