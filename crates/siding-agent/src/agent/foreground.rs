//! A call of the agent's model: how it is told what a person wants of it.

use std::sync::mpsc::{Sender, SyncSender, sync_channel};
use std::time::Duration;

use siding_model::id::TaskId;
use siding_tools::{Caller, Gone, Host, Standing};
use tokio::sync::watch;

use super::calls::Came;
use crate::message::CallId;
use crate::provider::Cancel;

/// What somebody wants of a call that runs.
#[derive(Debug)]
pub(crate) struct Wishes {
    gone: watch::Sender<bool>,
    /// The same as `gone`, for tools that only look now and then.
    cancel: Cancel,
}

impl Wishes {
    /// Ends it.
    pub(crate) fn give_up(&self) {
        self.cancel.set();
        self.gone.send_replace(true);
    }
}

/// One call of a tool that works on tasks.
#[derive(Debug)]
pub(crate) struct Foreground {
    call: CallId,
    gone: watch::Receiver<bool>,
    sender: Sender<Came>,
}

impl Foreground {
    /// Makes one, with the other end of it.
    pub(crate) fn new(call: CallId, sender: Sender<Came>) -> (Self, Wishes, Cancel) {
        let (wish, gone) = watch::channel(false);
        let cancel = Cancel::default();
        let wishes = Wishes { gone: wish, cancel: cancel.clone() };
        (Self { call, gone, sender }, wishes, cancel)
    }
}

impl Caller for Foreground {
    fn name(&self) -> &'static str {
        "user"
    }

    fn begins(&self, task: TaskId) -> bool {
        let (noted, is_noted): (SyncSender<bool>, _) = sync_channel(1);
        let bound = Came::Bound { call: self.call.clone(), task, noted };
        self.sender.send(bound).is_ok() && is_noted.recv().unwrap_or(false)
    }

    fn bearable(&self, wanted: Duration) -> Duration {
        wanted
    }

    fn cancelled(&self) -> impl Future<Output = Gone> + Send + 'static {
        let mut gone = self.gone.clone();
        async move {
            match gone.wait_for(|gone| *gone).await {
                Ok(_) => Gone::Wish,
                // The agent has gone; its session decides.
                Err(_) => Gone::Caller,
            }
        }
    }

    async fn due(&self) {
        std::future::pending().await
    }

    async fn tell(&mut self, _host: &Host, _standing: Option<&Standing>, _bound: Duration) {}
}
