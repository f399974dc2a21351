//! `siding config`, and the effect of invalid settings on other commands.

use serde_json::Value;
use siding_e2e::{Sandbox, Terminal};

use crate::support::{
    PROGRAM_WITH_INTERRUPT, interrupt_and_end_program, read_docs_file, run_ok, run_refused,
    sandbox, siding_on_controlling_terminal, write,
};

pub(crate) fn write_user_config(sandbox: &Sandbox, text: &str) {
    let dir = sandbox.home().join(".config/siding");
    std::fs::create_dir_all(&dir).expect("test directory");
    std::fs::write(dir.join("config.toml"), text).expect("test directory");
}

fn find_setting(list: &Value, key: &str) -> Value {
    let list = list.as_array().expect("a list");
    list.iter().find(|one| one["key"] == key).unwrap_or_else(|| panic!("no {key}")).clone()
}

#[test]
fn config_show_names_the_origin_of_a_setting() {
    let sandbox = sandbox();
    write_user_config(&sandbox, "kill_grace = \"3s\"\n\nsettle = \"1s\"\n");
    write(&sandbox, ".siding/config.toml", "# ours\nsettle = \"2s\"\n");
    let show = |flags: &[&str]| {
        let call = sandbox.siding(&[&["config", "show"], flags].concat());
        call.env("SIDING_WAIT_BOUND", "5m").run().expect_code(0)
    };
    let text = show(&[]).stdout_text();
    // A row that is longer than 80 columns continues on an indented line.
    let row = |key: &str| {
        let start = text.lines().skip_while(|line| !line.starts_with(&format!("{key} ")));
        let next = start.clone().skip(1).take_while(|line| line.starts_with(' '));
        let words = start.take(1).chain(next).flat_map(str::split_whitespace);
        words.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row("kill_grace"), "kill_grace 3s user ~/.config/siding/config.toml line 1");
    let project = sandbox.path(".siding/config.toml").display().to_string();
    assert_eq!(row("settle"), format!("settle 2s project {project} line 2"));
    assert_eq!(row("wait_bound"), "wait_bound 5m environment SIDING_WAIT_BOUND");
    assert_eq!(row("retention_age"), "retention_age 7d built-in");
    assert_eq!(row("max_memory"), "max_memory no limit built-in");
    let files = text.split_once("\nfiles, ").expect("the files come last").1;
    assert!(files.contains("\n  user     ~/.config/siding/config.toml\n"), "{files}");
    assert!(files.ends_with(&format!("\n  project  {project}\n")), "{files}");
    let one = show(&["settle"]).stdout_text();
    let words: Vec<&str> = one.split_whitespace().collect();
    assert!(words.starts_with(&["settle", "2s", "project"]), "{one}");
    assert!(!one.contains("kill_grace") && !one.contains("files, "), "{one}");
    let list = show(&["--json"]).json();
    assert_eq!(find_setting(&list, "max_memory")["value"], "0B");
    let settle = find_setting(&list, "settle");
    assert_eq!((&settle["origin"], &settle["line"]), (&"project".into(), &2.into()));
    assert_eq!(settle["source"], project);
    assert_eq!(find_setting(&list, "wait_bound")["source"], "SIDING_WAIT_BOUND");
}

#[test]
fn config_schema_matches_the_docs_and_has_every_key() {
    let sandbox = sandbox();
    let printed = run_ok(&sandbox, &["config", "schema"]);
    assert_eq!(printed.stdout_text(), read_docs_file("schema/config.schema.json"));
    let properties = printed.json()["properties"].clone();
    let list = run_ok(&sandbox, &["config", "show", "--json"]).json();
    for one in list.as_array().expect("a list") {
        let key = one["key"].as_str().expect("a name");
        assert!(properties.get(key).is_some(), "{key} is not in the schema");
    }
}

/// `config check` reports all errors in one run, each with file, line, key and allowed values.
#[test]
fn config_check_reports_each_error_with_its_line_and_allowed_values() {
    let sandbox = sandbox();
    let bad = "# ours\nkill_grace = \"5\"\nassistant_mode = \"maybe\"\nkill_grase = \"5s\"\n\
               retention_tasks = -1\nkill_signal = \"TREM\"\n";
    write(&sandbox, ".siding/config.toml", bad);
    let file = sandbox.path(".siding/config.toml").display().to_string();
    for args in [&["config", "check"][..], &["config", "check", &file]] {
        let done = sandbox.siding(args).env("SIDING_SETTLE", "").run().expect_code(1);
        let lines: Vec<String> = done.stderr_text().lines().map(str::to_owned).collect();
        for (line, key, allowed) in [
            (2, "kill_grace", "write `5s` for seconds"),
            (3, "assistant_mode", "write `auto`, `on` or `off`"),
            (4, "kill_grase", "kill_grace"),
            (5, "retention_tasks", "-1"),
            (6, "kill_signal", "TREM"),
        ] {
            let place = format!("siding: `{file}` line {line}: ");
            let found = lines.iter().find(|message| message.starts_with(&place));
            let message = found.unwrap_or_else(|| panic!("no message about line {line}: {done}"));
            assert!(message.contains(key) && message.contains(allowed), "{message}");
        }
        assert_eq!(lines.len(), 5, "{done}");
        assert_eq!(done.stdout_text(), format!("checked {file}\n5 mistakes\n"));
    }
    let err = run_refused(&sandbox, &["run", "--", "true"]);
    assert!(err.contains(&format!("`{file}` line 2: `kill_grace`")), "{err}");
    assert_eq!(sandbox.task_ids(), Vec::<String>::new());
}

