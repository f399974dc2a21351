//! Suggestions for command lines that siding's parser rejects: words of other tools (`tail -f`,
//! `kill -9`), misspelled commands, and programs that were typed without `run`.

use std::iter;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser as _};
use siding_model::spec::TaskCommand;
use siding_model::text::one_line;
use strsim::osa_distance;

use super::{Cli, parse_duration};
use crate::install::program::find_in_path;

/// Words of another tool, and the siding command line with the same purpose. Words with the same
/// meaning in siding are aliases instead: `ls`, `logs`, `kill`.
struct FamiliarWords {
    /// The first words of the command line.
    typed: &'static str,
    /// The words of siding in their place. If they end with `--`, a command follows.
    replacement: &'static str,
    /// The words after the replacement, if the remaining words of the command line do not fit.
    placeholder: &'static str,
    /// Describes the suggested line.
    effect: &'static str,
}

const fn row(
    typed: &'static str,
    replacement: &'static str,
    placeholder: &'static str,
    effect: &'static str,
) -> FamiliarWords {
    FamiliarWords { typed, replacement, placeholder, effect }
}

/// If several rows have the same words, siding suggests the first one whose replacement accepts the
/// remaining words of the command line.
const FAMILIAR_WORDS: [FamiliarWords; 50] = [
    row("log", "output", "ID", "prints the output of a task"),
    row("cat", "output --all", "ID", "prints the output from its beginning"),
    row("less", "output --all", "ID", "prints the output from its beginning"),
    row("tail -f", "output --follow", "ID", "prints the output until the task ends"),
    row("tail -F", "output --follow", "ID", "prints the output until the task ends"),
    row("tail -n", "output --tail", "10 ID", "prints the last lines of the output"),
    row("tail", "output --tail 10", "ID", "prints the last lines of the output"),
    row("follow", "output --follow", "ID", "prints the output until the task ends"),
    row("fg", "output --follow", "ID", "prints the output until the task ends"),
    row("bg", "run --background --", "COMMAND", "starts a command in the background"),
    row("start", "run --background --", "COMMAND", "starts a command in the background"),
    row("exec", "run --", "COMMAND", "runs a command as a task"),
    row("jobs", "ps", "", "lists the tasks"),
    row("htop", "top", "", "shows the tasks, and acts on them"),
    row("htop", "ps --running", "", "lists the running tasks"),
    row("ps aux", "ps --all", "", "lists every task that is kept"),
    row("ps ax", "ps --all", "", "lists every task that is kept"),
    row("ps -ef", "ps --all", "", "lists every task that is kept"),
    row("ps -e", "ps --all", "", "lists every task that is kept"),
    row("ps -A", "ps --all", "", "lists every task that is kept"),
    row("ls -l", "ps", "", "lists the tasks"),
    row("ls -la", "ps --all", "", "lists every task that is kept"),
    row("ls -al", "ps --all", "", "lists every task that is kept"),
    row("status", "ps", "", "lists the tasks"),
    row("status", "show", "ID", "shows one task"),
    row("inspect", "show", "ID", "shows one task"),
    row("info", "show", "ID", "shows one task"),
    row("describe", "show", "ID", "shows one task"),
    row("stop -a", "stop --all", "", "stops every task"),
    row("kill -a", "stop --all", "", "stops every task"),
    row("kill -9", "stop --grace 0s", "ID", "kills a task immediately"),
    row("kill -KILL", "stop --grace 0s", "ID", "kills a task immediately"),
    row("stop -9", "stop --grace 0s", "ID", "kills a task immediately"),
    row("cancel", "stop", "ID", "stops a task"),
    row("terminate", "stop", "ID", "stops a task"),
    row("pkill", "stop", "ID", "stops a task"),
    row("killall", "stop --all", "", "stops every task"),
    row("restart", "stop", "ID", "stops a task; `siding show ID` shows its command"),
    row("remove", "rm", "ID", "removes an ended task and its output"),
    row("delete", "rm", "ID", "removes an ended task and its output"),
    row("rm --all", "reap", "", "removes tasks that ended 7 days ago"),
    row("rm -a", "reap", "", "removes tasks that ended 7 days ago"),
    row("clean", "reap", "", "removes tasks that ended 7 days ago"),
    row("prune", "reap", "", "removes tasks that ended 7 days ago"),
    row("events", "notices", "", "prints how tasks ended, and what needs attention"),
    row("send", "input", "ID TEXT", "writes to the standard input of a task"),
    row("send-keys", "keys", "ID KEY", "types into the terminal of a task"),
    row("capture-pane", "screen", "ID", "shows the screen of a task with a terminal"),
    row("settings", "config show", "", "shows the settings"),
    row("guard", "guard --", "COMMAND", "judges a command that has flags"),
];

