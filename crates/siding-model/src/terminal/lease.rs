//! The lease of a terminal: while a person types, an agent's keys are refused.
//!
//! The first keystroke of a person takes the lease, and each further one renews it. The lease is
//! returned when every person who has typed has detached, or has not typed for a while. Any number
//! of people may type, as in tmux; the lease excludes only agents.
//!
//! A person who waits for the command in the foreground has the lease from the start of the command
//! to the hand-over, also without a keystroke. Such a lease is reported only once it matters: with
//! the first keystroke, or when an agent's keys were refused.

use super::KeysRefusal;
use crate::process::MonotonicMs;

/// Built-in time without a keystroke after which the lease of a task's terminal is returned, in
/// milliseconds.
pub const DEFAULT_ATTACH_IDLE_MS: u64 = 30_000;

/// A connection through which a person watches the terminal of a task and may type. The number
/// distinguishes the connections to one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ViewerId(pub u64);

/// A change of the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LeaseEvent {
    /// A person has taken the terminal.
    Taken,
    /// Agents may type again.
    Returned {
        /// Why the lease has ended.
        reason: ReturnReason,
        /// Milliseconds from the first keystroke to the end of the lease.
        held_ms: u64,
    },
}

/// Why the lease of a terminal has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReturnReason {
    /// The last person who had typed has detached.
    Detached,
    /// No person has typed for the idle time.
    Idle,
}

/// The lease of a task's terminal. Each method that receives the current time first ends a lease
/// that has been idle for too long.
#[derive(Debug, Clone)]
pub struct TerminalLease {
    /// Milliseconds without a keystroke after which the lease ends.
    idle_ms: u64,
    /// The person who waits for the command in the foreground.
    foreground: Option<ViewerId>,
    /// The people who have typed and have not been idle since.
    typists: Vec<Typist>,
    /// Whether [`LeaseEvent::Taken`] was returned for the current lease.
    is_reported: bool,
    /// Time at which the current lease was taken.
    taken_at: MonotonicMs,
}

/// A person who has typed during the current lease.
#[derive(Debug, Clone, Copy)]
struct Typist {
    viewer: ViewerId,
    last_key: MonotonicMs,
}

impl TerminalLease {
    /// Returns a lease that no person has taken, and that ends after `idle_ms` milliseconds without a
    /// keystroke.
    #[must_use]
    pub const fn new(idle_ms: u64) -> Self {
        Self {
            idle_ms,
            foreground: None,
            typists: Vec::new(),
            is_reported: false,
            taken_at: MonotonicMs(0),
        }
    }

    /// Records that a person has typed.
    pub fn record_keystroke(&mut self, viewer: ViewerId, now: MonotonicMs) -> Vec<LeaseEvent> {
        let mut events = Vec::from_iter(self.expire(now));
        if !self.is_held() {
            self.taken_at = now;
        }
        self.typists.retain(|typist| typist.viewer != viewer);
        self.typists.push(Typist { viewer, last_key: now });
        events.extend(self.report());
        events
    }

    /// Gives the lease to the person who waits for the command in the foreground, until that person
    /// detaches. A keystroke is not needed to keep it.
    pub fn hold_in_foreground(&mut self, viewer: ViewerId, now: MonotonicMs) -> Vec<LeaseEvent> {
        let events = Vec::from_iter(self.expire(now));
        if !self.is_held() {
            self.taken_at = now;
        }
        self.foreground = Some(viewer);
        events
    }

    /// Reports the lease because an agent's keys were refused: the agent waits for its end.
    pub fn report(&mut self) -> Option<LeaseEvent> {
        let is_new = self.is_held() && !self.is_reported;
        self.is_reported |= is_new;
        is_new.then_some(LeaseEvent::Taken)
    }

    /// Gives the lease to one person alone, without a keystroke. The others who have typed may type
    /// again, and thereby share the lease. Only a person may call this.
    pub fn steal(&mut self, viewer: ViewerId, now: MonotonicMs) -> Vec<LeaseEvent> {
        let events = self.record_keystroke(viewer, now);
        self.typists.retain(|typist| typist.viewer == viewer);
        events
    }

    /// Records that a person has detached, or that the person's connection is lost.
    pub fn detach(&mut self, viewer: ViewerId, now: MonotonicMs) -> Vec<LeaseEvent> {
        let mut events = Vec::from_iter(self.expire(now));
        if self.viewers().any(|known| known == viewer) {
            let idle_ms = self.idle_ms;
            self.foreground = self.foreground.filter(|known| *known != viewer);
            self.typists
                .retain(|typist| typist.viewer != viewer && now < typist.last_key.plus_ms(idle_ms));
            if !self.is_held() {
                events.extend(self.end(now, ReturnReason::Detached));
            }
        }
        events
    }

    /// Ends a lease that has been idle for too long. The caller calls this at [`Self::ends_at`].
    pub fn expire(&mut self, now: MonotonicMs) -> Option<LeaseEvent> {
        let end = self.ends_at().filter(|end| *end <= now)?;
        self.typists.clear();
        self.end(end, ReturnReason::Idle)
    }

