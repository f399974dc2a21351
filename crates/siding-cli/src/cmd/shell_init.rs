//! `siding shell-init`: prints the script by which each shell of an agent is adopted.

use std::path::Path;
use std::process::ExitCode;

use clap::ValueEnum;
use siding_model::id::SessionId;

use crate::failure::Failure;
use crate::stdout;

/// Prints a script that lets each shell of an agent be adopted when it starts.
///
/// The shell and everything it starts then have a deadline and belong to the agent's session, and
/// SIDING_SESSION is set. The shell waits for siding for a tenth of a second at most, prints
/// nothing if siding is missing or broken, and keeps its options, traps, arguments and `$?`. A
/// person's shells and shells inside an adopted one are not adopted.
///
/// Set the variable for the agent only: every script that inherits it gets a deadline.
/// Set the variable for the agent alone: every script that inherits it gets a deadline.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding shell-init bash > ~/.config/siding/bash-env
  siding shell-init zsh > ~/.config/siding/zsh/.zshenv
  siding shell-init bash --session chat-7 >> $CLAUDE_ENV_FILE

Then start the agent as `BASH_ENV=~/.config/siding/bash-env codex`, or with
`ZDOTDIR=~/.config/siding/zsh`. In a file of your own, use eval
\"$(siding shell-init bash)\", which starts siding twice for each shell.")]
pub(crate) struct Args {
    /// Shell to print the script for
    #[arg(value_enum)]
    shell: Shell,
    /// Session that owns the adopted shells (default: $SIDING_SESSION of the shell, otherwise that
    /// of the program above it)
    #[arg(long, value_name = "ID")]
    session: Option<SessionId>,
}

/// A shell that reads a file before it runs a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// By BASH_ENV; version 4.4 or later
    Bash,
    /// By .zshenv in ZDOTDIR
    Zsh,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::new(format!("could not find siding's own path: {error}")))?;
        let text = match self.shell {
            Shell::Bash | Shell::Zsh => init_script(&program, self.session.as_ref())?,
        };
        stdout::print_text(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the script, which both bash and zsh accept, because an agent may choose either shell. It
/// calls `program`.
///
/// # Errors
///
/// The program's path is not UTF-8.
pub(crate) fn init_script(program: &Path, session: Option<&SessionId>) -> Result<String, Failure> {
    let Some(path) = program.to_str() else {
        return Err(Failure::new(format!("the path `{}` is not UTF-8", program.display()))
            .with_hint("install siding in a directory with a UTF-8 name"));
    };
    let quoted = format!("'{}'", path.replace('\'', r"'\''"));
    let template = include_str!("shell_init/line.sh");
    // A session's name needs no quotes (`SessionId`). Outside a sandbox the supervisor may have
    // adopted the shell before it reads this script; then only this line sets the variable.
    let export_line = session.map_or_else(
        || ":".to_owned(),
        |session| format!("export SIDING_SESSION=${{SIDING_SESSION:-{session}}}"),
    );
    let session = session.map_or_else(String::new, |session| format!(" --session {session}"));
    Ok(template
        .replace("SESSION </dev", &format!("{session} </dev"))
        .replace("KEPT", &export_line)
        .replace("PROGRAM", &quoted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inserted_values_cannot_break_out_of_the_script() {
        let session = "chat-7".parse().expect("a name");
        let text = init_script(Path::new("/opt/it's/siding"), Some(&session)).expect("UTF-8");
        let call = r#"{ '/opt/it'\''s/siding' adopt "$$" --at-once --session chat-7 </dev/null"#;
        assert!(text.contains(call) && text.contains("-x '/opt/it'\\''s/siding' ]]"), "{text}");
        assert!(text.contains("export SIDING_SESSION=${SIDING_SESSION:-chat-7}\n"), "{text}");
        assert!(
            !text.contains("PROGRAM")
                && !text.contains("KEPT")
                && text.contains("SIDING_SESSION=$session"),
            "{text}"
        );
    }
}
