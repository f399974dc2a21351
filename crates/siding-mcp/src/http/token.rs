//! The token that every request over HTTP carries.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use siding_core::sys;

use crate::serve::McpError;

/// The variable that may hold it.
pub const VARIABLE: &str = "SIDING_MCP_TOKEN";
/// Least characters of one that is given.
const LEAST: usize = 16;
/// Before it, in the header.
const SCHEME: &[u8] = b"Bearer ";

/// The token, and the file that holds a generated one while the server runs.
pub(super) struct Token {
    text: String,
    file: Option<PathBuf>,
}

impl Token {
    /// Takes the token of the environment, or makes one for the server at `port`.
    pub(super) fn new(port: u16) -> Result<Self, McpError> {
        if let Some(text) = std::env::var(VARIABLE).ok().filter(|text| !text.is_empty()) {
            let length = text.chars().count();
            if length < LEAST {
                return Err(McpError::WeakToken { variable: VARIABLE, length, least: LEAST });
            }
            return Ok(Self { text, file: None });
        }
        let random = || sys::random().map_err(McpError::io("make a token"));
        let text = format!("{:016x}{:016x}", random()?, random()?);
        let file = directory().map(|directory| directory.join(format!("mcp-{port}.token")));
        if let Some(path) = &file {
            write(path, &text).map_err(McpError::io("write the token"))?;
        }
        Ok(Self { text, file })
    }

    /// Returns what a person must know: a generated token, once.
    pub(super) fn told(&self) -> Vec<String> {
        let Some(file) = &self.file else {
            return if std::env::var_os(VARIABLE).is_some() {
                vec![format!("token: that of {VARIABLE}")]
            } else {
                vec![format!("token: {}", self.text)]
            };
        };
        vec![format!("token: {} (also in {})", self.text, file.display())]
    }

    /// Whether a header has it. Takes the same time wherever the first difference is.
    pub(super) fn opens(&self, header: &[u8]) -> bool {
        let Some((scheme, given)) = header.split_at_checked(SCHEME.len()) else { return false };
        let wanted = self.text.as_bytes();
        let differing = given.iter().zip(wanted).fold(0, |all, (one, other)| all | (one ^ other));
        scheme.eq_ignore_ascii_case(SCHEME) && given.len() == wanted.len() && differing == 0
    }
}

impl Token {
    /// Removes its file.
    pub(super) fn remove(&self) {
        if let Some(file) = &self.file {
            // It opens nothing any more.
            let _opens_nothing = fs::remove_file(file);
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Returns siding's own directory in the user's runtime directory.
fn directory() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)?;
    runtime.is_absolute().then(|| runtime.join("siding"))
}

/// Writes a file that only its owner can read, in a directory that only its owner can enter.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    // One of an earlier server at this port; made anew, so that its mode is known.
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    writeln!(file, "{text}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_opens() {
        let token = Token { text: "0123456789abcdef".to_owned(), file: None };
        assert!(token.opens(b"Bearer 0123456789abcdef"));
        assert!(token.opens(b"bearer 0123456789abcdef"));
        for other in [
            "",
            "Bearer ",
            "0123456789abcdef",
            "Bearer 0123456789abcdee",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdeff",
            "Basic  0123456789abcdef",
        ] {
            assert!(!token.opens(other.as_bytes()), "{other}");
        }
    }
}
