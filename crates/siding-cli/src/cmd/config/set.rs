//! `siding config set` and `siding config unset`: change one key of a settings file.

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use siding_core::settings::{Environment, LoadedSettings};
use siding_core::sys::file;
use siding_core::task::run::ExecutorChoice;
use siding_model::settings::{AssistantMode, Key, Settings};

use super::layer_file::{LayerArg, LayerFile};
use super::{parse_key, toml_text};
use crate::failure::Failure;
use crate::install::program::find_in_path;
use crate::stdout;

/// Sets a key in a settings file.
///
/// All other lines and comments of the file stay as they are. A value that is invalid, that names a
/// shell or an executor that does not exist, or that would have no effect because the key is locked
/// or limited, is refused before anything is written.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding config set kill_grace 5s
  siding config set max_memory 4GiB --layer project
  siding config set spare_programs editors,browsers,gimp")]
pub(super) struct SetArgs {
    /// Setting to change
    #[arg(value_name = "KEY", value_parser = parse_key)]
    key: Key,
    /// Value as in a settings file, without quotes; items of a list are separated by commas
    #[arg(value_name = "VALUE")]
    value: String,
    /// Layer whose file is changed
    #[arg(long, value_enum, default_value_t = LayerArg::User)]
    layer: LayerArg,
}

/// Removes a key from a settings file, so that the other layers determine its value.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding config unset kill_grace
  siding config unset max_memory --layer project")]
pub(super) struct UnsetArgs {
    /// Setting to remove from the file
    #[arg(value_name = "KEY", value_parser = parse_key)]
    key: Key,
    /// Layer whose file is changed
    #[arg(long, value_enum, default_value_t = LayerArg::User)]
    layer: LayerArg,
}

impl SetArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let environment = Environment::from_process();
        let message = set(&environment, self.layer, self.key, &self.value)?;
        stdout::print_text(&stdout::wrap_for_terminal(&message))?;
        Ok(ExitCode::SUCCESS)
    }
}

