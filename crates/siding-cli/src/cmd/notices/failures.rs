//! Reports notices that could not be sent to a webhook's server. Repeated failures are counted
//! instead of reported one by one.

use siding_model::notice::NoticeId;

/// Delivery failures since the last success.
///
/// The first failure is reported with its reason. Later failures for the same reason are counted,
/// and their number is reported when the reason changes, a delivery succeeds, or siding ends. A
/// server that rejects a thousand notices thus neither fills the screen nor hides another error.
#[derive(Debug)]
pub(super) struct DeliveryFailures {
    server: String,
    last_reason: Option<String>,
    /// Number of failures with `last_reason` that were not reported individually.
    unnamed: usize,
}

impl DeliveryFailures {
    pub(super) fn new(server: &str) -> Self {
        Self { server: server.to_owned(), last_reason: None, unnamed: 0 }
    }

    /// Returns the server's scheme and host, which messages may show.
    pub(super) fn server(&self) -> &str {
        &self.server
    }

    /// Reports a notice that was not sent, or counts it if the reason is the same as before.
    pub(super) fn record_failure(&mut self, id: NoticeId, why: &str) {
        if self.last_reason.as_deref() == Some(why) {
            self.unnamed += 1;
            return;
        }
        self.report_unnamed();
        errln!("siding: webhook {}: {why}; notice {id} was not sent", self.server);
        self.last_reason = Some(why.to_owned());
    }

    /// Records a delivery, which ends a series of failures.
    pub(super) fn record_success(&mut self) {
        self.report_unnamed();
        self.last_reason = None;
    }

    /// Reports the number of failures that were only counted.
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
