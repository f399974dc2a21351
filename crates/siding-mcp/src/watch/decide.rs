//! When a server is asked again, when it is started again, and what is said of it. Pure.

use regex::Regex;
use siding_model::process::MonotonicMs;
use siding_model::text::one_line;

use super::difference::{COLUMNS, difference, summary};

/// The first pause after something went wrong, in milliseconds. Each further one is twice as long.
const PAUSE_MS: u64 = 1_000;
/// The longest of them, in milliseconds.
const PAUSE_MAX_MS: u64 = 60_000;
/// How long a server must have stood for its end not to count with those before, in milliseconds.
const STABLE_MS: u64 = 60_000;
/// How often is looked all the same where the server tells of changes, in milliseconds: a
/// subscription is no promise.
const RECHECK_MS: u64 = 300_000;

/// What is to be kept to.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    /// Time between two looks, in milliseconds.
    pub(super) every_ms: u64,
    /// How often in a row the server is started or reached again.
    pub(super) restarts: u32,
    /// A change is told when one of its lines matches.
    pub(super) pattern: Option<Regex>,
}

/// What has happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Event {
    /// The server is there.
    Up {
        /// Whether it tells of changes itself.
        is_subscribed: bool,
    },
    /// It has given what is watched.
    Read(String),
    /// It has answered something else. It is still there.
    Refused(String),
    /// It is not there, or no more.
    Gone(String),
    /// The same, and to try again is of no use.
    Hopeless(String),
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Ask after this time, or as soon as the server tells of a change.
    Ask { after_ms: u64 },
    /// Start or reach the server after this time.
    Connect { after_ms: u64 },
    /// Give up.
    End { why: String },
}

/// A server that is watched.
#[derive(Debug)]
pub(super) struct Watching {
    terms: Terms,
    /// What it gave last.
    last: Option<String>,
    /// Whether trouble was told that is not over.
    is_told: bool,
    is_subscribed: bool,
    /// Answers in a row that were something else.
    refusals: u32,
    /// Ends of the server, one soon after the other.
    losses: u32,
    /// Since when it stands.
    since: Option<MonotonicMs>,
}

impl Watching {
    pub(super) const fn new(terms: Terms) -> Self {
        Self {
            terms,
            last: None,
            is_told: false,
            is_subscribed: false,
            refusals: 0,
            losses: 0,
            since: None,
        }
    }

    /// Takes in what has happened at `now`. Returns what is to be said, and what to do next.
    pub(super) fn step(&mut self, event: Event, now: MonotonicMs) -> (Vec<String>, Next) {
        match event {
            Event::Up { is_subscribed } => {
                self.since = Some(now);
                self.is_subscribed = is_subscribed;
                (Vec::new(), Next::Ask { after_ms: 0 })
            }
            Event::Read(text) => (self.read(text), Next::Ask { after_ms: self.every_ms() }),
            Event::Refused(why) => {
                self.refusals = self.refusals.saturating_add(1);
                let after_ms = self.terms.every_ms.max(pause_ms(self.refusals));
                (vec![self.trouble(&why)], Next::Ask { after_ms })
            }
            Event::Gone(why) => {
                let stood = self.since.take().map_or(0, |since| now.ms_since(since));
                self.losses = if stood < STABLE_MS { self.losses.saturating_add(1) } else { 1 };
                if self.losses > self.terms.restarts {
                    let why = format!("given up after {} tries: {why}", self.losses);
                    return (Vec::new(), Next::End { why });
                }
                (vec![self.trouble(&why)], Next::Connect { after_ms: pause_ms(self.losses) })
            }
            Event::Hopeless(why) => (Vec::new(), Next::End { why }),
        }
    }

    const fn every_ms(&self) -> u64 {
        if self.is_subscribed && self.terms.every_ms < RECHECK_MS {
            RECHECK_MS
        } else {
            self.terms.every_ms
        }
    }

    fn read(&mut self, text: String) -> Vec<String> {
        self.refusals = 0;
        let mut lines = Vec::new();
        if std::mem::take(&mut self.is_told) {
            lines.push("* it answers again".to_owned());
        }
        match &self.last {
            None => lines.push(format!("= {}", summary(&text))),
            Some(last) if *last == text => {}
            Some(last) => {
                let found = difference(last, &text, self.terms.pattern.as_ref());
                let mark = if found.is_wanted { '*' } else { '=' };
                lines.push(format!("{mark} {}", found.text));
            }
        }
        self.last = Some(text);
        lines
    }

    /// Says what is wrong. It is told once, until it is over.
    fn trouble(&mut self, why: &str) -> String {
        let mark = if std::mem::replace(&mut self.is_told, true) { '=' } else { '!' };
        format!("{mark} {}", one_line(why, COLUMNS))
    }
}

