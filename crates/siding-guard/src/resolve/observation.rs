//! The observations about a text.

use serde::Deserialize;

use crate::ast::Span;

/// A fact about a text that a rule can match.
#[derive(Debug, Clone)]
pub(crate) enum Observation {
    /// The text runs a program.
    Call(Call),
    /// The text sets a variable.
    Assignment { text: Arg },
    /// A redirection reads a file.
    FileRead { from: Arg, directory: String },
    /// A redirection writes a file.
    FileWrite { to: Arg, is_append: bool, directory: String },
    /// The text contains a construct; `detail` adds to the construct's name.
    Construct { construct: Construct, span: Span, detail: Option<String> },
}

/// The call of a program with its arguments.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// The name without directories.
    pub(crate) program: String,
    pub(crate) args: Vec<Arg>,
    pub(crate) span: Span,
    /// Programs that write to the program's standard input, the nearest last.
    pub(crate) upstream: Vec<String>,
    /// Programs that read the program's output.
    pub(crate) downstream: Vec<String>,
    /// Whether the program's standard input is a pipe or a file.
    pub(crate) has_redirected_stdin: bool,
    /// The file that is the program's standard input.
    pub(crate) stdin_file: Option<String>,
    /// The content of the program's standard input, if the text determines it.
    pub(crate) stdin_text: Option<String>,
    /// The program's working directory; `.` if the text does not change the directory.
    pub(crate) directory: String,
    /// Whether a wrapper such as `timeout` limits the running time.
    pub(crate) has_timeout: bool,
    /// The unknown program in whose arguments the call was found. Whether the call runs at all is
    /// then a guess.
    pub(crate) unknown_wrapper: Option<String>,
}

/// One argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arg {
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// A construct that is not a call of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Construct {
    /// The text does not parse.
    Unparsable,
    /// The text exceeds the limits of depth or total size.
    TooDeep,
    /// The program's name is known only at run time.
    DynamicName,
    /// A shell or interpreter runs input from a pipe whose content is unknown.
    PipeToShell,
    /// A function that starts itself twice.
    ForkBomb,
    /// `eval` with words from several lines, which `eval` joins to one line.
    EvalLines,
    /// A command that reads the input from which the shell reads the commands after it, or an input
    /// that nothing writes.
    InputTaken,
    /// A read of a named pipe that nothing in the text writes.
    EmptyPipe,
    /// A loop that checks for a process and sleeps.
    ProcessWaiter,
    /// A loop that sleeps, and checks for another condition or has no end.
    Polling,
    /// `&` without a later `wait`.
    SentAway,
}
