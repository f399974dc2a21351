//! Refuses arguments that name a descriptor of the caller, which the command does not inherit.
//!
//! A task may outlive its caller. If it held the caller's descriptors, a reader of a pipe would
//! never see the end of file, and a lock would stay taken.

use siding_core::sys::descriptor;

use crate::failure::Failure;

/// The directories whose entries are the descriptors of the process that opens them.
const DESCRIPTOR_DIRECTORIES: [&str; 2] = ["/dev/fd/", "/proc/self/fd/"];

/// Returns an error if an argument names a descriptor that the caller has opened for the command,
/// as the shell does for `siding run -- cat <(date)`.
pub(super) fn reject(argv: &[String]) -> Result<(), Failure> {
    let is_lost = |word: &&String| descriptor_number(word).is_some_and(descriptor::is_inherited);
    let Some(word) = argv.iter().find(is_lost) else { return Ok(()) };
    Err(Failure::new(format!(
        "`{word}`: the command does not inherit this descriptor of the calling shell"
    ))
    .with_hint(
        "write the command as one text in quotes, so that its own shell opens the descriptor: \
         `siding run 'cat <(date)'`; or use a file, or --stdin",
    ))
}

/// Returns the number of the descriptor, other than the standard streams, that a word names:
/// `/dev/fd/63` or `--file=/dev/fd/63`.
fn descriptor_number(word: &str) -> Option<i32> {
    let number = DESCRIPTOR_DIRECTORIES.iter().find_map(|place| word.rsplit_once(*place))?.1;
    number.parse().ok().filter(|number| *number > 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_name_a_descriptor_are_recognized() {
        assert_eq!(descriptor_number("/dev/fd/63"), Some(63));
        assert_eq!(descriptor_number("--file=/proc/self/fd/11"), Some(11));
        for word in ["/dev/fd/0", "/dev/fd/2", "/dev/fd/63/x", "/dev/fd/", "/dev/null", "63"] {
            assert_eq!(descriptor_number(word), None, "{word}");
        }
    }
}
