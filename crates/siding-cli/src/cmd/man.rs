//! `siding man`: prints manual pages generated from the definitions behind `--help`.

mod help_text;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory;
use clap_mangen::Man;

use crate::failure::Failure;
use crate::stdout;

/// Prints a manual page, or writes all of them into a directory.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding man | man -l -                   show the page of siding
  siding man run | man -l -               show the page of one command
  siding man --dir ~/.local/share/man/man1   write all pages there")]
pub(crate) struct Args {
    /// Command whose page to print, such as `run` or `session open` (default: siding itself)
    #[arg(value_name = "COMMAND", conflicts_with = "dir")]
    command: Vec<String>,
    /// Write one page for siding and one for each command into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match &self.dir {
            Some(dir) => write_all_pages(dir)?,
            None => stdout::print_bytes(&page_for(&self.command)?)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the tree of all commands. `build` lets clap fill in the names and texts that commands
/// inherit from their parents.
fn command_tree() -> clap::Command {
    // The subcommand `help` contains a copy of every other command, so it gets no page.
    let mut commands = super::Cli::command().disable_help_subcommand(true);
    commands.build();
    commands
}

fn page_for(words: &[String]) -> Result<Vec<u8>, Failure> {
    let all = command_tree();
    let mut command = &all;
    for word in words {
        command = command.find_subcommand(word).ok_or_else(|| {
            let names: Vec<_> = command.get_subcommands().map(clap::Command::get_name).collect();
            let name = command.get_display_name().unwrap_or("siding").replace('-', " ");
            let hint = match names.as_slice() {
                [] => format!("`{name}` has no subcommands"),
                names => format!("commands: {}", names.join(", ")),
            };
            Failure::new(format!("`{name}` has no command `{word}`")).with_hint(hint)
        })?;
    }
    render(command).map_err(|error| Failure::new(format!("could not generate the page: {error}")))
}

fn write_all_pages(dir: &Path) -> Result<(), Failure> {
    let failed = |doing: &str, error: &std::io::Error| {
        Failure::new(format!("could not {doing} `{}`: {error}", dir.display()))
            .with_hint("give a writable directory, such as ~/.local/share/man/man1")
    };
    std::fs::create_dir_all(dir).map_err(|error| failed("create", &error))?;
    write_pages(&command_tree(), dir).map_err(|error| failed("write to", &error))
}

/// Writes the page of a command and the pages of all its subcommands that are not hidden.
fn write_pages(command: &clap::Command, dir: &Path) -> std::io::Result<()> {
    std::fs::write(dir.join(new_man_page(command).get_filename()), render(command)?)?;
    // Hidden commands, which only siding itself calls, get no page.
    let mut shown = command.get_subcommands().filter(|command| !command.is_hide_set());
    shown.try_for_each(|command| write_pages(command, dir))
}

fn new_man_page(command: &clap::Command) -> Man {
    // clap_mangen reflows the text after the options, which would break the examples; `render`
    // writes that text instead.
    let command = command.clone().after_help(None).after_long_help(None);
    // The source is set explicitly, because clap passes the version only to the top-level command.
    Man::new(command).source(concat!("siding ", env!("CARGO_PKG_VERSION")))
}

/// Returns the page of a command in roff, with the text after the options as sections.
fn render(command: &clap::Command) -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    new_man_page(command).render(&mut page)?;
    if let Some(text) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        help_text::to_sections(&text.to_string()).to_writer(&mut page)?;
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page() {
        for command in command_tree().get_subcommands() {
            let page = page_for(&[command.get_name().to_owned()]).expect("a page");
            let page = String::from_utf8(page).expect("text");
            assert!(page.contains(".SH SYNOPSIS"), "{}", command.get_name());
        }
        assert!(page_for(&["session".to_owned(), "open".to_owned()]).is_ok());
        assert!(page_for(&["no-such-command".to_owned()]).is_err());
    }
}
