//! Tests sources other than plain settings files, and files that are not regular files.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::time::Duration;

use siding_model::settings::{Key, Origin, Settings};
use siding_model::signal::Signal;

use super::{
    FILE_MAX, FakeSystem, PlannedFile, WritableLayer, read, read_planned, secs, writable_file,
    write,
};

#[test]
fn host_keys_are_read_as_object_and_dotted_key() {
    let machine = FakeSystem::new();
    for text in [
        r#"{"model": "x", "bash": {"other": [1], "backgroundMaxElapsedSeconds": 600,
            "backgroundMaxElapsedSecondsHardCap": 7200.5, "backgroundKillSignal": "SIGINT",
            "backgroundKillGraceSeconds": 0}}"#,
        r#"{"bash.backgroundMaxElapsedSeconds": 600, "bash.backgroundMaxElapsedHardCap": 7200.5,
            "bash.backgroundKillSignal": 2, "bash.backgroundKillGraceSeconds": "0s",
            "bash": null}"#,
    ] {
        write(&machine.host_file(), text);
        let settings = machine.load();
        assert_eq!(settings.max_elapsed, secs(600));
        assert_eq!(settings.max_elapsed_hard_cap, Duration::from_millis(7_200_500));
        assert_eq!(settings.kill_signal, Signal::INT);
        assert_eq!(settings.kill_grace, secs(0));
        assert!(settings.warnings().is_empty());
    }
    write(&machine.host_file(), r#"{"bash": {"backgroundKillSignal": null}, "hooks": {}}"#);
    assert_eq!(machine.load(), Settings::default());
}

#[test]
fn both_spellings_of_the_cap_are_read_and_the_lower_one_wins() {
    let machine = FakeSystem::new();
    for (text, cap) in [
        (r#"{"bash": {"backgroundMaxElapsedSecondsHardCap": 60}}"#, 60),
        (r#"{"bash": {"backgroundMaxElapsedHardCap": 60}}"#, 60),
        (
            r#"{"bash": {"backgroundMaxElapsedSecondsHardCap": 60,
                "backgroundMaxElapsedHardCap": 90}}"#,
            60,
        ),
        (
            r#"{"bash.backgroundMaxElapsedSecondsHardCap": 90,
                "bash.backgroundMaxElapsedHardCap": 60}"#,
            60,
        ),
    ] {
        write(&machine.host_file(), text);
        assert_eq!(machine.load().max_elapsed_hard_cap, secs(cap), "{text}");
    }
}

/// Managed settings of the host win over local, local over project, and project over user settings.
/// A cap can only be lowered.
#[test]
fn the_nearest_of_the_four_host_sources_wins() {
    let machine = FakeSystem::new();
    let managed = machine.environment.host_managed_directory.clone().expect("set");
    let sources = [
        machine.host_file(),
        machine.cwd().join(".claude/settings.json"),
        machine.cwd().join(".claude/settings.local.json"),
        managed.join("managed-settings.json"),
        managed.join("managed-settings.d/10-siding.json"),
    ];
    for (path, seconds) in sources.iter().zip(1..) {
        write(
            path,
            format!(
                r#"{{"bash": {{"backgroundKillGraceSeconds": {seconds},
                    "backgroundMaxElapsedSecondsHardCap": {}}}}}"#,
                if seconds == 2 { 600 } else { 3600 + seconds }
            ),
        );
        let settings = machine.load();
        assert_eq!(settings.kill_grace, secs(seconds), "{path:?}");
        let origin = Origin::Host { path: path.clone() };
        assert_eq!(*settings.origin(Key::KillGrace), origin);
        let cap = if seconds == 1 { 3601 } else { 600 };
        assert_eq!(settings.max_elapsed_hard_cap, secs(cap), "{path:?}");
    }
    assert_eq!(read(&machine.environment).files, sources);
    write(&managed.join("managed-settings.d/.hidden.json"), "not JSON");
    assert_eq!(read(&machine.environment).files, sources);
    // The user's siding file has a higher precedence than the host's files.
    write(&machine.user_file(), "kill_grace = '9s'");
    assert_eq!(machine.load().kill_grace, secs(9));
}

/// The sandbox of Claude Code leaves empty files in a project.
#[test]
fn an_empty_host_file_sets_nothing_and_is_no_error() {
    let machine = FakeSystem::new();
    write(&machine.cwd().join(".claude/settings.json"), "");
    write(&machine.cwd().join(".claude/settings.local.json"), "\n");
    assert_eq!(machine.warnings(), [""; 0]);
    assert_eq!(read(&machine.environment).files, [""; 0].map(std::path::PathBuf::from));
}

