//! The ports of a network policy, and their text form.

use std::fmt;
use std::ops::RangeInclusive;

use super::policy::BadNetPolicy;

/// TCP ports as sorted ranges that neither overlap nor touch. The set is never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports(Vec<RangeInclusive<u16>>);

impl Ports {
    /// Maximum number of ports in a set. Each port needs a separate Landlock rule (landlock(7)),
    /// which takes about a microsecond to add.
    pub const MAX_PORTS: usize = 1_024;

    /// The port of DNS servers. Under a policy with this port, siding makes the C library resolve
    /// names over TCP, because the policy blocks UDP.
    pub const DNS_PORT: u16 = 53;

    /// Parses a list such as `443,80-90`.
    pub(super) fn parse(text: &str) -> Result<Self, BadNetPolicy> {
        let mut ranges = text.split(',').map(parse_range).collect::<Result<Vec<_>, _>>()?;
        ranges.sort_by_key(|range| *range.start());
        let mut merged: Vec<RangeInclusive<u16>> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if u32::from(*range.start()) <= u32::from(*last.end()) + 1 => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => merged.push(range),
            }
        }
        let ports = Self(merged);
        let count = ports.iter().count();
        if count > Self::MAX_PORTS { Err(BadNetPolicy::TooManyPorts { count }) } else { Ok(ports) }
    }

    /// Iterates over all ports of the set, in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.iter().cloned().flatten()
    }

    /// Returns whether the set contains a port.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        self.0.iter().any(|range| range.contains(&port))
    }

    /// Returns whether `other` contains all ports of this set.
    pub(super) fn is_subset_of(&self, other: &Self) -> bool {
        self.0.iter().all(|one| {
            other.0.iter().any(|range| range.contains(one.start()) && range.contains(one.end()))
        })
    }
}

fn parse_range(text: &str) -> Result<RangeInclusive<u16>, BadNetPolicy> {
    let text = text.trim();
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let port = |number: &str| number.trim().parse().ok().filter(|port| *port > 0);
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err(BadNetPolicy::bad_port(text)),
    }
}

impl fmt::Display for Ports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.0.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match (range.start(), range.end()) {
                (one, last) if one == last => write!(f, "{comma}{one}")?,
                (first, last) => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}
