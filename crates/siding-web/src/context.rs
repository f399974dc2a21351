//! The state that the handlers of requests share.

use std::ffi::CStr;
use std::net::SocketAddr;
use std::sync::Arc;

use siding_core::store::{StateDir, TaskDir};
use siding_model::id::TaskId;
use siding_model::settings::Settings;
use siding_model::terminal::TerminalUser;

use crate::access::Credential;
use crate::feed::Feed;
use crate::openapi::SchemaSource;
use crate::output_feed::OutputFeeds;
use crate::typing_pages::TypingPages;

/// The state that all handlers share.
pub(crate) struct WebContext {
    /// The state directory.
    pub(crate) root: StateDir,
    /// The present state of all tasks.
    pub(crate) feed: Arc<Feed>,
    /// The outputs that pages follow.
    pub(crate) outputs: OutputFeeds,
    /// Whether requests may change tasks.
    pub(crate) control: bool,
    /// Whether only a person receives the sign-in links, so that a page with a page key is that
    /// person's.
    pub(crate) is_person: bool,
    /// The address on which the server listens.
    pub(crate) address: SocketAddr,
    /// The pages on which persons type into terminals.
    pub(crate) typing: TypingPages,
    /// The settings in effect when the server was started.
    pub(crate) settings: Settings,
    /// The program that becomes a shim when a task has to be repaired before an act.
    pub(crate) program: &'static CStr,
    /// The schemas of siding's JSON output.
    pub(crate) schemas: SchemaSource,
}

impl WebContext {
    /// Returns whether a person or an agent types with this credential. Every program of the user
    /// can read the token, and the sign-in link of a server that an agent has started or whose
    /// output is in a file. A program that the person's browser visits receives the cookie.
    pub(crate) const fn terminal_user(&self, credential: Option<Credential>) -> TerminalUser {
        match credential {
            Some(Credential::PageKey) if self.is_person => TerminalUser::Person,
            Some(Credential::PageKey | Credential::Cookie | Credential::Token) | None => {
                TerminalUser::Agent
            }
        }
    }

    /// Returns whether a browser may send a secret. Without TLS, only the loopback interface keeps
    /// it from the network; a proxy with TLS connects to a loopback address.
    pub(crate) const fn accepts_secrets(&self) -> bool {
        self.address.ip().is_loopback()
    }

    /// Opens a task to read its output. Returns the directory, and the number of bytes at the
    /// beginning of the output that are always kept.
    pub(crate) fn open_task(&self, id: TaskId) -> Option<(TaskDir, u64)> {
        let dir = self.root.task_dir(id).ok()?;
        let keep_head = dir.read().ok()?.state.spec.keep_head;
        Some((dir, keep_head))
    }
}
