//! The allowed `Host` and `Origin` values of a request. The check protects against DNS rebinding,
//! in which a web page reaches a local server under the name of a remote host.

use std::net::IpAddr;

/// The loopback names of this machine, as they appear in a URL.
pub const LOOPBACK_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The names and addresses that the `Host` header of a request may contain.
pub(crate) struct AllowedHosts(Vec<String>);

impl AllowedHosts {
    /// Returns the loopback names, `hosts`, and the address on which the server listens unless it
    /// listens on all addresses.
    pub(crate) fn new(address: IpAddr, hosts: &[String]) -> Self {
        let mut names: Vec<String> = LOOPBACK_NAMES.map(str::to_owned).into();
        names.extend(hosts.iter().cloned());
        match address {
            address if address.is_unspecified() => {}
            IpAddr::V4(address) => names.push(address.to_string()),
            IpAddr::V6(address) => names.push(format!("[{address}]")),
        }
        Self(names)
    }

    /// Returns whether a `Host` header contains one of these names, with or without a port.
    pub(crate) fn allows_host(&self, host: &str) -> bool {
        self.0.iter().any(|name| matches_with_optional_port(host, name))
    }

    /// Returns whether an `Origin` header names a loopback host, so that the page comes from this
    /// machine.
    pub(crate) fn allows_origin(&self, origin: &str) -> bool {
        let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        rest.is_some_and(|rest| {
            LOOPBACK_NAMES.iter().any(|name| matches_with_optional_port(rest, name))
        })
    }
}

/// Returns whether `given` is `name` in any letter case, with a port or without one.
fn matches_with_optional_port(given: &str, name: &str) -> bool {
    let Some((head, rest)) = given.split_at_checked(name.len()) else { return false };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    head.eq_ignore_ascii_case(name)
        && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn test_hosts() -> AllowedHosts {
        let address = "10.0.0.5".parse().expect("an address");
        AllowedHosts::new(address, &["build.example".to_owned()])
    }

    #[test]
    fn a_host_matches_with_and_without_a_port() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:7433", "[::1]:1", "10.0.0.5:9"] {
            assert!(test_hosts().allows_host(host), "{host}");
        }
        assert!(
            test_hosts().allows_host("build.example")
                && test_hosts().allows_host("Build.Example:443")
        );
        for host in ["", "evil.example", "localhost.evil.example:80", "localhost:", "localhost:x"] {
            assert!(!test_hosts().allows_host(host), "{host}");
        }
    }

    #[test]
    fn only_loopback_origins_are_allowed() {
        for origin in ["http://localhost:5173", "https://127.0.0.1", "http://[::1]:8"] {
            assert!(test_hosts().allows_origin(origin), "{origin}");
        }
        for origin in ["null", "", "http://evil.example", "http://localhost.evil.example"] {
            assert!(!test_hosts().allows_origin(origin), "{origin}");
        }
        assert!(!test_hosts().allows_origin("http://build.example"), "a host, but no origin");
    }

    proptest! {
        /// A name that merely contains an allowed name belongs to another host.
        #[test]
        fn a_host_with_extra_characters_is_refused(rest in "[a-z.@/-][ -~]{0,20}") {
            let host = format!("localhost{rest}");
            prop_assert!(!test_hosts().allows_host(&host));
            let host = format!("{rest}localhost");
            prop_assert!(!test_hosts().allows_host(&host));
        }
    }
}
