//! Detection of text that looks like a secret. Pure.

use std::sync::LazyLock;

use regex::Regex;

/// Patterns of text that notes must not contain, each with a name for the error message. The
/// patterns are simple and sometimes match harmless text, which the model then has to rephrase.
const SECRET_PATTERNS: [(&str, &str); 6] = [
    ("a private key", r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    (
        "an API key",
        r"\b(sk-[A-Za-z0-9_-]{16,}|gh[opsu]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,}|glpat-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16}|AIza[0-9A-Za-z_-]{30,}|npm_[A-Za-z0-9]{30,}|hf_[A-Za-z0-9]{30,})",
    ),
    ("a signed token", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}"),
    ("a bearer token", r"(?i)\bbearer\s+[A-Za-z0-9._~+/-]{16,}"),
    ("an address with a password", r"://[^/\s:@]*:[^/\s@]+@"),
    (
        "a password, token or key",
        r#"(?i)\b[a-z_-]*(password|passwd|secret|token|api[_-]?key|access[_-]?key)["']?\s*[:=]\s*["']?[^\s"'`<>$]{8,}"#,
    ),
];

static COMPILED_PATTERNS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    let made = SECRET_PATTERNS.map(|(name, shape)| (name, Regex::new(shape)));
    made.into_iter().filter_map(|(name, made)| Some((name, made.ok()?))).collect()
});

/// Returns the kind of secret that a line seems to contain, if any.
pub(super) fn find_secret(line: &str) -> Option<&'static str> {
    COMPILED_PATTERNS.iter().find(|(_, pattern)| pattern.is_match(line)).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_secret_pattern_compiles() {
        assert_eq!(COMPILED_PATTERNS.len(), SECRET_PATTERNS.len());
    }

    #[test]
    fn secrets_are_distinguished_from_text_about_them() {
        // Assembled at run time, so that scanners for secrets do not report this file.
        let long = "a1B2c3D4e5F6g7H8".repeat(3);
        for secret in [
            format!("sk-{long}"),
            format!("the key is ghp_{long}"),
            "-----BEGIN OPENSSH PRIVATE KEY-----".to_owned(),
            format!("eyJ{long}.eyJ{long}.x"),
            format!("curl -H 'Authorization: Bearer {long}'"),
            "postgres://app:hunter22@db/x".to_owned(),
            "DB_PASSWORD=hunter2222".to_owned(),
            "api_key: \"0123456789\"".to_owned(),
            format!("AKIA{}", "A1B2".repeat(4)),
        ] {
            assert!(find_secret(&secret).is_some(), "{secret}");
        }
        for plain in [
            "The token is in $CI_TOKEN; ask the user for it.",
            "password: see the vault",
            "Run `cargo test -p core`; tokens are counted in `usage`.",
            "commit 0123456789abcdef0123456789abcdef01234567",
            "https://example.com:8443/path",
            "- secret = $SECRET_FROM_VAULT",
        ] {
            assert_eq!(find_secret(plain), None, "{plain}");
        }
    }
}
