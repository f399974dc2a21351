//! Waits for notices about the session's tasks, and formats them for the model.

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
use super::event::AgentEvent;
use crate::message::UserContent;
use crate::transcript::Transcript;

/// Polling interval when the outbox cannot be followed, for example because no inotify instance or
/// no disk space is left.
const NOTICE_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// A thread that follows the session's outbox. Dropping this value ends the thread. While the
/// outbox cannot be followed, only dropping the receiver of its events ends the thread.
#[derive(Debug)]
pub(super) struct NoticeFollower {
    /// The read end of a pipe whose write end the thread polls. Closing the read end causes an
    /// error event at the write end, and this event ends the thread.
    _reader: OwnedFd,
}

impl NoticeFollower {
    /// Starts the thread, which sends [`AgentEvent::NoticesAvailable`] whenever notices may be
    /// pending.
    pub(super) fn start(
        host: &Arc<ToolContext>,
        sender: Sender<AgentEvent>,
    ) -> Result<Self, AgentError> {
        let made = pipe::create_pipe();
        let (reader, writer) =
            made.map_err(|source| AgentError::Io { doing: "create a pipe", source })?;
        let host = Arc::clone(host);
        thread::spawn(move || {
            // While the outbox cannot be followed, the agent polls it.
            while follow_outbox(&host, &writer, &sender).is_err() {
                thread::sleep(NOTICE_POLL_INTERVAL);
                if sender.send(AgentEvent::NoticesAvailable).is_err() {
                    return;
                }
            }
        });
        Ok(Self { _reader: reader })
    }
}

fn follow_outbox(
    host: &ToolContext,
    out: &OwnedFd,
    sender: &Sender<AgentEvent>,
) -> Result<(), NoticesError> {
    let outbox = session_outbox(host)?;
    let mut follower = OutboxFollower::new(&outbox, SHIM_PROGRAM)?;
    // Notices that were pending before the follower started cause no event, so they are reported
    // here.
    follower.schedule_later(&outbox.pending()?);
    let _receiver_dropped = sender.send(AgentEvent::NoticesAvailable);
    loop {
        match follower.next_event(out.as_fd())? {
            FollowEvent::ReaderClosed => return Ok(()),
            FollowEvent::TasksChanged(tasks) => {
                let pending = outbox.pending_for(&tasks)?;
                follower.schedule_later(&pending);
                if !pending.notices.is_empty() && sender.send(AgentEvent::NoticesAvailable).is_err()
                {
                    return Ok(());
                }
            }
        }
    }
}

/// Returns the outbox of the agent's session.
pub(super) fn session_outbox(host: &ToolContext) -> Result<Outbox<'_>, NoticesError> {
    Outbox::new(&host.root, host.session.clone(), Consumer::agent())
}

/// Acknowledges notices that are in the transcript, so that they are not delivered again. First
/// syncs the transcript: a power failure must not lose the entry and keep the acknowledgement.
pub(super) fn acknowledge_recorded(
    outbox: &Outbox<'_>,
    transcript: &Transcript,
    ids: &[NoticeId],
) -> Result<(), AgentError> {
    transcript.sync()?;
    Ok(outbox.acknowledge(ids)?)
}

/// Formats a notice as a separate block for the model.
pub(super) fn notice_content(host: &ToolContext, notice: NoticeView) -> UserContent {
    UserContent::Notice {
        id: notice.notice_id,
        text: answer_notices::format_notice(host.dialect, notice),
    }
}
