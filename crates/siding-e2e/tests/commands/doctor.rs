//! The checks of `siding doctor`.

use std::collections::BTreeSet;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use siding_e2e::{ProgramOutput, is_root};

use crate::support::{sandbox, write};

/// Returns the check names of the text output, in order.
fn check_names(done: &ProgramOutput) -> Vec<String> {
    let row = |line: &str| {
        let rest =
            ["ok ", "limited ", "missing "].iter().find_map(|word| line.strip_prefix(word))?;
        rest.trim_start().split("  ").next().map(str::to_owned)
    };
    done.stdout_text().lines().filter_map(row).collect()
}

#[test]
fn each_check_is_listed_once_and_the_verdict_sets_the_exit_code() {
    let sandbox = sandbox();
    let done = sandbox.siding(&["doctor", "--json"]).run();
    let view = done.json();
    let checks = view["checks"].as_array().expect("a list");
    let text =
        |one: &serde_json::Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    let names: Vec<String> = checks.iter().map(|one| text(one, "name")).collect();
    let unique: BTreeSet<&String> = names.iter().collect();
    assert_eq!(unique.len(), names.len(), "{names:?}");
    for one in checks {
        let state = text(one, "state");
        assert!(["ok", "limited", "missing"].contains(&state.as_str()), "{one}");
        assert!(
            !text(one, "found").is_empty() && !text(one, "missing_guarantee").is_empty(),
            "{one}"
        );
    }
    for wanted in [
        "pidfd",
        "PIDFD_GET_INFO",
        "subreaper",
        "birthmark",
        "cgroup",
        "Yama",
        "inotify",
        "hole punching",
        "state directory",
        "shell",
    ] {
        assert!(names.iter().any(|name| name.contains(wanted)), "no {wanted} in {names:?}");
    }
    let code = match view["verdict"].as_str() {
        Some("whole") => 0,
        Some("weaker") => 1,
        other => panic!("unexpected state {other:?}: {done}"),
    };
    assert_eq!(done.code, Some(code), "{done}");
    let words = sandbox.siding(&["doctor"]).run().expect_code(code);
    assert_eq!(check_names(&words), names, "{words}");
}

#[test]
fn doctor_explains_what_a_missing_feature_weakens() {
    let sandbox = sandbox();
    let call = sandbox.siding(&["doctor"]).env("SIDING_SHELL", "/no/such/shell");
    let done = call.run().expect_code(1);
    let out = done.stdout_text();
    let (_, about) = out.split_once("limited  shell ").unwrap_or_else(|| panic!("{done}"));
    let about: Vec<&str> = about.lines().take(3).collect();
    assert!(about[0].contains("`/no/such/shell`"), "{out}");
    assert!(about.iter().any(|line| line.trim_start().starts_with("without it: ")), "{out}");
    let (_, summary) = out.rsplit_once("\n\n").unwrap_or_else(|| panic!("{done}"));
    assert!(summary.starts_with("siding works here; "), "{out}");
    assert!(summary.contains(" weaker: ") && summary.contains("shell"), "{out}");
}

/// Promise P95: `doctor --watch` lists each failure class with its detector and the setting that
/// enables the detector.
#[test]
fn doctor_watch_lists_each_class_with_its_settings() {
    let sandbox = sandbox();
    // The setting has a short value, because the sandbox's own value could make a line too long.
    let call = sandbox.siding(&["doctor", "--watch"]).env("SIDING_REAP_SOCKETS", "/tmp/a-*.sock");
    let done = call.run().expect_code(0);
    let out = done.stdout_text();
    assert!(out.lines().all(|line| line.chars().count() <= 80), "{out}");
    for class in [
        "armed  explicit destruction ",
        "armed  privileged bypass ",
        "off    unauthorized egress ",
        "armed  silent stuck process ",
        "armed  busy loop without output ",
        "armed  descriptor leak ",
        "armed  socket-file accumulation ",
        "armed  exfiltration in the background ",
        "off    memory ",
    ] {
        assert!(out.contains(class), "no {class} in {out}");
    }
    assert!(out.contains("watch_cpu_spin=5m, max_cpu_spin=0s\n"), "{out}");
    let call = sandbox.siding(&["doctor", "--watch", "--json"]).env("SIDING_WATCH_FDS", "0");
    let classes = call.run().expect_code(0).json()["classes"].clone();
    let leak = classes
        .as_array()
        .and_then(|all| all.iter().find(|one| one["class"] == "descriptor leak").cloned());
    let leak = leak.unwrap_or_else(|| panic!("{classes}"));
    assert_eq!((&leak["armed"], &leak["action"]), (&false.into(), &"notice".into()));
    let first = &leak["settings"][0];
    assert_eq!((&first["key"], &first["origin"]), (&"watch_fds".into(), &"environment".into()));
}

