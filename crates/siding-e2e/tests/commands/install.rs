//! `siding install` and `siding uninstall` in a temporary home, without the hosts' programs.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use serde_json::Value;
use siding_e2e::Sandbox;

use crate::support::{run_ok, run_refused, sandbox};

/// Returns every file, link and directory below a directory, with its contents and permissions.
fn snapshot(dir: &Path) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).expect("a directory").flatten() {
        let path = entry.path();
        let facts = entry.metadata().expect("the entry exists");
        let mode = facts.permissions().mode() & 0o7777;
        if facts.is_dir() {
            all.insert(path.clone(), (mode, Vec::new()));
            all.extend(snapshot(&path));
        } else if facts.is_symlink() {
            let target = fs::read_link(&path).expect("a link");
            all.insert(path, (0, target.into_os_string().into_encoded_bytes()));
        } else {
            let bytes = fs::read(&path).expect("test file");
            all.insert(path, (mode, bytes));
        }
    }
    all
}

/// Returns the user's files in the home and working directories.
fn snapshot_user_files(sandbox: &Sandbox) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
    let mut all = snapshot(&sandbox.home());
    all.extend(snapshot(&sandbox.path("")));
    all
}

fn write_settings(sandbox: &Sandbox, text: &str) -> PathBuf {
    let dir = sandbox.home().join(".claude");
    fs::create_dir_all(&dir).expect("test directory");
    let path = dir.join("settings.json");
    fs::write(&path, text).expect("test file");
    path
}

