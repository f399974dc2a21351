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
use siding_model::text::one_line;

use super::webhook;
use crate::failure::Failure;

/// Program that shows notifications (Desktop Notifications Specification of freedesktop.org).
const NOTIFY_SEND_PROGRAM: &str = "notify-send";
/// Maximum width in columns of a notification's title and of each further line. Desktops truncate
/// longer lines.
const NOTIFICATION_COLUMNS: usize = 100;
/// The BEL character, at which a terminal rings its bell.
const BELL_BYTES: &[u8] = b"\x07";
/// Maximum number of summary lines in a notification. They are the last ones, which have the
/// result.
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
    let lines: Vec<&str> = notice.summary.lines().collect();
    let last = &lines[lines.len().saturating_sub(MAX_SUMMARY_LINES)..];
    let body: Vec<String> =
        last.iter().map(|line| escape_markup(&one_line(line, NOTIFICATION_COLUMNS))).collect();
    let urgency = match notice.priority {
        Priority::Next => "critical",
        Priority::Later => "normal",
    };
    let mut child = Command::new(NOTIFY_SEND_PROGRAM)
        .args(["--app-name=siding", "--urgency", urgency, "--", &title, &body.join("\n")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // Another thread waits for `notify-send`, because a desktop that does not answer must not delay
    // the next notice.
    let _best_effort = std::thread::Builder::new().spawn(move || child.wait())?;
    Ok(())
}

/// Escapes the characters that a desktop may interpret as markup in the body of a notification.
fn escape_markup(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
