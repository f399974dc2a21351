//! `siding config edit`: opens a settings file in an editor.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use siding_core::settings::{self, Environment};
use siding_core::sys::signals;
use siding_model::settings::Key;

use super::layer_file::{LayerArg, LayerFile};
use super::{parse_key, toml_text};
use crate::failure::Failure;
use crate::stdout;

/// Variables that name the editor, in order of precedence (environ(7)).
const EDITOR_VARIABLES: [&str; 2] = ["VISUAL", "EDITOR"];
/// The editor if no variable names one.
const DEFAULT_EDITOR: &str = "vi";
/// Ending of the file that the editor opens, next to the settings file.
const DRAFT_ENDING: &str = ".draft";

/// Opens a settings file in an editor, and checks the new text.
///
/// A text with mistakes does not replace the file: the mistakes are reported with their lines, and
/// the next `siding config edit` continues with this text.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding config edit
  siding config edit kill_grace --layer project

The editor is $VISUAL, otherwise $EDITOR, otherwise vi.")]
pub(super) struct Args {
    /// Setting to add as a comment, with its meaning and its value, if the file does not set it
    #[arg(value_name = "KEY", value_parser = parse_key)]
    key: Option<Key>,
    /// Layer whose file is opened
    #[arg(long, value_enum, default_value_t = LayerArg::User)]
    layer: LayerArg,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let environment = Environment::from_process();
        let mut file = LayerFile::open(&environment, self.layer)?;
        file.unlock();
        let offered = self.offered_text(&environment, file.text()?);
        file.create_directories()?;
        let draft = draft_path(file.path());
        if draft.exists() {
            errln!("siding: this is the text of an earlier edit, `{}`", draft.display());
        } else {
            write_draft(&draft, &offered)
                .map_err(|error| draft_failure("write", &draft, &error))?;
        }
        let closed = run_editor(&draft);
        let text =
            fs::read_to_string(&draft).map_err(|error| draft_failure("read", &draft, &error))?;
        if text == offered || text == file.text()? {
            let _already_removed = fs::remove_file(&draft);
            closed?;
            stdout::print_text("nothing was changed\n")?;
            return Ok(ExitCode::SUCCESS);
        }
        let kept = format!(
            "`siding config edit{}` continues with your text, which is in `{}`; remove that file \
             to discard it",
            self.layer.flag(),
            draft.display()
        );
        closed
            .and_then(|()| save(&mut file, &draft, &text))
            .map_err(|failure| failure.with_hint(kept))?;
        for warning in file.ignored_values(&file.plan(&environment, &text)) {
            errln!("siding: {warning}");
        }
        stdout::print_text(&format!("changed {}\n", file.path().display()))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the text that the editor opens: the text of the file, with a comment about the
    /// requested key.
    fn offered_text(&self, environment: &Environment, text: &str) -> String {
        match self.key {
            Some(key) => {
                toml_text::with_comment(text, key, &settings::read(environment).settings.value(key))
            }
            None => text.to_owned(),
        }
    }
}

/// Replaces the file by the edited text and removes the draft, unless the text has mistakes.
fn save(file: &mut LayerFile, draft: &Path, text: &str) -> Result<(), Failure> {
    let mistakes = file.find_mistakes(draft, text);
    if !mistakes.is_empty() {
        for mistake in &mistakes {
            errln!("siding: {mistake}");
        }
        let path = file.path().display();
        return Err(Failure::new(format!("`{path}` is unchanged, because the text is invalid")));
    }
    file.write(text)?;
    let _already_removed = fs::remove_file(draft);
    Ok(())
}

fn draft_path(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(DRAFT_ENDING);
    PathBuf::from(name)
}

/// Creates the draft. It is private, because a settings file may contain a secret.
fn write_draft(draft: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(draft)?;
    file.write_all(text.as_bytes())
}

fn draft_failure(doing: &str, draft: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("could not {doing} `{}`: {error}", draft.display()))
}

/// Runs the person's editor, and waits until it is closed.
fn run_editor(draft: &Path) -> Result<(), Failure> {
    let chosen = EDITOR_VARIABLES
        .iter()
        .find_map(|name| std::env::var_os(name).filter(|value| !value.is_empty()));
    let editor = chosen.unwrap_or_else(|| DEFAULT_EDITOR.into());
    // The variable is a shell text that may have arguments, as for git and crontab(1).
    // Ctrl-C is a key of the editor. A shell without a trap would end before the editor.
    let mut script = OsString::from("trap : INT QUIT; ");
    script.push(&editor);
    script.push(" \"$@\"");
    let mut command = Command::new("sh");
    command.arg("-c").arg(&script).arg(&editor).arg(draft);
    match signals::run_in_foreground(&mut command) {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            Err(Failure::new(format!("the editor `{}` failed: {status}", editor.display())))
        }
        Err(error) => Err(Failure::new(format!("could not start `sh`: {error}"))),
    }
}
