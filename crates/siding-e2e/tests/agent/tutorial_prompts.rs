//! The prompts of docs/agent.md, with the scripts that stand there.

use siding_e2e::Sandbox;

use super::{entries_of_kind, transcript};

/// Returns a script of the documentation, and the prompt that stands in its first line.
fn documented_script(name: &str) -> (String, String) {
    let file = format!("{}/../../docs/agent/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&file).expect("it is there");
    let first = text.lines().next().expect("it has a first line");
    let (_, prompt) = first.split_once(" -p '").expect("there is the prompt");
    (format!("script:{file}"), prompt.trim_end_matches('\'').to_owned())
}

/// Runs a script of the documentation. Python takes a second to start, as on a slow disk: the script has
/// what runs in the background end after the answer to its start.
fn run_documented_script(sandbox: &Sandbox, name: &str) -> serde_json::Value {
    let (model, prompt) = documented_script(name);
    let slow = sandbox.home().join("slow");
    std::fs::create_dir_all(&slow).expect("own directory");
    std::fs::write(slow.join("sitecustomize.py"), "import time\ntime.sleep(1)\n")
        .expect("own file");
    sandbox
        .siding(&["agent", "--model", &model, "-p", &prompt, "--json"])
        .env("PYTHONPATH", &slow)
        .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
        // A registry is not needed for what stands on the disk.
        .env("npm_config_offline", "true")
        .env("npm_config_audit", "false")
        .run()
        .expect_code(0)
        .json()
}

/// Whether a program is installed; says so where it is not, and a test is left out.
fn is_installed(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    if !found {
        eprintln!("left out: `{name}` is not installed");
    }
    found
}

/// The prompts are the tutorial's, word for word.
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

/// On the real programs: a project is set up while pip lists what is installed, files are looked for
/// while it does so, and what the project needs is installed while its file is read.
#[test]
fn tutorial_prompts_run_with_pip_and_npm() {
    if !is_installed("pip") || !is_installed("npm") {
        return;
    }
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
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
    let delivered = entries_of_kind(&lines, "told");
    delivered.iter().filter(|entry| entry["told"][0]["told"] == "notice").count()
}

/// Much the same with nothing but a shell: an installation in the background while a file is read, and a
/// project that is set up before something is listed in the background.
#[test]
fn setup_and_install_prompts_run() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    let report = run_documented_script(&sandbox, "setup");
    let text = report["text"].as_str().expect("a text");
    assert!(text.starts_with("The project is set up"), "{report:#}");
    assert_eq!(notice_count(&sandbox, &report), 1, "{report:#}");
    let report = run_documented_script(&sandbox, "install");
    assert_eq!(report["text"], "Everything is installed.");
    assert_eq!(notice_count(&sandbox, &report), 0, "its end was waited for");
}

/// And a slow list in the background while files are looked for.
#[test]
fn packages_prompt_runs_a_background_list() {
    let mut sandbox = Sandbox::new();
    sandbox.expect_clean();
    std::fs::write(sandbox.path("own.toml"), "").expect("own directory");
    let report = run_documented_script(&sandbox, "packages");
    let text = report["text"].as_str().expect("a text");
    assert!(text.ends_with("is one of the last."), "{report:#}");
    assert_eq!(notice_count(&sandbox, &report), 1, "{report:#}");
}