#[test]
fn a_host_project_file_is_read_once_and_never_from_another_user() {
    let mut machine = FakeSystem::new();
    let home = machine.environment.home.clone().expect("set");
    write(&machine.host_file(), r#"{"bash.backgroundKillSignal": "BOOM"}"#);
    machine.environment.working_directory = Some(home);
    assert_eq!(machine.warnings().len(), 1);

    let machine = FakeSystem::new();
    let project = machine.cwd().join(".claude/settings.json");
    write(&project, r#"{"bash.backgroundKillGraceSeconds": 1}"#);
    if machine.environment.user == 0 {
        std::os::unix::fs::chown(&project, Some(4242), None).expect("root may");
    } else {
        return;
    }
    assert_eq!(machine.load().kill_grace, secs(10));
    assert!(machine.warnings()[0].contains("belongs to user 4242"));
}

#[test]
fn unknown_host_keys_are_reported_with_the_nearest_known_key() {
    let machine = FakeSystem::new();
    write(
        &machine.host_file(),
        r#"{"bash": {"backgroundMaxElapsdSeconds": 5, "timeout": 3},
            "bash.backgroundKillSignl": "TERM", "backgroundKillSignal": 1}"#,
    );
    let reading = read(&machine.environment);
    let found: Vec<_> = reading
        .unknown_host_keys
        .iter()
        .map(|unknown| (unknown.name.as_str(), unknown.nearest))
        .collect();
    assert_eq!(
        found,
        [
            ("bash.backgroundMaxElapsdSeconds", "bash.backgroundMaxElapsedSeconds"),
            ("bash.backgroundKillSignl", "bash.backgroundKillSignal"),
        ]
    );
    // Unknown keys cause no warning, because every run would repeat the warning.
    assert!(reading.settings.warnings().is_empty() && reading.mistakes.is_empty());
}

#[test]
fn errors_in_a_host_file_are_warnings() {
    let machine = FakeSystem::new();
    let file = machine.host_file().display().to_string();
    let large = " ".repeat(FILE_MAX.0 as usize + 1);
    for (text, part) in [
        ("{ // comment\n}", "not a JSON object: "),
        ("[]", "not a JSON object: "),
        (large.as_str(), "larger than 1MiB"),
        (
            r#"{"bash": {"backgroundKillSignal": "BOOM"}}"#,
            "`bash.backgroundKillSignal`: `BOOM` is not a signal",
        ),
        (
            r#"{"bash": {"backgroundMaxElapsedSeconds": -1}}"#,
            "`bash.backgroundMaxElapsedSeconds`: `-1s` is negative",
        ),
        (r#"{"bash.backgroundMaxElapsedSeconds": 1e300}"#, "`a number out of range`"),
        (r#"{"bash.backgroundMaxElapsedSeconds": [1]}"#, "`an array` is not allowed"),
        (r#"{"bash": {"backgroundMaxElapsedHardCap": 99999}}"#, "more than the cap of `4h`"),
    ] {
        write(&machine.host_file(), text);
        let warnings = machine.warnings();
        assert_eq!(warnings.len(), 1, "{warnings:?}");
        assert!(warnings[0].starts_with(&format!("`{file}`: ")), "{warnings:?}");
        assert!(warnings[0].contains(part), "{warnings:?}");
    }
    fs::remove_file(machine.host_file()).expect("removed");
    fs::create_dir(machine.host_file()).expect("made");
    assert!(machine.warnings()[0].contains("not a regular file"));
}

#[test]
fn the_project_file_is_searched_up_to_the_repository_or_home() {
    let mut machine = FakeSystem::new();
    let home = machine.environment.home.clone().expect("set");
    let deep = machine.cwd().join("repository/src/deep");
    fs::create_dir_all(&deep).expect("made");
    machine.environment.working_directory = Some(deep.clone());
    let found = |machine: &FakeSystem| {
        machine.load().origin(Key::Settle).path().map(|path| path.to_path_buf())
    };
    let put = |dir: &Path| {
        let path = dir.join(".siding/config.toml");
        write(&path, "settle = '1s'");
        path
    };

    put(home.parent().expect("below the temporary directory"));
    assert_eq!(found(&machine), None, "the search ends at the home directory");
    let at_home = put(&home);
    assert_eq!(found(&machine), Some(at_home));
    let at_project = put(&home.join("project"));
    assert_eq!(found(&machine), Some(at_project), "the nearest file wins");
    let repository = home.join("project/repository");
    write(&repository.join(".git"), "gitdir: elsewhere");
    assert_eq!(found(&machine), None, "the search ends at the root of the repository");
    let at_root = put(&repository);
    assert_eq!(found(&machine), Some(at_root));
    let new = writable_file(&machine.environment, WritableLayer::Project).expect("readable");
    assert_eq!(new, found(&machine), "a change is made in the file that applies");
    fs::remove_file(new.as_ref().expect("a place")).expect("removed");
    let again = writable_file(&machine.environment, WritableLayer::Project).expect("readable");
    assert_eq!(again, new, "a new file belongs in the root of the repository");
    let here = put(&deep);
    assert_eq!(found(&machine), Some(here));
    machine.environment.working_directory = None;
    assert_eq!(found(&machine), None);
}

/// The effect of a planned text is known before the text is written.
#[test]
fn a_planned_file_is_read_in_place_of_the_existing_one() {
    let machine = FakeSystem::new();
    write(&machine.system_file(), "kill_grace = '30s'\nlocked = ['kill_grace']");
    write(&machine.user_file(), "settle = '1s'");
    let path = machine.user_file();
    let read = |text: &str| {
        let planned = PlannedFile { layer: WritableLayer::User, path: &path, text };
        read_planned(&machine.environment, planned)
    };
    let planned = read("settle = '2s'\nkill_grace = '3s'\n");
    assert_eq!(planned.settings.settle, secs(2));
    let warning = planned.settings.warnings()[0].to_string();
    let system = machine.system_file().display().to_string();
    assert!(warning.contains("line 2: `kill_grace` stays `30s`"), "{warning}");
    assert!(warning.ends_with(&format!("it is locked by the system file `{system}`")), "{warning}");
    let (key, source) = planned.settings.warnings()[0].ignored_value().expect("a value");
    assert_eq!((key, source.line), (Key::KillGrace, Some(2)));
    assert_eq!(read("settle = 3").mistakes.len(), 1);
    let too_large = "#".repeat(FILE_MAX.to_usize() + 1);
    assert!(read(&too_large).mistakes[0].to_string().contains("larger than 1MiB"));
    assert_eq!(machine.load().settle, secs(1), "nothing was written");
}

#[test]
fn a_project_file_of_another_user_is_ignored_with_a_warning() {
    let mut machine = FakeSystem::new();
    write(&machine.project_file(), "shell = './evil'");
    let owner = if machine.environment.user == 0 {
        std::os::unix::fs::chown(machine.project_file(), Some(4242), None).expect("root may");
        4242
    } else {
        std::mem::replace(&mut machine.environment.user, 4242)
    };
    assert_eq!(machine.load().shell, "bash");
    let file = machine.project_file().display().to_string();
    assert_eq!(
        machine.warnings(),
        [format!(
            "`{file}` belongs to user {owner} and is not used: its owner would decide which commands run"
        )]
    );
}

#[test]
fn an_unreadable_project_file_is_one_of_the_files() {
    let machine = FakeSystem::new();
    fs::create_dir_all(machine.project_file()).expect("made");
    let reading = read(&machine.environment);
    assert_eq!(reading.files, [machine.project_file()]);
    assert_eq!(reading.mistakes.len(), 1, "{reading:?}");
}

#[test]
fn symbolic_links_are_followed_and_special_files_are_refused() {
    let machine = FakeSystem::new();
    let target = machine.dir.path().join("dotfiles.toml");
    write(&target, "settle = '1s'");
    fs::create_dir_all(machine.user_file().parent().expect("a file")).expect("made");
    symlink(&target, machine.user_file()).expect("linked");
    assert_eq!(machine.load().settle, secs(1));

    fs::remove_file(&target).expect("removed");
    assert_eq!(machine.load(), Settings::default(), "a dangling link is no file");
    fs::create_dir(&target).expect("made");
    let file = machine.user_file().display().to_string();
    assert_eq!(machine.load_error(), format!("`{file}` is not a regular file"));
    fs::remove_file(machine.user_file()).expect("removed");
    symlink("/dev/zero", machine.user_file()).expect("linked");
    assert_eq!(machine.load_error(), format!("`{file}` is not a regular file"));
    fs::remove_file(machine.user_file()).expect("removed");
    symlink(machine.user_file(), machine.user_file()).expect("linked to itself");
    assert_eq!(machine.load_error(), format!("could not read `{file}`"));
}

#[test]
fn a_file_over_its_maximum_is_refused() {
    let machine = FakeSystem::new();
    let full = format!("settle = '1s'\n{}", "#".repeat(FILE_MAX.0 as usize - 14));
    write(&machine.project_file(), &full);
    assert_eq!(machine.load().settle, secs(1));
    write(&machine.project_file(), format!("{full}#"));
    let file = machine.project_file().display().to_string();
    assert_eq!(
        machine.load_error(),
        format!("`{file}` is larger than 1MiB, the limit for a settings file")
    );
}

#[test]
fn an_unsearchable_directory_is_an_error_only_for_the_system_file() {
    let machine = FakeSystem::new();
    for file in [machine.user_file(), machine.system_file()] {
        write(&file, "settle = '1s'");
        let dir = file.parent().expect("a file");
        fs::set_permissions(dir, fs::Permissions::from_mode(0o000)).expect("ours");
        // Root passes every permission check.
        let closed = fs::metadata(&file).is_err();
        let result = super::load(&machine.environment);
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700)).expect("ours");
        let is_system = file == machine.system_file();
        match result {
            Ok(settings) => assert_eq!(settings.settle == secs(0), closed && !is_system),
            Err(error) => {
                assert!(closed && is_system);
                assert_eq!(error.to_string(), format!("could not read `{}`", file.display()));
            }
        }
        fs::remove_file(&file).expect("removed");
    }
}
