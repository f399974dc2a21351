//! `siding reap`: removes what crashes left behind.

mod text;

use std::collections::BTreeMap;
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use siding_core::store::StateDir;
use siding_core::sys::descriptor;
use siding_core::task::system_log;
use siding_core::upkeep::reap::{self, ReapError, ReapStep, UnownedRules};
use siding_model::retention::RetentionLimits;
use siding_model::settings::Settings;
use siding_model::unowned::ReportAudience;

use crate::context::{self, SHIM_PROGRAM};
use crate::failure::Failure;
use crate::render::local_time::TimeZone;
use crate::{render, run_history, stdout};

pub(super) use text::format_summary;
pub(super) use text::unowned::format_report;

/// Exit code if something could not be cleared.
const INCOMPLETE_EXIT_CODE: u8 = 1;

/// Removes what crashes left behind, and tasks whose retention has expired.
///
/// Replaces killed shims, records ends that no shim saw, waits for the tasks of ended sessions,
/// ends processes whose task has ended, and removes old tasks: by default those that ended more
/// than 7 days ago or exceed 1,000 tasks or 2 GiB (retention_age, retention_tasks,
/// retention_bytes). Removes unused socket files that match reap_sockets. Any other process or file
/// that no record explains is left alone, unless one of the following rules applies.
///
/// Ends processes that other programs left behind, if a rule matches: whole trees of your processes
/// whose host has ended and which are older than 4h by default. The built-in rules apply on every
/// call, as foreign_reap says; the first time they only report. With --foreign, all rules of
/// reap_foreign apply, including your own.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding reap                       clean up, and print what was done
  siding reap --dry-run             only print what would be done
  siding reap --json                the same as JSON
  siding reap --foreign --dry-run   processes of dead agents

Exit codes: 0 if everything could be cleared, 1 if something is left.")]
pub(crate) struct Args {
    /// Change nothing; only print what would be done
    #[arg(long)]
    dry_run: bool,
    /// End what other programs left behind, by all rules of reap_foreign, whatever foreign_reap
    /// says
    #[arg(long)]
    foreign: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// JSON output of `siding reap`.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "reap")]
pub(super) struct ReapReport<'s> {
    /// Whether `--dry-run` was given, so that nothing was changed.
    dry_run: bool,
    /// Number of steps of each kind.
    counts: BTreeMap<&'static str, usize>,
    /// The steps in their order; in a dry run, the steps that would be done.
    steps: &'s [ReapStep],
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let settings = context::load_settings()?;
        let limits = retention_limits(&settings);
        let mut steps = if self.dry_run {
            reap::plan_all(&root, &limits)?
        } else {
            // The reaper opens one descriptor for each stray process.
            descriptor::raise_open_limit();
            let mut steps = reap::reap_all(&root, SHIM_PROGRAM, &limits, || {
                run_history::ingest_ended_runs(&root)
            })?;
            if !self.json && steps.iter().any(|step| matches!(step, ReapStep::Leaving { .. })) {
                errln!("siding: waiting for shims to stop the tasks of ended sessions");
            }
            reap::await_stopping(&root, SHIM_PROGRAM, &mut steps);
            steps
        };
        steps.extend(if self.foreign {
            let (rules, min_age) = (&settings.reap_foreign, settings.unowned_min_age());
            reap::reap_unowned(&root, UnownedRules { rules, min_age }, self.dry_run)
        } else {
            reap::reap_unowned_unattended(&root, &settings, self.dry_run)
        });
        // Sockets come last: a relay that an earlier step ended no longer holds its socket.
        steps.extend(reap::reap_sockets(&settings.reap_sockets, self.dry_run));
        if !self.dry_run {
            // The entries are sent before the output, which may fail although the processes have
            // been terminated.
            log_reaped_processes(&settings, &steps);
        }
        if self.json {
            let counts = reap::count_by_kind(&steps);
            render::json::print(&ReapReport { dry_run: self.dry_run, counts, steps: &steps })?;
        } else {
            let zone = TimeZone::for_stdout();
            stdout::print_text(&text::format_steps(&steps, &settings, self.dry_run, zone))?;
        }
        if !self.dry_run {
            record_report_shown(&root, &settings, &steps, ReportAudience::Caller);
        }
        Ok(if steps.iter().any(ReapStep::is_failure) {
            ExitCode::from(INCOMPLETE_EXIT_CODE)
        } else {
            ExitCode::SUCCESS
        })
    }
}