/// Options of sbatch(1) and srun(1) that have a different form in `siding run`, each with that
/// form.
const SLURM_FORMS: [(&str, &str); 4] = [
    ("--partition", PARTITION_TIP),
    ("-p", PARTITION_TIP),
    ("--mem", "`--memory SIZE` requests memory on each node, such as `--memory 8G`"),
    ("--cpus-per-task", "`--cpus N` requests processors"),
];

const PARTITION_TIP: &str =
    "`--on NAME:PARTITION` selects a partition of a Slurm cluster, such as `--on slurm:gpu`";

/// Options of sbatch(1) that `siding run` only passes on.
const SBATCH_OPTIONS: [&str; 10] = [
    "--begin",
    "--constraint",
    "--dependency",
    "--exclusive",
    "--gres",
    "--mail-type",
    "--nodelist",
    "--ntasks",
    "--qos",
    "--reservation",
];

impl FamiliarWords {
    /// Returns the words of the command line after `typed`, or `None` if the line starts
    /// differently.
    fn remaining_words<'w>(&self, words: &'w [String]) -> Option<&'w [String]> {
        let mut remaining = words;
        for typed in self.typed.split(' ') {
            let (first, rest) = remaining.split_first()?;
            if first != typed {
                return None;
            }
            remaining = rest;
        }
        Some(remaining)
    }

    /// Returns the replacement with the remaining words, if siding accepts this line.
    fn complete_line(
        &self,
        remaining: &[String],
        is_program: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let needs_words = !self.placeholder.is_empty() && remaining.is_empty();
        let is_command = || remaining.first().is_some_and(|first| is_program(program_name(first)));
        if needs_words || (self.replacement.ends_with("--") && !is_command()) {
            return None;
        }
        accepted_line(self.replacement, remaining)
    }

    /// Returns the replacement with placeholders.
    fn example_line(&self) -> String {
        format!("siding {} {}", self.replacement, self.placeholder).trim_end().to_owned()
    }

    fn format_tip(&self, line: &str) -> String {
        format!("`{line}` {}", self.effect)
    }
}

/// Replaces the suggestions in the parser's error about this process's arguments.
pub(super) fn add_suggestions(error: clap::Error) -> clap::Error {
    let words = std::env::args_os().skip(1).map(|word| word.into_string().ok());
    match words.collect::<Option<Vec<String>>>() {
        Some(words) => with_suggestions(error, &words, |name| find_in_path(name).is_some()),
        None => error,
    }
}

