//! The values that completions offer and that only the state directory and the settings know: tasks
//! with their commands, sessions, executors and the names of settings.

use clap::builder::StyledStr;
use clap::{Arg, Command};
use clap_complete::engine::{ArgValueCandidates, CompletionCandidate};
use siding_core::session;
use siding_core::store::StateDir;
use siding_core::task::listing;
use siding_model::executor::LOCAL_EXECUTOR;
use siding_model::id::TaskId;
use siding_model::settings::{Executors, Key};
use siding_model::task_view::TaskView;
use siding_model::text::one_line;

use crate::context;

/// Maximum number of ended tasks that are offered.
const MAX_ENDED_TASKS: usize = 20;
/// Maximum number of sessions that are offered.
const MAX_SESSIONS: usize = 50;
/// Maximum width of the description of a candidate, in columns.
const DESCRIPTION_COLUMNS: usize = 50;
/// The tag of candidates whose description distinguishes them, because the value alone says little.
pub(super) const DESCRIBED_TAG: &str = "described";

/// The values of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    /// Running tasks, then those that ended last.
    Tasks,
    RunningTasks,
    EndedTasks,
    Sessions,
    SettingKeys,
    Executors,
}

impl ValueKind {
    /// Returns the kind of an argument's values; `None` if clap knows the values, or if they are
    /// arbitrary.
    fn of_argument(command: &str, arg: &Arg) -> Option<Self> {
        let value_name = arg.get_value_names().and_then(|names| names.first())?.as_str();
        match (command, arg.get_id().as_str(), value_name) {
            (
                "stop" | "extend" | "input" | "release" | "keys" | "attach" | "answer",
                "id" | "ids",
                "ID",
            ) => Some(Self::RunningTasks),
            (
                "output" | "show" | "wait" | "why" | "resume" | "ack" | "screen" | "record",
                "id" | "ids",
                "ID",
            ) => Some(Self::Tasks),
            // Keys of a terminal.
            ("keys", "keys", "KEY") => None,
            ("rm", "ids", "ID") => Some(Self::EndedTasks),
            ("show", "what", "ID|FILE") => Some(Self::Tasks),
            ("close", "id", "ID") | (_, "session", _) | ("agent", "resume", _) => {
                Some(Self::Sessions)
            }
            (_, "key" | "keys", "KEY") => Some(Self::SettingKeys),
            ("executors", "names", "NAME") | (_, "on", "EXECUTOR") => Some(Self::Executors),
            _ => None,
        }
    }

    fn candidates(self) -> Vec<CompletionCandidate> {
        match self {
            Self::Tasks => from_state(|root| task_candidates(root, MAX_ENDED_TASKS, |_| true)),
            Self::RunningTasks => from_state(|root| task_candidates(root, 0, |_| true)),
            Self::EndedTasks => from_state(|root| {
                task_candidates(root, MAX_ENDED_TASKS, |view| view.outcome.is_some())
            }),
            Self::Sessions => from_state(session_candidates),
            Self::SettingKeys => {
                Key::ALL.iter().map(|key| describe(key.name(), key.about())).collect()
            }
            Self::Executors => executor_candidates(&context::load_valid_settings().executor),
        }
    }
}

/// Returns the candidates that the state directory determines. Without a state directory there is
/// nothing to offer, and a completion prints no error.
fn from_state(
    candidates: impl FnOnce(&StateDir) -> Vec<CompletionCandidate>,
) -> Vec<CompletionCandidate> {
    context::open_state_dir().map(|root| candidates(&root)).unwrap_or_default()
}

/// Adds the values to the arguments of a command and of its subcommands. The parser of the program
/// does not need them.
pub(super) fn add_values(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let command = command.mut_args(|arg| match ValueKind::of_argument(&name, &arg) {
        Some(kind) => arg.add(ArgValueCandidates::new(move || kind.candidates())),
        None => arg,
    });
    command.mut_subcommands(add_values)
}

fn describe(value: &str, description: &str) -> CompletionCandidate {
    let description = one_line(description, DESCRIPTION_COLUMNS);
    CompletionCandidate::new(value).help(Some(StyledStr::from(description)))
}

/// Returns the names and ids of the running tasks and of up to `max_ended` other tasks, the most
/// recent first, with the tasks' commands as descriptions. Omits the tasks for which `is_wanted`
/// returns false.
fn task_candidates(
    root: &StateDir,
    max_ended: usize,
    is_wanted: impl Fn(&TaskView) -> bool,
) -> Vec<CompletionCandidate> {
    let live = root.live_tasks().unwrap_or_default();
    let mut ids = if max_ended == 0 { Vec::new() } else { root.all_tasks().unwrap_or_default() };
    ids = listing::most_recent(root, ids, max_ended + live.len());
    ids.extend(live);
    ids.sort_unstable();
    ids.dedup();
    let listed = listing::read_views(root, &ids, |view| view).unwrap_or_default();
    let mut views: Vec<TaskView> =
        listed.into_iter().filter_map(|(_, view)| view.ok().flatten()).collect();
    views.retain(|view| max_ended > 0 || view.outcome.is_none());
    views.sort_by(|one, other| {
        (one.outcome.is_some(), &other.started_at).cmp(&(other.outcome.is_some(), &one.started_at))
    });
    let ended_from = views.iter().take_while(|view| view.outcome.is_none()).count();
    views.truncate(ended_from + max_ended);
    views.iter().filter(|view| is_wanted(view)).flat_map(candidates_of_task).collect()
}

