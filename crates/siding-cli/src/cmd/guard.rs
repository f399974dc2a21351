//! `siding guard`: checks a command before it runs.

pub(super) mod explain;
mod judgement_text;
pub(super) mod rules;
mod test;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Subcommand;
use siding_guard::{ExecMode, GuardVerdict, judge};
use siding_model::shell_words::join_quoted;

use crate::caller;
use crate::exit;
use crate::failure::Failure;
use crate::guard_rules;
use crate::render::{json, out};

/// Judges a command before it runs: allow, ask or deny, with the rule and the position in the text.
///
/// The text is parsed, not searched. The guard checks every program that the text runs: behind
/// sudo, env, xargs and find, in the scripts of bash -c, eval and ssh, and in what a heredoc or a
/// pipe feeds to a shell. A commit message or a heredoc for cat is data. If the guard cannot follow
/// a text, the verdict is ask.
///
/// The guard is not a sandbox. It catches mistakes, but it does not stop a careful attacker.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "\
Examples:
  siding guard 'git fetch && git clean -fd'
  siding guard --json -- 'curl -fsSL https://example.com/i.sh | sh'
  siding guard --background -- 'tail -f server.log'
  siding guard explain rm-root
  siding guard explain -- 'sudo bash -c \"rm -rf /\"'
  siding guard test my-rules.toml

A single argument is a bash command line; several are a program and its
arguments. Put `--` before a command whose flags are not quoted.
Rules: built-in, /etc/siding/guard.toml, ~/.config/siding/guard.toml, and
.siding/guard.toml of the project, which can only make it stricter.
Exit codes: 0 allow, 20 ask, 21 deny, 125 if siding itself failed."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Judge the command as one that will run in the background: also find programs that never end,
    /// wait for a person, or detach
    #[arg(long)]
    background: bool,
    /// Deny instead of ask, because no person can answer
    #[arg(long, requires = "background")]
    unattended: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Command: one string for the shell, or a program and its arguments
    // Not `trailing_var_arg`: with it, `siding guard 'rm -rf /' --json` would take the flag as a word
    // of the command, and the quoted text as the name of its program.
    #[arg(required = true, value_name = "COMMAND")]
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
        let rules = guard_rules::load_rules()?;
        let judgement = judge(&text, &rules, exec_mode);
        if self.json {
            json::print(&judgement)?;
        } else {
            let is_person = caller::is_person_at_stdout();
            out::print(&judgement_text::format_judgement(&judgement, &rules, is_person))?;
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

/// Returns the shell text of a command: a single argument unchanged, several arguments quoted and
/// joined.
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
        several => join_quoted(several),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use siding_guard::Rules;

    use super::*;
    use crate::cmd::Cli;

    /// Returns all forms of an option, with hidden aliases, and with the value `value`.
    fn option_forms(option: &clap::Arg) -> Vec<String> {
        let aliases = option.get_all_aliases().unwrap_or_default();
        let short_aliases = option.get_all_short_aliases().unwrap_or_default();
        let long = option.get_long().into_iter().chain(aliases).map(|name| format!("--{name}"));
        let short = option.get_short().into_iter().chain(short_aliases);
        let names = long.chain(short.map(|letter| format!("-{letter}")));
        if !option.get_action().takes_values() {
            return names.collect();
        }
        names.flat_map(|name| [format!("{name} value"), format!("{name}=value")]).collect()
    }

    /// If the guard does not know an option, it may take the value for the program, or the program
    /// for the value, and does not judge the command line.
    #[test]
    fn the_guard_knows_every_option_of_the_commands_that_run_a_command_line() {
        let mut cli = Cli::command();
        cli.build();
        let judged = |text: &str| {
            let report = judge(text, &Rules::builtin(), ExecMode::Foreground);
            let found = report.findings.into_iter().map(|finding| finding.rule);
            (report.verdict, found.collect::<Vec<_>>())
        };
        let expected = judged("rm -rf /");
        assert_eq!(expected.0, GuardVerdict::Deny);
        let mut commands = 0;
        for command in cli.get_subcommands() {
            if !command.get_positionals().any(clap::Arg::is_trailing_var_arg_set) {
                continue;
            }
            commands += 1;
            let options = command.get_arguments().filter(|argument| !argument.is_positional());
            for form in options.flat_map(option_forms) {
                let text = format!("siding {} {form} rm -rf /", command.get_name());
                assert_eq!(judged(&text), expected, "{text}");
            }
        }
        assert_eq!(commands, 3, "run, monitor and monitor-mcp");
    }

    #[test]
    fn arguments_are_joined_into_one_quoted_shell_text() {
        let words =
            |all: &[&str]| shell_text(all.iter().map(OsString::from).collect()).expect("UTF-8");
        assert_eq!(words(&["a b"]), "a b");
        assert_eq!(words(&["a", "b c", "it's", ""]), r"a 'b c' 'it'\''s' ''");
    }
}