/// Returns the pause after so many failures.
fn pause_ms(failures: u32) -> u64 {
    let doubled = failures.saturating_sub(1).min(16);
    (PAUSE_MS << doubled).min(PAUSE_MAX_MS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn watching(every_ms: u64, restarts: u32, pattern: Option<&str>) -> Watching {
        let pattern = pattern.map(|text| Regex::new(text).expect("a pattern"));
        Watching::new(Terms { every_ms, restarts, pattern })
    }

    fn read(text: &str) -> Event {
        Event::Read(text.to_owned())
    }

    fn gone() -> Event {
        Event::Gone("it ended".to_owned())
    }

    #[test]
    fn the_first_reading_is_shown_and_each_change_is_told() {
        let mut server = watching(10_000, 5, None);
        let up = server.step(Event::Up { is_subscribed: false }, MonotonicMs(0));
        assert_eq!(up, (vec![], Next::Ask { after_ms: 0 }));
        let mut said = |text: &str| {
            let (lines, next) = server.step(read(text), MonotonicMs(0));
            assert_eq!(next, Next::Ask { after_ms: 10_000 });
            lines
        };
        assert_eq!(said("a\n"), ["= first: 1 line, 2 bytes: a"]);
        assert_eq!(said("a\n"), [""; 0]);
        assert_eq!(said("a\nb\n"), ["* 1 line more: b"]);
        assert_eq!(said("a\nb\n"), [""; 0]);
    }

    #[test]
    fn what_does_not_match_is_kept_and_not_told() {
        let mut server = watching(10_000, 5, Some("FAIL"));
        let mut said = |text: &str| server.step(read(text), MonotonicMs(0)).0.concat();
        let _first = said("");
        assert_eq!(said("ok 1\n"), "= 1 line more: ok 1");
        assert_eq!(said("ok 1\nFAIL 2\nok 3\n"), "* 2 lines more, 1 matches: FAIL 2");
    }

    #[test]
    fn trouble_is_told_once_and_its_end_too() {
        let mut server = watching(1_000, 5, None);
        let refused = |why: &str| Event::Refused(why.to_owned());
        assert_eq!(server.step(refused("no\nsuch"), MonotonicMs(0)).0, ["! no\\nsuch"]);
        let (lines, next) = server.step(refused("still"), MonotonicMs(0));
        assert_eq!((lines, next), (vec!["= still".to_owned()], Next::Ask { after_ms: 2_000 }));
        assert_eq!(server.step(gone(), MonotonicMs(0)).0, ["= it ended"]);
        let _up = server.step(Event::Up { is_subscribed: true }, MonotonicMs(0));
        let (lines, next) = server.step(read("x"), MonotonicMs(0));
        assert_eq!(lines, ["* it answers again", "= first: 1 line, 1 byte: x"]);
        assert_eq!(next, Next::Ask { after_ms: RECHECK_MS });
    }

    #[test]
    fn a_server_that_stood_long_enough_begins_anew() {
        let mut server = watching(1_000, 1, None);
        let mut now = MonotonicMs(0);
        for _ in 0..9 {
            let _up = server.step(Event::Up { is_subscribed: false }, now);
            now = now.plus_ms(STABLE_MS);
            let (_, next) = server.step(gone(), now);
            assert_eq!(next, Next::Connect { after_ms: PAUSE_MS });
        }
        assert!(matches!(server.step(gone(), now).1, Next::End { .. }));
    }

    fn events() -> impl Strategy<Value = Vec<(Event, u64)>> {
        let event = prop_oneof![
            any::<bool>().prop_map(|is_subscribed| Event::Up { is_subscribed }),
            "[ab\n]{0,3}".prop_map(Event::Read),
            "[xy]".prop_map(Event::Refused),
            "[xy]".prop_map(Event::Gone),
        ];
        proptest::collection::vec((event, 0..STABLE_MS * 2), 0..60)
    }

    proptest! {
        /// Whatever happens: no change is missed or told twice, trouble is told once until an answer
        /// comes, pauses are bounded, and it is given up after exactly so many ends in a row.
        #[test]
        fn nothing_is_missed_and_nothing_is_told_twice(
            events in events(),
            every_ms in 1_000_u64..200_000,
            restarts in 0_u32..4,
        ) {
            let mut server = watching(every_ms, restarts, None);
            let (mut now, mut last, mut in_trouble) = (MonotonicMs(0), None::<String>, false);
            let (mut losses, mut since) = (0, None::<MonotonicMs>);
            for (event, passed) in events {
                now = now.plus_ms(passed);
                let (lines, next) = server.step(event.clone(), now);
                prop_assert!(lines.iter().all(|line| !line.contains('\n')));
                let told = |mark: char| lines.iter().filter(|line| line.starts_with(mark)).count();
                let (asks_after, connects_after) = match &next {
                    Next::Ask { after_ms } => (Some(*after_ms), None),
                    Next::Connect { after_ms } => (None, Some(*after_ms)),
                    Next::End { .. } => (None, None),
                };
                let is_over = asks_after.is_none() && connects_after.is_none();
                match event {
                    Event::Up { .. } => since = Some(now),
                    Event::Read(text) => {
                        let has_changed = last.as_ref().is_some_and(|last| *last != text);
                        prop_assert_eq!(
                            told('*'),
                            usize::from(has_changed) + usize::from(in_trouble)
                        );
                        prop_assert!(asks_after.is_some_and(|after| after >= every_ms));
                        (last, in_trouble) = (Some(text), false);
                    }
                    Event::Refused(_) => {
                        prop_assert_eq!(told('!'), usize::from(!in_trouble));
                        let longest = every_ms.max(PAUSE_MAX_MS);
                        let allowed = every_ms..=longest;
                        prop_assert!(asks_after.is_some_and(|after| allowed.contains(&after)));
                        in_trouble = true;
                    }
                    Event::Gone(_) | Event::Hopeless(_) => {
                        let stood = since.take().map_or(0, |since| now.ms_since(since));
                        losses = if stood < STABLE_MS { losses + 1 } else { 1 };
                        if losses > restarts {
                            prop_assert!(is_over);
                            break;
                        }
                        prop_assert_eq!(told('!'), usize::from(!in_trouble));
                        let allowed = PAUSE_MS..=PAUSE_MAX_MS;
                        prop_assert!(connects_after.is_some_and(|after| allowed.contains(&after)));
                        in_trouble = true;
                    }
                }
            }
        }
    }
}
