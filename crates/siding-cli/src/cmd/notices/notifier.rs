//! Notifies a person by a desktop notification, the terminal's bell or a webhook. Each of these
//! methods is off unless a setting or the flag `--via` of the hook `notify-person` enables it.

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use siding_core::sys::file;
use siding_model::duration::format_duration;
use siding_model::notice::{NoticeView, Priority};
use siding_model::settings::{Settings, Webhook};
use siding_model::text::{one_line, wrap_words};

use super::webhook;
use crate::failure::Failure;

/// Program that shows notifications (Desktop Notifications Specification of freedesktop.org).
const NOTIFY_SEND_PROGRAM: &str = "notify-send";
/// Maximum width in columns of a notification's title and of each further line. Desktops truncate
/// longer lines.
const NOTIFICATION_COLUMNS: usize = 100;
/// The BEL character, at which a terminal rings its bell.
const BELL_BYTES: &[u8] = b"\x07";
/// Maximum number of lines of a task's text in a notification. The last lines are used, because
/// they contain the result.
const MAX_SUMMARY_LINES: usize = 3;

/// The terminal on which the bell rings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BellTarget {
    Off,
    /// Standard error, if it is a terminal.
    Stderr,
    /// The terminal device with this path.
    Terminal(PathBuf),
}

/// The enabled notification methods.
#[derive(Debug)]
pub(crate) struct PersonNotifier {
    desktop: bool,
    bell: BellTarget,
    server: Option<webhook::WebhookSender>,
}

impl PersonNotifier {
    /// Returns a notifier with the methods that the settings enable, or an error if they enable
    /// none.
    pub(super) fn from_settings(settings: &Settings) -> Result<Self, Failure> {
        let bell = if settings.notify_bell { BellTarget::Stderr } else { BellTarget::Off };
        let people = Self::from_methods(settings.notify_desktop, bell, &settings.notify_webhook)?;
        if !people.desktop && people.bell == BellTarget::Off && people.server.is_none() {
            return Err(Failure::new("--notify: all notification methods are turned off")
                .with_hint(
                    "set notify_desktop, notify_bell or notify_webhook; `siding config show` lists \
                 them",
                ));
        }
        Ok(people)
    }

    /// Returns a notifier with these methods. If the webhook has an address, also starts the thread
    /// that sends to it.
    pub(crate) fn from_methods(
        desktop: bool,
        bell: BellTarget,
        webhook: &Webhook,
    ) -> Result<Self, Failure> {
        Ok(Self { desktop, bell, server: webhook::WebhookSender::start(webhook)? })
    }

    /// Rings the bell once for all notices, and sends each notice by every other enabled method. A
    /// failure to start `notify-send` turns off desktop notifications and does not affect the other
    /// methods.
    pub(crate) fn notify(&mut self, notices: &[&NoticeView]) {
        if notices.is_empty() {
            return;
        }
        ring_bell(&self.bell);
        for notice in notices {
            if let Some(server) = &mut self.server {
                server.send(notice);
            }
            if self.desktop
                && let Err(error) = show_desktop_notification(notice)
            {
                self.desktop = false;
                let why = if error.kind() == ErrorKind::NotFound {
                    "`notify-send` is not installed".to_owned()
                } else {
                    format!("`notify-send`: {error}")
                };
                errln!("siding: no desktop notifications: {why}");
            }
        }
    }

    /// Waits a limited time for the requests to the webhook that are still queued.
    pub(crate) fn finish(self) {
        if let Some(server) = self.server {
            server.finish();
        }
    }
}

/// Rings the bell. The bell is never written to standard output, which a program may read.
fn ring_bell(bell: &BellTarget) {
    let stderr = std::io::stderr();
    let _best_effort = match bell {
        BellTarget::Off => Ok(()),
        BellTarget::Stderr if !stderr.is_terminal() => Ok(()),
        BellTarget::Stderr => stderr.lock().write_all(BELL_BYTES),
        BellTarget::Terminal(path) => write_to_terminal(path, BELL_BYTES),
    };
}

