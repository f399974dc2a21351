//! The network policy: its kinds, its text form, and the comparison of two policies.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::ports::Ports;
use super::remote_hosts::RemoteHosts;
use crate::text::one_line;

/// The part of the network that a task may reach.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum NetPolicy {
    /// Everything that the starter of the task can reach.
    #[default]
    Unrestricted,
    /// Nothing: the task has no usable interface, not even loopback.
    None,
    /// Only a loopback interface that no process outside of the task can reach.
    Loopback,
    /// TCP connections to these ports on any host. The task may also listen.
    Ports(Ports),
    /// HTTP requests and tunnels to these hosts, through a proxy.
    Allow(RemoteHosts),
}

/// The reason why a text was rejected as a network policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadNetPolicy {
    /// The text has none of the forms in [`NetPolicy::ALLOWED`].
    #[error("`{found}` is not a network policy; write {}", NetPolicy::ALLOWED)]
    Kind {
        /// The rejected text, escaped and cut to 60 columns.
        found: String,
    },
    /// An entry of `ports:` is not a port or a range of ports.
    #[error(
        "`{found}` is not a port; write numbers from 1 to 65535 and ranges, as in `ports:443,8000-8010`"
    )]
    Port {
        /// The rejected entry, escaped and cut to 60 columns.
        found: String,
    },
    /// An entry of `allow:` is not a host.
    #[error(
        "`{found}` is not a host; write names and addresses, optionally with a port, as in \
         `allow:example.org,*.example.org:443,[::1]:8080`"
    )]
    Hostname {
        /// The rejected entry, escaped and cut to 60 columns.
        found: String,
    },
    /// The list has more than [`RemoteHosts::MAX_HOSTS`] hosts.
    #[error(
        "{count} hosts are too many; write at most {}, or use `*.example.org`",
        RemoteHosts::MAX_HOSTS
    )]
    TooManyHosts {
        /// Number of hosts in the text.
        count: usize,
    },
    /// The list has more than [`Ports::MAX_PORTS`] ports.
    #[error("{count} ports are too many; write at most {}, or use `host`", Ports::MAX_PORTS)]
    TooManyPorts {
        /// Number of ports in the text.
        count: usize,
    },
}

impl BadNetPolicy {
    pub(super) fn bad_port(found: &str) -> Self {
        Self::Port { found: one_line(found, 60) }
    }

    pub(super) fn bad_host(found: &str) -> Self {
        Self::Hostname { found: one_line(found, 60) }
    }
}

impl NetPolicy {
    /// The allowed forms of a policy, for error messages.
    pub const ALLOWED: &'static str = "`host`, `none`, `loopback`, `ports:443,8000-8010` or \
        `allow:example.org,*.example.org`";

    /// Returns whether the policy restricts nothing.
    #[must_use]
    pub const fn is_host(&self) -> bool {
        matches!(self, Self::Unrestricted)
    }

    /// Returns whether this policy is as strict as `other` or stricter: whether the task may reach,
    /// outside of its own processes, only what `other` allows.
    #[must_use]
    pub fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Unrestricted) | (Self::None, _) | (Self::Loopback, Self::Loopback) => true,
            // A task's own loopback interface gives access to no process outside of the task, so
            // the policy is stricter than any policy with ports or hosts.
            (Self::Loopback, Self::Ports(_) | Self::Allow(_)) => true,
            (Self::Ports(own), Self::Ports(others)) => own.is_subset_of(others),
            (Self::Allow(own), Self::Allow(others)) => own.is_subset_of(others),
            (Self::Unrestricted | Self::Loopback | Self::Ports(_) | Self::Allow(_), _) => false,
        }
    }
}

impl FromStr for NetPolicy {
    type Err = BadNetPolicy;

    fn from_str(text: &str) -> Result<Self, BadNetPolicy> {
        let text = text.trim();
        let (kind, list) =
            text.split_once(':').map_or((text, None), |(kind, list)| (kind, Some(list)));
        match (kind.trim(), list) {
            ("host", None) => Ok(Self::Unrestricted),
            ("none", None) => Ok(Self::None),
            ("loopback", None) => Ok(Self::Loopback),
            ("ports", Some(list)) => Ports::parse(list).map(Self::Ports),
            ("allow", Some(list)) => RemoteHosts::parse(list).map(Self::Allow),
            _ => Err(BadNetPolicy::Kind { found: one_line(text, 60) }),
        }
    }
}

impl fmt::Display for NetPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unrestricted => f.write_str("host"),
            Self::None => f.write_str("none"),
            Self::Loopback => f.write_str("loopback"),
            Self::Ports(ports) => write!(f, "ports:{ports}"),
            Self::Allow(hosts) => write!(f, "allow:{hosts}"),
        }
    }
}

impl TryFrom<String> for NetPolicy {
    type Error = BadNetPolicy;

    fn try_from(text: String) -> Result<Self, BadNetPolicy> {
        text.parse()
    }
}

