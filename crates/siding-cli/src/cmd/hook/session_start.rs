//! A conversation begins, or goes on after it was resumed, cleared or compacted.

use std::fs::OpenOptions;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use siding_core::reap::ReapStep;
use siding_core::session;
use siding_core::sys::descriptor;
use siding_model::id::SessionId;
use siding_model::unowned::ReportAudience;

use super::answer::{AnswerWithAcks, HookAnswer};
use super::conversation::Conversation;
use super::host::HookHost;
use super::notices::escape_xml;
use super::stale_sessions;
use super::{daily_report, reminder, supervision};
use crate::cmd::{reap, shell_init};
use crate::context;
use crate::failure::Failure;

/// What each shell of the host reads first: where a hook finds its name.
const CLAUDE_ENV_FILE_VARIABLE: &str = "CLAUDE_ENV_FILE";
/// Codex's name for it. Codex runs the file once and keeps the variables.
const CODEX_ENV_FILE_VARIABLE: &str = "CODEX_ENV_FILE";

/// Opens the session, clears what earlier ones left, and answers what there is to know.
pub(super) fn answer(
    conversation: &Conversation,
    host: HookHost,
) -> Result<AnswerWithAcks<'_>, Failure> {
    // First, so that what a resumed conversation left is its own again.
    conversation.open_session()?;
    session::record_hooks(&conversation.root, &conversation.session)?;
    write_adoption_line(host, &conversation.session).unwrap_or_else(|failure| {
        failure.report();
    });
    descriptor::raise_open_limit();
    let settings = context::load_settings()?;
    let steps =
        reap::run_for_session_fast(&conversation.root, &settings).unwrap_or_else(|failure| {
            // The session is open all the same.
            failure.report();
            Vec::new()
        });
    let mut text = String::new();
    match supervision::start(conversation, host, &settings) {
        Ok(unkept) => text.extend(unkept),
        // The session is open all the same.
        Err(failure) => drop(failure.report()),
    }
    if let Some(left) = stale_sessions::report_and_close_stale(&conversation.root)? {
        text.push_str(&left);
    }
    let report = reap::report_for_agent(&conversation.root, &settings, &steps);
    text.push_str(report.as_deref().unwrap_or_default());
    if let Some(cleared) = format_cleared(&steps) {
        text.push_str(&format!("siding cleared what earlier crashes left: {cleared}.\n"));
    }
    if let Some(running) = reminder::list_background_tasks(conversation)? {
        text.push_str(&format!("Background tasks of this session that run now:\n{running}"));
    }
    let daily = daily_report::due_report(&conversation.root, &settings);
    if let Some(daily) = &daily {
        text.push_str(&daily.context);
    }
    if text.is_empty() {
        return Ok(HookAnswer::Nothing.into());
    }
    let context = format!("siding reports (automated, not from the user):\n{}", escape_xml(&text));
    let answer = AnswerWithAcks::from(HookAnswer::Context(context))
        .with_person_line(daily.map(|daily| daily.person));
    // The report of foreign orphans counts once the host has it.
    Ok(answer.on_delivered(move || {
        reap::record_report_shown(&conversation.root, &settings, &steps, ReportAudience::Agent);
    }))
}

/// Returns what the reaper did that a conversation wants to know.
fn format_cleared(steps: &[ReapStep]) -> Option<String> {
    // What is told with its conversation, or reported by itself, is no news.
    let is_news = |step: &&ReapStep| {
        !matches!(step, ReapStep::Leaving { .. } | ReapStep::ForeignFound { .. })
    };
    reap::format_summary(&steps.iter().filter(is_news).cloned().collect::<Vec<_>>())
}

/// Lets the host's shells have themselves adopted.
fn write_adoption_line(host: HookHost, session: &SessionId) -> Result<(), Failure> {
    let (name, text) = match host {
        HookHost::ClaudeCode => {
            let program = std::env::current_exe().map_err(|error| {
                Failure::new(format!("could not find siding's own path: {error}"))
            })?;
            (CLAUDE_ENV_FILE_VARIABLE, shell_init::init_script(&program, Some(session))?)
        }
        HookHost::Codex => (CODEX_ENV_FILE_VARIABLE, format!("export SIDING_SESSION={session}\n")),
        HookHost::Gemini => return Ok(()),
    };
    let Some(path) = std::env::var_os(name) else { return Ok(()) };
    append_once(Path::new(&path), &text).map_err(|error| {
        Failure::new(format!("could not write `{}` ({name}): {error}", path.display()))
            .with_hint("commands of this session run as before, without siding")
    })
}

/// Adds a text to a file unless it is in it: a conversation begins anew when it is compacted.
fn append_once(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file =
        OpenOptions::new().read(true).append(true).create(true).mode(0o600).open(path)?;
    let mut before = String::new();
    file.read_to_string(&mut before)?;
    if before.contains(text) {
        return Ok(());
    }
    file.seek(SeekFrom::End(0))?;
    let gap = if before.is_empty() || before.ends_with('\n') { "" } else { "\n" };
    file.write_all(format!("{gap}{text}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn append_once_adds_a_line_once_at_the_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("env");
        append_once(&path, "ours\n").expect("added");
        append_once(&path, "ours\n").expect("there");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "ours\n");
        std::fs::write(&path, "export A=1").expect("a file");
        append_once(&path, "ours\n").expect("added");
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), "export A=1\nours\n");
    }
}
