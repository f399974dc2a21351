//! Decides when a server is polled or restarted, and what is reported. Pure.

use regex::Regex;
use siding_model::process::MonotonicMs;
use siding_model::text::one_line;

use super::diff::{LINE_COLUMNS, diff_lines, summary};

/// The first pause after a failure, in milliseconds. Each further pause is twice as long.
const MIN_BACKOFF_MS: u64 = 1_000;
/// The longest pause, in milliseconds.
const MAX_BACKOFF_MS: u64 = 60_000;
/// Uptime after which a disconnect is no longer counted with earlier ones, in milliseconds.
const STABLE_UPTIME_MS: u64 = 60_000;
/// Minimum polling interval for a server that notifies of changes, in milliseconds. The server is
/// polled in addition, because it may lose a notification or never send one.
const RECHECK_MS: u64 = 300_000;

/// The configuration of a watch.
#[derive(Debug, Clone)]
pub(super) struct WatchConfig {
    /// The polling interval, in milliseconds.
    pub(super) interval_ms: u64,
    /// Maximum number of consecutive restarts or reconnects of the server before the watch gives
    /// up.
    pub(super) restarts: u32,
    /// Only changes with a line that matches this pattern are reported; `None` reports all.
    pub(super) pattern: Option<Regex>,
}

/// An event of the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WatchEvent {
    /// The server is connected.
    Connected {
        /// Whether the server notifies of changes.
        is_subscribed: bool,
    },
    /// The server returned the watched text.
    Read(String),
    /// The server answered with an error or not in time, and the connection is still open.
    Refused(String),
    /// The server could not be reached, or the connection was lost.
    Disconnected(String),
    /// The server could not be reached, and a retry would fail in the same way.
    Fatal(String),
}

/// The next action of the watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WatchAction {
    /// Read after this time, or as soon as the server notifies of a change.
    Poll { after_ms: u64 },
    /// Start the server or connect to it after this time.
    Connect { after_ms: u64 },
    /// End the watch, and show the user the reason.
    GiveUp { why: String },
}

/// The state of the watched server, and what has been reported.
#[derive(Debug)]
pub(super) struct WatchState {
    config: WatchConfig,
    /// The last text that was read, to which the next one is compared; `None` before the first.
    last_text: Option<String>,
    /// Whether the present trouble was reported; false if there is none.
    is_trouble_reported: bool,
    is_subscribed: bool,
    /// Consecutive failed reads on an open connection, over all connections since the last
    /// successful read.
    refusals: u32,
    /// Consecutive disconnects and failed attempts to connect. A disconnect after an uptime of at
    /// least [`STABLE_UPTIME_MS`] restarts the count at one.
    disconnects: u32,
    /// The time at which the current connection was established; `None` without a connection.
    connected_at: Option<MonotonicMs>,
}

impl WatchState {
    pub(super) const fn new(terms: WatchConfig) -> Self {
        Self {
            config: terms,
            last_text: None,
            is_trouble_reported: false,
            is_subscribed: false,
            refusals: 0,
            disconnects: 0,
            connected_at: None,
        }
    }

    /// Handles an event at `now`. Returns the lines to print and the next action.
    pub(super) fn step(
        &mut self,
        event: WatchEvent,
        now: MonotonicMs,
    ) -> (Vec<String>, WatchAction) {
        match event {
            WatchEvent::Connected { is_subscribed } => {
                self.connected_at = Some(now);
                self.is_subscribed = is_subscribed;
                (Vec::new(), WatchAction::Poll { after_ms: 0 })
            }
            WatchEvent::Read(text) => {
                (self.on_read(text), WatchAction::Poll { after_ms: self.poll_interval_ms() })
            }
            WatchEvent::Refused(why) => {
                self.refusals = self.refusals.saturating_add(1);
                let after_ms = self.config.interval_ms.max(backoff_ms(self.refusals));
                (vec![self.format_trouble(&why)], WatchAction::Poll { after_ms })
            }
            WatchEvent::Disconnected(why) => {
                let stood = self.connected_at.take().map_or(0, |since| now.ms_since(since));
                self.disconnects =
                    if stood < STABLE_UPTIME_MS { self.disconnects.saturating_add(1) } else { 1 };
                if self.disconnects > self.config.restarts {
                    let why = format!("gave up after {} attempts: {why}", self.disconnects);
                    return (Vec::new(), WatchAction::GiveUp { why });
                }
                (
                    vec![self.format_trouble(&why)],
                    WatchAction::Connect { after_ms: backoff_ms(self.disconnects) },
                )
            }
            WatchEvent::Fatal(why) => (Vec::new(), WatchAction::GiveUp { why }),
        }
    }

