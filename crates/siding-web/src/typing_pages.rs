//! The pages on which persons type into terminals, each with the channel to the thread that types.

use std::collections::HashMap;
use std::sync::mpsc::{self, Receiver, Sender, SyncSender};
use std::sync::{Mutex, MutexGuard, PoisonError};

use siding_model::id::TaskId;
use siding_model::terminal::KeyInput;
use siding_terminal::LiveTerminalError;

/// The pages that type at present, each with the way to the thread of its connection.
#[derive(Debug, Default)]
pub(crate) struct TypingPages(Mutex<HashMap<TypingPage, Sender<TypingRequest>>>);

/// A page on which a person types.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TypingPage {
    pub(crate) task: TaskId,
    /// The name that the page has chosen; may be empty.
    pub(crate) name: String,
}

/// Keys that a page types.
#[derive(Debug)]
pub(crate) struct TypingRequest {
    pub(crate) keys: Vec<KeyInput>,
    pub(crate) answer: SyncSender<Result<(), LiveTerminalError>>,
}

impl TypingPages {
    /// Removes a page that has not typed for a while. Returns keys that have arrived meanwhile, with
    /// which the page continues.
    pub(crate) fn end_idle_page(
        &self,
        page: &TypingPage,
        requests: &Receiver<TypingRequest>,
    ) -> Option<TypingRequest> {
        // Keys are sent while this lock is held, so none are lost in between.
        let mut pages = self.lock();
        match requests.try_recv() {
            Ok(request) => Some(request),
            Err(mpsc::TryRecvError::Empty) => {
                pages.remove(page);
                None
            }
            // Another thread may serve the page by now.
            Err(mpsc::TryRecvError::Disconnected) => None,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, HashMap<TypingPage, Sender<TypingRequest>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