    /// Returns the event of the end of a lease at this time, if its start was reported.
    fn end(&mut self, at: MonotonicMs, reason: ReturnReason) -> Option<LeaseEvent> {
        let held_ms = at.ms_since(self.taken_at);
        std::mem::take(&mut self.is_reported).then_some(LeaseEvent::Returned { reason, held_ms })
    }

    /// Returns the time at which the lease ends if no person types until then; `None` without a
    /// lease, and while a person waits for the command in the foreground.
    #[must_use]
    pub fn ends_at(&self) -> Option<MonotonicMs> {
        let latest = self.latest_typist().filter(|_| self.foreground.is_none());
        latest.map(|typist| typist.last_key.plus_ms(self.idle_ms))
    }

    /// Returns whether a person has the lease, perhaps one who has been idle for too long.
    #[must_use]
    pub const fn is_held(&self) -> bool {
        self.foreground.is_some() || !self.typists.is_empty()
    }

    /// Returns the people on whom the lease depends: the one who waits for the command in the
    /// foreground, and those who have typed, the one who has typed last at the end.
    pub fn viewers(&self) -> impl Iterator<Item = ViewerId> {
        self.foreground.into_iter().chain(self.typists.iter().map(|typist| typist.viewer))
    }

    /// Decides whether an agent may type now.
    ///
    /// # Errors
    ///
    /// Returns [`KeysRefusal::PersonHasTerminal`] while a person has the lease.
    pub fn check_agent(&self, now: MonotonicMs) -> Result<(), KeysRefusal> {
        let is_active = self.foreground.is_some() || self.ends_at().is_some_and(|end| now < end);
        if is_active {
            return Err(KeysRefusal::PersonHasTerminal { since_ms: now.ms_since(self.taken_at) });
        }
        Ok(())
    }

