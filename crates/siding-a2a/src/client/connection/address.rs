//! Derives the URLs of an agent card from the address that the user gave, and decides which URLs in
//! the card may be used. Pure.

use reqwest::Url;
use siding_http::client::is_loopback_url;
use siding_model::text::one_line;

use crate::wire::WELL_KNOWN_CARD_PATH;

/// Maximum columns of an address in a message.
const ADDRESS_COLUMNS: usize = 200;

/// Why an address is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum AddressError {
    #[error("`{0}` is not the address of an agent: write http://HOST:PORT or https://HOST")]
    Invalid(String),
    #[error(
        "remove the user name and password from the address; for a token, set a variable and name it with --bearer-env"
    )]
    Credentials,
    #[error(
        "its card names another server, {named}; if that is intended, send to an address of that server"
    )]
    OtherHost { named: String },
    #[error("its card names {named}, which is unencrypted although the card was encrypted")]
    Unencrypted { named: String },
    #[error(
        "its card names {named}, but the token is for another server; to use it there, send to that address"
    )]
    OtherPort { named: String },
}

/// Parses an address from the command line.
pub(super) fn parse(text: &str) -> Result<Url, AddressError> {
    let no_url = || AddressError::Invalid(one_line(text, ADDRESS_COLUMNS));
    let url = Url::parse(text).map_err(|_| no_url())?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(no_url());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(AddressError::Credentials);
    }
    Ok(url)
}

/// Returns the URLs where the agent card may be, the most likely first.
pub(super) fn card_urls(given: &Url) -> Vec<Url> {
    if given.path().ends_with(".json") {
        return vec![given.clone()];
    }
    let at = |path: &str| {
        let mut url = given.clone();
        url.set_path(path);
        url.set_query(None);
        url.set_fragment(None);
        url
    };
    let below = at(&format!("{}{WELL_KNOWN_CARD_PATH}", given.path().trim_end_matches('/')));
    let above = at(WELL_KNOWN_CARD_PATH);
    if below == above { vec![above] } else { vec![below, above] }
}

/// Checks a URL that an agent card names. The card is untrusted text: it must not make the client
/// contact a host other than the one that the user named, replace https by http, or send the token
/// to another port. All loopback addresses count as one host.
pub(super) fn check_interface_url(
    given: &Url,
    named: &str,
    has_token: bool,
) -> Result<Url, AddressError> {
    let url =
        given.join(named).map_err(|_| AddressError::Invalid(one_line(named, ADDRESS_COLUMNS)))?;
    let url = parse(url.as_str())?;
    let named = one_line(url.as_str(), ADDRESS_COLUMNS);
    let is_same_host =
        url.host_str() == given.host_str() || is_loopback_url(&url) && is_loopback_url(given);
    if !is_same_host {
        return Err(AddressError::OtherHost { named });
    }
    if given.scheme() == "https" && url.scheme() != "https" {
        return Err(AddressError::Unencrypted { named });
    }
    if has_token && url.port_or_known_default() != given.port_or_known_default() {
        return Err(AddressError::OtherPort { named });
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        parse(text).expect("an address")
    }

    #[test]
    fn the_card_is_sought_below_the_address_and_at_the_root() {
        let places = |text: &str| {
            card_urls(&url(text)).into_iter().map(|url| url.to_string()).collect::<Vec<_>>()
        };
        let top = "http://h:1/.well-known/agent-card.json";
        assert_eq!(places("http://h:1"), [top]);
        assert_eq!(places("http://h:1/a/?x#y"), ["http://h:1/a/.well-known/agent-card.json", top]);
        assert_eq!(places("http://h:1/card.json"), ["http://h:1/card.json"]);
    }

    #[test]
    fn an_invalid_address_is_refused() {
        for text in ["", "h:1", "ftp://h", "file:///etc/passwd", "http://"] {
            assert!(matches!(parse(text), Err(AddressError::Invalid(_))), "{text}");
        }
        assert_eq!(parse("http://u:p@h"), Err(AddressError::Credentials));
    }

    #[test]
    fn a_card_cannot_redirect_to_another_server() {
        let ok = |given: &str, named: &str, token| {
            check_interface_url(&url(given), named, token).is_ok()
        };
        assert!(ok("http://h:1", "http://h:1/a2a", true));
        assert!(ok("http://localhost:1", "http://127.0.0.1:1/", true), "one machine, two names");
        assert!(ok("http://h:1", "/a2a", true), "a relative URL");
        assert!(ok("http://h:1", "http://h:2", false) && ok("http://h", "https://h", false));
        assert!(!ok("http://h:1", "http://h:2", true), "another server's token");
        assert!(!ok("http://h:1", "http://169.254.169.254/", false));
        assert!(!ok("http://h:1", "http://127.0.0.1/", false));
        assert!(!ok("https://h", "http://h", false) && !ok("http://h", "file:///etc", false));
    }
}
