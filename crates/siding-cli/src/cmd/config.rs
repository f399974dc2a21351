//! `siding config`: shows the effective settings, and describes, checks and changes settings files.

mod check;
mod edit;
mod get;
mod layer_file;
mod set;
pub(super) mod show;
mod toml_text;

use std::process::ExitCode;

use clap::Subcommand;
use siding_core::task::run::ExecutorChoice;
use siding_model::settings::{self, Key, Settings};

use crate::failure::Failure;
use crate::{render, stdout};

/// Shows settings and their origins, changes them, and checks files.
///
/// Settings come from /etc/siding/config.toml, the host's own file, ~/.config/siding/config.toml,
/// the project's .siding/config.toml, SIDING_ variables, and the command line. A later source takes
/// precedence, but no source can set a key that the first file locks, or raise the cap that an
/// earlier source set.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding config show                     every setting, its value, its origin
  siding config get kill_grace           one value
  siding config set kill_grace 5s        in your own file; unset removes it
  siding config edit --layer project     the project's file in your editor
  siding config check my-config.toml     mistakes in a file, each with its line
  siding config schema > siding.json     for an editor")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Show(show::Args),
    Get(get::Args),
    Set(set::SetArgs),
    Unset(set::UnsetArgs),
    Edit(edit::Args),
    Schema(SchemaArgs),
    Check(check::Args),
}

/// Prints the JSON Schema of a settings file.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding config schema > siding.schema.json
  siding config schema | jq -r '.properties | keys[]'")]
struct SchemaArgs {}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            Command::Show(args) => args.run(),
            Command::Get(args) => args.run(),
            Command::Set(args) => args.run(),
            Command::Unset(args) => args.run(),
            Command::Edit(args) => args.run(),
            Command::Check(args) => args.run(),
            Command::Schema(SchemaArgs {}) => {
                stdout::print_text(&render::schema::schema_text(settings::file_schema()))?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

/// Returns the mistake that `default_executor` names no executor; `None` if it names one. The
/// mistake belongs to no single file, because another layer may define the executor.
fn default_executor_mistake(settings: &Settings) -> Option<String> {
    ExecutorChoice::find(None, settings).err().map(|error| error.to_string())
}

/// Parses the name of a setting.
fn parse_key(name: &str) -> Result<Key, String> {
    if let Some(table) = name.strip_prefix("executor.") {
        let table = table.split('.').next().unwrap_or_default();
        return Err(format!(
            "an executor is a table of a settings file; `siding config edit executor` opens the \
             file, for a table `[executor.{table}]`"
        ));
    }
    Key::from_name(name).ok_or_else(|| match Key::nearest(name) {
        Some(key) => format!("no setting has this name; did you mean `{key}`?"),
        None => "no setting has this name; `siding config show` lists all".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use siding_model::settings::KeyScope;

    use super::*;

    fn read_doc(name: &str) -> String {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    #[test]
    fn a_key_of_an_executor_is_answered_with_the_command_that_opens_the_file() {
        let why = parse_key("executor.build.host").expect_err("no setting");
        assert!(
            why.contains("`siding config edit executor`") && why.ends_with("`[executor.build]`")
        );
        assert_eq!(parse_key("executor"), Ok(Key::Executor));
    }

    #[test]
    fn committed_schema_matches_the_printed_schema() {
        let name = "schema/config.schema.json";
        let printed = render::schema::schema_text(settings::file_schema());
        assert_eq!(read_doc(name), printed, "run `siding config schema > docs/{name}`");
    }

    #[test]
    fn settings_doc_lists_every_key_with_default_and_meaning() {
        let text = read_doc("settings.md");
        let builtin = Settings::default();
        for key in Key::ALL {
            let row = format!("| `{key}` | `{}` | {}", builtin.value(*key), key.about());
            let line = text.lines().find(|line| line.starts_with(&row));
            let line = line.unwrap_or_else(|| panic!("docs/settings.md lacks the row\n{row}"));
            let excludes_projects = line.ends_with("| any layer except a project |");
            assert_eq!(excludes_projects, key.scope() == KeyScope::UserOnly, "{line}");
        }
        let rows = text.lines().filter(|line| line.starts_with("| `")).count();
        assert_eq!(rows, Key::ALL.len(), "docs/settings.md has rows for unknown keys");
    }
}
