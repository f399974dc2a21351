//! `siding install`: adds siding to a host.

mod effects;

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::ValueEnum;
use clap::builder::PossibleValue;
use schemars::JsonSchema;
use serde::Serialize;
use siding_model::settings::HostBudget;
use siding_model::text::make_visible;

use crate::context;
use crate::failure::Failure;
use crate::install::hosts::{BaseDirs, Host, Scope};
use crate::install::notify::{self, NotifyChoice};
use crate::install::plan::{Action, ChangeKind, FileChange, apply_plan};
use crate::install::program::{SidingProgram, find_in_path};
use crate::install::target::{FileContent, TargetFile};
use crate::install::{InstallRecords, timer};
use crate::notify_method::NotifyMethod;
use crate::{render, stdout};

/// Adds siding's hooks and MCP server to a host.
///
/// Explains each hook in a line, shows each change as a diff, saves a backup next to each changed
/// file, and changes nothing else in the file. A second call changes nothing. An installation of an
/// earlier version, or of a siding at another path, is updated. `siding uninstall` removes exactly
/// what was added.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding install claude-code
  siding install claude-code --dry-run            show what would change
  siding install claude-code --scope project      for everyone in this project
  siding install claude-code --budget 15s         wait 15 s for a command
  siding install claude-code --statusline         running tasks below the prompt
  siding install codex --notify desktop,bell      notify me of what needs me
  siding install systemd-timer                    run the reaper every 15 min

`siding doctor --host HOST` checks an installation, and says how to repair it.")]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) call: CommonArgs,
    #[command(flatten)]
    options: InstallOptions,
}

/// Optional parts of an installation. Without a flag, a part that an earlier call added stays.
#[derive(Debug, Default, clap::Args)]
pub(super) struct InstallOptions {
    /// Budget of the host's own shell calls: a foreground command of the main agent that takes
    /// longer moves to the background (`15s`, `off`); claude-code only. Later installs keep it
    /// (default: off)
    #[arg(long, value_name = "D")]
    budget: Option<HostBudget>,
    /// Notify me when a task needs me (an answer, a failure, a deadline, a limit) while the host
    /// runs: desktop, bell, webhook, webhook=URL, separated by commas; off removes the hook
    #[arg(long, value_name = "WAYS")]
    notify: Option<NotifyChoice>,
    /// Show running tasks in the status line; an existing program for it is kept and called first.
    /// claude-code only
    #[arg(long)]
    statusline: bool,
}

/// Arguments that `install` and `uninstall` share.
#[derive(Debug, clap::Args)]
pub(super) struct CommonArgs {
    /// Host to change
    #[arg(value_enum, value_name = "HOST")]
    what: InstallTarget,
    /// Scope of the settings to change (default: user); claude-code only
    #[arg(long, value_enum)]
    scope: Option<Scope>,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The object of `siding install`: the files of a host, or the reaper's timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InstallTarget {
    Host(Host),
    Timer,
}

impl ValueEnum for InstallTarget {
    fn value_variants<'v>() -> &'v [Self] {
        static TARGETS: LazyLock<Vec<InstallTarget>> = LazyLock::new(|| {
            let hosts = Host::value_variants().iter().copied().map(InstallTarget::Host);
            hosts.chain([InstallTarget::Timer]).collect()
        });
        &TARGETS
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Host(host) => host.to_possible_value(),
            Self::Timer => Some(
                PossibleValue::new("systemd-timer").alias("timer").help("the reaper every 15 min"),
            ),
        }
    }
}

/// JSON output of `siding install` and `siding uninstall`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "install")]
pub(super) struct InstallReport {
    /// Whether the command was `install` or `uninstall`.
    action: Action,
    /// The name of the host as the command line accepts it, such as `codex`, or `systemd-timer`.
    host: &'static str,
    /// The scope of the settings: `user`, `project` or `local`; null if the host has no scopes.
    scope: Option<Scope>,
    /// Whether `--dry-run` was given, so that no file was changed.
    dry_run: bool,
    /// Whether anything was changed or, in a dry run, would be changed.
    changed: bool,
    /// Path of the siding program that the host or the timer starts.
    program: String,
    /// The files of the installation that were checked, including those that needed no change.
    files: Vec<FileChange>,
    /// Remarks for the person, such as remaining manual steps.
    notes: Vec<String>,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.call.run(Action::Install, &self.options)
    }
}

