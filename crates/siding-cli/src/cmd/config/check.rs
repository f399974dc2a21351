//! `siding config check`: reports mistakes in settings files and variables.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use siding_core::settings::{self, Environment, LoadedSettings};
use siding_model::settings::Key;

use crate::failure::Failure;
use crate::stdout;

/// Exit code if the settings have mistakes.
const MISTAKES_EXIT_CODE: u8 = 1;

/// Checks a settings file, or all settings that apply in this directory.
///
/// Reports every mistake with its file, line and key, and the values that are allowed.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding config check                           all settings that apply here
  siding config check .siding/config.toml       one file
  siding config check new.toml --layer system   a file that may lock keys

Exit codes: 0 without mistakes, 1 with mistakes, 125 if the file is unreadable.")]
pub(super) struct Args {
    /// File to check (default: all files and variables that apply here)
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Layer whose rules the file must follow
    #[arg(long, value_enum, default_value_t = FileLayer::User, requires = "file")]
    layer: FileLayer,
}

/// Layer that decides what a settings file may contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FileLayer {
    /// The administrator's file: may lock keys and raise the cap
    System,
    /// The file of a user or a project
    User,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let (reading, other_mistakes) = match &self.file {
            Some(file) => (read_file(file, self.layer)?, Vec::new()),
            None => {
                let reading = settings::read(&Environment::from_process());
                let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
                let mut mistakes = misspelled_variables(variables);
                mistakes.extend(super::default_executor_mistake(&reading.settings));
                (reading, mistakes)
            }
        };
        super::show::print_warnings(&reading.settings);
        for unknown in &reading.unknown_host_keys {
            errln!("siding: {unknown}");
        }
        for mistake in &reading.mistakes {
            errln!("siding: {mistake}");
        }
        for mistake in &other_mistakes {
            errln!("siding: {mistake}");
        }
        let mistakes = reading.mistakes.len() + other_mistakes.len();
        stdout::print_text(&stdout::wrap_for_terminal(&format_summary(&reading.files, mistakes)))?;
        Ok(if mistakes == 0 { ExitCode::SUCCESS } else { ExitCode::from(MISTAKES_EXIT_CODE) })
    }
}

/// Reads the settings from one file only, by the rules of its layer.
fn read_file(file: &Path, layer: FileLayer) -> Result<LoadedSettings, Failure> {
    // `settings::read` treats a missing file as empty, but a file that the user has named must
    // exist.
    std::fs::metadata(file).map_err(|error| {
        Failure::new(format!("could not read `{}`: {error}", file.display()))
            .with_hint("`siding config check` without a file checks all settings that apply here")
    })?;
    let mut environment = Environment::default();
    match layer {
        FileLayer::System => environment.system_file = Some(file.to_owned()),
        FileLayer::User => environment.user_file = Some(file.to_owned()),
    }
    Ok(settings::read(&environment))
}

/// Returns a message for each environment variable that no setting reads but whose name resembles
/// the variable of a setting.
fn misspelled_variables(variables: impl Iterator<Item = String>) -> Vec<String> {
    let mistake = |name: String| {
        let meant = Key::suggest_for_variable(&name)?.env_var();
        Some(format!("the environment: no setting has `{name}`; did you mean `{meant}`?"))
    };
    let mut mistakes: Vec<String> = variables.filter_map(mistake).collect();
    mistakes.sort();
    mistakes
}

fn format_summary(files: &[PathBuf], mistakes: usize) -> String {
    let mut text: String =
        files.iter().map(|file| format!("checked {}\n", file.display())).collect();
    if files.is_empty() {
        text.push_str("there is no settings file\n");
    }
    text.push_str(&match mistakes {
        0 => "no mistakes\n".to_owned(),
        1 => "1 mistake\n".to_owned(),
        count => format!("{count} mistakes\n"),
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_checked_by_the_rules_of_its_layer() {
        let dir = std::env::temp_dir().join(format!("siding-check-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("made");
        let file = dir.join("config.toml");
        std::fs::write(&file, "kill_grace = \"5s\"\nlocked = [\"kill_grace\"]\n").expect("written");
        let as_system = read_file(&file, FileLayer::System).expect("reads");
        let as_user = read_file(&file, FileLayer::User).expect("reads");
        std::fs::remove_dir_all(&dir).expect("removed");
        let summary =
            |reading: &LoadedSettings| format_summary(&reading.files, reading.mistakes.len());
        assert!(summary(&as_system).ends_with("config.toml\nno mistakes\n"));
        assert!(summary(&as_user).ends_with("1 mistake\n"));
        assert!(read_file(&file, FileLayer::User).is_err(), "a missing file is an error");
    }

    #[test]
    fn a_misspelled_setting_variable_is_reported() {
        let named = |name: &str| misspelled_variables(std::iter::once(name.to_owned()));
        let [told] = &*named("SIDING_KIL_GRACE") else { panic!("it sets nothing") };
        assert!(told.contains("`SIDING_KIL_GRACE`") && told.contains("`SIDING_KILL_GRACE`?"));
        for other in [
            "SIDING_ADOPT_FAILED",
            "SIDING_ADOPT_WAIT",
            "SIDING_CONTEXT_TOKENS",
            "SIDING_DREAM_AFTER",
            "SIDING_KILL_GRACE",
            "SIDING_MAX_SUBAGENTS",
            "SIDING_MAX_SUBAGENT_DEPTH",
            "SIDING_MAX_TOOL_CONCURRENCY",
            "SIDING_MCP_TOKEN",
            "SIDING_MODEL",
            "SIDING_PAUSE_AT",
            "SIDING_SESSION",
            "SIDING_SETTLE",
            "SIDING_SMALL_MODEL",
            "SIDING_STATE_DIR",
            "SIDING_STEP",
            "SIDING_TASK",
            "SIDING_WAIT_BOUND",
            "SIDING_WORKFLOW",
            "KIL_GRACE",
        ] {
            assert_eq!(named(other), [""; 0]);
        }
    }
}