/// Replaces the suggestions in the parser's error about a command line. `words` excludes the name
/// of the program.
fn with_suggestions(
    mut error: clap::Error,
    words: &[String],
    is_program: impl Fn(&str) -> bool,
) -> clap::Error {
    let first = words.first().cloned().map(ContextValue::String);
    let is_unknown_command =
        first.is_some() && error.get(ContextKind::InvalidSubcommand) == first.as_ref();
    let tips = if is_unknown_command {
        // The parser compares only single words, and also suggests words with little in common.
        error.remove(ContextKind::SuggestedSubcommand);
        error.remove(ContextKind::Suggested);
        tips_for_unknown_command(words, is_program)
    } else if error.kind() == ErrorKind::UnknownArgument {
        let shorter = shorter_deadline_tip(words);
        if takes_no_flag_as_value(words) || shorter.is_some() {
            // The parser suggests writing `--` before the unknown flag.
            error.remove(ContextKind::Suggested);
        }
        shorter
            .or_else(|| port_tip(&error, words))
            .or_else(|| slurm_option_tip(&error, words))
            .or_else(|| familiar_tip(words, is_program))
            .into_iter()
            .collect()
    } else {
        Vec::new()
    };
    if !tips.is_empty() {
        // A tip repeats words of the command line, so `one_line` escapes control characters.
        let tips = tips.iter().map(|tip| StyledStr::from(one_line(tip, usize::MAX))).collect();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// Returns the tips for a command line whose first word is not a command of siding.
fn tips_for_unknown_command(words: &[String], is_program: impl Fn(&str) -> bool) -> Vec<String> {
    let Some((first, rest)) = words.split_first() else { return Vec::new() };
    if let Some(tip) = familiar_tip(words, &is_program) {
        return vec![tip];
    }
    let mut tips = Vec::new();
    if let Some(nearest) = nearest_word(first) {
        let corrected: Vec<String> = iter::once(&nearest).chain(rest).cloned().collect();
        let line = accepted_line(&nearest, rest)
            .or_else(|| accepted_line(&nearest, &["--help".to_owned()]));
        tips.extend(
            familiar_tip(&corrected, &is_program)
                .or_else(|| line.map(|line| format!("did you mean `{line}`?"))),
        );
    }
    if is_program(program_name(first)) {
        let line = accepted_line("run --", words);
        tips.extend(line.map(|line| format!("`{line}` runs this command as a task")));
    }
    tips
}

/// Returns whether a flag cannot be a value of a command line: the values of `siding run` are a
/// program and its arguments, and those of `siding rm` are ids.
fn takes_no_flag_as_value(words: &[String]) -> bool {
    let cli = Cli::command();
    let mut command = &cli;
    for word in words {
        let Some(below) = command.find_subcommand(word) else { break };
        command = below;
    }
    let values: Vec<&clap::Arg> = command.get_positionals().collect();
    let is_id = |value: &clap::Arg| {
        value.get_value_names().is_some_and(|names| names.iter().all(|name| name.as_str() == "ID"))
    };
    values.iter().any(|value| value.is_trailing_var_arg_set())
        || (!values.is_empty() && values.iter().all(|value| is_id(value)))
}

/// Returns the tip for a command line that prints output with the number of lines as a flag, such
/// as `tail -5`.
fn line_count_tip(words: &[String]) -> Option<String> {
    let (first, rest) = words.split_first()?;
    if !["output", "logs", "log", "tail"].contains(&first.as_str()) {
        return None;
    }
    let count = |word: &String| {
        let digits = word.strip_prefix('-')?;
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.to_owned())
    };
    let position = rest.iter().position(|word| count(word).is_some())?;
    let (before, after) = (&rest[..position], &rest[position + 1..]);
    let flag = ["--tail".to_owned(), count(&rest[position])?];
    let remaining: Vec<String> =
        before.iter().cloned().chain(flag).chain(after.iter().cloned()).collect();
    let line = accepted_line("output", &remaining)?;
    Some(format!("`{line}` prints the last lines of the output"))
}

/// Returns the tip for `siding extend` with a negative duration.
fn shorter_deadline_tip(words: &[String]) -> Option<String> {
    let (first, rest) = words.split_first()?;
    let is_negative =
        |word: &String| word.strip_prefix('-').is_some_and(|word| parse_duration(word).is_ok());
    if first != "extend" || !rest.iter().any(is_negative) {
        return None;
    }
    let id = rest.iter().find(|word| !word.starts_with('-')).map_or("ID", String::as_str);
    let line = accepted_line("extend", &[id, "--to", "5m"].map(str::to_owned))?;
    Some(format!("`{line}` sets an earlier deadline, counted from the start of the task"))
}

/// Returns the tip for a server with the option `--port`: its option for an address.
fn port_tip(error: &clap::Error, words: &[String]) -> Option<String> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    let second = words.get(1).map(String::as_str);
    let wanted = match (words.first()?.as_str(), second) {
        ("web", _) | ("a2a", Some("serve")) => "--addr",
        ("mcp", _) => "--http",
        _ => return None,
    };
    if option != "--port" {
        return None;
    }
    let inline = words.iter().find_map(|word| word.strip_prefix("--port="));
    let next = words.iter().skip_while(|word| *word != "--port").nth(1);
    let port = inline.or(next.map(String::as_str)).and_then(|port| port.parse::<u16>().ok());
    Some(format!("`{wanted} 127.0.0.1:{}` listens on a port", port.unwrap_or(7500)))
}

/// Returns the tip for `siding run` with an unsupported option of Slurm.
fn slurm_option_tip(error: &clap::Error, words: &[String]) -> Option<String> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    if words.first().is_none_or(|command| command != "run") {
        return None;
    }
    if let Some((_, tip)) = SLURM_FORMS.iter().find(|(name, _)| name == option) {
        return Some((*tip).to_owned());
    }
    SBATCH_OPTIONS.contains(&option.as_str()).then(|| {
        format!(
            "`--engine-arg={option}` passes it to sbatch, a value as `--engine-arg={option}=VALUE`"
        )
    })
}