fn candidates_of_task(view: &TaskView) -> Vec<CompletionCandidate> {
    let state = match &view.outcome {
        Some(outcome) => outcome.short_text(),
        None => view.live_state().to_owned(),
    };
    let description = format!("{state}: {}", view.command);
    let candidate =
        |value: &str| describe(value, &description).tag(Some(StyledStr::from(DESCRIBED_TAG)));
    let id: TaskId = view.task_id;
    let name = view.name.as_deref().filter(|name| is_plain_word(name));
    name.into_iter().map(candidate).chain([candidate(&id.to_string())]).collect()
}

/// Returns whether a shell reads a word unchanged, so that the word needs no quotes.
fn is_plain_word(word: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | '@');
    !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain)
}

/// Returns the sessions that were opened last, those that are not ended first.
fn session_candidates(root: &StateDir) -> Vec<CompletionCandidate> {
    let mut sessions = session::list_sessions(root).unwrap_or_default();
    sessions.sort_by_key(|session| std::cmp::Reverse(session.opened_at));
    sessions.truncate(MAX_SESSIONS);
    let Ok(boot) = context::boot_id() else { return Vec::new() };
    let is_ended = |id| session::is_ended(root, id, &boot);
    let mut listed: Vec<(bool, String)> =
        sessions.iter().map(|session| (is_ended(&session.id), session.id.to_string())).collect();
    listed.sort_by_key(|(is_ended, _)| *is_ended);
    let candidate = |(is_ended, id): &(bool, String)| {
        describe(id, if *is_ended { "ended" } else { "open" })
            .tag(Some(StyledStr::from(DESCRIBED_TAG)))
    };
    listed.iter().map(candidate).collect()
}

/// Returns this machine and the executors of the settings, with their destinations.
fn executor_candidates(executors: &Executors) -> Vec<CompletionCandidate> {
    let remote = executors.iter().map(|(name, executor)| {
        describe(name, executor.host.as_deref().unwrap_or("Slurm on this machine"))
    });
    std::iter::once(describe(LOCAL_EXECUTOR, "this machine")).chain(remote).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn list_kinds(command: &Command, path: &str, kinds: &mut Vec<(String, ValueKind)>) {
        for arg in command.get_arguments() {
            if let Some(kind) = ValueKind::of_argument(command.get_name(), arg) {
                kinds.push((format!("{path} {}", arg.get_id()), kind));
            }
        }
        for subcommand in command.get_subcommands() {
            list_kinds(subcommand, &format!("{path} {}", subcommand.get_name()), kinds);
        }
    }

    #[test]
    fn ids_sessions_and_settings_have_values() {
        let mut kinds = Vec::new();
        list_kinds(&crate::cmd::Cli::command(), "siding", &mut kinds);
        let with_kind = |kind| {
            let paths = kinds.iter().filter(move |(_, other)| *other == kind);
            paths.map(|(path, _)| path.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(
            with_kind(ValueKind::Tasks),
            [
                "siding show ids",
                "siding output id",
                "siding wait ids",
                "siding why id",
                "siding notices ack ids",
                "siding screen id",
                "siding record id",
                "siding workflow resume id",
                "siding workflow show what",
            ]
        );
        assert_eq!(
            with_kind(ValueKind::RunningTasks),
            [
                "siding input id",
                "siding keys id",
                "siding attach id",
                "siding answer id",
                "siding stop ids",
                "siding extend id",
                "siding release id",
            ]
        );
        assert_eq!(with_kind(ValueKind::EndedTasks), ["siding rm ids"]);
        assert_eq!(
            with_kind(ValueKind::SettingKeys),
            [
                "siding config show keys",
                "siding config get key",
                "siding config set key",
                "siding config unset key",
                "siding config edit key"
            ]
        );
        assert_eq!(
            with_kind(ValueKind::Executors),
            [
                "siding run on",
                "siding ps on",
                "siding show on",
                "siding output on",
                "siding wait on",
                "siding stop on",
                "siding executors names"
            ]
        );
        for path in ["run session", "ps session", "session close id", "agent resume"] {
            let path = format!("siding {path}");
            assert!(with_kind(ValueKind::Sessions).contains(&path.as_str()), "{path}");
        }
        assert!(!kinds.iter().any(|(path, _)| path == "siding session open id"));
    }

    #[test]
    fn only_words_without_quotes_are_offered() {
        assert!(is_plain_word("web-1.2"));
        for word in ["", "-x", "a b", "$(id)", "a'b", "a\nb", "a;b"] {
            assert!(!is_plain_word(word), "{word}");
        }
    }
}
