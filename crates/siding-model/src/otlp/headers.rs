//! The variable `OTEL_EXPORTER_OTLP_HEADERS`: headers of requests to a collector.

/// The error for a text that does not list headers. It does not repeat the text, which usually
/// contains a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("entry {entry} is not of the form `name=value`, with the value percent-encoded")]
pub struct BadHeaders {
    /// Number of the wrong entry, from 1.
    pub entry: usize,
}

/// Parses a list of headers such as `authorization=Bearer%20TOKEN,x-tenant=a`.
///
/// # Errors
///
/// [`BadHeaders`] for the first entry without a name or with a wrong percent-encoding.
pub fn parse_headers(text: &str) -> Result<Vec<(String, String)>, BadHeaders> {
    let entries = text.split(',').map(str::trim).enumerate();
    let header = |(index, entry): (usize, &str)| {
        let bad = BadHeaders { entry: index + 1 };
        let (name, value) = entry.split_once('=').ok_or(bad)?;
        let (name, value) = (name.trim(), value.trim());
        if name.is_empty() {
            return Err(bad);
        }
        Ok((name.to_owned(), decode_percent(value).ok_or(bad)?))
    };
    entries.filter(|(_, entry)| !entry.is_empty()).map(header).collect()
}

fn decode_percent(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_split_and_decoded() {
        let headers = |text| {
            let parsed = parse_headers(text);
            parsed.map(|all| all.iter().map(|(name, value)| format!("{name}: {value}")).collect())
        };
        let list = |all: &[&str]| Ok(all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>());
        assert_eq!(headers(""), list(&[]));
        assert_eq!(headers("a=b"), list(&["a: b"]));
        assert_eq!(
            headers(" authorization=Bearer%20x==, x-tenant = %c3%a9 ,"),
            list(&["authorization: Bearer x==", "x-tenant: é"])
        );
        for (text, entry) in [("a", 1), ("a=b,=c", 2), ("a=%2", 1), ("a=%+1", 1), ("a=%ff", 1)] {
            assert_eq!(headers(text), Err(BadHeaders { entry }), "{text}");
        }
    }
}
