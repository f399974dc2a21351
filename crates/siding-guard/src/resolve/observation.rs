//! What is seen in a text.

use serde::Deserialize;

use crate::ast::Span;

/// Something that a rule may be about.
#[derive(Debug, Clone)]
pub(crate) enum Observation {
    /// A program runs.
    Call(Call),
    /// A variable is set.
    Assignment { text: Arg },
    /// A file is read by a redirection.
    FileRead { from: Arg, directory: String },
    /// A file is written by a redirection.
    FileWrite { to: Arg, is_append: bool, directory: String },
    /// The text has a shape of its own; the detail says more than the shape's name.
    Construct { construct: Construct, span: Span, detail: Option<String> },
}

/// One program with its arguments.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Its name without directories.
    pub(crate) program: String,
    pub(crate) args: Vec<Arg>,
    pub(crate) span: Span,
    /// Programs that write into its standard input, the nearest last.
    pub(crate) upstream: Vec<String>,
    /// Programs that read what it writes.
    pub(crate) downstream: Vec<String>,
    /// Its standard input is a pipe or a file.
    pub(crate) has_redirected_stdin: bool,
    /// The file that is its standard input.
    pub(crate) stdin_file: Option<String>,
    /// What it reads from standard input, where that stands in the text.
    pub(crate) stdin_text: Option<String>,
    /// The directory it runs in, `.` when the text does not change it.
    pub(crate) directory: String,
    /// A time limit is on it.
    pub(crate) has_timeout: bool,
    /// Its wrapper is unknown: it is a guess that this runs at all.
    pub(crate) unknown_wrapper: Option<String>,
}

/// One argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arg {
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// A shape of a text that is no program with arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Construct {
    /// It does not parse.
    Unparsable,
    /// It nests deeper, or comes to more, than is followed.
    TooDeep,
    /// Which program runs is known only when it does.
    DynamicName,
    /// A shell or interpreter reads from a pipe what the text does not show.
    PipeToShell,
    /// A function starts itself twice.
    ForkBomb,
    /// `eval` gets several lines, which it joins by spaces.
    EvalLines,
    /// A command reads the input that the commands behind it come from, or that nobody gives.
    InputTaken,
    /// It reads a named pipe that nothing in the text writes.
    EmptyPipe,
    /// A loop that looks for a process and sleeps.
    ProcessWaiter,
    /// A loop that looks for anything else, or never ends, and sleeps.
    Polling,
    /// `&`, and nothing waits for it.
    SentAway,
}
