//! Reads the requests of a mirror.

use std::io;

use siding_model::remote::{MAX_INPUT_MESSAGE_BYTES, MAX_REMOTE_LINE_BYTES, RemoteRequest};

use super::ServeError;
use crate::sys::file;

/// Maximum number of bytes that one read of the standard input returns.
const READ_BYTES: usize = 64 << 10;

/// Splits the bytes of the standard input into requests.
#[derive(Debug, Default)]
pub(in super::super) struct RequestReader {
    buffer: Vec<u8>,
    /// A request whose following bytes have not all arrived, and the number of these bytes.
    incomplete: Option<(RemoteRequest, usize)>,
}

impl RequestReader {
    /// Reads more bytes; blocks if none are available. Returns false at the end of the input.
    pub(in super::super) fn receive(&mut self) -> io::Result<bool> {
        let start = self.buffer.len();
        self.buffer.resize(start + READ_BYTES, 0);
        let count = file::read(io::stdin(), &mut self.buffer[start..]);
        self.buffer.truncate(start + count.as_ref().copied().unwrap_or(0));
        Ok(count? > 0)
    }

    /// Returns the next request, with the bytes that follow it; `None` until more bytes are
    /// received.
    pub(in super::super) fn next_request(
        &mut self,
    ) -> Result<Option<(RemoteRequest, Vec<u8>)>, ServeError> {
        if self.incomplete.is_none() {
            self.incomplete = self.next_line()?;
        }
        let has_arrived = |(_, count): &mut (RemoteRequest, usize)| self.buffer.len() >= *count;
        let request = self.incomplete.take_if(has_arrived);
        Ok(request.map(|(request, count)| (request, self.buffer.drain(..count).collect())))
    }

    /// Returns the request of the next line, and the number of bytes that follow it.
    fn next_line(&mut self) -> Result<Option<(RemoteRequest, usize)>, ServeError> {
        let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') else {
            if self.buffer.len() > MAX_REMOTE_LINE_BYTES {
                return Err(ServeError::Request("a request is too long".to_owned()));
            }
            return Ok(None);
        };
        let line: Vec<u8> = self.buffer.drain(..=end).collect();
        let request: RemoteRequest = serde_json::from_slice(&line[..end])
            .map_err(|error| ServeError::Request(error.to_string()))?;
        let count = match &request {
            RemoteRequest::Input { bytes, .. } => *bytes,
            RemoteRequest::Start { .. }
            | RemoteRequest::Follow { .. }
            | RemoteRequest::Forward(_)
            | RemoteRequest::InputEnd { .. } => 0,
        };
        if count > MAX_INPUT_MESSAGE_BYTES {
            return Err(ServeError::Request("a part of the input is too long".to_owned()));
        }
        Ok(Some((request, count)))
    }
}
