//! A set of hosts, given by name or address.

use std::fmt;
use std::net::IpAddr;

use super::policy::BadNetPolicy;

/// The hosts that a task may reach, each on one port or on all ports. The set is never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteHosts(Vec<HostRule>);

/// An entry of the set: the hosts, and their port, which is `None` for all ports.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostRule {
    name: HostPattern,
    port: Option<u16>,
}

/// The hosts that an entry matches.
#[derive(Debug, Clone, PartialEq, Eq)]
enum HostPattern {
    /// The host with this name, which is in lower case.
    Exact(String),
    /// All names that end with a dot and this name, such as `a.example.org` for `example.org`, but
    /// not this name itself.
    SubdomainsOf(String),
    /// The host with this address, if a client requests it by the address. A name that resolves to
    /// the address does not match.
    Address(IpAddr),
}

/// Maximum length of a name, in bytes (RFC 1035).
const MAX_HOSTNAME_BYTES: usize = 253;

impl RemoteHosts {
    /// Maximum number of entries in a set.
    pub const MAX_HOSTS: usize = 256;

    /// Parses a list such as `example.org,*.example.org:443,[::1]:80`.
    pub(super) fn parse(text: &str) -> Result<Self, BadNetPolicy> {
        let rules = text.split(',').map(HostRule::parse).collect::<Result<Vec<_>, _>>()?;
        let count = rules.len();
        if count > Self::MAX_HOSTS {
            Err(BadNetPolicy::TooManyHosts { count })
        } else {
            Ok(Self(rules))
        }
    }

    /// Returns whether a host may be reached on a port. `host` is the name that the client
    /// requested; letter case and a trailing dot are ignored.
    #[must_use]
    pub fn admits(&self, host: &str, port: u16) -> bool {
        let Some(asked) =
            HostPattern::parse(host).filter(|name| !matches!(name, HostPattern::SubdomainsOf(_)))
        else {
            return false;
        };
        let requested = HostRule { name: asked, port: Some(port) };
        self.0.iter().any(|rule| requested.is_subset_of(rule))
    }

    /// Returns whether the set contains this host with any port.
    #[must_use]
    pub fn contains_name(&self, host: &str) -> bool {
        HostPattern::parse(host)
            .is_some_and(|asked| self.0.iter().any(|rule| asked.is_subset_of(&rule.name)))
    }

    /// Returns whether `other` admits every host and port that this set admits.
    pub(super) fn is_subset_of(&self, other: &Self) -> bool {
        self.0.iter().all(|rule| other.0.iter().any(|wider| rule.is_subset_of(wider)))
    }
}

impl HostRule {
    fn parse(text: &str) -> Result<Self, BadNetPolicy> {
        let text = text.trim();
        let bad = || BadNetPolicy::bad_host(text);
        let (name, port) = split_port(text).ok_or_else(bad)?;
        Ok(Self { name: HostPattern::parse(name).ok_or_else(bad)?, port })
    }

    fn is_subset_of(&self, wider: &Self) -> bool {
        let port = wider.port.is_none() || wider.port == self.port;
        port && self.name.is_subset_of(&wider.name)
    }
}

/// Splits `host`, `host:port`, `[address]`, `[address]:port` or a bare IPv6 address into the host
/// and the port. Returns `None` for an invalid port, and for a bracket without its counterpart.
pub(super) fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let port = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten().filter(|port| *port > 0)
    };
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        return match rest.strip_prefix(':') {
            Some(number) => Some((host, Some(port(number)?))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    match text.split_once(':') {
        Some((_, rest)) if rest.contains(':') => Some((text, None)),
        Some((host, number)) => Some((host, Some(port(number)?))),
        None => Some((text, None)),
    }
}

impl HostPattern {
    fn parse(text: &str) -> Option<Self> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Some(Self::Address(address.to_canonical()));
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let (is_below, name) = match name.strip_prefix("*.") {
            Some(rest) => (true, rest.to_owned()),
            None => (false, name),
        };
        let is_label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        // A name whose last label starts with a digit is rejected, because some resolvers treat it
        // as an address (`127.1`, `0x7f.1`).
        let last_is_word = name
            .rsplit('.')
            .next()
            .is_some_and(|last| !last.bytes().next().is_some_and(|first| first.is_ascii_digit()));
        let legal =
            name.len() <= MAX_HOSTNAME_BYTES && last_is_word && name.split('.').all(is_label);
        legal.then_some(if is_below { Self::SubdomainsOf(name) } else { Self::Exact(name) })
    }

    fn is_subset_of(&self, wider: &Self) -> bool {
        match (self, wider) {
            (Self::Exact(name) | Self::SubdomainsOf(name), Self::SubdomainsOf(top)) => {
                let is_below =
                    name.strip_suffix(top.as_str()).is_some_and(|head| head.ends_with('.'));
                is_below || self == wider
            }
            (own, other) => own == other,
        }
    }
}

impl fmt::Display for RemoteHosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, HostRule { name, port }) in self.0.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { "," })?;
            match name {
                HostPattern::Exact(name) => write!(f, "{name}")?,
                HostPattern::SubdomainsOf(name) => write!(f, "*.{name}")?,
                HostPattern::Address(IpAddr::V6(address)) => write!(f, "[{address}]")?,
                HostPattern::Address(IpAddr::V4(address)) => write!(f, "{address}")?,
            }
            if let Some(port) = port {
                write!(f, ":{port}")?;
            }
        }
        Ok(())
    }
}
