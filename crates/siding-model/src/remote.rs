//! Tasks on remote machines: the messages between the local mirror of a task and siding on the
//! remote machine, and the translation of remote records into records of the mirror's journal.
//!
//! The remote task is an ordinary task there, with the same id. Its local *mirror* copies the
//! journal and the output. The mirror names the position up to which it has both, so that a
//! connection may break at any time without loss or repetition.

mod decoder;
mod input;
mod machine;
mod protocol;
mod translate;

pub use decoder::{MessageDecoder, ReceivedMessage, UnreadableMessage};
pub use input::{
    INPUT_WINDOW_BYTES, InputAction, InputPosition, InputReceiver, InputSender,
    MAX_INPUT_MESSAGE_BYTES, MisplacedInput, RemoteInputState,
};
pub use machine::{
    ExecutorFacts, FetchError, MirrorAction, MirrorContext, MirrorMachine, SESSION_REQUESTER,
    UnsentTask, missing_program_reason,
};
pub use protocol::{
    ForwardedRequest, JobRequest, MAX_REMOTE_LINE_BYTES, REMOTE_PROTOCOL, RemoteMessage,
    RemotePosition, RemoteRequest,
};
pub use translate::{local_record, remote_request};