/// Returns the tip for a command line that starts with words of another tool.
fn familiar_tip(words: &[String], is_program: impl Fn(&str) -> bool) -> Option<String> {
    if let Some(tip) = line_count_tip(words) {
        return Some(tip);
    }
    let mut example = None;
    for row in &FAMILIAR_WORDS {
        let Some(remaining) = row.remaining_words(words) else { continue };
        if let Some(line) = row.complete_line(remaining, &is_program) {
            return Some(row.format_tip(&line));
        }
        example = example.or_else(|| Some(row.format_tip(&row.example_line())));
    }
    example
}

/// Returns the command, alias or word of another tool that is most similar to `typed`, if at most a
/// third of the letters differ.
fn nearest_word(typed: &str) -> Option<String> {
    let cli = Cli::command();
    let commands = cli.get_subcommands().flat_map(clap::Command::get_name_and_visible_aliases);
    let familiar = FAMILIAR_WORDS.iter().filter_map(|row| row.typed.split(' ').next());
    let (distance, nearest) = commands
        .chain(familiar)
        .chain(iter::once("help"))
        .map(|name| (osa_distance(typed, name), name))
        .min_by_key(|(distance, _)| *distance)?;
    (distance * 3 <= typed.chars().count()).then(|| nearest.to_owned())
}

/// Returns the line `siding COMMAND WORDS` if siding's parser accepts it, quoted for a shell.
fn accepted_line(command: &str, words: &[String]) -> Option<String> {
    let argv: Vec<String> = iter::once("siding")
        .chain(command.split(' '))
        .map(str::to_owned)
        .chain(words.iter().cloned())
        .collect();
    is_accepted(&argv).then(|| TaskCommand::Argv { argv }.display_text())
}

fn is_accepted(argv: &[String]) -> bool {
    // A request for help is an error of the parser that is printed on standard output.
    Cli::try_parse_from(argv).map_or_else(|error| !error.use_stderr(), |_| true)
}

