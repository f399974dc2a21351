//! `siding doctor`.

use std::collections::BTreeSet;

use siding_e2e::{Finished, is_root};

use crate::support::{sandbox, write};

/// The names in the answer for people, in order.
fn rows(done: &Finished) -> Vec<String> {
    let row = |line: &str| {
        let rest =
            ["ok ", "limited ", "missing "].iter().find_map(|word| line.strip_prefix(word))?;
        rest.trim_start().split("  ").next().map(str::to_owned)
    };
    done.out().lines().filter_map(row).collect()
}

#[test]
fn each_probe_is_named_once_and_the_verdict_is_the_exit_code() {
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
        assert!(!text(one, "found").is_empty() && !text(one, "without").is_empty(), "{one}");
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
        other => panic!("a machine that runs these tests is not {other:?}: {done}"),
    };
    assert_eq!(done.code, Some(code), "{done}");
    let words = sandbox.siding(&["doctor"]).run().expect_code(code);
    assert_eq!(rows(&words), names, "{words}");
}

#[test]
fn what_is_missing_is_said_with_what_is_weaker() {
    let sandbox = sandbox();
    let call = sandbox.siding(&["doctor"]).env("SIDING_SHELL", "/no/such/shell");
    let done = call.run().expect_code(1);
    let out = done.out();
    let (_, about) = out.split_once("limited  shell ").unwrap_or_else(|| panic!("{done}"));
    let about: Vec<&str> = about.lines().take(3).collect();
    assert!(about[0].contains("`/no/such/shell`"), "{out}");
    assert!(about.iter().any(|line| line.trim_start().starts_with("without it: ")), "{out}");
    assert!(out.ends_with("siding works here; what is said above is weaker.\n"), "{out}");
}

#[test]
fn a_place_that_cannot_hold_state_breaks_it() {
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
    assert!(done.out().contains("missing  state directory"), "{done}");
    assert!(done.out().contains("set SIDING_STATE_DIR"), "{done}");
    assert!(done.out().contains("siding cannot work here"), "{done}");
}

/// It tries things in the state directory, and tidies up.
#[test]
fn nothing_of_its_tries_is_left() {
    let sandbox = sandbox();
    let _listed = sandbox.siding(&["ps"]).run().expect_code(0);
    let names = || -> BTreeSet<String> {
        let entries = std::fs::read_dir(sandbox.state_dir()).expect("it is there");
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
    };
    let before = names();
    let done = sandbox.siding(&["doctor"]).run();
    println!("as {}: {done}", if is_root() { "root" } else { "oneself" });
    assert_eq!(names(), before);
}
