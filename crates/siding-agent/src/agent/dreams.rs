//! The dreams of an agent at a terminal that has nothing to do.

use std::sync::Arc;
use std::time::Duration;

use siding_core::sys::clock;
use siding_model::process::MonotonicMs;

use super::{Agent, Sight};
use crate::conversation::Rest;
use crate::dream::{self, Order, Unasked};

/// What is known of them.
#[derive(Debug)]
pub(super) struct Dreams {
    terms: Unasked,
    /// Since when nobody works.
    idle_since: MonotonicMs,
    /// The entries that there were then.
    entries: u64,
    /// When the last began, and the entries that there were then.
    last: Option<(MonotonicMs, u64)>,
    /// Whether it may still dream.
    dreams: bool,
}

impl Dreams {
    pub(super) fn new(terms: Unasked) -> Self {
        Self { terms, idle_since: clock::monotonic_now(), entries: 0, last: None, dreams: false }
    }

    /// Takes in how many entries there are now. Whether a dream is to be ended, since something has
    /// happened.
    fn wakes(&mut self, now: MonotonicMs, entries: u64) -> bool {
        if entries == self.entries {
            return false;
        }
        (self.idle_since, self.entries) = (now, entries);
        std::mem::take(&mut self.dreams)
    }

    /// Returns the time until the next one is due, if nothing happens.
    fn left(&self, now: MonotonicMs) -> Option<Duration> {
        let since = |then: MonotonicMs| Duration::from_millis(now.ms_since(then));
        let entries = self.entries - self.last.map_or(0, |(_, entries)| entries);
        let last = self.last.map(|(then, _)| since(then));
        self.terms.idle.left(since(self.idle_since), last, entries)
    }

    fn begins(&mut self, now: MonotonicMs) {
        (self.last, self.dreams) = (Some((now, self.entries)), true);
    }
}

impl Agent {
    /// Ends a dream when something has happened, and begins one when it is time. Returns the time until
    /// the next is due.
    pub(super) fn dream(
        &mut self,
        dreams: &mut Dreams,
        sight: &mut dyn FnMut(Sight<'_>),
    ) -> Option<Duration> {
        let now = clock::monotonic_now();
        if dreams.wakes(now, self.entries) {
            let host = Arc::clone(&self.host);
            // Its end is not waited for: it writes nothing any more.
            self.runtime.spawn_blocking(move || dream::interrupt(&host));
        }
        if !matches!(self.rest, Some(Rest::Turn(_))) {
            return None;
        }
        let left = dreams.left(now)?;
        if !left.is_zero() {
            return Some(left);
        }
        dreams.begins(now);
        let order = Order {
            session: self.host.session.clone(),
            cwd: None,
            model: dreams.terms.model.clone(),
            max_tokens: dreams.terms.max_tokens,
            dry_run: false,
        };
        if let Err(error) = dream::start(&self.host, &order, dreams.terms.life) {
            sight(Sight::Failed(&format!("the notes could not be put in order: {error}")));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dream::Idle;

    #[test]
    fn a_dream_is_due_after_idleness_and_ended_by_an_entry() {
        let idle = Idle::read(Some("10s")).expect("is a time").expect("is set");
        let life = Duration::from_secs(1);
        let terms = Unasked { idle, model: "script:x".to_owned(), max_tokens: 1, life };
        let mut dreams = Dreams::new(terms);
        let at = |seconds: u64| MonotonicMs(seconds * 1_000);
        assert!(
            !dreams.wakes(at(100), 19) && dreams.left(at(500)).is_none(),
            "too little was said"
        );
        assert!(!dreams.wakes(at(101), 20));
        assert_eq!(dreams.left(at(104)), Some(Duration::from_secs(7)));
        assert_eq!(dreams.left(at(111)), Some(Duration::ZERO));
        dreams.begins(at(111));
        assert!(!dreams.wakes(at(112), 20) && dreams.left(at(9_999)).is_none(), "nothing is new");
        assert!(dreams.wakes(at(120), 21), "a turn begins");
        assert!(!dreams.wakes(at(121), 40), "it was ended before");
        assert_eq!(dreams.left(at(122)), Some(Duration::from_secs(30 * 60 - 11)), "not so often");
    }
}
