//! What can go wrong while a host's files are changed.

use std::io;
use std::path::PathBuf;

use super::json::TextError;

/// What can go wrong while a host's files are changed. Unless said otherwise nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    /// A file is not as its host reads it.
    #[error("`{path}`, {fault}")]
    InvalidText {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        fault: TextError,
        /// Whether the host reads plain JSON and nothing else.
        strict: bool,
    },
    /// A file is not UTF-8.
    #[error("`{path}` is not UTF-8: byte {offset} is none of a character")]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Where, in bytes from 0.
        offset: usize,
    },
    /// There is something that is no file.
    #[error("`{path}` is no file")]
    NotAFile {
        /// What is there.
        path: PathBuf,
    },
    /// A file is larger than any host's settings.
    #[error("`{path}` has {len} bytes, at most {max} are read")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// How large it is.
        len: u64,
        /// The limit.
        max: u64,
    },
    /// A link leads nowhere.
    #[error("`{path}` is a link that leads nowhere")]
    DanglingLink {
        /// The link.
        path: PathBuf,
    },
    /// Somebody else has written to a file meanwhile.
    #[error("`{path}` was changed by somebody else meanwhile; it was left alone")]
    ConcurrentChange {
        /// The file.
        path: PathBuf,
    },
    /// A newer siding wrote what is remembered.
    #[error("`{path}` has format {found}, this siding knows {known}")]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest that is known.
        known: u64,
    },
    /// The operating system refused.
    #[error("could not {doing} `{path}`: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

impl InstallError {
    /// Returns what a person can do.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::InvalidText { strict: true, .. } => Some(
                "correct that line and call siding again; until then the host ignores all of the \
                 file, whatever siding adds",
            ),
            Self::InvalidText { strict: false, .. } => {
                Some("correct that line and call siding again")
            }
            Self::NotUtf8 { .. } => Some("save it as UTF-8 and call siding again"),
            Self::DanglingLink { .. } => Some("make the file it leads to, or remove the link"),
            Self::ConcurrentChange { .. } => Some("call siding again"),
            Self::TooNew { .. } => Some("call the siding that installed it, or upgrade this one"),
            Self::NotAFile { .. } | Self::TooLarge { .. } | Self::Io { .. } => None,
        }
    }

    /// Returns what makes an error of the operating system's one of these.
    pub(crate) fn io(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }
}