fn read_json(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

const ODD_SETTINGS: &str =
    "{ \"model\":\"x\",\r\n\r\n\t\"hooks\": {\"Stop\":[ ]  },\"permissions\":{}}";

#[test]
fn uninstall_restores_the_settings_file_exactly() {
    let sandbox = sandbox();
    let path = write_settings(&sandbox, ODD_SETTINGS);
    fs::set_permissions(&path, Permissions::from_mode(0o640)).expect("test file");
    let before = snapshot_user_files(&sandbox);
    let dry = run_ok(&sandbox, &["install", "claude-code", "--dry-run"]).stdout_text();
    let (effects, diff) = dry.split_once("\n\n--- ").expect("the effects precede the diff");
    assert!(effects.contains("\n  PreToolUse          asks the guard about a command"), "{dry}");
    assert!(diff.contains("+++ ") && diff.contains("would change "), "{dry}");
    // The notes about an installation must not sound as if it had been made.
    let planned = "nothing was changed (--dry-run)\n\
                   for an install without --dry-run:\n\
                   \x20 new sessions";
    assert!(diff.contains(planned), "{dry}");
    assert_eq!(snapshot_user_files(&sandbox), before);

    let done = run_ok(&sandbox, &["install", "claude-code", "--json"]).json();
    assert_eq!(done["changed"], true, "{done}");
    let backup = done["files"][0]["backup"].as_str().expect("a backup path");
    assert!(backup.contains("settings.json.siding-backup-20"), "{backup}");
    assert_eq!(fs::read(backup).expect("a backup"), ODD_SETTINGS.as_bytes());
    let mode =
        |path: &Path| fs::metadata(path).expect("the entry exists").permissions().mode() & 0o7777;
    assert_eq!((mode(&path), mode(Path::new(backup))), (0o640, 0o640));
    let hooks = &read_json(&path)["hooks"];
    let handler = &hooks["PreToolUse"][0]["hooks"][0];
    assert_eq!(
        hooks["PreToolUse"][0]["matcher"],
        "Bash|Monitor|mcp__siding__run|mcp__siding__keys|mcp__siding__input"
    );
    assert_eq!(handler["args"], serde_json::json!(["hook", "pre-tool-use"]));
    let program = handler["command"].as_str().expect("a path");
    assert!(Path::new(program).is_absolute(), "{program}");
    let server = &read_json(&sandbox.home().join(".claude.json"))["mcpServers"]["siding"];
    assert_eq!(server["args"], serde_json::json!(["mcp"]));

    let installed = snapshot_user_files(&sandbox);
    let again = run_ok(&sandbox, &["install", "claude-code"]).stdout_text();
    assert!(again.contains("nothing to change"), "{again}");
    assert_eq!(snapshot_user_files(&sandbox), installed);
    let gone = run_ok(&sandbox, &["uninstall", "claude-code"]).stdout_text();
    assert!(gone.starts_with("--- ") && gone.contains("siding is removed"), "{gone}");
    assert_eq!(snapshot_user_files(&sandbox), before);
    let remembered = fs::read_dir(sandbox.state_dir().join("installed")).expect("a directory");
    assert_eq!(remembered.count(), 0);
    let again = run_ok(&sandbox, &["uninstall", "claude-code"]).stdout_text();
    assert!(again.contains("nothing to change"), "{again}");
    assert_eq!(snapshot_user_files(&sandbox), before);
}

#[test]
fn created_files_are_private_and_removed_by_uninstall() {
    let sandbox = sandbox();
    let before = snapshot_user_files(&sandbox);
    for scope in ["user", "project", "local"] {
        let _in = run_ok(&sandbox, &["install", "claude-code", "--scope", scope]);
        let made = snapshot_user_files(&sandbox);
        let new: Vec<_> = made.iter().filter(|(path, _)| !before.contains_key(*path)).collect();
        assert_eq!(new.len(), 3, "{scope}: {new:?}");
        assert!(new.iter().all(|(_, (mode, _))| mode & 0o077 == 0), "{scope}: {new:?}");
        let _out = run_ok(&sandbox, &["uninstall", "claude-code", "--scope", scope]);
        assert_eq!(snapshot_user_files(&sandbox), before, "{scope}");
    }
}

/// For each scope, install writes the files that Claude Code reads for that scope. The scope
/// `project` uses the working directory; the scope `local` also adds an entry with the repository's
/// root to the user's file.
#[test]
fn each_scope_has_its_files() {
    let sandbox = sandbox();
    let sub = sandbox.path("repository/sub");
    fs::create_dir_all(&sub).expect("test directory");
    fs::create_dir(sandbox.path("repository/.git")).expect("test directory");
    let config = sandbox.path("config");
    for (scope, settings) in
        [("project", "repository/sub/.claude/settings.json"), ("user", "config/settings.json")]
    {
        let call = sandbox.siding(&["install", "claude-code", "--scope", scope]).cwd(&sub);
        let _done = call.env("CLAUDE_CONFIG_DIR", &config).run().expect_code(0);
        assert!(read_json(&sandbox.path(settings))["hooks"]["Stop"].is_array(), "{scope}");
    }
    assert!(read_json(&sub.join(".mcp.json"))["mcpServers"]["siding"].is_object());
    assert!(read_json(&config.join(".claude.json"))["mcpServers"]["siding"].is_object());
    let call = sandbox.siding(&["install", "claude-code", "--scope", "local"]).cwd(&sub);
    let _done = call.run().expect_code(0);
    assert!(read_json(&sub.join(".claude/settings.local.json"))["hooks"]["Stop"].is_array());
    let root = sandbox.path("repository").display().to_string();
    let known = read_json(&sandbox.home().join(".claude.json"));
    assert!(known["projects"][&root]["mcpServers"]["siding"].is_object(), "{known}");
}

/// Two scopes of Claude Code share one file. Uninstalling both, in either order, restores the
/// original content of that file.
#[test]
fn two_scopes_in_one_file_can_be_removed_in_either_order() {
    let sandbox = sandbox();
    let repository = sandbox.path("repository");
    fs::create_dir_all(repository.join(".git")).expect("test directory");
    let file = sandbox.home().join(".claude.json");
    let call = |what: &str, scope: &str| {
        let call = sandbox.siding(&[what, "claude-code", "--scope", scope]).cwd(&repository);
        let _done = call.run().expect_code(0);
    };
    // Install leaves backups next to the files; the snapshots are compared without these backups.
    let known = || {
        let mut all = snapshot_user_files(&sandbox);
        all.retain(|path, _| !path.display().to_string().contains(".siding-backup-"));
        all
    };
    let orders = [["user", "local"], ["local", "user"]];
    for text in [None, Some("{\"a\":1}"), Some("{}\n"), Some("{ \"mcpServers\": { } }")] {
        let _already_removed = fs::remove_file(&file);
        if let Some(text) = text {
            fs::write(&file, text).expect("test file");
        }
        let before = known();
        for (first_in, first_out) in orders.iter().flat_map(|i| orders.iter().map(move |o| (i, o)))
        {
            first_in.iter().for_each(|scope| call("install", scope));
            first_out.iter().for_each(|scope| call("uninstall", scope));
            assert_eq!(known(), before, "{text:?}: {first_in:?}, {first_out:?}");
            let installed = sandbox.state_dir().join("installed");
            assert_eq!(fs::read_dir(installed).expect("a directory").count(), 0);
        }
    }
}

/// A settings file that Claude Code cannot parse is rejected. The host ignores the whole file
/// (observed with version 2.1.197), so hooks in it would have no effect.
#[test]
fn a_settings_file_that_the_host_cannot_parse_is_rejected() {
    let sandbox = sandbox();
    for (text, place) in [
        ("{\n  // mine\n  \"model\": \"x\"\n}\n", "line 2, column 3: a comment"),
        ("{\n  \"model\": \"x\",\n}\n", "line 2, column 15: trailing comma"),
        ("{\"hooks\": []}", "line 1, column 11: `hooks` is not an object"),
        ("nonsense", "line 1, column 1: "),
    ] {
        let path = write_settings(&sandbox, text);
        let before = snapshot_user_files(&sandbox);
        let err = run_refused(&sandbox, &["install", "claude-code"]);
        let path = path.display().to_string();
        assert!(err.contains(&path) && err.contains(place) && err.contains("hint: "), "{err}");
        assert_eq!(snapshot_user_files(&sandbox), before);
    }
    fs::write(write_settings(&sandbox, ""), b"{\"a\": \"\xff\"}").expect("test file");
    let err = run_refused(&sandbox, &["install", "claude-code"]);
    assert!(err.contains("invalid UTF-8 at byte 7"), "{err}");
}

#[test]
fn install_changes_the_target_of_a_symlink_and_keeps_the_link() {
    let sandbox = sandbox();
    let path = write_settings(&sandbox, "");
    fs::remove_file(&path).expect("test file");
    fs::write(sandbox.path("real.json"), "{}\n").expect("test file");
    symlink(sandbox.path("real.json"), &path).expect("test directory");
    let before = snapshot_user_files(&sandbox);
    let _in = run_ok(&sandbox, &["install", "claude-code"]);
    assert!(path.is_symlink() && read_json(&sandbox.path("real.json"))["hooks"].is_object());
    let _out = run_ok(&sandbox, &["uninstall", "claude-code"]);
    assert_eq!(snapshot_user_files(&sandbox), before);
    fs::remove_file(sandbox.path("real.json")).expect("test file");
    let err = run_refused(&sandbox, &["install", "claude-code"]);
    assert!(err.contains("a symbolic link to a missing file"), "{err}");
}

/// `uninstall` retains edits that a user made after the installation, and retains the backup of the
/// original file.
#[test]
fn uninstall_keeps_edits_made_after_install() {
    let sandbox = sandbox();
    let path = write_settings(&sandbox, "{\n  \"model\": \"x\"\n}\n");
    let _in = run_ok(&sandbox, &["install", "claude-code"]);
    let text = fs::read_to_string(&path).expect("test file");
    fs::write(&path, text.replace("\"x\"", "\"y\"")).expect("test file");
    let done = run_ok(&sandbox, &["uninstall", "claude-code", "--json"]).json();
    assert_eq!(fs::read_to_string(&path).expect("test file"), "{\n  \"model\": \"y\"\n}\n");
    assert!(done["files"][0]["backup"].is_string(), "{done}");
}

#[test]
fn a_failed_install_leaves_the_settings_unchanged() {
    let sandbox = sandbox();
    let path = write_settings(&sandbox, "{}\n");
    let state = sandbox.path("state");
    fs::write(&state, "no directory").expect("test file");
    let call = sandbox.siding(&["install", "claude-code"]).env("SIDING_STATE_DIR", &state);
    let done = call.run().expect_code(125);
    assert!(done.stderr_text().contains("installed"), "{done}");
    assert_eq!(fs::read_to_string(&path).expect("test file"), "{}\n");
    let _in = run_ok(&sandbox, &["install", "claude-code"]);
}

/// For each of the other hosts, install writes the host's own file format, a second install changes
/// nothing, and uninstall restores the files.
#[test]
fn codex_gemini_and_opencode_are_configured_and_restored() {
    let sandbox = sandbox();
    let home = sandbox.home();
    let gemini = home.join(".gemini/settings.json");
    let text = "{\n  // mine\n  \"theme\": \"x\"\n}\n";
    fs::create_dir_all(gemini.parent().expect("a directory")).expect("test directory");
    fs::write(&gemini, text).expect("test file");
    let codex = sandbox.path("codex");
    fs::create_dir(&codex).expect("test directory");
    fs::write(codex.join("config.toml"), "model = 'x' # mine").expect("test file");
    let before = snapshot_user_files(&sandbox);
    let call = |args: &[&str]| sandbox.siding(args).env("CODEX_HOME", &codex).run().expect_code(0);
    for host in ["codex", "gemini", "opencode"] {
        let first = call(&["install", host, "--json"]).json();
        assert_eq!((&first["host"], &first["changed"]), (&host.into(), &true.into()), "{first}");
        let installed = snapshot_user_files(&sandbox);
        assert_eq!(call(&["install", host, "--json"]).json()["changed"], false, "{host}");
        assert_eq!(snapshot_user_files(&sandbox), installed, "{host}");
        match host {
            "codex" => {
                let hooks = read_json(&codex.join("hooks.json"));
                let line = hooks["hooks"]["PreToolUse"][0]["hooks"][0]["command"].to_string();
                assert!(line.contains("hook --host codex pre-tool-use"), "{line}");
                let config = fs::read_to_string(codex.join("config.toml")).expect("test file");
                assert!(
                    config.starts_with("model = 'x' # mine\n\n[mcp_servers.siding]"),
                    "{config}"
                );
                let shell = home.join(".config/siding/bash-env");
                assert!(
                    config.contains(&format!("BASH_ENV = \"{}\"", shell.display())),
                    "{config}"
                );
                assert!(fs::read_to_string(shell).expect("test path").contains("adopt \"$$\""));
            }
            "gemini" => {
                let text = fs::read_to_string(&gemini).expect("test file");
                assert!(text.starts_with("{\n  // mine\n  \"theme\": \"x\",\n"), "{text}");
                assert!(text.contains("hook --host gemini before-tool"), "{text}");
                assert!(
                    text.contains("\"timeout\": 5000") && text.contains("mcpServers"),
                    "{text}"
                );
            }
            _ => {
                let file = read_json(&home.join(".config/opencode/opencode.json"));
                assert_eq!(file["mcp"]["siding"]["type"], "local");
                assert_eq!(file["mcp"]["siding"]["command"][1], "mcp");
            }
        }
        let _out = call(&["uninstall", host]);
        assert_eq!(snapshot_user_files(&sandbox), before, "{host}");
    }
    let err = run_refused(&sandbox, &["install", "codex", "--scope", "user"]);
    assert!(err.contains("only claude-code has scopes"), "{err}");
}

/// Writes a script `systemctl` that logs its calls and fails for calls that contain `refuses`.
/// Returns a `PATH` that contains the script's directory.
fn write_fake_systemctl(sandbox: &Sandbox, refuses: &str) -> String {
    let bin = sandbox.path("bin");
    fs::create_dir_all(&bin).expect("test directory");
    let log = sandbox.root().join("systemctl.log").display().to_string();
    let text = format!(
        "#!/bin/sh\necho \"$*\" >> {log}\ncase \"$*\" in *'{refuses}'*) echo 'No medium found' >&2; \
         exit 1;; *is-enabled*) echo enabled;; *is-active*) echo active;; esac\n"
    );
    fs::write(bin.join("systemctl"), text).expect("test file");
    fs::set_permissions(bin.join("systemctl"), Permissions::from_mode(0o755)).expect("test file");
    fs::write(&log, "").expect("test file");
    format!("{}:/usr/bin:/bin", bin.display())
}

#[test]
fn install_timer_writes_and_starts_the_units() {
    let sandbox = sandbox();
    let path = write_fake_systemctl(&sandbox, "nothing");
    let before = snapshot_user_files(&sandbox);
    let call = |args: &[&str]| sandbox.siding(args).env("PATH", &path).run();
    let calls = || fs::read_to_string(sandbox.root().join("systemctl.log")).expect("test file");
    let done = call(&["install", "systemd-timer"]).expect_code(0);
    assert!(done.stdout_text().contains("siding is installed in systemd's timers"), "{done}");
    let units = sandbox.home().join(".config/systemd/user");
    let service = fs::read_to_string(units.join("siding-reap.service")).expect("test path");
    assert!(service.contains("ExecStart=\"/") && service.contains("\" reap\n"), "{service}");
    let timer = fs::read_to_string(units.join("siding-reap.timer")).expect("test path");
    assert!(timer.contains("OnUnitActiveSec=15min\n"), "{timer}");
    assert!(calls().ends_with("--user daemon-reload\n--user enable --now siding-reap.timer\n"));
    let installed = snapshot_user_files(&sandbox);
    assert!(
        call(&["install", "systemd-timer"])
            .expect_code(0)
            .stdout_text()
            .contains("nothing to change")
    );
    assert_eq!(snapshot_user_files(&sandbox), installed);
    let _out = call(&["uninstall", "timer"]).expect_code(0);
    assert!(calls().ends_with("--user disable --now siding-reap.timer\n--user daemon-reload\n"));
    assert_eq!(snapshot_user_files(&sandbox), before);
}

/// The units name the state and settings directories of the user who installs them, because systemd
/// does not pass on the variables of the user's shell.
#[test]
fn the_timer_unit_carries_the_directories_of_its_installer() {
    let sandbox = sandbox();
    let path = write_fake_systemctl(&sandbox, "nothing");
    let home = sandbox.home();
    let other = sandbox.path("other").display().to_string();
    let call = |what: &str, state: Option<&str>, config: Option<&str>| {
        let call = sandbox.siding(&[what, "systemd-timer"]).env("PATH", &path);
        let mut call = call.env_remove("SIDING_STATE_DIR").env_remove("XDG_STATE_HOME");
        call = call.env_remove("XDG_CONFIG_HOME");
        for (name, value) in [("XDG_STATE_HOME", state), ("XDG_CONFIG_HOME", config)] {
            call = match value {
                Some(value) => call.env(name, value),
                None => call,
            };
        }
        let _done = call.run().expect_code(0);
    };
    for (state, config) in [(None, None), (Some(&other), None), (Some(&other), Some(&other))] {
        let (state, config) = (state.map(String::as_str), config.map(String::as_str));
        call("install", state, config);
        let dir = config.map_or_else(|| home.join(".config"), PathBuf::from);
        let unit = dir.join("systemd/user/siding-reap.service");
        let text = fs::read_to_string(unit).expect("test path");
        let printed: Vec<&str> =
            text.lines().filter_map(|line| line.strip_prefix("Environment=")).collect();
        let mut wanted = Vec::new();
        wanted.extend(state.map(|dir| format!("\"SIDING_STATE_DIR={dir}/siding\"")));
        wanted.extend(config.map(|dir| format!("\"XDG_CONFIG_HOME={dir}\"")));
        assert_eq!(printed, wanted, "{text}");
        call("uninstall", state, config);
    }
}

#[test]
fn a_failed_timer_install_leaves_no_files() {
    let sandbox = sandbox();
    for (refuses, says) in [
        ("show-environment", "no systemd user manager is running: No medium found"),
        ("enable --now", "systemd did not start the timer: No medium found"),
    ] {
        let path = write_fake_systemctl(&sandbox, refuses);
        let before = snapshot_user_files(&sandbox);
        let done =
            sandbox.siding(&["install", "systemd-timer"]).env("PATH", path).run().expect_code(125);
        assert!(
            done.stderr_text().contains(says) && done.stderr_text().contains("hint: "),
            "{done}"
        );
        assert_eq!(snapshot_user_files(&sandbox), before, "{refuses}");
    }
    let path = sandbox.path("empty").display().to_string();
    let done =
        sandbox.siding(&["install", "systemd-timer"]).env("PATH", path).run().expect_code(125);
    let state = sandbox.state_dir().display().to_string();
    let line = format!("*/15 * * * * SIDING_STATE_DIR={state} XDG_CONFIG_HOME=");
    assert!(done.stderr_text().contains(&line), "{done}");
}

/// The value of `--budget` is written into the hooks, retained by a later install without the flag,
/// and removed by `--budget off` and by uninstall.
#[test]
fn install_sets_keeps_and_removes_a_budget() {
    let sandbox = sandbox();
    let path = write_settings(&sandbox, ODD_SETTINGS);
    let _plain = run_ok(&sandbox, &["install", "claude-code"]);
    let plain = fs::read(&path).expect("the entry exists");
    let args = |event: &str| read_json(&path)["hooks"][event][0]["hooks"][0]["args"].clone();
    let _in = run_ok(&sandbox, &["install", "claude-code", "--budget", "15s"]);
    let with_budget = serde_json::json!(["hook", "--budget", "15s", "pre-tool-use"]);
    assert_eq!(args("PreToolUse"), with_budget);
    assert_eq!(args("PostToolUse")[1], "--budget");
    assert_eq!(args("Stop")[1], "stop");
    let again = run_ok(&sandbox, &["install", "claude-code"]).stdout_text();
    assert!(again.contains("nothing to change"), "{again}");
    let report = sandbox.siding(&["doctor", "--json", "--host", "claude-code"]).run().json();
    let checks = report["checks"].as_array().expect("a list");
    let check = checks.iter().find(|check| check["name"] == "budget").expect("the entry exists");
    assert_eq!((&check["state"], &check["found"]), (&"ok".into(), &"15s".into()));
    let _off = run_ok(&sandbox, &["install", "claude-code", "--budget", "off"]);
    assert_eq!(fs::read(&path).expect("the entry exists"), plain);
    let _in = run_ok(&sandbox, &["install", "claude-code", "--budget", "20s"]);
    let _out = run_ok(&sandbox, &["uninstall", "claude-code"]);
    assert_eq!(fs::read(&path).expect("the entry exists"), ODD_SETTINGS.as_bytes());

    let done = sandbox.siding(&["install", "codex", "--budget", "15s"]).run().expect_code(125);
    assert!(done.stderr_text().contains("only claude-code"), "{done}");
    let done = sandbox.siding(&["install", "claude-code", "--budget", "0s"]).run();
    assert!(done.expect_code(125).stderr_text().contains("`off` or a duration"));
    assert_eq!(fs::read(&path).expect("the entry exists"), ODD_SETTINGS.as_bytes());
}
