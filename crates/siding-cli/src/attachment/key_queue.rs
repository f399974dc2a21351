//! The queue of typed bytes for the terminal of a task.

use siding_model::process::MonotonicMs;
use siding_model::protocol::MAX_TERMINAL_WRITE_BYTES;

/// Number of queued bytes from which no more keys are read. Further keys then stay in the person's
/// terminal.
const FULL_BYTES: usize = 4096;
/// Pause before the next attempt to write to a terminal that has accepted nothing, in milliseconds.
const RETRY_MS: u64 = 20;

/// Typed bytes that the terminal of a task has not accepted yet. At most one write is unanswered,
/// so that the bytes arrive in order even if the terminal accepts only a part of them.
#[derive(Debug, Default)]
pub(super) struct KeyQueue {
    waiting: Vec<u8>,
    /// Number of bytes at the front of the queue that were sent and are not confirmed.
    sent: Option<usize>,
    retry_at: Option<MonotonicMs>,
}

impl KeyQueue {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// Returns whether the terminal has accepted all bytes.
    pub(super) const fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) const fn is_full(&self) -> bool {
        self.waiting.len() >= FULL_BYTES
    }

    /// Returns the time at which [`Self::next_part`] returns held-back bytes; `None` if time has no
    /// effect.
    pub(super) const fn retry_at(&self) -> Option<MonotonicMs> {
        self.retry_at
    }

    /// Returns the bytes to send now; `None` if there are none, or if the previous ones are not
    /// confirmed.
    pub(super) fn next_part(&mut self, now: MonotonicMs) -> Option<Vec<u8>> {
        let is_early = self.retry_at.is_some_and(|at| now < at);
        if self.sent.is_some() || self.waiting.is_empty() || is_early {
            return None;
        }
        self.retry_at = None;
        let count = self.waiting.len().min(MAX_TERMINAL_WRITE_BYTES);
        self.sent = Some(count);
        Some(self.waiting[..count].to_vec())
    }

    /// Records that the terminal has accepted the first `accepted` bytes of the last part.
    pub(super) fn on_accepted(&mut self, accepted: usize, now: MonotonicMs) {
        let Some(sent) = self.sent.take() else { return };
        self.waiting.drain(..accepted.min(sent));
        // A program that does not read its terminal fills the buffer of the kernel.
        self.retry_at = (accepted == 0).then(|| now.plus_ms(RETRY_MS));
    }

    /// Keeps the last part for another attempt, because it was not sent.
    pub(super) fn on_unsent(&mut self, now: MonotonicMs) {
        self.on_accepted(0, now);
    }

    /// Drops the last part, if it is not confirmed: it was refused, or the shim has exited and may
    /// have written it. A lost key is better than a key that arrives twice. Returns whether
    /// there was such a part.
    pub(super) fn drop_sent(&mut self) -> bool {
        let sent = self.sent.take();
        self.waiting.drain(..sent.unwrap_or(0));
        sent.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: MonotonicMs = MonotonicMs(1_000);

    #[test]
    fn bytes_are_sent_in_order_and_one_part_at_a_time() {
        let mut queue = KeyQueue::default();
        assert_eq!(queue.next_part(NOW), None);
        queue.push(b"abc");
        assert_eq!(queue.next_part(NOW).as_deref(), Some(&b"abc"[..]));
        queue.push(b"d");
        assert_eq!(queue.next_part(NOW), None, "the first part is not confirmed");
        queue.on_accepted(2, NOW);
        assert_eq!(queue.next_part(NOW).as_deref(), Some(&b"cd"[..]));
        queue.on_accepted(2, NOW);
        assert_eq!(queue.next_part(NOW), None);
    }

    #[test]
    fn a_full_terminal_is_tried_again_after_a_pause() {
        let mut queue = KeyQueue::default();
        queue.push(b"a");
        assert!(queue.next_part(NOW).is_some());
        queue.on_accepted(0, NOW);
        assert_eq!(queue.next_part(NOW), None);
        let retry_at = queue.retry_at().expect("the byte is still waiting");
        assert_eq!(queue.next_part(retry_at).as_deref(), Some(&b"a"[..]));
        assert_eq!(queue.retry_at(), None);
    }

    #[test]
    fn an_unsent_part_is_kept_for_the_next_shim() {
        let mut queue = KeyQueue::default();
        queue.push(b"a");
        assert!(queue.next_part(NOW).is_some());
        queue.on_unsent(NOW);
        assert!(!queue.drop_sent(), "the next shim must receive the byte");
        let retry_at = queue.retry_at().expect("the byte is still waiting");
        assert_eq!(queue.next_part(retry_at).as_deref(), Some(&b"a"[..]));
    }

    #[test]
    fn a_part_with_an_unknown_fate_is_not_sent_again() {
        let mut queue = KeyQueue::default();
        queue.push(&vec![b'x'; MAX_TERMINAL_WRITE_BYTES]);
        queue.push(b"y");
        assert!(queue.next_part(NOW).is_some());
        assert!(queue.drop_sent());
        assert!(!queue.drop_sent());
        assert_eq!(queue.next_part(NOW).as_deref(), Some(&b"y"[..]));
    }

    #[test]
    fn a_long_paste_waits_in_the_persons_terminal() {
        let mut queue = KeyQueue::default();
        queue.push(&vec![b'x'; FULL_BYTES]);
        assert!(queue.is_full());
        assert!(queue.next_part(NOW).is_some_and(|part| part.len() == MAX_TERMINAL_WRITE_BYTES));
        queue.on_accepted(MAX_TERMINAL_WRITE_BYTES, NOW);
        assert!(!queue.is_full());
    }
}
