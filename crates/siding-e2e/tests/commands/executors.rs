//! `siding executors`, and the setting that it lists.

use serde_json::json;

use crate::config::write_user_config;
use crate::support::{run_ok, run_refused, sandbox, write};

const CONFIG: &str = "[executor.build]\nhost = \"me@build.example.org\"\nenv = [\"CI\"]\n";

#[test]
fn executors_of_the_settings_are_listed_after_this_machine() {
    let sandbox = sandbox();
    let local = json!({
        "name": "local", "kind": "local", "destination": null, "program": null, "check": null
    });
    assert_eq!(run_ok(&sandbox, &["executors", "--json"]).json(), json!([local]));
    write_user_config(&sandbox, CONFIG);
    let build = json!({
        "name": "build", "kind": "ssh", "destination": "me@build.example.org", "program": null,
        "check": null
    });
    assert_eq!(run_ok(&sandbox, &["executors", "--json"]).json(), json!([local, build]));
    let text = run_ok(&sandbox, &["executors"]).stdout_text();
    assert!(
        text.contains("\nbuild  ssh    me@build.example.org  a copy of this siding\n"),
        "{text}"
    );
    let shown = run_ok(&sandbox, &["config", "get", "executor", "--json"]).json();
    assert_eq!(shown["value"]["build"]["env"], json!(["CI"]));
    assert_eq!(run_ok(&sandbox, &["config", "get", "executor"]).stdout_text(), "build\n");
}

#[test]
fn a_check_of_this_machine_needs_no_connection() {
    let sandbox = sandbox();
    write_user_config(&sandbox, CONFIG);
    let checked = run_ok(&sandbox, &["executors", "--check", "--json", "local"]).json();
    assert_eq!(checked[0]["check"]["reachable"], json!(true));
    assert_eq!(checked[0]["check"]["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(checked[1], json!(null), "only the named one is checked");
}

#[test]
fn an_unknown_executor_is_refused_with_the_known_names() {
    let sandbox = sandbox();
    write_user_config(&sandbox, CONFIG);
    let refused = run_refused(&sandbox, &["executors", "biuld"]);
    assert!(refused.contains("the known names are: `local`, `slurm`, `build`"), "{refused}");
    assert!(refused.contains("`siding config edit executor` adds one"), "{refused}");
}

#[test]
fn executors_of_a_project_are_ignored() {
    let sandbox = sandbox();
    write(&sandbox, ".siding/config.toml", CONFIG);
    let listed = run_ok(&sandbox, &["executors", "--json"]);
    assert_eq!(listed.json().as_array().map(Vec::len), Some(1));
    let warning = listed.stderr_text();
    assert!(warning.contains("a project must not send your commands anywhere"), "{warning}");
}

/// The setting may come from a project whose author has other executors than the user. Only
/// commands that would run on the missing executor fail.
#[test]
fn a_default_executor_that_does_not_exist_is_reported_with_its_source() {
    let sandbox = sandbox();
    write_user_config(&sandbox, &format!("default_executor = \"biuld\"\n{CONFIG}"));
    let reason = "config.toml` line 1: `default_executor`: no executor has the name `biuld`; the \
                  known names are: `local`, `slurm`, `build`";
    let refused = run_refused(&sandbox, &["run", "--", "true"]);
    assert!(refused.contains(reason) && refused.contains("`--on local` runs"), "{refused}");
    let _ran = run_ok(&sandbox, &["run", "--on", "local", "--", "true"]);
    let checked = sandbox.siding(&["config", "check"]).run().expect_code(1);
    assert!(checked.stderr_text().contains(reason), "{}", checked.stderr_text());
    let _listed = run_ok(&sandbox, &["ps"]);
}
