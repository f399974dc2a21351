//! Tests that siding accepts every command that the documents show.

use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, Parser as _};

use super::Cli;

/// Whether a document shows a complete command.
enum Extent {
    /// A line of a `sh` or `console` block: a complete command.
    Complete,
    /// Code within a sentence, where the command may be incomplete: `siding wait --for`.
    Partial,
}

#[test]
fn siding_accepts_every_command_of_the_documents() {
    let mut mistakes = Vec::new();
    let mut count = 0;
    for path in documents() {
        let text = std::fs::read_to_string(&path).expect("a document");
        for (line, extent, command) in shown_commands(&text) {
            let Some(words) = siding_words(&command) else { continue };
            count += 1;
            let checked = match extent {
                Extent::Complete => check_typed(&words),
                Extent::Partial => check_mentioned(&words),
            };
            if let Err(mistake) = checked {
                mistakes.push(format!("{}:{line}: `{command}`: {mistake}", path.display()));
            }
        }
    }
    assert!(count > 200, "only {count} commands were found");
    assert!(mistakes.is_empty(), "{}", mistakes.join("\n"));
}

/// Returns the Markdown files for users and contributors. The decision records in `docs/adr` are
/// excluded, because they also name commands that were considered and rejected.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let pages = std::fs::read_dir(root.join("docs")).expect("the directory of the pages");
    let pages = pages.map(|entry| entry.expect("readable").path());
    ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"]
        .into_iter()
        .map(|name| root.join(name))
        .chain(pages.filter(|path| path.extension().is_some_and(|ending| ending == "md")))
        .collect()
}

/// Returns each command in a document with the number of the command's first line.
fn shown_commands(text: &str) -> Vec<(usize, Extent, String)> {
    let mut commands = Vec::new();
    let mut block = None;
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            block = block.is_none().then(|| info.split(' ').next().unwrap_or_default());
            continue;
        }
        let typed = match block {
            None => {
                let mentioned = line.split('`').skip(1).step_by(2);
                commands.extend(mentioned.map(|code| (index + 1, Extent::Partial, code.into())));
                continue;
            }
            Some("sh") => line,
            Some("console") => match line.strip_prefix("$ ") {
                Some(typed) => typed,
                None => continue,
            },
            Some(_) => continue,
        };
        let mut typed = typed.to_owned();
        while typed.ends_with('\\') {
            typed.pop();
            typed.push_str(lines.next().expect("the line continues").1);
        }
        commands.push((index + 1, Extent::Complete, typed));
    }
    commands
}

/// Returns the words after `siding` up to the next shell operator. Returns `None` for a call of
/// another program, for a message that starts with `siding` (`siding guard, rule …`), and for an
/// internal command (`siding __proxy`).
fn siding_words(command: &str) -> Option<Vec<String>> {
    let is_assignment = |word: &String| {
        word.split_once('=')
            .is_some_and(|(name, _)| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'))
    };
    let is_operator = |word: &String| ["|", ">", "&&", ";", "&"].contains(&word.as_str());
    let command = command.replace("$PPID", "1");
    let mut words = shlex::split(&command)?.into_iter().skip_while(is_assignment);
    let is_siding = words.next()? == "siding";
    let words: Vec<String> = words.take_while(|word| !is_operator(word)).collect();
    let is_command =
        !words.first().is_some_and(|first| first.ends_with(',') || first.starts_with("__"));
    (is_siding && is_command).then_some(words)
}

/// Checks a complete command with siding's own parser.
fn check_typed(words: &[String]) -> Result<(), String> {
    let program = "siding".to_owned();
    match Cli::try_parse_from(std::iter::once(&program).chain(words)) {
        Ok(_) => Ok(()),
        Err(error) if !error.use_stderr() => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Checks that the subcommands and the long options before `--` exist.
fn check_mentioned(words: &[String]) -> Result<(), String> {
    let mut tree = Cli::command();
    tree.build();
    let mut command = &tree;
    let mut may_descend = true;
    for word in words.iter().take_while(|word| *word != "--") {
        if let Some(option) = word.strip_prefix("--") {
            may_descend = false;
            let name = option.split(['=', '…']).next().unwrap_or_default();
            let mut known =
                command.get_arguments().filter_map(clap::Arg::get_long_and_visible_aliases);
            if !known.any(|names| names.contains(&name)) {
                return Err(format!("no option `--{name}`"));
            }
        } else if may_descend && command.has_subcommands() {
            match command.find_subcommand(word) {
                Some(found) => command = found,
                // `siding guard 'COMMAND'`: an argument in place of a subcommand.
                None if command.get_positionals().next().is_some() => may_descend = false,
                None => return Err(format!("no command `{word}`")),
            }
        } else {
            may_descend = false;
        }
    }
    Ok(())
}
