//! `siding top`: the screen on which a person watches tasks.

use std::process::ExitCode;
use std::sync::Arc;

use siding_core::store::StateDir;
use siding_live::LiveOptions;
use siding_model::history::Expectation;
use siding_model::id::TaskId;
use siding_model::task_view::TaskView;
use siding_model::text::CharacterSet;
use siding_top::{Theme, TopError, TopOptions};

use crate::caller;
use crate::context::{self, SHIM_PROGRAM};
use crate::failure::Failure;
use crate::pager::pager_from_environment;
use crate::terminal;

/// Shows tasks on the whole terminal, and acts on them.
///
/// Tasks that need a person come first. Enter opens a task: its output as it is written, its
/// processes and what they wait for, its limits, events and notices. The key `?` lists all keys.
/// Killed shims are replaced at the start, except with --read-only. After that, watching only reads
/// files and does not affect the tasks. When the screen is closed, the tasks continue.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding top                show all tasks
  siding top npm test       show the tasks that have both words
  siding top --read-only    refuse every action on a task

NO_COLOR disables colors; a locale without UTF-8 gets ASCII symbols.")]
pub(crate) struct Args {
    /// Show only tasks that have these words in their id, name, command, session, directory or
    /// state
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    /// Refuse every action on a task, and do not replace killed shims
    #[arg(long)]
    read_only: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        if !self.read_only {
            // A failed repair is reported, and the tasks are still shown.
            let _logged_by_callee = context::recover_all(&root)?;
        }
        let history_root = context::open_state_dir()?;
        let settings = context::load_valid_settings();
        siding_top::run(TopOptions {
            root,
            program: SHIM_PROGRAM,
            live: LiveOptions {
                deadline_notice: settings.deadline_notice,
                ..LiveOptions::default()
            },
            theme: theme_from_environment(),
            is_read_only: self.read_only,
            usual_durations: Arc::new(move |views: &[TaskView]| {
                usual_durations(&history_root, views)
            }),
            pager: pager_from_environment(),
            user: caller::terminal_user(),
            filter: self.words.join(" "),
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

impl From<TopError> for Failure {
    fn from(error: TopError) -> Self {
        match error {
            TopError::Live(error) => Self::new(error),
            TopError::NoTerminal { .. } | TopError::Dumb { .. } | TopError::Terminal(_) => {
                Self::new(error)
            }
        }
    }
}

fn theme_from_environment() -> Theme {
    // The variable disables colors (<https://no-color.org>).
    let has_color = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    Theme { has_color, is_ascii: terminal::character_set() == CharacterSet::Ascii }
}

/// Looks up the usual durations of tasks. Nothing is printed if the history cannot be used, because
/// the terminal shows the screen.
fn usual_durations(root: &StateDir, views: &[TaskView]) -> Vec<(TaskId, Expectation)> {
    let found = siding_history::query_best_effort(root, |history| {
        let mut found = Vec::new();
        for view in views {
            if let Some(usual) = history.expectation(&view.command, &view.history_directory())? {
                found.push((view.task_id, usual));
            }
        }
        Ok(found)
    });
    found.map(|outcome| outcome.value).unwrap_or_default()
}
