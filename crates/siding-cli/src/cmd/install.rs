//! `siding install`: siding in the agent that a person uses.

use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use siding_model::text::visible;

use crate::failure::Failure;
use crate::install::Memory;
use crate::install::hosts::{Host, Places, Scope};
use crate::install::plan::{Change, Done, Fate};
use crate::install::program::Program;
use crate::{print, render};

/// Installs siding in an agent: its hooks and siding's MCP server.
///
/// Shows each change as a diff, keeps the file as it was beside it, and touches nothing else in it.
/// A second call changes nothing. What an earlier siding installed, or one at another path, is
/// brought up to date. `siding uninstall` takes out exactly what was put in.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding install claude-code
  siding install claude-code --dry-run            show what would change
  siding install claude-code --scope project      for everybody in this project
  siding install codex

What each host gets: docs/hosts.md.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) call: Call,
}

/// What `install` and `uninstall` are told.
#[derive(Debug, clap::Args)]
pub(super) struct Call {
    /// The host
    #[arg(value_enum, value_name = "HOST")]
    what: Host,
    /// Whose settings are changed; for claude-code
    #[arg(long, value_enum)]
    scope: Option<Scope>,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print what was done as JSON
    #[arg(long)]
    json: bool,
}

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Action {
    /// In.
    Install,
    /// Out.
    Uninstall,
}

/// What `--json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "install")]
struct Report {
    /// Which way.
    action: Action,
    /// The host's name as an argument.
    host: &'static str,
    /// Whose settings; null where a host has only those of a user.
    scope: Option<Scope>,
    /// Whether nothing was changed because nothing was to be.
    dry_run: bool,
    /// Whether a file was changed, or would be.
    changed: bool,
    /// The program that the host calls.
    program: String,
    /// Every file that was looked at.
    files: Vec<Done>,
    /// What a person should know or do beside.
    notes: Vec<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.call.run(Action::Install)
    }
}

impl Call {
    /// Installs or uninstalls.
    pub(super) fn run(self, action: Action) -> Result<ExitCode, Failure> {
        let host = self.what;
        if self.scope.is_some() && !host.has_scopes() {
            let message = format!("{} has no scopes for siding: leave out --scope", host.title());
            return Err(Failure::new(message));
        }
        let scope = self.scope.unwrap_or_default();
        let program = Program::this()?;
        let places = Places::from_process()?;
        let targets = host.targets(&places, scope, &program)?;
        let memory = Memory::find()?;
        // All of it is decided before anything is written.
        let changes = targets.iter().map(|target| match action {
            Action::Install => Change::install(target, &program.names, &memory),
            Action::Uninstall => Change::uninstall(target, &program.names, &memory),
        });
        let changes = changes.collect::<Result<Vec<_>, _>>()?;
        let mut files = Vec::new();
        for change in changes {
            let done = match (self.dry_run, action) {
                (true, _) => change.show(),
                (false, Action::Install) => change.carry_out_install(&memory),
                (false, Action::Uninstall) => change.carry_out_uninstall(&memory),
            };
            files.push(done.inspect_err(|_| {
                for done in files.iter().filter(|done: &&Done| done.fate != Fate::Unchanged) {
                    eprintln!("siding: `{}` was changed before that", done.path.display());
                }
            })?);
        }
        let changed = files.iter().any(|done| done.fate != Fate::Unchanged);
        let report = Report {
            action,
            host: host.name(),
            scope: host.has_scopes().then_some(scope),
            dry_run: self.dry_run,
            changed,
            notes: match action {
                Action::Install => host.notes(&places, scope, &program),
                Action::Uninstall => Vec::new(),
            },
            program: program.path,
            files,
        };
        if self.json {
            render::json::print(&report)?;
        } else {
            print::text(&report.words(host))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Report {
    /// Returns it for people: every diff, what was done, and what to know.
    fn words(&self, host: Host) -> String {
        let mut text = String::new();
        for done in &self.files {
            text.push_str(&visible(&done.diff));
            if !done.diff.is_empty() {
                text.push('\n');
            }
        }
        for done in self.files.iter().filter(|done| done.fate != Fate::Unchanged) {
            let path = visible(&done.path.display().to_string());
            let what = match (done.fate, self.dry_run) {
                (Fate::Created, false) => "created",
                (Fate::Created, true) => "would create",
                (Fate::Removed, false) => "removed",
                (Fate::Removed, true) => "would remove",
                (_, false) => "changed",
                (_, true) => "would change",
            };
            text.push_str(&format!("{what} {path}\n"));
            if let Some(backup) = &done.backup {
                let backup = visible(&backup.display().to_string());
                text.push_str(&format!("  as it was: {backup}\n"));
            }
            for backup in &done.backups_removed {
                let backup = visible(&backup.display().to_string());
                text.push_str(&format!("  removed a backup that says the same: {backup}\n"));
            }
        }
        let verdict = match (self.action, self.changed, self.dry_run) {
            (Action::Install, false, _) => "siding is installed in HOST; nothing to change",
            (Action::Install, true, false) => "siding is installed in HOST",
            (Action::Uninstall, false, _) => "siding is not in HOST; nothing to change",
            (Action::Uninstall, true, false) => "siding is gone from HOST",
            (_, true, true) => "nothing was changed (--dry-run)",
        };
        let scope = match self.scope {
            Some(Scope::Project) => " (this project, for everybody)",
            Some(Scope::Local) => " (this project, for you)",
            Some(Scope::User) | None => "",
        };
        let title = format!("{}{scope}", host.title());
        text.push_str(&format!("{}\n", verdict.replace("HOST", &title)));
        for note in &self.notes {
            text.push_str(&format!("{}\n", print::wrapped(note, 0, print::WIDTH)));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_schema_is_that_of_the_code() {
        crate::render::schema::assert_committed::<Report>("install");
    }
}
