//! The token by which the servers authenticate HTTP requests.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use siding_core::sys;

use crate::error::ServerError;

/// Minimum length in characters of a token from the environment.
const MIN_TOKEN_CHARS: usize = 16;
/// The scheme in the `Authorization` header.
const BEARER_PREFIX: &[u8] = b"Bearer ";

/// The names for the token of one kind of server.
#[derive(Debug, Clone, Copy)]
pub struct ServerKind {
    /// Prefix of the token file's name.
    pub token_file_prefix: &'static str,
    /// The environment variable that may hold the token. The variable is removed from the
    /// environment of tasks (`siding-core/src/task/run/environment.rs`).
    pub token_variable: &'static str,
}

/// The place where the user's programs find the token of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenLocation<'t> {
    /// The environment variable from which the server read the token.
    Variable(&'static str),
    /// A file that only the user can read, with the token on its first line.
    File(&'t Path),
}

/// The token of a running server. If the user has a runtime directory (`XDG_RUNTIME_DIR`), a
/// generated token is also in a file there, which the user's clients can read.
pub(crate) struct Token {
    text: String,
    /// The environment variable that holds the token; `None` for a generated one.
    variable: Option<&'static str>,
    file: Option<PathBuf>,
}

impl Token {
    /// Reads the token from the environment variable. Without the variable, generates a token and,
    /// if the user has a runtime directory, writes it to the file there for the server at `port`.
    pub(crate) fn new(kind: ServerKind, port: u16) -> Result<Self, ServerError> {
        let variable = kind.token_variable;
        if let Some(text) = std::env::var(variable).ok().filter(|text| !text.is_empty()) {
            let length = text.chars().count();
            if length < MIN_TOKEN_CHARS {
                return Err(ServerError::WeakToken { variable, length, least: MIN_TOKEN_CHARS });
            }
            return Ok(Self { text, variable: Some(variable), file: None });
        }
        let random = || sys::random_u64().map_err(ServerError::io_error("make a token"));
        let text = format!("{:016x}{:016x}", random()?, random()?);
        let name = format!("{}-{port}.token", kind.token_file_prefix);
        let file = runtime_dir().map(|directory| directory.join(name));
        if let Some(path) = &file {
            write_private_file(path, &text).map_err(ServerError::io_error("write the token"))?;
        }
        Ok(Self { text, variable: None, file })
    }

    /// Returns the line that shows the user a generated token, or names the variable that holds the
    /// token.
    pub(crate) fn token_line(&self) -> String {
        match (self.variable, &self.file) {
            (Some(variable), _) => format!("token: the value of {variable}"),
            (None, None) => format!("token: {}", self.text),
            (None, Some(file)) => format!("token: {} (also in {})", self.text, file.display()),
        }
    }

    /// Returns where the user's programs find the token; `None` for a generated token that is in no
    /// file.
    pub(crate) fn location(&self) -> Option<TokenLocation<'_>> {
        let variable = self.variable.map(TokenLocation::Variable);
        variable.or_else(|| self.file.as_deref().map(TokenLocation::File))
    }

    /// Returns the message for a client without the token, which says where the user finds it.
    /// `is_given` says that the client has sent the header `Authorization`. The message does not
    /// contain the token.
    pub(crate) fn advice(&self, is_given: bool) -> String {
        let fault = if is_given {
            "the header `Authorization` does not contain the token of this server, as `Bearer TOKEN`"
        } else {
            "a program needs the header `Authorization: Bearer TOKEN`"
        };
        let place = match self.location() {
            Some(TokenLocation::Variable(variable)) => {
                format!("the token is the value of `{variable}` with which the server was started")
            }
            Some(TokenLocation::File(file)) => format!("the token is in {}", file.display()),
            None => "the server has printed a line about its token at its start".to_owned(),
        };
        format!("{fault}; {place}")
    }

    /// Returns whether an `Authorization` header contains the token. The time of the comparison
    /// does not depend on how many characters match, so a client cannot guess the token piece by
    /// piece.
    pub(crate) fn matches_header(&self, header: &[u8]) -> bool {
        let Some((scheme, given)) = header.split_at_checked(BEARER_PREFIX.len()) else {
            return false;
        };
        let wanted = self.text.as_bytes();
        let differing = given.iter().zip(wanted).fold(0, |all, (one, other)| all | (one ^ other));
        scheme.eq_ignore_ascii_case(BEARER_PREFIX) && given.len() == wanted.len() && differing == 0
    }
}

impl Token {
    /// Removes the token file, unless another server has replaced it: a new server at the same port
    /// may start before the last connection of this one is closed, and a server at another address
    /// may have the same port.
    pub(crate) fn remove_file(&self) {
        let Some(file) = &self.file else { return };
        if fs::read_to_string(file).is_ok_and(|text| text.trim_end() == self.text) {
            // A file that cannot be removed is harmless: no server accepts its token now.
            let _best_effort = fs::remove_file(file);
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.remove_file();
    }
}

/// Returns siding's directory in the user's runtime directory; `None` if `XDG_RUNTIME_DIR` is not
/// set to an absolute path.
fn runtime_dir() -> Option<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)?;
    runtime.is_absolute().then(|| runtime.join("siding"))
}

/// Writes a file with mode 0600, so that other users cannot read it. A missing directory is created
/// with mode 0700.
fn write_private_file(path: &Path, text: &str) -> std::io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    // An earlier server at this port may have left a file with other permissions, so a new file is
    // created.
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
    fn only_the_complete_token_is_accepted() {
        let text = "0123456789abcdef".to_owned();
        let token = Token { text, variable: None, file: None };
        assert!(token.matches_header(b"Bearer 0123456789abcdef"));
        assert!(token.matches_header(b"bearer 0123456789abcdef"));
        for other in [
            "",
            "Bearer ",
            "0123456789abcdef",
            "Bearer 0123456789abcdee",
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdeff",
            "Basic  0123456789abcdef",
        ] {
            assert!(!token.matches_header(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn the_advice_names_the_place_of_the_token_and_not_the_token() {
        let text = "0123456789abcdef".to_owned();
        let file = PathBuf::from("/nonexistent/web-7000.token");
        let in_variable = Token { text: text.clone(), variable: Some("SIDING_X"), file: None };
        let in_file = Token { text: text.clone(), variable: None, file: Some(file) };
        let printed = Token { text: text.clone(), variable: None, file: None };
        for (token, place) in [
            (&in_variable, "the value of `SIDING_X`"),
            (&in_file, "in /nonexistent/web-7000.token"),
            (&printed, "printed a line about its token"),
        ] {
            for is_given in [true, false] {
                let advice = token.advice(is_given);
                assert!(advice.contains(place) && !advice.contains(&text), "{advice}");
            }
        }
    }

    #[test]
    fn only_the_token_of_this_server_is_removed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("siding/web-1.token");
        let write = |text: &str| {
            write_private_file(&path, text).expect("written");
            Token { text: text.to_owned(), variable: None, file: Some(path.clone()) }
        };
        let (old, new) = (write("0123456789abcdef"), write("fedcba9876543210"));
        drop(old);
        assert_eq!(fs::read_to_string(&path).ok().as_deref(), Some("fedcba9876543210\n"));
        drop(new);
        assert!(!path.exists());
    }
}
