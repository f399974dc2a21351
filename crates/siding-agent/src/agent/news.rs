//! News of the session's tasks: heard as it comes, and put into words.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use siding_core::notices::{FollowEvent, NoticesError, Outbox, OutboxFollower};
use siding_core::sys::pipe;
use siding_model::notice::{Consumer, NoticeId, NoticeView};
use siding_tools::{SHIM_PROGRAM, ToolContext, answer_notices};

use super::AgentError;
use super::came::Came;
use crate::message::Told;

/// How often it is looked for news that cannot be waited for: no inotify instance is left, or no space.
const LOOK: Duration = Duration::from_secs(5);

/// The wait for news. Ends with it.
#[derive(Debug)]
pub(super) struct Follow {
    /// Nobody reads any more once this is closed.
    _reader: OwnedFd,
}

impl Follow {
    /// Begins to wait, and says so whenever there may be something.
    pub(super) fn begin(host: &Arc<ToolContext>, sender: Sender<Came>) -> Result<Self, AgentError> {
        let made = pipe::create_pipe();
        let (reader, writer) =
            made.map_err(|source| AgentError::Io { doing: "make a pipe", source })?;
        let host = Arc::clone(host);
        thread::spawn(move || {
            // Where it cannot be waited for it is looked for.
            while follow(&host, &writer, &sender).is_err() {
                thread::sleep(LOOK);
                if sender.send(Came::News).is_err() {
                    return;
                }
            }
        });
        Ok(Self { _reader: reader })
    }
}

fn follow(host: &ToolContext, out: &OwnedFd, sender: &Sender<Came>) -> Result<(), NoticesError> {
    let outbox = outbox(host)?;
    let mut follower = OutboxFollower::new(&outbox, SHIM_PROGRAM)?;
    // What came before this.
    follower.schedule_later(&outbox.pending()?);
    let _nobody = sender.send(Came::News);
    loop {
        match follower.next_event(out.as_fd())? {
            FollowEvent::ReaderClosed => return Ok(()),
            FollowEvent::TasksChanged(tasks) => {
                let look = outbox.pending_for(&tasks)?;
                follower.schedule_later(&look);
                if !look.notices.is_empty() && sender.send(Came::News).is_err() {
                    return Ok(());
                }
            }
        }
    }
}

/// Returns the outbox of the agent's session.
pub(super) fn outbox(host: &ToolContext) -> Result<Outbox<'_>, NoticesError> {
    Outbox::new(&host.root, host.session.clone(), Consumer::agent())
}

/// Notes that the model is told these.
pub(super) fn acknowledge(host: &ToolContext, ids: &[NoticeId]) -> Result<(), NoticesError> {
    outbox(host)?.acknowledge(ids)
}

/// Returns a notice as the model is told it: a block of its own.
pub(super) fn told(host: &ToolContext, notice: NoticeView) -> Told {
    Told::Notice { id: notice.notice_id, text: answer_notices::format_notice(host.dialect, notice) }
}