/// Writes to a terminal that is not this process's controlling terminal.
fn write_to_terminal(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    match file::open_terminal(path)? {
        Some(terminal) => file::write(terminal, bytes).map(drop),
        None => Ok(()),
    }
}

fn show_desktop_notification(notice: &NoticeView) -> std::io::Result<()> {
    let what = notice.name.as_ref().unwrap_or(&notice.command);
    let status = notice.status.as_str().replace('_', " ");
    let elapsed = format_duration(Duration::from_millis(notice.elapsed_ms));
    let title = one_line(&format!("{status} after {elapsed}: {what}"), NOTIFICATION_COLUMNS);
    let body = format_body(notice);
    let urgency = match notice.priority {
        Priority::Next => "critical",
        Priority::Later => "normal",
    };
    let mut child = Command::new(NOTIFY_SEND_PROGRAM)
        .args(["--app-name=siding", "--urgency", urgency, "--", &title, &body])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // Another thread waits for `notify-send`, because a desktop that does not answer must not delay
    // the next notice.
    let _best_effort = std::thread::Builder::new().spawn(move || child.wait())?;
    Ok(())
}

/// Returns the lines of a notification below its title. The sentence of siding is complete, because
/// it names the command that a person has to type.
fn format_body(notice: &NoticeView) -> String {
    let (sentence, text) = notice.split_summary();
    let text: Vec<&str> = text.lines().collect();
    let last = &text[text.len().saturating_sub(MAX_SUMMARY_LINES)..];
    let sentence = one_line(sentence, usize::MAX);
    let rows =
        if sentence.is_empty() { Vec::new() } else { wrap_words(&sentence, NOTIFICATION_COLUMNS) };
    let last = last.iter().map(|line| one_line(line, NOTIFICATION_COLUMNS));
    let lines: Vec<String> =
        rows.into_iter().chain(last).map(|line| escape_markup(&line)).collect();
    lines.join("\n")
}

/// Escapes the characters that a desktop may interpret as markup in the body of a notification.
fn escape_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
pub(super) mod tests {
    use siding_model::notice::{NoticeKind, NoticeOutput, NoticeStatus};

    use super::*;

    /// Returns the notice about a task that asks for a secret with a long prompt.
    pub(in crate::cmd::notices) fn notice_about_a_secret() -> NoticeView {
        let sentence = "silent for 2.0s: waits for a password. It asks for a password, which only \
                        the user can enter, with `siding answer b-4k7q0n2m8x5t`; `siding stop \
                        b-4k7q0n2m8x5t` ends the task.";
        NoticeView {
            notice_id: "b-4k7q0n2m8x5t.4".parse().expect("an id"),
            task_id: "b-4k7q0n2m8x5t".parse().expect("an id"),
            session_id: "cli".parse().expect("a session"),
            kind: NoticeKind::Stalled,
            status: NoticeStatus::Stalled,
            priority: Priority::Next,
            at: "2025-11-21T22:41:20.000Z".to_owned(),
            exit_code: None,
            signal: None,
            limit: None,
            name: None,
            command: "deploy".to_owned(),
            elapsed_ms: 2_500,
            output: NoticeOutput { path: "/state/output".to_owned(), bytes: 300 },
            summary: format!("{sentence}\nPassword of {}", "the vault ".repeat(30)),
            evidence: None,
            pipeline_statuses: None,
        }
    }

    #[test]
    fn a_notification_names_the_whole_next_step() {
        let body = format_body(&notice_about_a_secret());
        assert!(body.contains("`siding answer b-4k7q0n2m8x5t`"), "{body}");
        let rows: Vec<&str> = body.lines().collect();
        assert!(rows.iter().all(|row| one_line(row, NOTIFICATION_COLUMNS) == *row), "{body}");
        assert!(rows.last().is_some_and(|row| row.starts_with("Password of")), "{body}");
    }
}