    const fn poll_interval_ms(&self) -> u64 {
        if self.is_subscribed && self.config.interval_ms < RECHECK_MS {
            RECHECK_MS
        } else {
            self.config.interval_ms
        }
    }

    fn on_read(&mut self, text: String) -> Vec<String> {
        self.refusals = 0;
        let mut lines = Vec::new();
        if std::mem::take(&mut self.is_trouble_reported) {
            lines.push("* the server answers again".to_owned());
        }
        match &self.last_text {
            None => lines.push(format!("= {}", summary(&text))),
            Some(last) if *last == text => {}
            Some(last) => {
                let found = diff_lines(last, &text, self.config.pattern.as_ref());
                let mark = if found.matches_pattern { '*' } else { '=' };
                lines.push(format!("{mark} {}", found.text));
            }
        }
        self.last_text = Some(text);
        lines
    }

    /// Formats trouble. Only the first line of a period of trouble becomes a notice.
    fn format_trouble(&mut self, why: &str) -> String {
        let mark = if std::mem::replace(&mut self.is_trouble_reported, true) { '=' } else { '!' };
        format!("{mark} {}", one_line(why, LINE_COLUMNS))
    }
}

/// Returns the pause after this number of failures.
fn backoff_ms(failures: u32) -> u64 {
    let doubled = failures.saturating_sub(1).min(16);
    (MIN_BACKOFF_MS << doubled).min(MAX_BACKOFF_MS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn watch_state(every_ms: u64, restarts: u32, pattern: Option<&str>) -> WatchState {
        let pattern = pattern.map(|text| Regex::new(text).expect("a pattern"));
        WatchState::new(WatchConfig { interval_ms: every_ms, restarts, pattern })
    }

    fn read(text: &str) -> WatchEvent {
        WatchEvent::Read(text.to_owned())
    }

    fn disconnected() -> WatchEvent {
        WatchEvent::Disconnected("it ended".to_owned())
    }

    #[test]
    fn the_first_text_is_shown_and_each_change_is_notified() {
        let mut server = watch_state(10_000, 5, None);
        let up = server.step(WatchEvent::Connected { is_subscribed: false }, MonotonicMs(0));
        assert_eq!(up, (vec![], WatchAction::Poll { after_ms: 0 }));
        let mut lines_of = |text: &str| {
            let (lines, next) = server.step(read(text), MonotonicMs(0));
            assert_eq!(next, WatchAction::Poll { after_ms: 10_000 });
            lines
        };
        assert_eq!(lines_of("a\n"), ["= first: 1 line, 2 bytes: a"]);
        assert_eq!(lines_of("a\n"), [""; 0]);
        assert_eq!(lines_of("a\nb\n"), ["* 1 line more: b"]);
        assert_eq!(lines_of("a\nb\n"), [""; 0]);
    }

    #[test]
    fn a_change_without_a_match_is_logged_but_not_notified() {
        let mut server = watch_state(10_000, 5, Some("FAIL"));
        let mut lines_of = |text: &str| server.step(read(text), MonotonicMs(0)).0.concat();
        let _first = lines_of("");
        assert_eq!(lines_of("ok 1\n"), "= 1 line more: ok 1");
        assert_eq!(lines_of("ok 1\nFAIL 2\nok 3\n"), "* 2 lines more, 1 matches: FAIL 2");
    }

    #[test]
    fn trouble_is_notified_once_and_so_is_its_end() {
        let mut server = watch_state(1_000, 5, None);
        let refused = |why: &str| WatchEvent::Refused(why.to_owned());
        assert_eq!(server.step(refused("no\nsuch"), MonotonicMs(0)).0, ["! no\\nsuch"]);
        let (lines, next) = server.step(refused("still"), MonotonicMs(0));
        assert_eq!(
            (lines, next),
            (vec!["= still".to_owned()], WatchAction::Poll { after_ms: 2_000 })
        );
        assert_eq!(server.step(disconnected(), MonotonicMs(0)).0, ["= it ended"]);
        let _up = server.step(WatchEvent::Connected { is_subscribed: true }, MonotonicMs(0));
        let (lines, next) = server.step(read("x"), MonotonicMs(0));
        assert_eq!(lines, ["* the server answers again", "= first: 1 line, 1 byte: x"]);
        assert_eq!(next, WatchAction::Poll { after_ms: RECHECK_MS });
    }

    #[test]
    fn a_stable_connection_resets_the_disconnect_count() {
        let mut server = watch_state(1_000, 1, None);
        let mut now = MonotonicMs(0);
        for _ in 0..9 {
            let _up = server.step(WatchEvent::Connected { is_subscribed: false }, now);
            now = now.plus_ms(STABLE_UPTIME_MS);
            let (_, next) = server.step(disconnected(), now);
            assert_eq!(next, WatchAction::Connect { after_ms: MIN_BACKOFF_MS });
        }
        assert!(matches!(server.step(disconnected(), now).1, WatchAction::GiveUp { .. }));
    }

    fn event_strategy() -> impl Strategy<Value = Vec<(WatchEvent, u64)>> {
        let event = prop_oneof![
            any::<bool>().prop_map(|is_subscribed| WatchEvent::Connected { is_subscribed }),
            "[ab\n]{0,3}".prop_map(WatchEvent::Read),
            "[xy]".prop_map(WatchEvent::Refused),
            "[xy]".prop_map(WatchEvent::Disconnected),
        ];
        proptest::collection::vec((event, 0..STABLE_UPTIME_MS * 2), 0..60)
    }

    proptest! {
        /// For any sequence of events, each change is reported exactly once, and trouble is
        /// reported once until a read succeeds. All pauses are bounded. The watch reconnects after
        /// each of the configured number of consecutive disconnects, and gives up at the next one.
        #[test]
        fn each_change_is_notified_exactly_once(
            events in event_strategy(),
            every_ms in 1_000_u64..200_000,
            restarts in 0_u32..4,
        ) {
            let mut server = watch_state(every_ms, restarts, None);
            let (mut now, mut last, mut in_trouble) = (MonotonicMs(0), None::<String>, false);
            let (mut losses, mut since) = (0, None::<MonotonicMs>);
            for (event, passed) in events {
                now = now.plus_ms(passed);
                let (lines, next) = server.step(event.clone(), now);
                prop_assert!(lines.iter().all(|line| !line.contains('\n')));
                let count_lines = |mark: char| lines.iter().filter(|line| line.starts_with(mark)).count();
                let (asks_after, connects_after) = match &next {
                    WatchAction::Poll { after_ms } => (Some(*after_ms), None),
                    WatchAction::Connect { after_ms } => (None, Some(*after_ms)),
                    WatchAction::GiveUp { .. } => (None, None),
                };
                let is_over = asks_after.is_none() && connects_after.is_none();
                match event {
                    WatchEvent::Connected { .. } => since = Some(now),
                    WatchEvent::Read(text) => {
                        let has_changed = last.as_ref().is_some_and(|last| *last != text);
                        prop_assert_eq!(
                            count_lines('*'),
                            usize::from(has_changed) + usize::from(in_trouble)
                        );
                        prop_assert!(asks_after.is_some_and(|after| after >= every_ms));
                        (last, in_trouble) = (Some(text), false);
                    }
                    WatchEvent::Refused(_) => {
                        prop_assert_eq!(count_lines('!'), usize::from(!in_trouble));
                        let longest = every_ms.max(MAX_BACKOFF_MS);
                        let allowed = every_ms..=longest;
                        prop_assert!(asks_after.is_some_and(|after| allowed.contains(&after)));
                        in_trouble = true;
                    }
                    WatchEvent::Disconnected(_) | WatchEvent::Fatal(_) => {
                        let stood = since.take().map_or(0, |since| now.ms_since(since));
                        losses = if stood < STABLE_UPTIME_MS { losses + 1 } else { 1 };
                        if losses > restarts {
                            prop_assert!(is_over);
                            break;
                        }
                        prop_assert_eq!(count_lines('!'), usize::from(!in_trouble));
                        let allowed = MIN_BACKOFF_MS..=MAX_BACKOFF_MS;
                        prop_assert!(connects_after.is_some_and(|after| allowed.contains(&after)));
                        in_trouble = true;
                    }
                }
            }
        }
    }
}