/// `config set` and `config unset` change only their key, and write nothing that is invalid.
#[test]
fn config_set_and_unset_change_one_key_and_keep_comments() {
    let sandbox = sandbox();
    write_user_config(&sandbox, "# mine\nkill_grace = \"3s\" # slow tests\n");
    let path = sandbox.home().join(".config/siding/config.toml");
    let read = || std::fs::read_to_string(&path).expect("the settings file");
    let done = run_ok(&sandbox, &["config", "set", "kill_grace", "5s"]).stdout_text();
    assert!(done.contains("\nkill_grace is now 5s (user file `"), "{done}");
    assert_eq!(read(), "# mine\nkill_grace = \"5s\" # slow tests\n");
    for (key, value, expected) in [
        ("kill_grace", "soon", "`kill_grace`: `soon` is not a duration"),
        ("kil_grace", "5s", "did you mean `kill_grace`?"),
        ("max_elapsed", "9h", "more than the cap of `4h`, which `max_elapsed_hard_cap` sets"),
        ("shell", "/no/such", "`shell`: `/no/such` is not an executable file"),
    ] {
        let err = run_refused(&sandbox, &["config", "set", key, value]);
        assert!(err.contains(expected), "{err}");
    }
    assert_eq!(read(), "# mine\nkill_grace = \"5s\" # slow tests\n");
    assert_eq!(run_ok(&sandbox, &["config", "get", "kill_grace"]).stdout_text(), "5s\n");
    let setting = run_ok(&sandbox, &["config", "get", "kill_grace", "--json"]).json();
    assert_eq!((&setting["value"], &setting["origin"]), (&"5s".into(), &"user".into()));
    let _done = run_ok(&sandbox, &["config", "set", "max_processes", "40", "--layer", "project"]);
    let project = std::fs::read_to_string(sandbox.path(".siding/config.toml"));
    assert_eq!(project.expect("a new file"), "max_processes = 40\n");
    let done = run_ok(&sandbox, &["config", "unset", "kill_grace"]).stdout_text();
    assert!(done.contains("\nkill_grace is now 10s (built-in)\n"), "{done}");
    assert_eq!(read(), "# mine\n");
    let done = run_ok(&sandbox, &["config", "unset", "kill_grace"]).stdout_text();
    assert!(done.contains("config.toml does not set kill_grace"), "{done}");
}

/// A text from the editor replaces the file only if it is valid; otherwise it is kept for the next
/// `config edit`.
#[test]
fn config_edit_keeps_an_invalid_text_for_the_next_edit() {
    let sandbox = sandbox();
    let old = "# mine\nkill_grace = \"3s\"\n";
    write_user_config(&sandbox, old);
    let path = sandbox.home().join(".config/siding/config.toml");
    let draft = sandbox.home().join(".config/siding/config.toml.draft");
    let read = || std::fs::read_to_string(&path).expect("the settings file");
    let edit = |editor: &str, args: &[&str]| {
        let call = sandbox.siding(&[&["config", "edit"][..], args].concat());
        call.env("EDITOR", editor).run()
    };
    assert_eq!(edit("true", &[]).expect_code(0).stdout_text(), "nothing was changed\n");
    let failed = edit("false", &[]).expect_code(125).stderr_text();
    assert!(failed.contains("the editor `false` failed"), "{failed}");
    assert!(!draft.exists(), "an unchanged text need not be kept");
    let failed = edit("sed -i s/3s/soon/", &[]).expect_code(125).stderr_text();
    for part in [".draft` line 2: `kill_grace`: ", " is unchanged, ", "continues with your text"] {
        assert!(failed.contains(part), "{failed}");
    }
    assert_eq!(read(), old);
    let _fixed = edit("sed -i s/soon/4s/", &[]).expect_code(0);
    assert_eq!(read(), "# mine\nkill_grace = \"4s\"\n");
    assert!(!draft.exists());
    let _done = edit("sed -i 's/^# stall_after/stall_after/'", &["stall_after"]).expect_code(0);
    assert!(read().ends_with("\nstall_after = \"45s\"\n"), "{}", read());
}

