//! The last events of the server, so that a client that was disconnected continues where it was.

use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of events that are kept.
const MAX_KEPT_EVENTS: usize = 1024;

/// An event in the form in which clients receive it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SentEvent {
    /// Its number; the first event of a server has 1.
    pub(crate) number: u64,
    /// What happened: `task`, `removed` or `session`.
    pub(crate) name: &'static str,
    /// The data, JSON without a newline.
    pub(crate) data: String,
}

/// The last events of a server.
#[derive(Debug)]
pub(crate) struct EventLog {
    /// Tells the events of this server from those of an earlier one at the same address.
    server: u64,
    last: u64,
    kept: VecDeque<Arc<SentEvent>>,
}

/// What a client has to receive to be up to date.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Resumption {
    /// These events.
    Events(Vec<Arc<SentEvent>>),
    /// Events are missing, or the client is new: it has to read the present state.
    Reset,
}

impl EventLog {
    /// Creates the log of a server with a random number.
    pub(crate) const fn new(server: u64) -> Self {
        Self { server, last: 0, kept: VecDeque::new() }
    }

    /// Adds an event and returns it.
    pub(crate) fn push(&mut self, name: &'static str, data: String) -> Arc<SentEvent> {
        self.last += 1;
        let event = Arc::new(SentEvent { number: self.last, name, data });
        if self.kept.len() >= MAX_KEPT_EVENTS {
            self.kept.pop_front();
        }
        self.kept.push_back(Arc::clone(&event));
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
