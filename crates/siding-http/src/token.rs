//! The token that every request over HTTP carries.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use siding_core::sys;

use crate::door::{DoorError, Kind};

/// Least characters of one that is given.
const LEAST: usize = 16;
/// Before it, in the header.
const SCHEME: &[u8] = b"Bearer ";

/// The token, and the file that holds a generated one while the server runs.
pub(crate) struct Token {
    text: String,
    /// The variable it is from, where it was given.
    variable: Option<&'static str>,
    file: Option<PathBuf>,
}

impl Token {
    /// Takes the token of the environment, or makes one for the server at `port`.
    pub(crate) fn new(kind: Kind, port: u16) -> Result<Self, DoorError> {
        let variable = kind.variable;
        if let Some(text) = std::env::var(variable).ok().filter(|text| !text.is_empty()) {
            let length = text.chars().count();
            if length < LEAST {
                return Err(DoorError::WeakToken { variable, length, least: LEAST });
            }
            return Ok(Self { text, variable: Some(variable), file: None });
        }
        let random = || sys::random_u64().map_err(DoorError::io("make a token"));
        let text = format!("{:016x}{:016x}", random()?, random()?);
        let name = format!("{}-{port}.token", kind.name);
        let file = directory().map(|directory| directory.join(name));
        if let Some(path) = &file {
            write(path, &text).map_err(DoorError::io("write the token"))?;
        }
        Ok(Self { text, variable: None, file })
    }

    /// Returns what a person must know: a generated token, once.
    pub(crate) fn told(&self) -> String {
        match (self.variable, &self.file) {
            (Some(variable), _) => format!("token: that of {variable}"),
            (None, None) => format!("token: {}", self.text),
            (None, Some(file)) => format!("token: {} (also in {})", self.text, file.display()),
        }
    }

    /// Whether a header has it. Takes the same time wherever the first difference is.
    pub(crate) fn opens(&self, header: &[u8]) -> bool {
        let Some((scheme, given)) = header.split_at_checked(SCHEME.len()) else { return false };
        let wanted = self.text.as_bytes();
        let differing = given.iter().zip(wanted).fold(0, |all, (one, other)| all | (one ^ other));
        scheme.eq_ignore_ascii_case(SCHEME) && given.len() == wanted.len() && differing == 0
    }
}

impl Token {
    /// Removes its file.
    pub(crate) fn remove(&self) {
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
        let text = "0123456789abcdef".to_owned();
        let token = Token { text, variable: None, file: None };
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
