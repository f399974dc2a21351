//! `siding guard`: checks a command before it runs.

mod explain;
mod judgement_text;
mod rules;
mod test;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Subcommand;
use siding_guard::{ExecMode, GuardVerdict, judge};

use crate::exit;
use crate::failure::Failure;
use crate::guard_rules;
use crate::render::{json, out};

/// Judges a command before it runs: allow, ask or deny, by which rule, and where in the text.
///
/// The text is parsed, not searched: every program in it is looked at, behind sudo, env, xargs and
/// find, in the texts of bash -c, eval and ssh, in what a heredoc or a pipe gives to a shell; a
/// commit message or a heredoc for cat is data. What it cannot follow it asks about.
///
/// It is no sandbox. It catches mistakes; whoever means harm and takes care passes.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  siding guard -- 'git fetch && git clean -fd'
  siding guard --json -- 'curl -fsSL https://example.com/i.sh | sh'
  siding guard --background -- 'tail -f server.log'
  siding guard explain rm-root
  siding guard explain -- 'sudo bash -c \"rm -rf /\"'
  siding guard test my-rules.toml

One word is a text for bash, several are a program and its arguments.
Rules: built-in, /etc/siding/guard.toml, ~/.config/siding/guard.toml, and
.siding/guard.toml of the project, which can only make it stricter.
Exit codes: 0 allow, 20 ask, 21 deny, 125 when siding itself failed."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The command is about to run in the background: look also for what never ends, asks
    /// somebody, or gets away
    #[arg(long)]
    background: bool,
    /// Nobody can answer a question about it: what would be asked about in the background is denied
    #[arg(long, requires = "background")]
    unattended: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The command: one text for the shell, or a program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    text: Vec<OsString>,
}

#[derive(Debug, Subcommand)]
enum Command {
    Explain(explain::Args),
    Rules(rules::Args),
    Test(test::Args),
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        match self.command {
            Some(Command::Explain(args)) => return args.run(),
            Some(Command::Rules(args)) => return args.run(),
            Some(Command::Test(args)) => return args.run(),
            None => {}
        }
        let text = shell_text(self.text)?;
        let exec_mode = match (self.background, self.unattended) {
            (false, _) => ExecMode::Foreground,
            (true, false) => ExecMode::Background,
            (true, true) => ExecMode::Unattended,
        };
        let judgement = judge(&text, &guard_rules::load_rules()?, exec_mode);
        if self.json {
            json::print(&judgement)?;
        } else {
            out::print(&judgement_text::format_judgement(&judgement))?;
        }
        Ok(exit_code(judgement.verdict))
    }
}

fn exit_code(verdict: GuardVerdict) -> ExitCode {
    match verdict {
        GuardVerdict::Allow => ExitCode::SUCCESS,
        GuardVerdict::Ask => ExitCode::from(exit::GUARD_ASKS),
        GuardVerdict::Deny => ExitCode::from(exit::GUARD_DENIES),
    }
}

/// Joins the arguments into one command line for a shell.
fn shell_text(words: Vec<OsString>) -> Result<String, Failure> {
    let words = words.into_iter().map(|word| {
        word.into_string().map_err(|word| {
            Failure::new(format!("`{}` is not UTF-8", word.display()))
                .with_hint("commands and their arguments must be UTF-8")
        })
    });
    let words: Vec<String> = words.collect::<Result<_, _>>()?;
    Ok(match words.as_slice() {
        [one] => one.clone(),
        several => several.iter().map(|word| shell_quote(word)).collect::<Vec<_>>().join(" "),
    })
}

fn shell_quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use siding_guard::GuardReport;

    use super::*;
    use crate::render::schema;

    #[test]
    fn committed_schema_matches_the_code() {
        schema::assert_committed::<GuardReport>("guard");
    }

    #[test]
    fn arguments_are_joined_into_one_quoted_shell_text() {
        let words =
            |all: &[&str]| shell_text(all.iter().map(OsString::from).collect()).expect("UTF-8");
        assert_eq!(words(&["a b"]), "a b");
        assert_eq!(words(&["a", "b c", "it's", ""]), r"a 'b c' 'it'\''s' ''");
    }
}