/// Returns the text about unowned processes for an agent: the report of these steps or, if earlier
/// reports went only to a timer's log, one note that such processes are terminated.
pub(super) fn report_for_agent(
    root: &StateDir,
    settings: &Settings,
    steps: &[ReapStep],
) -> Option<String> {
    format_report(steps, settings).or_else(|| {
        reap::is_unowned_report_unseen(root, settings).then(text::unowned::format_unseen_report)
    })
}

/// Records that a report of unowned processes was shown, if the steps contain one.
pub(super) fn record_report_shown(
    root: &StateDir,
    settings: &Settings,
    steps: &[ReapStep],
    reader: ReportAudience,
) {
    if let Err(error) = reap::record_unowned_report(root, settings, steps, reader) {
        errln!("siding: could not record this report: {error}; it will be shown again");
    }
}

/// Removes what crashes left behind, and returns the steps. Programs such as siding's servers call
/// this function when they start. The limit of open descriptors is not raised here, although each
/// stray process needs one, because processes that the caller starts would inherit the limit.
pub(super) fn run_quietly(root: &StateDir, settings: &Settings) -> Result<Vec<ReapStep>, Failure> {
    let mut steps = reap::reap_all(root, SHIM_PROGRAM, &retention_limits(settings), || {
        run_history::ingest_ended_runs(root)
    })?;
    steps.extend(reap::reap_sockets(&settings.reap_sockets, false));
    log_reaped_processes(settings, &steps);
    Ok(steps)
}

/// Removes what crashes and ended hosts left behind. Called when a session is opened. The caller
/// prints the text of [`format_report`] and then calls [`record_report_shown`].
pub(super) fn run_for_session(
    root: &StateDir,
    settings: &Settings,
) -> Result<Vec<ReapStep>, Failure> {
    let mut steps = reap::reap_all(root, SHIM_PROGRAM, &retention_limits(settings), || {
        run_history::ingest_ended_runs(root)
    })?;
    steps.extend(reap_unowned_and_sockets(root, settings));
    log_reaped_processes(settings, &steps);
    Ok(steps)
}

/// Does the urgent part of [`run_for_session`], for a caller that must not wait long: repairs
/// tasks, ends processes that tasks or hosts left behind, and removes unused sockets. Old tasks and
/// other leftovers stay.
pub(super) fn run_for_session_fast(
    root: &StateDir,
    settings: &Settings,
) -> Result<Vec<ReapStep>, Failure> {
    let mut steps = reap::reap_urgent(root, SHIM_PROGRAM)?;
    steps.extend(reap_unowned_and_sockets(root, settings));
    log_reaped_processes(settings, &steps);
    Ok(steps)
}

fn reap_unowned_and_sockets(root: &StateDir, settings: &Settings) -> Vec<ReapStep> {
    let mut steps = reap::reap_unowned_unattended(root, settings, false);
    // Sockets come last: a relay that an earlier step ended no longer holds its socket.
    steps.extend(reap::reap_sockets(&settings.reap_sockets, false));
    steps
}

/// Sends an entry about each ended process to the journal of systemd, if the setting `log_journald`
/// is on.
fn log_reaped_processes(settings: &Settings, steps: &[ReapStep]) {
    if settings.log_journald {
        steps.iter().filter_map(ReapStep::log_entry).for_each(|entry| system_log::send(&entry));
    }
}

fn retention_limits(settings: &Settings) -> RetentionLimits {
    RetentionLimits {
        age: settings.retention_age,
        tasks: settings.retention_tasks,
        bytes: settings.retention_bytes,
    }
}

impl From<ReapError> for Failure {
    fn from(error: ReapError) -> Self {
        match error {
            ReapError::Store(error) => error.into(),
            boot @ ReapError::Boot(_) => Self::new(boot),
        }
    }
}
