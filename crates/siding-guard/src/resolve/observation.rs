//! The facts about a text that rules can match.

use serde::Deserialize;

use crate::ast::Span;

/// A fact about a text that a rule can match.
#[derive(Debug, Clone)]
pub(crate) enum Observation {
    /// The text runs a program, directly or through wrappers and nested texts.
    Call(Call),
    /// The text sets a variable; `text` has the form `NAME=value`.
    Assignment { text: Arg },
    /// A redirection opens a file for reading. `directory` is the working directory at this point.
    FileRead { from: Arg, directory: String },
    /// A redirection opens a file for writing, and truncates it unless `is_append` is set.
    FileWrite { to: Arg, is_append: bool, directory: String },
    /// The text contains a construct. `detail` is appended to the reason of a matching rule.
    Construct { construct: Construct, span: Span, detail: Option<String> },
}

/// The call of a program, with the circumstances that rules match.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Name of the program without directories.
    pub(crate) program: String,
    pub(crate) args: Vec<Arg>,
    pub(crate) span: Span,
    /// Names of the programs before the call in its pipeline, with the nearest one last.
    pub(crate) upstream: Vec<String>,
    /// Names of the programs that read the output of the call.
    pub(crate) downstream: Vec<String>,
    /// Whether the standard input of the call is a pipe or a file, or may be one because the call
    /// is in a function.
    pub(crate) has_redirected_stdin: bool,
    /// Path of the file that the redirection `<` makes the standard input of the call; `None`
    /// without such a redirection, and for `< <(…)`.
    pub(crate) stdin_file: Option<String>,
    /// The content of the standard input, if the text determines it.
    pub(crate) stdin_text: Option<String>,
    /// The working directory of the call. It is `.` if the text does not change the directory.
    pub(crate) directory: String,
    /// Whether a wrapper such as `timeout` limits the run time of the call.
    pub(crate) has_timeout: bool,
    /// The unknown program in whose arguments the call was found, or the text `code of NAME` if the
    /// call was found in code for the interpreter NAME. In both cases, the guard only guesses that
    /// the call runs.
    pub(crate) unknown_wrapper: Option<String>,
}

/// An argument of a call, with its place in the judged text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Arg {
    pub(crate) text: String,
    pub(crate) span: Span,
}

/// A construct that rules can match, and that is not a call of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Construct {
    /// A part of the text cannot be parsed.
    Unparsable,
    /// The text exceeds the limits of depth, total size, number of commands, or words in braces.
    TooDeep,
    /// The name of a program, or the code for an interpreter, is known only at run time.
    DynamicName,
    /// A shell or interpreter runs unknown content: from a pipe, a process substitution or a
    /// downloaded file.
    PipeToShell,
    /// A command of siding that runs a command line has an option that the guard does not know, so
    /// the command line may start at another word.
    UnknownOption,
    /// A function that starts itself twice, so that its processes multiply.
    ForkBomb,
    /// `eval` with several lines, which `eval` joins with spaces into one line.
    EvalLines,
    /// A command that reads the standard input from which its shell reads the next commands.
    InputTaken,
    /// A read of a named pipe to which nothing in the text writes.
    EmptyPipe,
    /// A loop that waits for the end of a process, which it looks up by name or id.
    ProcessWaiter,
    /// A loop that sleeps or does nothing until another condition holds, or that never ends.
    Polling,
    /// A command with `&` for which the text does not wait.
    SentAway,
}
