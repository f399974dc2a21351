use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use siding_model::settings::{Key, Origin, RawValue, Settings};
use siding_model::signal::Signal;
use siding_model::size::Bytes;
use tempfile::TempDir;

use super::*;

mod sources;

/// A temporary directory with a home and a project, and the paths of settings files that do not
/// exist yet.
struct FakeSystem {
    dir: TempDir,
    environment: Environment,
}

impl FakeSystem {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let root = dir.path().canonicalize().expect("it exists");
        let home = root.join("home");
        let project = home.join("project");
        fs::create_dir_all(&project).expect("made");
        let environment = Environment {
            system_file: Some(root.join("etc/config.toml")),
            host_file: Some(home.join(".claude/settings.json")),
            host_managed_directory: Some(root.join("etc/claude-code")),
            user_file: Some(home.join(".config/siding/config.toml")),
            working_directory: Some(project),
            user: fs::metadata(&home).expect("it exists").uid(),
            home: Some(home),
            ..Environment::default()
        };
        Self { dir, environment }
    }

    fn system_file(&self) -> PathBuf {
        self.environment.system_file.clone().expect("set")
    }

    fn host_file(&self) -> PathBuf {
        self.environment.host_file.clone().expect("set")
    }

    fn user_file(&self) -> PathBuf {
        self.environment.user_file.clone().expect("set")
    }

    fn project_file(&self) -> PathBuf {
        self.cwd().join(".siding/config.toml")
    }

    fn cwd(&self) -> PathBuf {
        self.environment.working_directory.clone().expect("set")
    }

    fn set_variable(&mut self, key: Key, value: &str) {
        self.environment.variables.push((key, value.into()));
    }

    fn load(&self) -> Settings {
        load(&self.environment).expect("legal settings")
    }

    fn load_error(&self) -> String {
        load(&self.environment).expect_err("illegal settings").to_string()
    }

    fn warnings(&self) -> Vec<String> {
        self.load().warnings().iter().map(ToString::to_string).collect()
    }
}

fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().expect("a file")).expect("made");
    fs::write(path, text).expect("written");
}

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn without_sources_the_defaults_apply() {
    let machine = FakeSystem::new();
    assert_eq!(machine.load(), Settings::default());
    assert!(read(&machine.environment).files.is_empty());
    assert_eq!(load(&Environment::default()).expect("no sources"), Settings::default());
}

