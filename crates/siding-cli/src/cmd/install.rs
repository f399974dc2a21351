//! `siding install`: siding in the agent that a person uses.

use std::process::ExitCode;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use schemars::JsonSchema;
use serde::Serialize;
use siding_model::settings::HostBudget;
use siding_model::text::visible;

use crate::failure::Failure;
use crate::install::hosts::{Host, Places, Scope};
use crate::install::plan::{Action, Done, Fate, carry_out};
use crate::install::program::Program;
use crate::install::{Memory, timer};
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
  siding install claude-code --budget 15s         wait 15 s for a command
  siding install codex
  siding install timer                            the reaper every 15 minutes

What each host gets: docs/hosts.md.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) call: Call,
    /// Budget of the host's own shell calls: a foreground command of the main agent that takes longer
    /// is moved to the background (`15s`, `off`); for claude-code. A later install keeps it
    #[arg(long, value_name = "D")]
    budget: Option<HostBudget>,
}

/// What `install` and `uninstall` are told.
#[derive(Debug, clap::Args)]
pub(super) struct Call {
    /// The host
    #[arg(value_enum, value_name = "HOST")]
    what: What,
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

/// What siding can be installed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Host(Host),
    Timer,
}

impl ValueEnum for What {
    fn value_variants<'v>() -> &'v [Self] {
        &[
            Self::Host(Host::ClaudeCode),
            Self::Host(Host::Codex),
            Self::Host(Host::Gemini),
            Self::Host(Host::Opencode),
            Self::Timer,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Host(host) => host.to_possible_value(),
            Self::Timer => {
                Some(PossibleValue::new("timer").help("systemd: the reaper every 15 min"))
            }
        }
    }
}

/// What `--json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "install")]
struct Report {
    /// Which way.
    action: Action,
    /// The host's name as an argument, or `timer`.
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
        self.call.run(Action::Install, self.budget)
    }
}

impl Call {
    /// Installs or uninstalls.
    pub(super) fn run(
        self,
        action: Action,
        budget: Option<HostBudget>,
    ) -> Result<ExitCode, Failure> {
        let program = Program::this()?;
        let places = Places::from_process()?;
        let memory = Memory::find()?;
        let scopes = matches!(self.what, What::Host(host) if host.has_scopes());
        if self.scope.is_some() && !scopes {
            return Err(Failure::new("only claude-code has scopes").with_hint("leave out --scope"));
        }
        let scope = self.scope.unwrap_or_default();
        let has_budget = matches!(self.what, What::Host(host) if host.has_budget());
        if budget.is_some() && !has_budget {
            return Err(Failure::new("only claude-code moves its own calls to the background")
                .with_hint("leave out --budget; `blocking_budget` is that of siding's tools"));
        }
        let mut notes = Vec::new();
        let (changed, files) = match self.what {
            What::Host(host) => {
                if action == Action::Install {
                    notes = host.notes(&places, scope, &program);
                }
                let mut targets = host.targets(&places, scope, &program, None)?;
                let budget = match budget {
                    Some(budget) => budget.duration().map(|_| budget.to_string()),
                    // An install without the flag keeps what is there.
                    None => targets.iter().find_map(|one| one.installed_budget(&program.names)),
                };
                if budget.is_some() {
                    targets = host.targets(&places, scope, &program, budget.as_deref())?;
                }
                let files = carry_out(&targets, action, self.dry_run, &program.names, &memory)?;
                (files.iter().any(Done::is_change), files)
            }
            What::Timer => timer::carry_out(&places, action, self.dry_run, &program, &memory)?,
        };
        let report = Report {
            action,
            host: self.what.name(),
            scope: scopes.then_some(scope),
            dry_run: self.dry_run,
            changed,
            notes,
            program: program.path,
            files,
        };
        if self.json {
            render::json::print(&report)?;
        } else {
            print::text(&report.words(self.what.title()))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl What {
    const fn name(self) -> &'static str {
        match self {
            Self::Host(host) => host.name(),
            Self::Timer => "timer",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Host(host) => host.title(),
            Self::Timer => "systemd's timers",
        }
    }
}

impl Report {
    /// Returns it for people: every diff, what was done, and what to know.
    fn words(&self, title: &str) -> String {
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
        let title = format!("{title}{scope}");
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