    /// The typists are ordered by their last keystrokes.
    fn latest_typist(&self) -> Option<&Typist> {
        self.typists.last()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ANNA: ViewerId = ViewerId(1);
    const BEN: ViewerId = ViewerId(2);

    fn seconds(seconds: u64) -> MonotonicMs {
        MonotonicMs(seconds * 1000)
    }

    fn returned(reason: ReturnReason, held_seconds: u64) -> LeaseEvent {
        LeaseEvent::Returned { reason, held_ms: held_seconds * 1000 }
    }

    #[test]
    fn an_agent_is_refused_from_the_first_keystroke_to_the_detachment() {
        let mut lease = TerminalLease::new(DEFAULT_ATTACH_IDLE_MS);
        assert_eq!(lease.check_agent(seconds(1)), Ok(()));
        // Watching alone does not take the lease.
        assert!(lease.detach(ANNA, seconds(1)).is_empty());
        assert_eq!(lease.record_keystroke(ANNA, seconds(2)), [LeaseEvent::Taken]);
        assert!(lease.record_keystroke(ANNA, seconds(3)).is_empty());
        let refusal = KeysRefusal::PersonHasTerminal { since_ms: 12_000 };
        assert_eq!(lease.check_agent(seconds(14)), Err(refusal));
        let events = lease.detach(ANNA, seconds(15));
        assert_eq!(events, [returned(ReturnReason::Detached, 13)]);
        assert_eq!(lease.check_agent(seconds(15)), Ok(()));
        assert_eq!(lease.ends_at(), None);
    }

    #[test]
    fn each_keystroke_renews_the_lease_until_no_person_types() {
        let mut lease = TerminalLease::new(DEFAULT_ATTACH_IDLE_MS);
        lease.record_keystroke(ANNA, seconds(0));
        lease.record_keystroke(ANNA, seconds(20));
        assert_eq!(lease.expire(seconds(49)), None);
        assert!(lease.check_agent(seconds(49)).is_err());
        assert_eq!(lease.ends_at(), Some(seconds(50)));
        assert_eq!(lease.check_agent(seconds(50)), Ok(()));
        assert_eq!(lease.expire(seconds(50)), Some(returned(ReturnReason::Idle, 50)));
        assert_eq!(lease.expire(seconds(51)), None);
        assert!(lease.detach(ANNA, seconds(52)).is_empty());
        assert_eq!(lease.record_keystroke(ANNA, seconds(53)), [LeaseEvent::Taken]);
    }

    #[test]
    fn a_late_keystroke_reports_the_end_of_the_lease_before_it() {
        let mut lease = TerminalLease::new(DEFAULT_ATTACH_IDLE_MS);
        lease.record_keystroke(ANNA, seconds(0));
        let events = lease.record_keystroke(ANNA, seconds(40));
        assert_eq!(events, [returned(ReturnReason::Idle, 30), LeaseEvent::Taken]);
    }

    #[test]
    fn several_people_share_the_lease() {
        let mut lease = TerminalLease::new(DEFAULT_ATTACH_IDLE_MS);
        lease.record_keystroke(ANNA, seconds(0));
        assert!(lease.record_keystroke(BEN, seconds(1)).is_empty());
        assert!(lease.viewers().eq([ANNA, BEN]));
        lease.record_keystroke(ANNA, seconds(2));
        assert!(lease.viewers().eq([BEN, ANNA]));
        assert!(lease.detach(ANNA, seconds(3)).is_empty());
        assert!(lease.check_agent(seconds(4)).is_err());
        assert_eq!(lease.detach(BEN, seconds(5)), [returned(ReturnReason::Detached, 5)]);
    }

    #[test]
    fn a_person_who_has_been_idle_does_not_prolong_the_lease_of_another() {
        let mut lease = TerminalLease::new(DEFAULT_ATTACH_IDLE_MS);
        lease.record_keystroke(ANNA, seconds(0));
        lease.record_keystroke(BEN, seconds(29));
        assert_eq!(lease.detach(BEN, seconds(31)), [returned(ReturnReason::Detached, 31)]);
    }

    #[test]
    fn a_person_who_steals_the_lease_has_it_alone() {
        let mut lease = TerminalLease::new(DEFAULT_ATTACH_IDLE_MS);
        assert_eq!(lease.steal(ANNA, seconds(0)), [LeaseEvent::Taken]);
        assert!(lease.steal(BEN, seconds(1)).is_empty());
        assert!(lease.viewers().eq([BEN]));
        assert!(lease.detach(ANNA, seconds(2)).is_empty());
        assert_eq!(lease.detach(BEN, seconds(3)), [returned(ReturnReason::Detached, 3)]);
    }

    #[test]
    fn a_person_in_the_foreground_has_the_lease_without_a_keystroke() {
        let mut lease = TerminalLease::new(DEFAULT_ATTACH_IDLE_MS);
        assert!(lease.hold_in_foreground(ANNA, seconds(0)).is_empty());
        let refusal = KeysRefusal::PersonHasTerminal { since_ms: 90_000 };
        assert_eq!(lease.check_agent(seconds(90)), Err(refusal));
        assert_eq!(lease.ends_at(), None);
        // No agent has noticed the lease, so none waits for its end.
        assert!(lease.detach(ANNA, seconds(91)).is_empty());
        assert_eq!(lease.check_agent(seconds(91)), Ok(()));
        lease.hold_in_foreground(ANNA, seconds(100));
        assert_eq!((lease.report(), lease.report()), (Some(LeaseEvent::Taken), None));
        assert!(lease.record_keystroke(BEN, seconds(101)).is_empty());
        assert!(lease.detach(BEN, seconds(102)).is_empty());
        assert_eq!(lease.detach(ANNA, seconds(150)), [returned(ReturnReason::Detached, 50)]);
    }

    #[test]
    fn a_person_who_types_keeps_the_lease_of_the_foreground_for_a_while() {
        let mut lease = TerminalLease::new(DEFAULT_ATTACH_IDLE_MS);
        lease.hold_in_foreground(ANNA, seconds(0));
        assert_eq!(lease.record_keystroke(ANNA, seconds(1)), [LeaseEvent::Taken]);
        assert!(lease.record_keystroke(BEN, seconds(60)).is_empty());
        assert!(lease.detach(ANNA, seconds(61)).is_empty());
        assert_eq!(lease.ends_at(), Some(seconds(90)));
        assert_eq!(lease.expire(seconds(90)), Some(returned(ReturnReason::Idle, 90)));
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Hold(u64),
        Report,
        Type(u64),
        Steal(u64),
        Detach(u64),
        Expire,
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0_u64..3).prop_map(Step::Hold),
            Just(Step::Report),
            (0_u64..3).prop_map(Step::Type),
            (0_u64..3).prop_map(Step::Steal),
            (0_u64..3).prop_map(Step::Detach),
            Just(Step::Expire),
        ]
    }

    proptest! {
        /// Both events alternate, and an agent is refused between them and while a person waits in
        /// the foreground.
        #[test]
        fn the_events_say_when_an_agent_may_type(
            steps in prop::collection::vec((any_step(), 0_u64..40_000), 0..40),
        ) {
            let mut lease = TerminalLease::new(DEFAULT_ATTACH_IDLE_MS);
            let (mut now, mut is_taken) = (MonotonicMs(0), false);
            for (step, delay_ms) in steps {
                now = now.plus_ms(delay_ms);
                let events = match step {
                    Step::Hold(viewer) => lease.hold_in_foreground(ViewerId(viewer), now),
                    Step::Report => Vec::from_iter(lease.report()),
                    Step::Type(viewer) => lease.record_keystroke(ViewerId(viewer), now),
                    Step::Steal(viewer) => lease.steal(ViewerId(viewer), now),
                    Step::Detach(viewer) => lease.detach(ViewerId(viewer), now),
                    Step::Expire => Vec::from_iter(lease.expire(now)),
                };
                for event in events {
                    prop_assert_eq!(event == LeaseEvent::Taken, !is_taken, "{:?}", event);
                    is_taken = !is_taken;
                }
                let is_in_foreground = lease.foreground.is_some();
                prop_assert!(lease.is_held() || !is_taken);
                if !matches!(step, Step::Report) {
                    let is_refused = lease.check_agent(now).is_err();
                    prop_assert_eq!(is_refused, is_taken || is_in_foreground);
                }
                prop_assert!(lease.ends_at().is_none() || !is_in_foreground);
            }
        }
    }
}