impl UnsetArgs {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let environment = Environment::from_process();
        let mut file = LayerFile::open(&environment, self.layer)?;
        let removed = toml_text::without_key(file.text()?, self.key)
            .map_err(|fault| file.text_failure(fault))?;
        let Some(text) = removed else {
            let path = file.path().display();
            let message = format!("{path} does not set {}\n", self.key);
            stdout::print_text(&stdout::wrap_for_terminal(&message))?;
            return Ok(ExitCode::SUCCESS);
        };
        let planned = file.plan(&environment, &text);
        file.write(&text)?;
        report_mistakes(&planned);
        let effect = format_value_and_origin(self.key, &planned.settings);
        let message = format!("changed {}\n{effect}\n", file.path().display());
        stdout::print_text(&stdout::wrap_for_terminal(&message))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Sets a key in the file of a layer, unless the value would have no effect. Returns a text about
/// the change.
fn set(
    environment: &Environment,
    layer: LayerArg,
    key: Key,
    value: &str,
) -> Result<String, Failure> {
    let refuse = |why: &dyn Display| Failure::new(why).with_hint("nothing was written");
    if key == Key::Executor {
        return Err(refuse(&format!(
            "`{key}` has a table for each machine, which only `siding config edit {key}` can change"
        )));
    }
    if let Some(why) = find_missing_program(key, value) {
        return Err(refuse(&why));
    }
    let name = value.trim();
    let value = toml_text::format_value(key, value).map_err(|error| refuse(&error))?;
    let mut file = LayerFile::open(environment, layer)?;
    let text = toml_text::with_value(file.text()?, key, &value)
        .map_err(|fault| file.text_failure(fault))?;
    let planned = file.plan(environment, &text);
    let refusal = file
        .ignored_values(&planned)
        .find(|warning| warning.ignored_value().is_some_and(|(ignored, _)| ignored == key));
    if let Some(warning) = refusal {
        return Err(refuse(&warning.refusal()));
    }
    if key == Key::DefaultExecutor
        && let Err(unknown) = ExecutorChoice::find(Some(name), &planned.settings)
    {
        return Err(refuse(&format!("`{key}`: {unknown}")));
    }
    file.write(&text)?;
    report_mistakes(&planned);
    let effect = format_effect(key, &planned.settings, file.path());
    let mut message = format!("changed {}\n{effect}\n", file.path().display());
    if let Some(remark) = budget_remark(key, planned.settings.assistant_mode) {
        message.push_str(remark);
        message.push('\n');
    }
    Ok(message)
}

/// Returns the error message if the value of `shell` names no executable program. Returns `None`
/// for other settings, and for an empty value, which the check of the setting rejects.
fn find_missing_program(key: Key, value: &str) -> Option<String> {
    let program = value.trim();
    if key != Key::Shell || program.is_empty() {
        return None;
    }
    if program.contains('/') {
        let is_missing = !file::is_program(Path::new(program));
        return is_missing.then(|| format!("`{key}`: `{program}` is not an executable file"));
    }
    let is_missing = find_in_path(program).is_none();
    is_missing.then(|| format!("`{key}`: no directory in PATH has a program `{program}`"))
}

/// Prints the mistakes that the sources contain after a change. They existed before the change,
/// because only a valid value is set.
fn report_mistakes(loaded: &LoadedSettings) {
    for mistake in &loaded.mistakes {
        errln!("siding: {mistake}");
    }
}

/// Returns the value that a key has after a file was changed, and whether another source takes
/// precedence.
fn format_effect(key: Key, settings: &Settings, path: &Path) -> String {
    let origin = settings.origin(key);
    if origin.path() == Some(path) {
        return format_value_and_origin(key, settings);
    }
    let value = key.format_value(&settings.value(key));
    format!("{key} stays {value} here: the {origin} takes precedence")
}

/// Returns a note about the calls to which a budget does not apply; `None` if `key` is not a
/// budget, or if the budget applies to every caller.
fn budget_remark(key: Key, mode: AssistantMode) -> Option<&'static str> {
    if key == Key::Budget {
        return Some(
            "it is for the shell calls of Claude Code; that of `siding run` is `blocking_budget`",
        );
    }
    if key != Key::BlockingBudget {
        return None;
    }
    match mode {
        AssistantMode::On => None,
        AssistantMode::Off => Some("it has no effect, because `assistant_mode` is `off`"),
        AssistantMode::Auto => Some(
            "a person at a terminal waits until the end unless `assistant_mode` is `on`, or the \
             call gives `--budget`",
        ),
    }
}