impl From<NetPolicy> for String {
    fn from(policy: NetPolicy) -> Self {
        policy.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policy(text: &str) -> NetPolicy {
        text.parse().expect("a valid policy")
    }

    #[test]
    fn a_policy_round_trips_through_text() {
        for (given, shown) in [
            ("host", "host"),
            (" none ", "none"),
            ("loopback", "loopback"),
            ("ports:443", "ports:443"),
            ("ports: 90-80", ""),
            ("ports:443, 80-90,85-100,101", "ports:80-101,443"),
            ("ports:65535,65534", "ports:65534-65535"),
            ("ports:1-1024", "ports:1-1024"),
            ("ports:1-1025", ""),
            ("ports:", ""),
            ("ports:0", ""),
            ("ports", ""),
            ("none:", ""),
            ("Host", ""),
            ("allow:Example.org., *.a-b.example:443", "allow:example.org,*.a-b.example:443"),
            ("allow:[::1]:80,::1,127.0.0.1:8080", "allow:[::1]:80,[::1],127.0.0.1:8080"),
            ("allow:[::ffff:192.0.2.1]:1", "allow:192.0.2.1:1"),
            ("allow:", ""),
            ("allow:*", ""),
            ("allow:a..b", ""),
            ("allow:a.*.b", ""),
            ("allow:a:0", ""),
            ("allow:http://a", ""),
            ("allow:127.1", ""),
            ("allow:a b", ""),
            ("", ""),
        ] {
            match given.parse::<NetPolicy>() {
                Ok(read) => assert_eq!(read.to_string(), shown, "{given}"),
                Err(error) => assert!(shown.is_empty(), "{given}: {error}"),
            }
        }
        let error = "internet\u{1b}[2J".parse::<NetPolicy>().expect_err("no policy").to_string();
        assert!(error.contains("is not a network policy; write `host`"), "{error}");
        assert!(!error.contains('\u{1b}'), "{error}");
    }

    #[test]
    fn a_stricter_policy_is_within_a_looser_one() {
        let ladder = ["none", "loopback", "ports:443", "ports:80-90,443", "host"];
        for (low, strict) in ladder.iter().enumerate() {
            for (high, loose) in ladder.iter().enumerate() {
                let within = policy(strict).is_within(&policy(loose));
                assert_eq!(within, low <= high, "{strict} in {loose}");
            }
        }
        assert!(!policy("ports:22").is_within(&policy("ports:443")));
        let ladder =
            ["none", "loopback", "allow:a.b.c:443", "allow:*.b.c:443", "allow:*.c", "host"];
        for (low, strict) in ladder.iter().enumerate() {
            for (high, loose) in ladder.iter().enumerate() {
                let within = policy(strict).is_within(&policy(loose));
                assert_eq!(within, low <= high, "{strict} in {loose}");
            }
        }
        for (one, other) in
            [("allow:b.c", "allow:*.b.c"), ("allow:a", "ports:443"), ("ports:1", "allow:a")]
        {
            assert!(!policy(one).is_within(&policy(other)), "{one} in {other}");
        }
    }

    #[test]
    fn a_hostname_is_admitted_by_name_and_port() {
        let NetPolicy::Allow(hosts) = policy("allow:example.org,*.example.net:443,192.0.2.1")
        else {
            panic!("another kind")
        };
        for (host, port, admitted) in [
            ("example.org", 22, true),
            ("EXAMPLE.org.", 443, true),
            ("a.example.org", 443, false),
            ("example.org.evil.net", 443, false),
            ("a.b.example.net", 443, true),
            ("a.example.net", 80, false),
            ("example.net", 443, false),
            ("evilexample.net", 443, false),
            ("*.example.net", 443, false),
            ("192.0.2.1", 80, true),
            ("::ffff:192.0.2.1", 80, true),
            ("192.0.2.2", 80, false),
            ("0xc0.0.2.1", 80, false),
            ("", 443, false),
            ("example.org\0", 443, false),
        ] {
            assert_eq!(hosts.admits(host, port), admitted, "{host}:{port}");
        }
    }

    #[test]
    fn contains_name_ignores_the_port() {
        let NetPolicy::Allow(hosts) = policy("allow:localhost:80,*.example.net:443,[::1]:8080")
        else {
            panic!("another kind")
        };
        for (host, named) in [
            ("localhost", true),
            ("LOCALHOST.", true),
            ("::1", true),
            ("127.0.0.1", false),
            ("a.example.net", true),
            ("example.net", false),
            ("", false),
        ] {
            assert_eq!(hosts.contains_name(host), named, "{host}");
        }
    }

    proptest! {
        #[test]
        fn a_port_set_contains_exactly_the_listed_ports(
            named in prop::collection::vec((1_u16..2_000, 0_u16..40), 1..8),
        ) {
            let text: Vec<_> = named.iter().map(|(at, more)| format!("{at}-{}", at + more)).collect();
            let NetPolicy::Ports(ports) = policy(&format!("ports:{}", text.join(","))) else {
                panic!("another kind")
            };
            for port in 1..2_100 {
                let meant = named.iter().any(|(at, more)| (*at..=at + more).contains(&port));
                prop_assert_eq!(ports.contains(port), meant);
                prop_assert_eq!(ports.iter().filter(|one| *one == port).count(), usize::from(meant));
            }
            prop_assert_eq!(policy(&format!("ports:{ports}")), NetPolicy::Ports(ports));
        }
    }
}
