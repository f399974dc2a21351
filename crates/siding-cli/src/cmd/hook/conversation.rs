//! Identifies the conversation of an event, the process that owns it, and its sessions.

use siding_core::session::{self, SessionError};
use siding_core::store::StateDir;
use siding_core::sys::procfs;
use siding_core::task::adopt;
use siding_model::id::SessionId;
use siding_model::process::ProcRef;

use super::host::HookHost;
use super::input::HookInput;
use crate::context;
use crate::failure::Failure;

/// A conversation of a running host.
#[derive(Debug)]
pub(super) struct Conversation {
    pub(super) root: StateDir,
    /// The host's process, which owns the session.
    pub(super) owner: ProcRef,
    /// Session whose id is derived from the host's id of the conversation.
    pub(super) session: SessionId,
}

impl Conversation {
    /// Returns the conversation of an event, with the process that owns it: the process with the id
    /// `owner` or, if that is `None`, the host among the ancestors of this process, otherwise
    /// process 1. Returns `None` if the event names no conversation or `owner` has ended.
    pub(super) fn from_input(
        input: &HookInput,
        host: HookHost,
        owner: Option<i32>,
    ) -> Result<Option<Self>, Failure> {
        let Some(conversation) = input.session_id.as_deref() else { return Ok(None) };
        if let Some(pid) = owner {
            // If the owner has ended, the conversation has no reader for notices, so there is
            // nothing to do.
            let Some(owner) = procfs::identify(pid) else { return Ok(None) };
            let session = host.session_id_for(conversation);
            return Ok(Some(Self { root: context::open_state_dir()?, owner, session }));
        }
        let this_process = procfs::self_ref().ok_or_else(|| {
            Failure::new("this process could not be found in /proc").with_hint("is it mounted?")
        })?;
        // In a container the host may be process 1, which `find_host` does not return.
        let owner = adopt::find_host(this_process.pid).or_else(|| procfs::identify(1));
        let owner = owner.ok_or_else(|| Failure::new("this process has no parent process"))?;
        let session = host.session_id_for(conversation);
        Ok(Some(Self { root: context::open_state_dir()?, owner, session }))
    }

    /// Opens the session with the host's process as an owner, unless the process owns it already.
    pub(super) fn open_session(&self) -> Result<(), Failure> {
        let boot = context::boot_id()?;
        match session::require_live(&self.root, &self.session) {
            // The host's process owns the session already, for example because the conversation was
            // compacted.
            Ok(session) if session.is_owned_by(self.owner, &boot) => return Ok(()),
            Ok(_) | Err(SessionError::Unknown { .. } | SessionError::Ended { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let opened = session::open(&self.root, &self.session, self.owner.pid)?;
        if !opened.is_owned_by(self.owner, &boot) {
            return Err(Failure::new(format!(
                "process {} ended and its id was reused while session `{}` was opened",
                self.owner.pid, self.session
            )));
        }
        Ok(())
    }

    /// Returns the sessions that the host's process owns, the conversation's own first. The others
    /// belong to earlier conversations in the same process or were opened by the host's MCP server.
    pub(super) fn sessions(&self) -> Result<Vec<SessionId>, Failure> {
        let sessions = session::list_owned_by(&self.root, self.owner)?;
        let mut ids: Vec<SessionId> = sessions.into_iter().map(|session| session.id).collect();
        // `list_owned_by` omits the conversation's session if another process has opened it since,
        // although both processes own it. Of the other process's sessions, only this one is added.
        let boot = context::boot_id()?;
        let is_owned_here = |one: session::Session| one.is_owned_by(self.owner, &boot);
        if !ids.contains(&self.session)
            && session::require_live(&self.root, &self.session).is_ok_and(is_owned_here)
        {
            ids.push(self.session.clone());
        }
        ids.sort_by_key(|id| *id != self.session);
        Ok(ids)
    }
}
