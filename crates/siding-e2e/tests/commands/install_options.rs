//! The options `--notify` and `--statusline` of `siding install`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use siding_e2e::Sandbox;

use crate::support::{run_ok, run_refused, sandbox};

/// A settings file with an unusual layout, which uninstall must restore byte for byte.
const USER_SETTINGS: &str = "{ \"statusLine\" : {\"padding\": 0,\"type\":\"command\",\n\t\"command\":\"~\\/line.sh it\\u0027s\"},\r\n \"hooks\":{ } }";

fn write_settings(sandbox: &Sandbox, text: &str) -> PathBuf {
    let path = sandbox.home().join(".claude/settings.json");
    fs::create_dir_all(path.parent().expect("a directory")).expect("test directory");
    fs::write(&path, text).expect("test file");
    path
}

fn read_json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Returns the arguments of each call of `siding hook notify-person` in a settings file, as one
/// text each. If the file has a command line instead of arguments, returns this line.
fn notify_hook_calls(path: &Path) -> Vec<String> {
    let hooks = read_json(path)["hooks"]["SessionStart"].clone();
    let groups = hooks.as_array().cloned().unwrap_or_default();
    let handlers = groups.iter().flat_map(|group| group["hooks"].as_array().expect("a list"));
    let call = |handler: &Value| match handler["args"].as_array() {
        Some(args) => {
            args.iter().map(|arg| arg.as_str().unwrap_or_default()).collect::<Vec<_>>().join(" ")
        }
        None => handler["command"].as_str().unwrap_or_default().to_owned(),
    };
    handlers.map(call).filter(|call| call.ends_with(" notify-person")).collect()
}

#[test]
fn notify_hooks_are_installed_changed_and_removed() {
    let sandbox = sandbox();
    let path = write_settings(&sandbox, USER_SETTINGS);
    let _done = run_ok(&sandbox, &["install", "claude-code", "--notify", "desktop,bell"]);
    let installed = fs::read_to_string(&path).expect("the entry exists");
    assert_eq!(notify_hook_calls(&path), ["hook --via desktop,bell notify-person"]);
    // A later install without the option retains the hook.
    let again = run_ok(&sandbox, &["install", "claude-code"]).stdout_text();
    assert!(again.contains("nothing to change"), "{again}");
    assert_eq!(fs::read_to_string(&path).expect("the entry exists"), installed);
    let _done = run_ok(&sandbox, &["install", "claude-code", "--notify", "bell"]);
    assert_eq!(notify_hook_calls(&path), ["hook --via bell notify-person"]);
    let _done = run_ok(&sandbox, &["install", "claude-code", "--notify", "off"]);
    assert_eq!(notify_hook_calls(&path), [""; 0]);
    let _done = run_ok(&sandbox, &["install", "claude-code", "--notify", "bell"]);
    let _gone = run_ok(&sandbox, &["uninstall", "claude-code"]);
    assert_eq!(fs::read_to_string(&path).expect("the entry exists"), USER_SETTINGS);
    for (host, file) in [("codex", ".codex/hooks.json"), ("gemini", ".gemini/settings.json")] {
        let path = sandbox.home().join(file);
        let _done = run_ok(&sandbox, &["install", host, "--notify", "desktop"]);
        let call = notify_hook_calls(&path);
        let expected = format!(" hook --host {host} --via desktop notify-person");
        assert!(call.len() == 1 && call[0].ends_with(&expected), "{call:?}");
        let again = run_ok(&sandbox, &["install", host]).stdout_text();
        assert!(again.contains("nothing to change"), "{again}");
        let _gone = run_ok(&sandbox, &["uninstall", host]);
        assert!(!path.exists(), "{host}");
    }
    let why = run_refused(&sandbox, &["install", "opencode", "--notify", "bell"]);
    assert!(why.contains("calls no hooks"), "{why}");
    let why = run_refused(&sandbox, &["install", "timer", "--notify", "bell"]);
    assert!(why.contains("omit"), "{why}");
}

/// The address of a webhook may contain a secret, so siding stores it only in a private file and
/// never prints it.
#[test]
fn the_webhook_address_is_stored_in_a_private_file() {
    let sandbox = sandbox();
    let path = write_settings(&sandbox, USER_SETTINGS);
    let why = run_refused(&sandbox, &["install", "claude-code", "--notify", "webhook"]);
    assert!(why.contains("webhook=URL"), "{why}");
    let asked = "webhook=https://example.org/secret";
    let done = run_ok(&sandbox, &["install", "claude-code", "--notify", asked]);
    assert!(
        !done.stdout_text().contains("secret") && !done.stderr_text().contains("secret"),
        "{done}"
    );
    assert_eq!(notify_hook_calls(&path), ["hook --via webhook notify-person"]);
    let stored = sandbox.state_dir().join("installed/notify-webhook.claude-code");
    assert_eq!(
        fs::read_to_string(&stored).expect("the entry exists"),
        "https://example.org/secret\n"
    );
    let mode = fs::metadata(&stored).expect("the entry exists").permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let _kept = run_ok(&sandbox, &["install", "claude-code", "--notify", "webhook,bell"]);
    assert!(stored.exists());
    let args = ["install", "claude-code", "--scope", "project", "--notify", asked];
    let why = run_refused(&sandbox, &args);
    assert!(why.contains("not for a project") && !why.contains("secret"), "{why}");
    let _gone = run_ok(&sandbox, &["uninstall", "claude-code"]);
    assert!(!stored.exists());
    assert_eq!(fs::read_to_string(&path).expect("the entry exists"), USER_SETTINGS);
}

#[test]
fn install_wraps_the_status_line_and_uninstall_restores_it() {
    let sandbox = sandbox();
    let path = write_settings(&sandbox, USER_SETTINGS);
    let _done = run_ok(&sandbox, &["install", "claude-code"]);
    assert_eq!(
        read_json(&path)["statusLine"]["command"],
        "~/line.sh it's",
        "the status line must be installed only on request"
    );
    let _done = run_ok(&sandbox, &["install", "claude-code", "--statusline"]);
    let line = read_json(&path)["statusLine"].clone();
    let command = line["command"].as_str().expect("a command text");
    assert!(command.ends_with(r" statusline --before '~/line.sh it'\''s'"), "{command}");
    assert_eq!((&line["padding"], &line["type"]), (&json!(0), &json!("command")));
    let again = run_ok(&sandbox, &["install", "claude-code"]).stdout_text();
    assert!(again.contains("nothing to change"), "{again}");
    let _gone = run_ok(&sandbox, &["uninstall", "claude-code"]);
    assert_eq!(fs::read_to_string(&path).expect("the entry exists"), USER_SETTINGS);
    fs::remove_file(&path).expect("test file");
    let _done = run_ok(&sandbox, &["install", "claude-code", "--statusline"]);
    let line = read_json(&path)["statusLine"].clone();
    assert!(line["command"].as_str().is_some_and(|line| line.ends_with(" statusline")), "{line}");
    let _gone = run_ok(&sandbox, &["uninstall", "claude-code"]);
    assert!(!path.exists());
    let why = run_refused(&sandbox, &["install", "codex", "--statusline"]);
    assert!(why.contains("only claude-code"), "{why}");
}