impl CommonArgs {
    /// Installs or uninstalls siding, and prints the result.
    pub(super) fn run(self, action: Action, options: &InstallOptions) -> Result<ExitCode, Failure> {
        let program = SidingProgram::current()?;
        let places = BaseDirs::from_process()?;
        let memory = InstallRecords::locate()?;
        let scopes = matches!(self.what, InstallTarget::Host(host) if host.has_scopes());
        if self.scope.is_some() && !scopes {
            return Err(Failure::new("only claude-code has scopes").with_hint("omit --scope"));
        }
        let scope = self.scope.unwrap_or_default();
        let has_budget = matches!(self.what, InstallTarget::Host(host) if host.has_budget());
        if options.budget.is_some() && !has_budget {
            return Err(Failure::new("only claude-code moves its own calls to the background")
                .with_hint("omit --budget; `blocking_budget` sets the budget of siding's tools"));
        }
        let (mut notes, mut effects) = (Vec::new(), String::new());
        let (changed, files) = match self.what {
            InstallTarget::Host(host) => {
                if action == Action::Install {
                    notes = host.notes(&places, scope, &program);
                }
                let mut targets = options.resolve_targets(host, &places, scope, &program)?;
                if action == Action::Install {
                    notes.extend(options.apply_options(&mut targets, host, scope, &program)?);
                    effects = effects::format_effects(&targets);
                }
                let files = apply_plan(&targets, action, self.dry_run, &program.names, &memory)?;
                let address =
                    !self.dry_run && options.update_webhook_address(host, scope, action)?;
                (address || files.iter().any(FileChange::is_change), files)
            }
            InstallTarget::Timer if options.notify.is_some() || options.statusline => {
                return Err(Failure::new("a timer has no notifications and no status line")
                    .with_hint("omit --notify and --statusline"));
            }
            InstallTarget::Timer => {
                timer::apply_timer(&places, action, self.dry_run, &program, &memory)?
            }
        };
        let report = InstallReport {
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
            stdout::print_text(&report.format_text(self.what.title(), &effects))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl InstallOptions {
    /// Returns the intended content of a host's files, with the requested budget or, without one,
    /// with the installed budget.
    fn resolve_targets(
        &self,
        host: Host,
        places: &BaseDirs,
        scope: Scope,
        program: &SidingProgram,
    ) -> Result<Vec<TargetFile>, Failure> {
        let targets = host.targets(places, scope, program, None)?;
        let budget = match self.budget {
            Some(budget) => budget.duration().map(|_| budget.to_string()),
            // An install without the flag keeps the installed budget.
            None => targets.iter().find_map(|one| one.installed_budget(&program.names)),
        };
        match budget {
            Some(budget) => host.targets(places, scope, program, Some(&budget)),
            None => Ok(targets),
        }
    }

    /// Adds the requested notifications and status line to a host's files. Returns notes for the
    /// person, such as a missing program.
    fn apply_options(
        &self,
        targets: &mut [TargetFile],
        host: Host,
        scope: Scope,
        program: &SidingProgram,
    ) -> Result<Vec<String>, Failure> {
        if self.notify.is_some() && !host.has_hooks() {
            return Err(Failure::new(format!(
                "{} calls no hooks, so --notify is not supported",
                host.title()
            ))
            .with_hint(
                "`siding notices --follow --ack --notify` in a separate terminal notifies you",
            ));
        }
        if self.statusline && !request_status_line(targets) {
            return Err(Failure::new("only claude-code has a status line from a program")
                .with_hint("omit --statusline"));
        }
        let methods = notify::add_entry(targets, self.notify.as_ref(), &program.names);
        let mut notes = Vec::new();
        if methods.contains(&NotifyMethod::Desktop) && find_in_path("notify-send").is_none() {
            notes.push(
                "no desktop notifications: `notify-send` is not in the search path".to_owned(),
            );
        }
        if methods.contains(&NotifyMethod::Webhook) {
            let given = matches!(self.notify, Some(NotifyChoice::Methods { address: Some(_), .. }));
            if given && host.has_scopes() && scope != Scope::User {
                return Err(Failure::new("an address is stored for one person, not for a project")
                    .with_hint(
                        "use `--notify webhook`, and set notify_webhook in your own settings",
                    ));
            }
            let stored = || notify::has_address(host.name());
            if !given
                && !stored()
                && context::load_valid_settings().notify_webhook.address().is_none()
            {
                return Err(Failure::new("--notify webhook: no address is set").with_hint(
                    "give it as `--notify webhook=URL`, or set notify_webhook in your own settings",
                ));
            }
        }
        Ok(notes)
    }

    /// Stores or removes the address of the host's webhook. Returns whether the stored address
    /// changed.
    fn update_webhook_address(
        &self,
        host: Host,
        scope: Scope,
        action: Action,
    ) -> Result<bool, Failure> {
        match (action, &self.notify) {
            (Action::Install, Some(NotifyChoice::Methods { address: Some(address), .. })) => {
                notify::store_address(host.name(), address)
            }
            (Action::Install, Some(NotifyChoice::Off)) | (Action::Uninstall, _) => {
                if scope == Scope::User { notify::forget_address(host.name()) } else { Ok(false) }
            }
            (Action::Install, Some(NotifyChoice::Methods { address: None, .. }) | None) => {
                Ok(false)
            }
        }
    }
}

/// Requests the status line in each file that supports one. Returns whether any file supports it.
fn request_status_line(targets: &mut [TargetFile]) -> bool {
    let mut has_place = false;
    for target in targets {
        if let FileContent::Json { status_line: Some(line), .. } = &mut target.content {
            line.is_requested = true;
            has_place = true;
        }
    }
    has_place
}

impl InstallTarget {
    const fn name(self) -> &'static str {
        match self {
            Self::Host(host) => host.name(),
            Self::Timer => "systemd-timer",
        }
    }

    const fn title(self) -> &'static str {
        match self {
            Self::Host(host) => host.title(),
            Self::Timer => "systemd's timers",
        }
    }
}

impl InstallReport {
    /// Formats the report: the effect of each part, every diff, the result, and notes.
    fn format_text(&self, title: &str, effects: &str) -> String {
        let mut text = String::new();
        if self.changed && !effects.is_empty() {
            text.push_str(&format!("siding in {title}:\n{effects}\n"));
        }
        for done in &self.files {
            text.push_str(&make_visible(&done.diff));
            if !done.diff.is_empty() {
                text.push('\n');
            }
        }
        for done in self.files.iter().filter(|done| done.change != ChangeKind::Unchanged) {
            let path = make_visible(&done.path.display().to_string());
            let what = match (done.change, self.dry_run) {
                (ChangeKind::Created, false) => "created",
                (ChangeKind::Created, true) => "would create",
                (ChangeKind::Removed, false) => "removed",
                (ChangeKind::Removed, true) => "would remove",
                (_, false) => "changed",
                (_, true) => "would change",
            };
            text.push_str(&format!("{what} {path}\n"));
            if let Some(backup) = &done.backup {
                let backup = make_visible(&backup.display().to_string());
                text.push_str(&format!("  backup: {backup}\n"));
            }
            for backup in &done.backups_removed {
                let backup = make_visible(&backup.display().to_string());
                text.push_str(&format!("  removed an identical backup: {backup}\n"));
            }
        }
        let verdict = match (self.action, self.changed, self.dry_run) {
            (Action::Install, false, _) => "siding is installed in HOST; nothing to change",
            (Action::Install, true, false) => "siding is installed in HOST",
            (Action::Uninstall, false, _) => "siding is not installed in HOST; nothing to change",
            (Action::Uninstall, true, false) => "siding is removed from HOST",
            (_, true, true) => "nothing was changed (--dry-run)",
        };
        let scope = match self.scope {
            Some(Scope::Project) => " (this project, for everyone)",
            Some(Scope::Local) => " (this project, for you)",
            Some(Scope::User) | None => "",
        };
        let title = format!("{title}{scope}");
        text.push_str(&format!("{}\n", verdict.replace("HOST", &title)));
        let mut indent = 0;
        if self.changed && self.dry_run && !self.notes.is_empty() {
            // The notes describe an installation that was not carried out.
            text.push_str("for an install without --dry-run:\n");
            indent = 2;
        }
        for note in &self.notes {
            let note = stdout::wrap_indented(note, indent, stdout::text_columns());
            text.push_str(&format!("{note}\n"));
        }
        text
    }
}
