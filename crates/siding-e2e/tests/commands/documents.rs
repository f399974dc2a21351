//! Tests that run the commands in the documents as a reader would type them.
//!
//! A block ```` ```sh ```` is run, line by line, in a sandbox. A block ```` ```sh illustration ````
//! needs a network, a model or an agent, and is not run. A test of siding-cli checks that siding
//! accepts its commands. A block ```` ```console ```` is a recorded session and is not run.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use siding_e2e::Sandbox;

use crate::support::{HANG_COMMAND, run_ok, run_to_end, sandbox, start_task};

/// Programs that the documents call, replaced by stubs that only print a version.
const STUB_PROGRAMS: &[&str] = &["claude", "codex", "make", "npm"];
/// A replacement of `sleep`, which ends when the test reaches the line that waits for the task. The
/// commands in the documents sleep long enough for a person to inspect the running task; the test
/// need not wait so long.
const SLEEP_STUB: &str = "until [ -e waited ]; do command -p sleep .02; done";
/// The example id in the documents; in a command, it is replaced by the id of the newest task, the
/// first one that `siding ps --all` lists.
const PLACEHOLDER_ID: &str = "b-4k7q";

#[test]
fn the_commands_of_the_readme_work() {
    assert_commands_work("README.md");
}

#[test]
fn the_commands_of_the_page_of_claude_code_work() {
    assert_commands_work("docs/claude-code.md");
}

#[test]
fn the_commands_of_the_page_of_hosts_work() {
    assert_commands_work("docs/hosts.md");
}

#[test]
fn the_commands_of_the_page_of_settings_work() {
    assert_commands_work("docs/settings.md");
}

#[test]
fn the_commands_of_the_page_of_the_reaper_work() {
    assert_commands_work("docs/reaper.md");
}

#[test]
fn the_commands_of_the_page_of_metrics_work() {
    assert_commands_work("docs/metrics.md");
}

#[test]
fn the_commands_of_the_page_of_terminals_work() {
    assert_commands_work("docs/terminals.md");
}

#[test]
fn the_commands_of_the_page_of_the_timeline_work() {
    assert_commands_work("docs/timeline.md");
}

/// Every page that has a block to run is named in a test above.
#[test]
fn each_page_with_commands_has_a_test() {
    let tested = include_str!("documents.rs");
    let mut pages = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned()];
    for entry in fs::read_dir(repository().join("docs")).expect("the pages") {
        let name = entry.expect("readable").file_name().into_string().expect("UTF-8");
        if name.ends_with(".md") {
            pages.push(format!("docs/{name}"));
        }
    }
    for page in pages {
        let is_tested = tested.contains(&format!("assert_commands_work(\"{page}\")"));
        assert_eq!(is_tested, !command_blocks(&page).is_empty(), "{page}");
    }
}

#[test]
fn the_example_id_stands_for_the_newest_task() {
    let sandbox = sandbox();
    assert_eq!(newest_task_id(&sandbox), None);
    let ended = run_to_end(&sandbox, "true");
    assert_eq!(newest_task_id(&sandbox), Some(ended));
    let running = start_task(&sandbox, &[], HANG_COMMAND);
    assert_eq!(newest_task_id(&sandbox), Some(running));
    let _stopped = run_ok(&sandbox, &["stop", "--all", "--grace", "0s"]);
}

/// Runs the lines of each block of a page, in a separate sandbox for each block. Each line must
/// exit with 0, or with the code that its comment names: `# … exit code 75`.
fn assert_commands_work(page: &str) {
    for block in command_blocks(page) {
        let sandbox = sandbox();
        let path = write_programs(&sandbox);
        fs::write(sandbox.path("app.log"), "").expect("test file");
        let waits = |line: &String| line.starts_with("siding wait");
        let mut has_waited = !block.iter().any(waits);
        for line in block {
            has_waited |= waits(&line);
            if has_waited {
                fs::write(sandbox.path("waited"), "").expect("test file");
            }
            let line = match newest_task_id(&sandbox) {
                Some(id) => line.replace(PLACEHOLDER_ID, &id),
                None => line,
            };
            let expected = line.split_once("exit code ").map_or(0, |(_, after)| {
                after.split(' ').next().and_then(|code| code.parse().ok()).expect("an exit code")
            });
            let call = sandbox.host("bash", &["-c", &line]).env("PATH", &path);
            // The sandbox sets this variable to false, with which `siding doctor --host` would
            // report an incomplete installation.
            let done = call.env("SIDING_SUPERVISE_HOSTS", "true").run();
            assert_eq!(done.code, Some(expected), "{page}: {line}\n{done}");
        }
        let _stopped = run_ok(&sandbox, &["stop", "--all", "--grace", "0s"]);
    }
}

/// Returns the lines of every block that is to be run.
fn command_blocks(page: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(repository().join(page)).expect("a page");
    let blocks = text.split("\n```sh\n").skip(1);
    blocks
        .map(|block| {
            let (commands, _) = block.split_once("\n```").expect("the block ends");
            let commands = commands.replace("\\\n", " ");
            commands.lines().map(str::to_owned).filter(|line| !line.is_empty()).collect()
        })
        .collect()
}

fn repository() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Writes `siding` and the stubs into a directory, and returns a `PATH` that starts with this
/// directory.
fn write_programs(sandbox: &Sandbox) -> String {
    let bin = sandbox.path("bin");
    fs::create_dir(&bin).expect("test directory");
    let siding = sandbox.siding_line::<&str>(&[]);
    let stub = "echo 9.9.9".to_owned();
    let programs = STUB_PROGRAMS.iter().map(|name| (*name, stub.clone()));
    let others = [("siding", format!("exec {siding} \"$@\"")), ("sleep", SLEEP_STUB.to_owned())];
    for (name, text) in programs.chain(others) {
        let program = bin.join(name);
        fs::write(&program, format!("#!/bin/sh\n{text}\n")).expect("test file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("test file");
    }
    format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default())
}

fn newest_task_id(sandbox: &Sandbox) -> Option<String> {
    let listed = run_ok(sandbox, &["ps", "--all", "--json"]).json();
    Some(listed.as_array()?.first()?["task_id"].as_str().expect("a task id").to_owned())
}
