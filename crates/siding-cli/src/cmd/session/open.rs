//! `siding session open`: opens a session.

use std::process::ExitCode;

use siding_core::processes::tree;
use siding_core::session;
use siding_core::sys::descriptor;
use siding_model::id::{SessionId, TaskId};
use siding_model::text::one_line;
use siding_model::unowned::ReportAudience;

use super::SessionView;
use crate::cmd::reap;
use crate::context;
use crate::failure::Failure;
use crate::{render, stdout};

/// Opens a session, or adds an owner to it.
///
/// After the last owner has ended, a resumed conversation can open the session again within a grace
/// period (session_grace). Otherwise the session's tasks are stopped. Also removes what crashes and
/// dead agents left behind, as `siding reap` does.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding session open chat-7 --owner-pid $PPID
  siding session open chat-7 --owner-pid 4242 --json")]
pub(super) struct Args {
    /// Id of the session
    #[arg(value_name = "ID", value_parser = super::parse_session_id)]
    id: SessionId,
    /// Process whose end ends the session, if no other owner runs
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(i32).range(1..))]
    owner_pid: i32,
    /// Print the session as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let settings = context::load_settings()?;
        let session = session::open(&root, &self.id, self.owner_pid)?;
        descriptor::raise_open_limit();
        let reaped = reap::run_for_session(&root, &settings).unwrap_or_else(|failure| {
            // A failure of the reaper is only reported, because the session is already open.
            failure.report();
            Vec::new()
        });
        let running: Vec<TaskId> = super::running_specs(&root)?
            .into_iter()
            .filter(|spec| spec.session_id == self.id)
            .map(|spec| spec.task_id)
            .collect();
        if self.json {
            let mut view = SessionView::new(&session, &context::boot_id()?, running);
            view.reaped = Some(reaped.clone());
            render::json::print(&view)?;
            reap::record_report_shown(&root, &settings, &reaped, ReportAudience::Caller);
            return Ok(ExitCode::SUCCESS);
        }
        let owner = one_line(&tree::command_for_report(self.owner_pid), 100);
        let mut text = format!(
            "session `{}` is open; it ends with process {}, {owner}",
            self.id, self.owner_pid
        );
        if !running.is_empty() {
            text.push_str(&format!("; running tasks: {}", running.len()));
        }
        let mut text = stdout::wrap_indented(&text, 0, stdout::text_columns()) + "\n";
        if let Some(summary) = reap::format_summary(&reaped) {
            let cleared = format!("cleaned up after earlier crashes: {summary}");
            text += &(stdout::wrap_indented(&cleared, 0, stdout::text_columns()) + "\n");
        }
        if let Some(report) = reap::format_report(&reaped, &settings) {
            text += &report;
        }
        stdout::print_text(&text)?;
        reap::record_report_shown(&root, &settings, &reaped, ReportAudience::Caller);
        Ok(ExitCode::SUCCESS)
    }
}
