//! Stores the last events of the server, so that a client that was disconnected can resume after
//! the last event that it received.

use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of events that are kept.
const MAX_KEPT_EVENTS: usize = 1024;
/// Maximum size of the kept events together, in bytes.
const MAX_KEPT_BYTES: usize = 4 << 20;
/// Maximum size of one event, in bytes. A larger one is replaced by `reset`, because the command of
/// a task may have any length, and each connected client may have several events in its queue.
const MAX_EVENT_BYTES: usize = 64 << 10;
/// Name of the event after which a client has to read the present state.
pub(crate) const RESET_EVENT: &str = "reset";

/// An event in the form in which clients receive it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SentEvent {
    /// The number of the event; the first event of a server has the number 1.
    pub(crate) number: u64,
    /// The kind of event: `task`, `removed`, `session`, or [`RESET_EVENT`].
    pub(crate) name: &'static str,
    /// The data, JSON without a newline.
    pub(crate) data: String,
}

/// The last events of a server.
#[derive(Debug)]
pub(crate) struct EventLog {
    /// A random number that distinguishes the events of this server from those of an earlier one at
    /// the same address.
    server: u64,
    last: u64,
    kept: VecDeque<Arc<SentEvent>>,
    /// Size of the data of `kept`, in bytes.
    kept_bytes: usize,
}

/// The events that a client must receive to be up to date.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resumption {
    /// The events after the last one that the client received.
    Events(Vec<Arc<SentEvent>>),
    /// Events are missing, or the client is new: it has to read the present state.
    Reset,
}

impl EventLog {
    /// Creates the log of a server with a random number.
    pub(crate) const fn new(server: u64) -> Self {
        Self { server, last: 0, kept: VecDeque::new(), kept_bytes: 0 }
    }

    /// Adds an event and returns it.
    pub(crate) fn push(&mut self, name: &'static str, data: String) -> Arc<SentEvent> {
        self.last += 1;
        let (name, data) = if data.len() > MAX_EVENT_BYTES {
            (RESET_EVENT, "{}".to_owned())
        } else {
            (name, data)
        };
        let event = Arc::new(SentEvent { number: self.last, name, data });
        self.kept_bytes += event.data.len();
        self.kept.push_back(Arc::clone(&event));
        while self.kept.len() > MAX_KEPT_EVENTS || self.kept_bytes > MAX_KEPT_BYTES {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.kept_bytes -= oldest.data.len();
        }
        event
    }

    /// Returns the events after the one whose id a client received last.
    pub(crate) fn resume_after(&self, id: Option<&str>) -> Resumption {
        let Some(number) = id.and_then(|id| self.parse_id(id)) else { return Resumption::Reset };
        let oldest = self.kept.front().map_or(self.last + 1, |event| event.number);
        if number > self.last || number + 1 < oldest {
            return Resumption::Reset;
        }
        Resumption::Events(
            self.kept.iter().filter(|event| event.number > number).cloned().collect(),
        )
    }

    /// Returns the number of the last event.
    pub(crate) const fn last_number(&self) -> u64 {
        self.last
    }

    /// Returns the id of an event, which a client sends back when it connects again.
    pub(crate) fn format_id(&self, number: u64) -> String {
        format!("{:x}-{number}", self.server)
    }

    fn parse_id(&self, id: &str) -> Option<u64> {
        let (server, number) = id.split_once('-')?;
        (u64::from_str_radix(server, 16).ok()? == self.server).then(|| number.parse().ok())?
    }
}

/// Formats an event of an event stream. The data must be one line.
pub(crate) fn format_event(id: &str, name: &str, data: &str) -> String {
    format!("id: {id}\nevent: {name}\ndata: {data}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(resumption: Resumption) -> Option<Vec<u64>> {
        match resumption {
            Resumption::Events(events) => Some(events.iter().map(|event| event.number).collect()),
            Resumption::Reset => None,
        }
    }

    #[test]
    fn a_client_continues_after_the_event_that_it_received() {
        let mut log = EventLog::new(0xabc);
        assert_eq!(numbers(log.resume_after(Some("abc-0"))), Some(vec![]));
        for _ in 0..3 {
            let _sent = log.push("task", "{}".to_owned());
        }
        assert_eq!(numbers(log.resume_after(Some("abc-1"))), Some(vec![2, 3]));
        assert_eq!(numbers(log.resume_after(Some(&log.format_id(3)))), Some(vec![]));
    }

    #[test]
    fn the_kept_events_have_a_maximum_size() {
        let mut log = EventLog::new(1);
        for _ in 0..200 {
            let _sent = log.push("task", "x".repeat(MAX_EVENT_BYTES));
        }
        let all = log.kept.iter().map(|event| event.data.len()).sum::<usize>();
        assert_eq!((all, log.kept_bytes), (MAX_KEPT_BYTES, MAX_KEPT_BYTES));
        assert_eq!(log.resume_after(Some("1-1")), Resumption::Reset);
        assert_eq!(numbers(log.resume_after(Some("1-199"))), Some(vec![200]));
        let large = log.push("task", "x".repeat(MAX_EVENT_BYTES + 1));
        assert_eq!((large.name, large.data.as_str()), (RESET_EVENT, "{}"));
    }

    #[test]
    fn an_unknown_id_and_missing_events_need_a_reset() {
        let mut log = EventLog::new(1);
        for _ in 0..=MAX_KEPT_EVENTS {
            let _sent = log.push("task", "{}".to_owned());
        }
        for id in [None, Some(""), Some("2-5"), Some("1-x"), Some("1-99999"), Some("1-0")] {
            assert_eq!(log.resume_after(id), Resumption::Reset, "{id:?}");
        }
        assert_eq!(numbers(log.resume_after(Some("1-1"))).map(|all| all.len()), Some(1024));
    }
}
