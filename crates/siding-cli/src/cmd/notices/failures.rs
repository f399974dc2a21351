//! Notices that were not sent to a server: each is said, and a row of them is counted.

use siding_model::notice::NoticeId;

/// What was not sent since the last notice that was.
///
/// The first of a row is named with the reason. Those that follow it for the same reason are
/// counted, and the number is said when the row is over, so that a server that refuses a thousand
/// notices neither fills a screen nor hides one.
#[derive(Debug)]
pub(super) struct DeliveryFailures {
    server: String,
    last_reason: Option<String>,
    /// Of the row, those that were not named.
    unnamed: usize,
}

impl DeliveryFailures {
    pub(super) fn new(server: &str) -> Self {
        Self { server: server.to_owned(), last_reason: None, unnamed: 0 }
    }

    /// Scheme and host.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Says that a notice was not sent.
    pub(super) fn record_failure(&mut self, id: NoticeId, why: &str) {
        if self.last_reason.as_deref() == Some(why) {
            self.unnamed += 1;
            return;
        }
        self.report_unnamed();
        errln!("siding: webhook {}: {why}; notice {id} was not sent", self.server);
        self.last_reason = Some(why.to_owned());
    }

    /// Ends a row: a notice was sent.
    pub(super) fn record_success(&mut self) {
        self.report_unnamed();
        self.last_reason = None;
    }

    /// Says how many were lost without being named.
    pub(super) fn report_unnamed(&mut self) {
        let (count, server) = (std::mem::take(&mut self.unnamed), &self.server);
        match count {
            0 => {}
            1 => errln!("siding: webhook {server}: for the same reason 1 more was not sent"),
            _ => {
                errln!("siding: webhook {server}: for the same reason {count} more were not sent");
            }
        }
    }
}