/// Returns the name of the program that a word, or a shell text in one word, starts with.
fn program_name(word: &str) -> &str {
    word.split(' ').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(line: &str) -> Vec<String> {
        shlex::split(line).expect("a line of a shell")
    }

    /// Returns siding's message about a command line after `siding`, on a machine with the programs
    /// `make` and `npm`.
    fn message_about(line: &str) -> String {
        let words = split(line);
        let argv = iter::once("siding".to_owned()).chain(words.iter().cloned());
        let error = Cli::try_parse_from(argv).expect_err("siding rejects the line");
        let is_program = |name: &str| ["make", "npm"].contains(&name);
        with_suggestions(error, &words, is_program).to_string()
    }

    #[test]
    fn siding_accepts_every_suggested_line_and_rejects_the_words_it_replaces() {
        for row in &FAMILIAR_WORDS {
            let argv = split(&row.example_line());
            assert!(is_accepted(&argv), "{}: {}", row.typed, row.example_line());
            let typed = split(&format!("siding {}", row.typed));
            assert!(!is_accepted(&typed), "`{}` is a command of siding", row.typed);
        }
    }

    #[test]
    fn words_of_other_tools_are_answered_with_a_complete_line() {
        for (typed, line) in [
            ("tail -f b-4k", "`siding output --follow b-4k`"),
            ("tail -n 5 b-4k", "`siding output --tail 5 b-4k`"),
            ("tail b-4k", "`siding output --tail 10 b-4k`"),
            ("tail -5 b-4k", "`siding output --tail 5 b-4k`"),
            ("logs -5", "`siding output --tail 5`"),
            ("output -f -20 b-4k", "`siding output -f --tail 20 b-4k`"),
            ("stop -a", "`siding stop --all`"),
            ("fg b-4k", "`siding output --follow b-4k`"),
            ("bg", "`siding run --background -- COMMAND`"),
            ("bg b-4k", "`siding run --background -- COMMAND`"),
            ("start npm run dev", "`siding run --background -- npm run dev`"),
            ("exec 'make -j2'", "`siding run -- 'make -j2'`"),
            ("jobs", "`siding ps`"),
            ("htop", "`siding top`"),
            ("ps aux", "`siding ps --all`"),
            ("ps -ef", "`siding ps --all`"),
            ("ls -la", "`siding ps --all`"),
            ("status", "`siding ps`"),
            ("status b-4k", "`siding show b-4k`"),
            ("kill -9 b-4k", "`siding stop --grace 0s b-4k`"),
            ("cancel", "`siding stop ID`"),
            ("delete b-4k", "`siding rm b-4k`"),
            ("remove", "`siding rm ID`"),
            ("prune", "`siding reap`"),
            ("rm --all", "`siding reap`"),
            ("guard npm publish --force", "`siding guard -- npm publish --force`"),
        ] {
            let message = message_about(typed);
            assert!(message.contains("tip: `siding ") && message.contains(line), "{message}");
        }
    }

    #[test]
    fn an_unknown_flag_before_a_command_line_is_not_suggested_as_its_program() {
        for typed in ["run -x sleep 5", "monitor -x make", "monitor-mcp -5 server", "show --every"]
        {
            let message = message_about(typed);
            assert!(!message.contains("tip: "), "{message}");
        }
        // The text of `input` may be any word.
        let message = message_about("input b-4k -x");
        assert!(message.contains("'-- -x'"), "{message}");
    }

    #[test]
    fn a_negative_extension_is_answered_with_an_earlier_deadline() {
        for typed in ["extend b-4k -5m", "extend -5m b-4k"] {
            let message = message_about(typed);
            assert!(message.contains("`siding extend b-4k --to 5m` sets an earlier"), "{message}");
            assert!(!message.contains("-- -5"), "{message}");
        }
    }

    #[test]
    fn a_port_is_answered_with_the_option_for_an_address() {
        for (typed, option) in [
            ("web --port 8099", "`--addr 127.0.0.1:8099`"),
            ("web --control --port=8099", "`--addr 127.0.0.1:8099`"),
            ("mcp --port x", "`--http 127.0.0.1:7500`"),
        ] {
            let message = message_about(typed);
            assert!(message.contains("tip: ") && message.contains(option), "{message}");
        }
    }

    #[test]
    fn an_option_of_slurm_is_answered_with_the_form_that_siding_has() {
        for (typed, form) in [
            ("run --on slurm --partition gpu -- make", "`--on slurm:gpu`"),
            ("run --on slurm --partition=gpu -- make", "`--on slurm:gpu`"),
            ("run --on slurm -p gpu -- make", "`--on slurm:gpu`"),
            ("run --on slurm --mem=8G -- make", "`--memory SIZE`"),
            ("run --on slurm --qos=high -- make", "`--engine-arg=--qos=VALUE`"),
        ] {
            let message = message_about(typed);
            assert!(message.contains("tip: ") && message.contains(form), "{message}");
        }
        for option in SBATCH_OPTIONS {
            let argument = format!("--engine-arg={option}=x");
            let argv = ["siding", "run", &argument, "--", "make"].map(str::to_owned);
            assert!(is_accepted(&argv), "{option}");
        }
        let message = message_about("stop --partition gpu b-4k");
        assert!(!message.contains("slurm:gpu"), "{message}");
    }

    #[test]
    fn a_typo_is_answered_with_the_intended_line() {
        for (typed, line) in [
            ("runn -- make", "`siding run -- make`"),
            ("sotp b-4k", "`siding stop b-4k`"),
            ("sesion list", "`siding session list`"),
            ("lgos -f b-4k", "`siding logs -f b-4k`"),
            ("extnd", "`siding extend --help`"),
            ("statuss", "`siding ps`"),
            ("taill -f b-4k", "`siding output --follow b-4k`"),
        ] {
            let message = message_about(typed);
            assert!(message.contains(line), "{message}");
            assert_eq!(message.matches("tip: ").count(), 1, "{message}");
        }
        // `make` resembles `man` but is a program; `bogus` resembles no command.
        assert!(!message_about("make").contains("siding man"), "{}", message_about("make"));
        assert!(!message_about("bogus").contains("tip: "));
    }

    #[test]
    fn a_program_without_run_is_answered_with_run() {
        for (typed, line) in [
            ("make -j2 all", "`siding run -- make -j2 all`"),
            ("'npm test'", "`siding run -- 'npm test'`"),
        ] {
            let message = message_about(typed);
            assert!(message.contains(line), "{message}");
        }
    }
}
