//! Patterns for socket files that the reaper removes when no process holds them.

/// An absolute path whose last component may contain `*` and `?`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketPattern {
    directory: String,
    name: String,
}

/// Description of a valid pattern, for error messages.
pub const ALLOWED_PATTERN: &str = "an absolute path with `*` or `?` in its last part only, without `..` \
    or a comma, such as `/tmp/claude-http-*.sock`";

impl SocketPattern {
    /// Returns the built-in patterns: the sockets of Claude Code's sandbox
    /// (anthropics/claude-code#51932).
    #[must_use]
    pub fn built_in() -> Vec<Self> {
        ["/tmp/claude-http-*.sock", "/tmp/claude-socks-*.sock", "/tmp/srt-mux-*.sock"]
            .iter()
            .filter_map(|text| Self::parse(text))
            .collect()
    }

    /// Parses a pattern. Returns `None` unless the text is valid as [`ALLOWED_PATTERN`] describes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (directory, name) =
            text.strip_prefix('/')?.rsplit_once('/').unwrap_or(("", &text[1..]));
        let is_part = |part: &str| !part.is_empty() && part != "." && part != "..";
        let has_wildcard = directory.contains(['*', '?', '[']);
        let parts_are_plain = directory.is_empty() || directory.split('/').all(is_part);
        if has_wildcard || !parts_are_plain || !is_part(name) || text.contains([',', '\0']) {
            return None;
        }
        Some(Self { directory: directory.to_owned(), name: name.to_owned() })
    }

    /// Returns the components of the directory that contains the socket files, from the root down.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        self.directory.split('/').filter(|part| !part.is_empty())
    }

    /// Returns the path of a file in the pattern's directory.
    #[must_use]
    pub fn path_in_directory(&self, name: &str) -> String {
        let slash = if self.directory.is_empty() { "" } else { "/" };
        format!("/{}{slash}{name}", self.directory)
    }

    /// Returns whether the pattern's last component matches a file name.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        wildcard_match(self.name.as_bytes(), name.as_bytes())
    }
}

impl std::fmt::Display for SocketPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.path_in_directory(&self.name))
    }
}

/// Returns whether a pattern with `*` and `?` matches a name. Backtracking returns only to the last
/// `*`, so the time is at most proportional to the product of both lengths.
fn wildcard_match(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(&byte) if byte == b'?' || byte == name[n] => {
                p += 1;
                n += 1;
            }
            Some(_) | None => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                p = at + 1;
                n = from + 1;
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_paths_with_trailing_wildcards_are_accepted() {
        for text in ["/tmp/a-*.sock", "/a?", "/run/user/0/x.sock"] {
            let pattern = SocketPattern::parse(text).expect("a valid pattern");
            assert_eq!(pattern.to_string(), text);
        }
        let bad =
            ["", "/", "tmp/a", "/tmp/*/a", "/tmp/../a", "/tmp/..", "/tmp//a", "/tmp/", "/a,b"];
        for text in bad {
            assert_eq!(SocketPattern::parse(text), None, "{text}");
        }
        assert_eq!(SocketPattern::built_in().len(), 3);
    }

    #[test]
    fn wildcards_match_as_in_a_shell() {
        for (pattern, name, fits) in [
            ("claude-http-*.sock", "claude-http-1a.sock", true),
            ("claude-http-*.sock", "claude-http-.sock", true),
            ("claude-http-*.sock", "claude-http-1.sock.x", false),
            ("claude-http-*.sock", "xclaude-http-1.sock", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("a.c", "abc", false),
        ] {
            let pattern = SocketPattern::parse(&format!("/tmp/{pattern}")).expect("valid");
            assert_eq!(pattern.matches(name), fits, "{pattern} {name}");
        }
    }
}
