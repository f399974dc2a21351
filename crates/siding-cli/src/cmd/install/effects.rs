//! Explains in one line each what the parts of an installation do, so that a person need not read
//! the host's JSON.

use crate::cmd::hook;
use crate::install::target::{FileContent, TargetFile};

/// Columns of the name of a part.
const NAME_COLUMNS: usize = 20;

/// Formats one line for each hook, server and other entry that an install adds to these files.
pub(super) fn format_effects(targets: &[TargetFile]) -> String {
    let mut text = String::new();
    for (name, effect) in targets.iter().flat_map(list_effects) {
        text.push_str(&format!("  {name:<NAME_COLUMNS$}{effect}\n"));
    }
    text
}

/// Returns the names of the entries in one file, and what each does.
fn list_effects(target: &TargetFile) -> Vec<(&'static str, &'static str)> {
    const SERVER: (&str, &str) = ("MCP server", "gives the agent tools: run, wait, output, stop …");
    match &target.content {
        FileContent::Json { hooks, server, status_line, .. } => {
            let hooks = hooks
                .iter()
                .filter_map(|entry| Some((entry.event, hook::describe_effect(entry.event_arg)?)));
            let shows_line = status_line.as_ref().is_some_and(|line| line.is_requested);
            hooks
                .chain(server.as_ref().map(|_| SERVER))
                .chain(shows_line.then_some(("statusLine", "shows running tasks below the prompt")))
                .collect()
        }
        FileContent::Toml(_) => {
            vec![SERVER, ("BASH_ENV", "lets siding adopt the commands of the agent's shells")]
        }
        // The script that `BASH_ENV` names.
        FileContent::Owned(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;
    use crate::install::hosts::{BaseDirs, Host, Scope};
    use crate::install::program::{ProgramNames, SidingProgram};
    use crate::stdout::TEXT_COLUMNS;

    #[test]
    fn every_hook_is_explained_in_one_line() {
        let places = BaseDirs { home: "/h".into(), cwd: "/w".into() };
        let names = ProgramNames::with_name(None);
        let program = SidingProgram { path: "/p/siding".to_owned(), on_path: false, names };
        for host in Host::value_variants() {
            let targets = host.targets(&places, Scope::User, &program, None).expect("possible");
            let hook_count: usize = targets
                .iter()
                .map(|target| match &target.content {
                    FileContent::Json { hooks, .. } => hooks.len(),
                    FileContent::Toml(_) | FileContent::Owned(_) => 0,
                })
                .sum();
            let text = format_effects(&targets);
            assert!(text.contains("  MCP server          gives "), "{host:?}: {text}");
            let others = if *host == Host::Codex { 2 } else { 1 };
            assert_eq!(text.lines().count(), hook_count + others, "{host:?}: {text}");
            for line in text.lines() {
                assert!(line.chars().count() <= TEXT_COLUMNS, "{line}");
                assert!(line.as_bytes()[NAME_COLUMNS + 1] == b' ', "a name is too long: {line}");
            }
        }
    }
}