#[test]
fn doctor_reports_broken_without_a_usable_state_directory() {
    let sandbox = sandbox();
    write(&sandbox, "file", "");
    let state = sandbox.path("file");
    let call = |flags: &[&str]| {
        sandbox.siding(&[&["doctor"], flags].concat()).env("SIDING_STATE_DIR", &state).run()
    };
    let view = call(&["--json"]).expect_code(125).json();
    assert_eq!(view["verdict"], "broken");
    assert_eq!(view["state_dir"], state.display().to_string());
    let done = call(&[]).expect_code(125);
    assert!(done.stdout_text().contains("missing  state directory"), "{done}");
    assert!(done.stdout_text().contains("set SIDING_STATE_DIR"), "{done}");
    assert!(done.stdout_text().contains("siding cannot work here"), "{done}");
}

/// `siding doctor` removes the files that the checks create in the state directory.
#[test]
fn doctor_leaves_no_files_in_the_state_directory() {
    let sandbox = sandbox();
    let _listed = sandbox.siding(&["ps"]).run().expect_code(0);
    let names = || -> BTreeSet<String> {
        let entries = std::fs::read_dir(sandbox.state_dir()).expect("the entry exists");
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
    };
    let before = names();
    let done = sandbox.siding(&["doctor"]).run();
    println!("as {}: {done}", if is_root() { "root" } else { "oneself" });
    assert_eq!(names(), before);
}

/// Runs `doctor --host claude-code` and returns the checks by name, each with the command that
/// repairs the problem.
fn doctor_host_checks(sandbox: &siding_e2e::Sandbox, code: i32) -> serde_json::Value {
    let path = format!("{}:/usr/bin:/bin", sandbox.path("bin").display());
    let call = sandbox.siding(&["doctor", "--host", "claude-code", "--json"]).env("PATH", path);
    let call = call.env("SIDING_SUPERVISE_HOSTS", "true");
    let view = call.run().expect_code(code).json();
    assert_eq!(view["host"], "claude-code");
    let checks = view["checks"].as_array().expect("a list").clone();
    let named = |one: serde_json::Value| {
        let name = one["name"].as_str().expect("a name").to_owned();
        let repair = view["repairs"][&name].clone();
        (name, serde_json::json!({"state": one["state"], "found": one["found"], "repair": repair}))
    };
    checks.into_iter().map(named).collect()
}

#[test]
fn doctor_checks_a_host_and_suggests_repairs() {
    let sandbox = sandbox();
    let none = doctor_host_checks(&sandbox, 1);
    assert_eq!(none["host"]["state"], "missing", "{none:#}");
    assert_eq!(none["hooks"]["repair"], "siding install claude-code", "{none:#}");
    assert_eq!(none["MCP server"]["repair"], "siding install claude-code", "{none:#}");

    let bin = sandbox.path("bin");
    std::fs::create_dir(&bin).expect("test directory");
    let claude = bin.join("claude");
    std::fs::write(&claude, "#!/bin/sh\necho '9.9.9 (a stand-in)'\n").expect("test file");
    std::fs::set_permissions(&claude, Permissions::from_mode(0o755)).expect("test file");
    let _in = sandbox.siding(&["install", "claude-code"]).run().expect_code(0);
    let whole = doctor_host_checks(&sandbox, 0);
    let found = |view: &serde_json::Value, name: &str| view[name]["found"].to_string();
    assert!(found(&whole, "host").contains("9.9.9 (a stand-in)"), "{whole:#}");
    assert!(found(&whole, "hooks").contains("all 10 entries"), "{whole:#}");
    assert!(found(&whole, "hook program").contains("is this siding"), "{whole:#}");

    // Break the installation: remove one hook, let the others name a missing program, and disable
    // all hooks.
    let path = sandbox.home().join(".claude/settings.json");
    let text = std::fs::read_to_string(&path).expect("test file");
    let other = text.replace("siding-under-test", "gone/siding").replace("\"stop\"", "\"other\"");
    let other = other.replacen('{', "{\"disableAllHooks\": true,", 1);
    std::fs::write(&path, other).expect("test file");
    let ill = doctor_host_checks(&sandbox, 1);
    assert!(found(&ill, "hooks").contains("missing: Stop stop"), "{ill:#}");
    assert!(found(&ill, "hook program").contains("is not an executable file"), "{ill:#}");
    assert!(found(&ill, "hooks allowed").contains("disableAllHooks"), "{ill:#}");
    // Next case: a settings file that the host cannot parse.
    std::fs::write(&path, "{ // mine\n}").expect("test file");
    assert!(found(&doctor_host_checks(&sandbox, 1), "files").contains("line 1, column 3"));
    // Next case: an installation in two scopes, with different program paths.
    std::fs::write(&path, text).expect("test file");
    let local = sandbox.path(".claude/settings.json");
    let _in = sandbox.siding(&["install", "claude-code", "--scope", "project"]).run();
    let text = std::fs::read_to_string(&local).expect("test file");
    std::fs::write(&local, text.replace("siding-under-test", "gone/siding")).expect("test file");
    let twice = doctor_host_checks(&sandbox, 1);
    let repair = "siding uninstall claude-code --scope project";
    assert_eq!(twice["unique hooks"]["repair"], repair, "{twice:#}");
}