#[test]
fn each_layer_overrides_the_one_below() {
    let mut machine = FakeSystem::new();
    let key = Key::KillGrace;
    let expect = |machine: &FakeSystem, seconds, origin| {
        let settings = machine.load();
        assert_eq!(settings.kill_grace, secs(seconds));
        assert_eq!(*settings.origin(key), origin);
    };
    write(&machine.system_file(), "kill_grace = '1s'");
    expect(&machine, 1, Origin::System { path: machine.system_file() });
    write(&machine.host_file(), r#"{"bash": {"backgroundKillGraceSeconds": 2}}"#);
    expect(&machine, 2, Origin::Host { path: machine.host_file() });
    write(&machine.user_file(), "kill_grace = '3s'");
    expect(&machine, 3, Origin::User { path: machine.user_file() });
    write(&machine.project_file(), "kill_grace = '4s'");
    expect(&machine, 4, Origin::Project { path: machine.project_file() });
    machine.set_variable(key, "5s");
    expect(&machine, 5, Origin::Environment { name: "SIDING_KILL_GRACE".to_owned() });
    machine.environment =
        machine.environment.with_call(key, "--grace", RawValue::Text("6s".to_owned()));
    expect(&machine, 6, Origin::Call { flag: "--grace".to_owned() });
    assert_eq!(
        read(&machine.environment).files,
        [machine.system_file(), machine.host_file(), machine.user_file(), machine.project_file()]
    );
}

#[test]
fn every_kind_of_value_is_read_from_a_file() {
    let machine = FakeSystem::new();
    let text = "# comment\n\
        blocking_budget = \"20s\"\n\
        kill_signal = 2\n\
        assistant_mode = \"on\"\n\
        background_tasks = false\n\
        output_keep_head = 1_024\n\
        output_keep_tail = \"1 MiB\"\n\
        retention_tasks = 0x10\n";
    write(&machine.user_file(), text);
    let settings = machine.load();
    assert_eq!(settings.blocking_budget, secs(20));
    assert_eq!(settings.kill_signal, Signal::INT);
    assert!(!settings.background_tasks);
    assert_eq!(settings.output_keep_head, Bytes(1024));
    assert_eq!(settings.output_keep_tail, Bytes::mib(1));
    assert_eq!(settings.retention_tasks, 16);
    let shown = settings.entries().find(|entry| entry.key == Key::BlockingBudget).expect("shown");
    assert_eq!((shown.value.to_string().as_str(), shown.source.line), ("20s", Some(2)));
}

#[test]
fn errors_name_file_line_key_value_and_allowed_values() {
    let machine = FakeSystem::new();
    let file = machine.user_file().display().to_string();
    for (text, message) in [
        (
            "# a\n\nmax_elapsed = 1800\n",
            "line 3: `max_elapsed`: `1800` has no unit; write `1800s` for seconds, or another of ms, s, m, h, d, w",
        ),
        (
            "shell = 'sh'\nkil_grace = '1s'\n",
            "line 2: unknown key `kil_grace`; did you mean `kill_grace`?",
        ),
        (
            "settle = '1s'\nassistant_mode = 'maybe'",
            "line 2: `assistant_mode`: `maybe` is not allowed here; write `auto`, `on` or `off`",
        ),
        (
            "\n[output]\nkeep_head = 5",
            "line 2: unknown key `output`; `siding config show` lists all keys",
        ),
        (
            "settle = 1.5",
            "line 1: `settle`: `a number with a fraction` is not allowed here; write a duration such as `15s`, `30m` or `1h30m`",
        ),
        (
            "retention_tasks = 99999999999999999999",
            "line 1: `retention_tasks`: `a number of more than 64 bits` is not allowed here; write a whole number from 0 to 4294967295",
        ),
        (
            "[executor.a]\nhost = 'a'\n\n[executor.b]\nhost = 'b'\npath = {}\n",
            "line 6: `executor`: unknown key `path` of `b` (did you mean `paths`?); the keys are `kind`, `host`, `program`, `paths`, `env` and `sync`",
        ),
        (
            "[executor.a]\nhost = 'a'\n[executor.b]\n\nhost = '-b'\n",
            "line 5: `executor`: `b.host`: `-b` is not allowed here; write the destination for ssh, such as `\"build\"` or `\"me@build\"`, without spaces and without `-` at the beginning",
        ),
        ("locked = ['shell']", "line 1: `locked` is allowed in the system file only"),
    ] {
        write(&machine.user_file(), text);
        assert_eq!(machine.load_error(), format!("`{file}` {message}"), "{text}");
    }
    for text in ["settle = \n", "a = 1\nsettle = '1s'\nsettle = '2s'\n", "settle '1s'"] {
        write(&machine.user_file(), text);
        let error = machine.load_error();
        assert!(
            error.starts_with(&format!("`{file}` line ")) && error.contains(" column "),
            "{error}"
        );
        assert!(!error.contains('\n'), "{error}");
    }
    write(&machine.user_file(), b"settle = '1s'\nshell = '\xff'\n");
    assert_eq!(machine.load_error(), format!("`{file}` line 2: not UTF-8"));
}

#[test]
fn a_syntax_error_has_line_and_column() {
    let machine = FakeSystem::new();
    write(&machine.user_file(), "settle = '1s'\nshell = ä\n");
    let error = load(&machine.environment).expect_err("no value");
    assert!(matches!(error, SettingsError::Syntax { line: 2, column: 9, .. }), "{error:?}");
}

#[test]
fn all_errors_are_reported_in_order() {
    let mut machine = FakeSystem::new();
    write(&machine.system_file(), "locked = ['shel', 3]");
    write(&machine.user_file(), "settle = 'x'\nblocking_budget = 'y'\nkill_grace = '3s'\n");
    write(&machine.project_file(), "oops");
    machine.set_variable(Key::WaitBound, "0s");
    machine.environment.variables.push((Key::Shell, std::ffi::OsString::from_vec(vec![0xff])));
    let reading = read(&machine.environment);
    let reported: Vec<_> = reading.mistakes.iter().map(ToString::to_string).collect();
    let parts = [
        "did you mean `shell`",
        "`locked` takes an array",
        "line 1: `settle`",
        "line 2: `blocking_budget`",
        "line 1 column",
        "`SIDING_WAIT_BOUND`: `0s` is not allowed",
        "`SIDING_SHELL`: not UTF-8",
    ];
    assert_eq!(reported.len(), parts.len(), "{reported:#?}");
    for (told, part) in reported.iter().zip(parts) {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(reading.settings.kill_grace, secs(3), "legal values apply in spite of mistakes");
    assert_eq!(machine.load_error(), reported[0]);
}

#[test]
fn the_system_file_locks_by_array_or_table() {
    for text in [
        "kill_grace = '30s'\nlocked = ['kill_grace', 'shell']",
        "kill_grace = '30s'\n[locked]\nkill_grace = true\nshell = true\nsettle = false",
    ] {
        let mut machine = FakeSystem::new();
        write(&machine.system_file(), text);
        write(&machine.host_file(), r#"{"bash.backgroundKillGraceSeconds": 0}"#);
        write(&machine.user_file(), "kill_grace = '0s'\nsettle = '1s'");
        write(&machine.project_file(), "shell = './evil'");
        machine.set_variable(Key::KillGrace, "0s");
        machine.environment =
            machine.environment.with_call(Key::KillGrace, "--grace", RawValue::Text("0s".into()));
        let settings = machine.load();
        assert_eq!(settings.kill_grace, secs(30));
        assert_eq!(settings.shell, "bash");
        assert_eq!(settings.settle, secs(1));
        let warnings = machine.warnings();
        assert_eq!(warnings.len(), 5, "{warnings:#?}");
        assert!(
            warnings[1]
                .contains("line 1: `kill_grace` stays `30s`: it is locked by the system file")
        );
        assert!(warnings[4].starts_with("`--grace`: "));
    }
    let machine = FakeSystem::new();
    for text in ["locked = true", "locked = [1]", "[locked]\nshell = 'bash'"] {
        write(&machine.system_file(), text);
        assert!(machine.load_error().contains("takes an array of key names, or a table"), "{text}");
    }
}

#[test]
fn only_the_system_file_raises_the_cap() {
    let mut machine = FakeSystem::new();
    machine.set_variable(Key::MaxElapsedHardCap, "20h");
    machine.set_variable(Key::MaxElapsed, "10h");
    let settings = machine.load();
    assert_eq!((settings.max_elapsed, settings.max_elapsed_hard_cap), (secs(14_400), secs(14_400)));
    assert_eq!(settings.warnings().len(), 2);
    write(&machine.system_file(), "max_elapsed_hard_cap = '12h'");
    let settings = machine.load();
    assert_eq!((settings.max_elapsed, settings.max_elapsed_hard_cap), (secs(36_000), secs(43_200)));
    write(&machine.project_file(), "max_elapsed_hard_cap = '1h'");
    assert_eq!(machine.load().max_elapsed, secs(3600));
}

#[test]
fn settings_sources_are_found_from_the_process_environment() {
    let environment = Environment::from_process();
    assert_eq!(environment.system_file, Some("/etc/siding/config.toml".into()));
    assert!(environment.working_directory.is_some_and(|dir| dir.is_absolute()));
    assert!(environment.call.is_empty());
}
