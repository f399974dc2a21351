//! Builds the message that starts or continues a remote task.

use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use siding_core::sys::{self, file};
use siding_model::size::size_in_words;

use super::RemoteTask;
use crate::wire::{Message, Part, ROLE_USER};

/// Maximum total bytes of a message's files, all of which are sent in one request.
const MAX_FILES_BYTES: usize = 4 << 20;

/// Why the message cannot be built.
#[derive(Debug, thiserror::Error)]
pub(super) enum MessageError {
    #[error("could not read `{}`: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error("`{}` is not a regular file; copy its content into one", path.display())]
    NotAFile { path: PathBuf },
    #[error(
        "the files have more than {}, the maximum of a message",
        size_in_words(MAX_FILES_BYTES as u64)
    )]
    TooLarge,
    #[error("could not generate an id for the message: {0}")]
    Name(io::Error),
}

/// Builds the message, and reads its files.
pub(super) fn build_message(remote_task: &RemoteTask) -> Result<Message, MessageError> {
    let mut parts = vec![Part::text(remote_task.text.as_str())];
    let mut remaining = MAX_FILES_BYTES;
    for path in &remote_task.files {
        let bytes = read_bounded(path, remaining)?;
        remaining -= bytes.len();
        parts.push(file_part(path, bytes));
    }
    let random = || sys::random_u64().map_err(MessageError::Name);
    Ok(Message {
        message_id: format!("{:016x}{:016x}", random()?, random()?),
        context_id: remote_task.context.clone(),
        task_id: remote_task.task.clone(),
        role: ROLE_USER.to_owned(),
        parts,
    })
}

/// Reads a regular file of at most `max` bytes.
fn read_bounded(path: &Path, max: usize) -> Result<Vec<u8>, MessageError> {
    let failed = |source| MessageError::File { path: path.to_owned(), source };
    // The type is checked before open(2), which has side effects on some devices.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(MessageError::NotAFile { path: path.to_owned() });
    }
    // The file may have been replaced since the check, and may grow. Therefore the open does not
    // block on a FIFO, and the read is bounded.
    let opened = file::open_followed(path, false).map_err(failed)?;
    file::read_to_end(opened.as_fd(), max).map_err(|error| {
        let is_too_large = error.kind() == io::ErrorKind::FileTooLarge;
        if is_too_large { MessageError::TooLarge } else { failed(error) }
    })
}

/// Returns a file as a text part if it is valid UTF-8, because many agents accept only text;
/// otherwise returns the file in base64.
fn file_part(path: &Path, bytes: Vec<u8>) -> Part {
    let filename = path.file_name().map(|name| name.to_string_lossy().into_owned());
    match String::from_utf8(bytes) {
        Ok(text) => {
            let media_type = Some("text/plain".to_owned());
            Part { filename, media_type, ..Part::text(text) }
        }
        Err(error) => {
            let media_type = Some("application/octet-stream".to_owned());
            let raw = Some(base64(error.as_bytes()));
            Part { filename, media_type, raw, ..Part::default() }
        }
    }
}

/// Encodes bytes in base64 (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for index in 0..4 {
            let digit = bits >> (18 - 6 * index) & 63;
            let is_there = index <= chunk.len();
            text.push(if is_there { char::from(DIGITS[digit as usize]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of RFC 4648, section 10.
    #[test]
    fn base64_matches_the_rfc_examples() {
        for (bytes, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xff, 0xfe, 0xfd]), "//79");
    }

    /// The length of these files is 0, so only their type shows that they may have no end.
    #[test]
    fn only_a_regular_file_is_read() {
        let directory = tempfile::tempdir().expect("a directory");
        let opened = file::open_directory(directory.path()).expect("opens");
        file::create_fifo(&opened, "fifo").expect("made");
        for path in [Path::new("/dev/zero"), &directory.path().join("fifo"), directory.path()] {
            let error = read_bounded(path, 10).expect_err("not a regular file");
            assert!(error.to_string().contains("is not a regular file"), "{error}");
        }
    }

    /// Files in procfs have the length 0, whatever their content is.
    #[test]
    fn a_file_longer_than_its_length_is_bounded() {
        let status = Path::new("/proc/self/status");
        assert!(matches!(read_bounded(status, 10), Err(MessageError::TooLarge)));
        assert!(!read_bounded(status, 1 << 20).expect("fits").is_empty());
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        std::fs::write(&path, "0123456789").expect("own file");
        assert_eq!(read_bounded(&path, 10).expect("fits"), b"0123456789");
        assert!(matches!(read_bounded(&path, 9), Err(MessageError::TooLarge)));
    }

    #[test]
    fn a_utf8_file_is_sent_as_text() {
        let text = file_part(Path::new("/a/b.txt"), b"x".to_vec());
        assert_eq!((text.text.as_deref(), text.filename.as_deref()), (Some("x"), Some("b.txt")));
        let bytes = file_part(Path::new("b"), vec![0xff]);
        assert_eq!((bytes.raw.as_deref(), bytes.text), (Some("/w=="), None));
    }
}
