//! `siding notices ack`: acknowledges notices for one consumer.

use std::process::ExitCode;

use siding_core::notices::{Outbox, notices_of_task};
use siding_core::store::StateDir;
use siding_model::id::SessionId;
use siding_model::notice::{Consumer, NoticeId};

use crate::caller;
use crate::context;
use crate::exit;
use crate::failure::Failure;

/// Acknowledges notices, so that the consumer does not receive them again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding notices ack                    the notices printed last, for a person
  siding notices ack b-4k7q0n2m8x5t.3   one notice
  siding notices ack b-4k7q             all notices of this task so far

Acknowledging a notice again has no effect.")]
pub(super) struct Args {
    /// Ids of notices. A task (an id, a unique prefix, a name, or `@` for the last one) stands for
    /// all its notices so far (default for a person: the notices that the last `siding notices`
    /// printed)
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// Consumer that received the notices (default: agent; for a person: terminal)
    #[arg(long, value_name = "NAME")]
    consumer: Option<Consumer>,
    /// Without ids: the session whose notices were printed (default: the implicit one)
    #[arg(long, value_name = "S", conflicts_with = "ids")]
    session: Option<SessionId>,
}

impl Args {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let root = context::open_state_dir()?;
        let is_person = caller::is_person_by_settings();
        // A person must not take notices away from the agent of a session.
        let consumer = self.consumer.clone().unwrap_or_else(|| match is_person {
            true => Consumer::terminal(),
            false => Consumer::agent(),
        });
        if !self.ids.is_empty() {
            return self.acknowledge_ids(&root, &consumer);
        }
        if !is_person {
            return Err(Failure::new("no notice and no task is named")
                .with_hint("`siding notices` lists new notices with their ids"));
        }
        let session = context::resolve_session(self.session)?;
        match Outbox::new(&root, session, consumer)?.acknowledge_printed()? {
            0 => errln!("siding: nothing to acknowledge; `siding notices` shows what is new"),
            1 => errln!("siding: acknowledged 1 notice"),
            count => errln!("siding: acknowledged {count} notices"),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn acknowledge_ids(&self, root: &StateDir, consumer: &Consumer) -> Result<ExitCode, Failure> {
        let mut failed = false;
        let mut by_session: Vec<(SessionId, Vec<NoticeId>)> = Vec::new();
        for text in &self.ids {
            match resolve_notices(root, text) {
                Ok((session, ids)) => {
                    match by_session.iter_mut().find(|(one, _)| *one == session) {
                        Some((_, known)) => known.extend(ids),
                        None => by_session.push((session, ids)),
                    }
                }
                // An unknown id is only reported, so that the other notices are acknowledged.
                Err(failure) => {
                    failed = true;
                    failure.report();
                }
            }
        }
        for (session, ids) in by_session {
            Outbox::new(root, session, consumer.clone())?.acknowledge(&ids)?;
        }
        Ok(if failed { ExitCode::from(exit::SIDING_FAILED) } else { ExitCode::SUCCESS })
    }
}

/// Returns the session of a task, with the notice that `text` names or, if `text` names the task,
/// with all notices of the task so far.
fn resolve_notices(root: &StateDir, text: &str) -> Result<(SessionId, Vec<NoticeId>), Failure> {
    if let Ok(id) = text.parse::<NoticeId>() {
        let (session, ids) = notices_of_task(root, id.task)?;
        if !ids.contains(&id) {
            return Err(Failure::new(format!("no notice `{id}`"))
                .with_hint("`siding notices` lists new notices"));
        }
        return Ok((session, vec![id]));
    }
    Ok(notices_of_task(root, context::resolve_task(root, text, false)?)?)
}
