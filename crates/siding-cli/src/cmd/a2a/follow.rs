//! `siding a2a follow`: the hidden command that runs in a task of the kind `remote_agent`.

use std::path::PathBuf;
use std::process::ExitCode;

use siding_a2a::client::{self, RemoteTask};

use crate::failure::Failure;

/// Name of the hidden subcommand that `siding a2a send` runs in a task.
pub(super) const FOLLOW_COMMAND: &str = siding_model::spec::self_command::FOLLOW_ARG;

/// Sends a message to an A2A server and writes the server's answer to standard output. `siding a2a
/// send` runs this command in a task.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding a2a follow -- http://127.0.0.1:7434 'what fails here?'")]
pub(super) struct Args {
    /// File to send with the message; may be repeated
    #[arg(long, value_name = "FILE")]
    pub(super) file: Vec<PathBuf>,
    /// Conversation that the message belongs to (an A2A contextId)
    #[arg(long, value_name = "ID")]
    pub(super) context: Option<String>,
    /// Remote task that the message answers
    #[arg(long, value_name = "ID")]
    pub(super) task: Option<String>,
    /// Environment variable that holds the server's token
    #[arg(long, value_name = "VAR")]
    pub(super) bearer_env: Option<String>,
    /// URL of the agent or of its card
    pub(super) url: String,
    /// Text of the message
    pub(super) text: String,
}

impl Args {
    /// Returns the command line, without `siding`, that parses to these arguments.
    pub(super) fn to_argv(&self) -> Vec<String> {
        let given = |flag: &str, value: &Option<String>| {
            value.as_ref().map(|value| format!("--{flag}={value}"))
        };
        let files = self.file.iter().map(|file| format!("--file={}", file.display()));
        let mut words = vec!["a2a".to_owned(), FOLLOW_COMMAND.to_owned()];
        words.extend(files);
        words.extend(given("context", &self.context));
        words.extend(given("task", &self.task));
        words.extend(given("bearer-env", &self.bearer_env));
        words.extend(["--".to_owned(), self.url.clone(), self.text.clone()]);
        words
    }

    /// Returns the server's token, or `None` without `--bearer-env`. Fails if the variable is unset
    /// or empty.
    pub(super) fn read_bearer_token(&self) -> Result<Option<String>, Failure> {
        let Some(name) = &self.bearer_env else { return Ok(None) };
        let token = std::env::var(name).unwrap_or_default();
        if token.is_empty() {
            return Err(Failure::new(format!(
                "--bearer-env {name}: the variable is unset or empty"
            ))
            .with_hint("it must hold the server's token"));
        }
        Ok(Some(token))
    }

    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let bearer = self.read_bearer_token()?;
        let remote_task = RemoteTask {
            url: self.url,
            text: self.text,
            files: self.file,
            context: self.context,
            task: self.task,
            bearer,
        };
        let code = client::run_remote_task(&remote_task);
        let code = code.map_err(|error| Failure::new(format!("could not start: {error}")))?;
        Ok(ExitCode::from(code))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct TestParser {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn generated_arguments_parse_back_to_the_same_values() {
        let args = Args {
            file: vec!["-a b".into()],
            context: Some("-c".to_owned()),
            task: Some("t".to_owned()),
            bearer_env: Some("V".to_owned()),
            url: "http://h".to_owned(),
            text: "--text".to_owned(),
        };
        let words = args.to_argv();
        let read = TestParser::try_parse_from(words.iter().skip(1)).expect("understood").args;
        assert_eq!(format!("{read:?}"), format!("{args:?}"));
    }
}
