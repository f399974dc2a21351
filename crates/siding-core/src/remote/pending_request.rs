//! The requests that were passed to a shim, and whose response has not arrived.

use siding_model::protocol::ShimMessage;
use siding_model::remote::{ForwardedRequest, RemoteMessage};

/// A request whose response has not arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PendingRequest {
    pub(super) number: u64,
    /// Whether the request types keys. If the response is lost, these may have been typed.
    is_terminal_write: bool,
}

impl From<&ForwardedRequest> for PendingRequest {
    fn from(forwarded: &ForwardedRequest) -> Self {
        let is_terminal_write = forwarded.request.is_terminal_write();
        Self { number: forwarded.number, is_terminal_write }
    }
}

impl PendingRequest {
    /// Returns the response to the request, whose own response is lost for this reason.
    pub(super) fn lost_response(self, why: &str) -> RemoteMessage {
        let message = ShimMessage::from_lost_response(self.is_terminal_write, why);
        RemoteMessage::Shim { number: self.number, message }
    }
}

#[cfg(test)]
mod tests {
    use siding_model::protocol::ShimRequest;
    use siding_model::terminal::TerminalUser;

    use super::*;

    #[test]
    fn only_keys_may_have_been_typed_before_the_response_was_lost() {
        let keys = ShimRequest::TerminalWrite {
            bytes: b"y\r".to_vec(),
            user: TerminalUser::Agent,
            by: "test".to_owned(),
            if_output: None,
            is_secret: false,
        };
        let lost = |request| {
            let forwarded = ForwardedRequest { number: 7, client: None, request };
            PendingRequest::from(&forwarded).lost_response("srun ended")
        };
        let why = "srun ended".to_owned();
        let message = ShimMessage::WriteUnconfirmed { why };
        assert_eq!(lost(keys), RemoteMessage::Shim { number: 7, message });
        let why = "srun ended; try again".to_owned();
        let message = ShimMessage::Refused { why };
        assert_eq!(lost(ShimRequest::Terminal), RemoteMessage::Shim { number: 7, message });
    }
}