fn format_value_and_origin(key: Key, settings: &Settings) -> String {
    let value = key.format_value(&settings.value(key));
    format!("{key} is now {value} ({})", settings.origin(key))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

    use super::*;

    /// Returns an environment below a new directory whose name contains `name`.
    fn environment_in(name: &str) -> Environment {
        let pid = std::process::id();
        let dir = std::env::temp_dir().join(format!("siding-config-{name}-{pid}"));
        fs::create_dir_all(dir.join("project/.git")).expect("made");
        let dir = dir.canonicalize().expect("it exists");
        Environment {
            system_file: Some(dir.join("etc/siding/config.toml")),
            user_file: Some(dir.join("config/siding/config.toml")),
            working_directory: Some(dir.join("project")),
            user: fs::metadata(&dir).expect("it exists").uid(),
            home: Some(dir),
            ..Environment::default()
        }
    }

    fn remove(environment: &Environment) {
        fs::remove_dir_all(environment.home.as_ref().expect("set")).expect("removed");
    }

    #[test]
    fn a_locked_or_limited_key_is_refused_with_the_file_that_decides() {
        let environment = environment_in("locked");
        let system = environment.system_file.clone().expect("set");
        let user = environment.user_file.clone().expect("set");
        fs::create_dir_all(system.parent().expect("a directory")).expect("made");
        fs::write(&system, "locked = [\"kill_grace\"]\n").expect("written");
        let refused = |layer, key, value| match set(&environment, layer, key, value) {
            Err(failure) => failure.message(),
            Ok(text) => panic!("{text}"),
        };
        let message = refused(LayerArg::User, Key::KillGrace, "5s");
        let locked = format!("it is locked by the system file `{}`", system.display());
        assert!(message.ends_with(&locked), "{message}");
        let message = refused(LayerArg::User, Key::MaxElapsedHardCap, "9h");
        assert_eq!(
            message,
            "`max_elapsed_hard_cap`: `9h` is more than the cap of `4h`, which \
             `max_elapsed_hard_cap` sets (built-in; only the system file \
             `/etc/siding/config.toml` can raise it)"
        );
        let message = refused(LayerArg::Project, Key::RetentionTasks, "5");
        assert!(message.contains("it also affects other projects"), "{message}");
        let message = refused(LayerArg::User, Key::Settle, "soon");
        assert!(message.starts_with("`settle`: `soon` is not a duration"), "{message}");
        let message = refused(LayerArg::User, Key::Shell, "/no/such");
        assert_eq!(message, "`shell`: `/no/such` is not an executable file");
        let message = refused(LayerArg::User, Key::Shell, "nosuchshell");
        assert_eq!(message, "`shell`: no directory in PATH has a program `nosuchshell`");
        let message = refused(LayerArg::User, Key::Shell, "/");
        assert_eq!(message, "`shell`: `/` is not an executable file");
        let message = refused(LayerArg::User, Key::DefaultExecutor, "build");
        assert_eq!(
            message,
            "`default_executor`: no executor has the name `build`; the known names are: `local`, \
             `slurm`"
        );
        for value in ["build", "none"] {
            let message = refused(LayerArg::User, Key::Executor, value);
            assert!(
                message.ends_with("only `siding config edit executor` can change"),
                "{message}"
            );
        }
        assert!(!user.exists(), "a refused value must not be written");
        assert!(!environment.home.as_ref().expect("set").join("project/.siding").exists());
        let done = set(&environment, LayerArg::System, Key::KillGrace, "5s");
        assert!(done.expect("its own file").contains("kill_grace is now 5s (system file `"));
        remove(&environment);
    }

    #[test]
    fn a_new_budget_is_confirmed_with_the_calls_to_which_it_does_not_apply() {
        let environment = environment_in("budget");
        let change = |key, value| set(&environment, LayerArg::User, key, value).expect("written");
        let text = change(Key::BlockingBudget, "20s");
        assert!(text.contains("\na person at a terminal waits until the end unless"), "{text}");
        assert!(change(Key::Budget, "20s").contains("`blocking_budget`"));
        let _changed = change(Key::AssistantMode, "off");
        assert!(change(Key::BlockingBudget, "20s").contains("it has no effect"));
        let _changed = change(Key::AssistantMode, "on");
        assert!(change(Key::BlockingBudget, "20s").ends_with("`)\n"));
        remove(&environment);
    }

    #[test]
    fn a_new_file_is_private_for_a_user_and_readable_for_a_project() {
        let environment = environment_in("modes");
        let mode =
            |path: &Path| fs::metadata(path).expect("it exists").permissions().mode() & 0o7777;
        let _done = set(&environment, LayerArg::User, Key::Settle, "1s").expect("written");
        let user = environment.user_file.as_ref().expect("set");
        assert_eq!((mode(user), mode(user.parent().expect("a directory"))), (0o600, 0o700));
        let text = set(&environment, LayerArg::Project, Key::Settle, "2s").expect("written");
        let project = environment.working_directory.as_ref().expect("set").join(".siding");
        assert_eq!((mode(&project.join("config.toml")), mode(&project)), (0o644, 0o755));
        assert!(text.contains("settle is now 2s (project file `"), "{text}");
        let text = set(&environment, LayerArg::User, Key::Settle, "3s").expect("written");
        assert!(text.contains("settle stays 2s here: the project file `"), "{text}");
        assert_eq!(fs::read_to_string(user).expect("written"), "settle = \"3s\"\n");
        remove(&environment);
    }
}
