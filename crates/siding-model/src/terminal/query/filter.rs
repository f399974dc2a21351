//! Removal of queries from output for a person's terminal.

use super::{find_device_query, visit_queries};
use crate::terminal::sequence::{CAN, ESC, Sequence, SequenceParser, StringKind};

/// Maximum number of bytes of an incomplete sequence that are held back.
const MAX_HELD_BYTES: usize = 64;

/// A filter that copies output without the queries that siding answers, so that a person's
/// terminal does not answer them as well. The output may be split anywhere.
#[derive(Debug, Clone, Default)]
pub struct QueryFilter {
    parser: SequenceParser,
    /// The first bytes of an incomplete sequence; for a longer sequence, only an ESC that may end
    /// it.
    held: Vec<u8>,
    handling: SequenceHandling,
    /// Whether the copied output ends in an incomplete sequence that an ESC has canceled.
    is_canceled_last: bool,
}

/// The treatment of the bytes of the current sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum SequenceHandling {
    /// They are held back, because the sequence may be a query.
    #[default]
    Hold,
    /// They are copied, because the sequence is too long to be a query.
    Copy,
    /// They are removed, because the sequence is a long query.
    Remove,
}

impl QueryFilter {
    /// Appends the next bytes of the output to `out`, without queries. At most 64 bytes are held
    /// back until more output shows whether they belong to a query.
    pub fn filter(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut rest = bytes;
        loop {
            if self.parser.is_ground() {
                let text = rest.iter().position(|byte| *byte == ESC).unwrap_or(rest.len());
                if text > 0 {
                    out.extend_from_slice(&rest[..text]);
                    self.is_canceled_last = false;
                    rest = &rest[text..];
                }
            }
            let Some((byte, after)) = rest.split_first() else { return };
            self.filter_byte(*byte, out);
            rest = after;
        }
    }

    /// Appends the bytes that are still held back, at the end of the output.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.held);
        *self = Self::default();
    }

    /// Processes a byte of a sequence, of which ESC is the first one.
    fn filter_byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        if let Some(len) = self.parser.restart_len(byte) {
            self.release_canceled(len, out);
        }
        let is_query = self.parser.step(byte).map(contains_query);
        if is_query.is_none() && !self.parser.is_ground() {
            self.hold(byte, out);
            return;
        }
        // The sequence is complete, or the byte has canceled it.
        let is_removed = match self.handling {
            SequenceHandling::Hold => is_query == Some(true),
            SequenceHandling::Copy => false,
            SequenceHandling::Remove => is_query.is_some(),
        };
        if is_removed {
            self.held.clear();
            if self.is_canceled_last {
                // The ESC of the removed query has canceled the sequence before it. Without the
                // ESC, that sequence would continue with the text after the query.
                out.push(CAN);
            }
        } else {
            out.append(&mut self.held);
            out.push(byte);
        }
        self.is_canceled_last = false;
        self.handling = SequenceHandling::Hold;
    }

    /// Copies a sequence that another one has canceled. The last `len` held bytes are the start of
    /// the other sequence.
    fn release_canceled(&mut self, len: usize, out: &mut Vec<u8>) {
        let canceled = self.held.len().saturating_sub(len);
        out.extend(self.held.drain(..canceled));
        if canceled > 0 || self.handling == SequenceHandling::Copy {
            self.is_canceled_last = true;
        }
        self.handling = SequenceHandling::Hold;
    }

    /// Holds back a byte of an incomplete sequence, or decides about a sequence that is too long to
    /// be held back.
    fn hold(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.handling == SequenceHandling::Hold && self.held.len() == MAX_HELD_BYTES {
            let is_query = self
                .parser
                .string_prefix(StringKind::Dcs)
                .is_some_and(|content| find_device_query(content).is_some());
            if is_query {
                self.held.clear();
                self.handling = SequenceHandling::Remove;
            } else {
                out.append(&mut self.held);
                self.handling = SequenceHandling::Copy;
            }
        }
        match self.handling {
            SequenceHandling::Hold => self.held.push(byte),
            // This ESC ends the string or starts another sequence.
            SequenceHandling::Copy | SequenceHandling::Remove if byte == ESC => {
                self.held.push(byte);
            }
            SequenceHandling::Copy => out.push(byte),
            SequenceHandling::Remove => {}
        }
    }
}

/// Returns whether a sequence contains a query.
fn contains_query(sequence: Sequence<'_>) -> bool {
    let mut is_found = false;
    visit_queries(sequence, &mut |_| is_found = true);
    is_found
}