/// Ctrl-C is a key of the editor, and does not end the call before the editor.
#[test]
fn config_edit_waits_for_an_editor_that_received_ctrl_c() {
    let sandbox = sandbox();
    write(&sandbox, "editor.sh", PROGRAM_WITH_INTERRUPT);
    let mut terminal = Terminal::new(80, 10);
    let call = siding_on_controlling_terminal(&sandbox, &terminal, &["config", "edit"]);
    let call = call.env("EDITOR", "sh editor.sh").spawn();
    interrupt_and_end_program(&mut terminal);
    let _done = call.wait().expect_code(0);
    terminal.wait_for_row("nothing was changed");
}

#[test]
fn an_invalid_environment_setting_names_its_variable() {
    let sandbox = sandbox();
    let call = sandbox.siding(&["config", "check"]).env("SIDING_KILL_GRACE", "soon");
    let done = call.run().expect_code(1);
    assert!(
        done.stderr_text().contains("`SIDING_KILL_GRACE`") && done.stderr_text().contains("`soon`"),
        "{done}"
    );
}

#[test]
fn config_check_checks_a_file_as_the_given_layer() {
    let sandbox = sandbox();
    assert_eq!(
        run_ok(&sandbox, &["config", "check"]).stdout_text(),
        "there is no settings file\nno mistakes\n"
    );
    write(&sandbox, "new.toml", "kill_grace = \"5s\"\nlocked = [\"kill_grace\"]\n");
    let out = run_ok(&sandbox, &["config", "check", "new.toml", "--layer", "system"]).stdout_text();
    assert_eq!(out, "checked new.toml\nno mistakes\n");
    let done = sandbox.siding(&["config", "check", "new.toml"]).run().expect_code(1);
    assert!(
        done.stderr_text().contains("`new.toml` line 2: ") && done.stderr_text().contains("locked"),
        "{done}"
    );
    write(&sandbox, "broken.toml", "kill_grace = \n");
    let done = sandbox.siding(&["config", "check", "broken.toml"]).run().expect_code(1);
    assert!(done.stderr_text().contains("`broken.toml` line 1"), "{done}");
    let err = run_refused(&sandbox, &["config", "check", "missing.toml"]);
    assert!(err.contains("`missing.toml`") && err.contains("hint: "), "{err}");
}

/// Commands that show or stop tasks work even if a settings file is invalid.
#[test]
fn an_invalid_config_does_not_block_ps_show_output_and_stop() {
    let sandbox = sandbox();
    let id = crate::support::start_task(&sandbox, &[], crate::support::HANG_COMMAND);
    write(&sandbox, ".siding/config.toml", "kill_grace = 5\n");
    let shown = run_ok(&sandbox, &["ps", "--json"]).json();
    assert_eq!(shown[0]["task_id"], id);
    assert_eq!(run_ok(&sandbox, &["show", "--json", &id]).json()["task_id"], id);
    let _looked = run_ok(&sandbox, &["output", &id]);
    let _stopped = run_ok(&sandbox, &["stop", &id]);
    let list = sandbox.siding(&["config", "show", "--json"]).run().expect_code(125);
    assert_eq!(find_setting(&list.json(), "kill_grace")["origin"], "built-in", "{list}");
    assert!(list.stderr_text().contains("line 1: `kill_grace`"), "{list}");
}

/// `config check` and `doctor` report an unknown `bash.background…` key of a host's file with the
/// nearest known key. A known key in the same file remains in effect.
#[test]
fn unknown_host_settings_keys_are_reported_by_check_and_doctor() {
    let sandbox = sandbox();
    let settings = r#"{"bash": {"backgroundMaxElapsedSecondsHardCap": 600,
        "backgroundMaxElapsdSeconds": 60}}"#;
    write(&sandbox, ".claude/settings.json", settings);
    let shown = run_ok(&sandbox, &["config", "show", "--json"]).json();
    let cap = find_setting(&shown, "max_elapsed_hard_cap");
    assert_eq!((&cap["value"], &cap["origin"]), (&"10m".into(), &"host".into()));

    let done = sandbox.siding(&["config", "check"]).run().expect_code(0);
    let file = sandbox.path(".claude/settings.json").display().to_string();
    let message = format!(
        "siding: `{file}`: unknown key `bash.backgroundMaxElapsdSeconds`; the nearest known key is \
         `bash.backgroundMaxElapsedSeconds`\n"
    );
    assert_eq!(done.stderr_text(), message);
    assert!(done.stdout_text().contains(&format!("checked {file}\n")), "{}", done.stdout_text());
    // `siding run` applies the cap without repeating these warnings.
    assert_eq!(sandbox.siding(&["run", "--", "true"]).run().expect_code(0).stderr_text(), "");

    for args in [&["doctor", "--json"][..], &["doctor", "--json", "--host", "claude-code"]] {
        let report = sandbox.siding(args).run().json();
        let checks = report["checks"].as_array().expect("a list");
        let check =
            checks.iter().find(|check| check["name"] == "host settings").expect("the entry exists");
        assert_eq!(check["state"], "limited");
        let found = check["found"].as_str().expect("a text");
        assert!(
            found.contains("the nearest known key is `bash.backgroundMaxElapsedSeconds`"),
            "{found}"
        );
    }
}
