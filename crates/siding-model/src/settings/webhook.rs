//! The setting `notify_webhook`: the address to which notices are sent.

use std::fmt;

use super::value::{RawValue, Value, ValueError};

/// The keyword for no webhook.
const OFF_WORD: &str = "off";
/// Replaces the part after the host in the displayed form, because this part may contain a secret.
const HIDDEN_SUFFIX: &str = "/…";
/// Maximum length of an address, in bytes; RFC 9110 section 4.1 recommends that servers support at
/// least 8000.
const MAX_ADDRESS_BYTES: usize = 8000;

/// The address to which notices are sent, or none.
///
/// The path of a webhook's address often contains a secret, so every displayed form is cut to
/// scheme and host.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Webhook(Option<String>);

impl Webhook {
    /// No webhook: notices are not sent to an address.
    pub const OFF: Self = Self(None);

    /// Returns the complete address, which must be used only for the request and never be printed.
    #[must_use]
    pub fn address(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Returns scheme and host, and the port if there is one.
    fn scheme_and_host(&self) -> Option<String> {
        let (scheme, host, _) = split_address(self.address()?)?;
        Some(format!("{}://{host}", scheme.to_ascii_lowercase()))
    }
}

/// Splits an address into the scheme and the host with its port. The flag says whether the address
/// has further parts, such as a path. Returns `None` for an address that is not valid for HTTP.
fn split_address(address: &str) -> Option<(&str, &str, bool)> {
    let (scheme, rest) = address.split_once("://")?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let known = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let plain = !host.is_empty() && !host.starts_with(':') && !host.contains('\\');
    (known && plain).then_some((scheme, host, !user.is_empty() || path.len() > 1))
}

impl std::str::FromStr for Webhook {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        Self::read(&RawValue::Text(text.to_owned()))
    }
}

impl fmt::Display for Webhook {
    /// Writes scheme and host, or `off`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.scheme_and_host().unwrap_or_else(|| OFF_WORD.to_owned()))
    }
}

impl fmt::Debug for Webhook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Webhook({self})")
    }
}

impl Value for Webhook {
    fn read(raw: &RawValue) -> Result<Self, ValueError> {
        let refused = || ValueError::NotAllowed {
            // The value is not repeated, because a mistyped address may also contain the secret.
            found: "this".to_owned(),
            allowed: "`off` or a whole address such as `https://example.org/hook`",
        };
        let RawValue::Text(text) = raw else { return Err(refused()) };
        let text = text.trim();
        if text == OFF_WORD {
            return Ok(Self::OFF);
        }
        let legal = text.len() <= MAX_ADDRESS_BYTES
            && text.bytes().all(|byte| byte.is_ascii_graphic())
            && split_address(text).is_some();
        if legal { Ok(Self(Some(text.to_owned()))) } else { Err(refused()) }
    }

    /// Returns the displayed form, followed by `/…` if the address was cut. This suffix is invalid
    /// input, so that a cut address that is copied into a settings file is rejected.
    fn raw(&self) -> RawValue {
        let more = self.address().and_then(split_address).is_some_and(|(_, _, more)| more);
        RawValue::Text(format!("{self}{}", if more { HIDDEN_SUFFIX } else { "" }))
    }

    #[cfg(feature = "schema")]
    fn schema() -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": "^(off|[hH][tT][tT][pP][sS]?://[!-~]+)$"
        })
    }
}
