//! `siding notices`: prints the notices of a session that the consumer has not acknowledged.

mod ack;
mod failures;
mod notifier;
mod text;
mod webhook;
mod webhook_client;

use std::collections::HashSet;
use std::io::{self, IsTerminal as _};
use std::os::fd::AsFd;
use std::process::ExitCode;

use clap::Subcommand;
use siding_core::notices::{FollowEvent, Outbox, OutboxFollower, PendingNotices};
use siding_core::store::StateDir;
use siding_core::sys::descriptor;
use siding_model::id::{SessionId, TaskId};
use siding_model::notice::{Consumer, NoticeId, NoticeView, format_notice_xml};
use siding_model::text::one_line;
use siding_terminal::show_screens_in_notices;

pub(crate) use notifier::{BellTarget, PersonNotifier};

use crate::caller;
use crate::context::{self, SHIM_PROGRAM};
use crate::exit;
use crate::failure::Failure;
use crate::render::{self, json, out};

/// Prints the notices of a session's tasks: how they ended, and what needs attention.
///
/// Acknowledged notices are not printed again. Reading the final output of a task, waiting for its
/// end, or stopping it acknowledges its notices. At the terminal of a person, the printed notices
/// are acknowledged for the terminal; the session's agent still receives them.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  siding notices                     new notices of this session
  siding notices --all               also those that were acknowledged
  siding notices --xml --ack         for a model; prints each once
  siding notices --json              as a JSON list
  siding notices --follow --ack      as they arrive
  siding notices --follow --ack --notify   also notify me
  siding notices ack b-4k7q0n2m8x5t  acknowledge its notices
  siding notices ack                 acknowledge those printed last

Each consumer has its own acknowledgements: --consumer names one other than the
agent. With --follow, --json prints one object a line."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Session to read (default: $SIDING_SESSION, otherwise the implicit one)
    #[arg(long, value_name = "S")]
    session: Option<SessionId>,
    /// Consumer that reads and acknowledges the notices (default: agent; at the terminal of a
    /// person: terminal)
    #[arg(long, value_name = "NAME")]
    consumer: Option<Consumer>,
    /// Print JSON
    #[arg(long, conflicts_with = "xml")]
    json: bool,
    /// Print one XML element for each notice, for a model
    #[arg(long)]
    xml: bool,
    /// Acknowledge the notices after all of them have been printed (at the terminal of a person:
    /// the default)
    #[arg(long)]
    ack: bool,
    /// Print acknowledged notices as well, and acknowledge none
    #[arg(long, conflicts_with_all = ["ack", "follow"])]
    all: bool,
    /// Continue until Ctrl-C, or until the reader closes the output
    #[arg(short, long)]
    follow: bool,
    /// With --follow: also notify the person by the methods that notify_desktop, notify_bell and
    /// notify_webhook enable; the default consumer is then `person`
    #[arg(long, requires = "follow")]
    notify: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    Ack(ack::Args),
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(Command::Ack(args)) = self.command {
            return args.run();
        }
        let root = context::open_state_dir()?;
        let session = context::resolve_session(self.session.clone())?;
        context::ensure_session_exists(&root, &session)?;
        let notifier = match self.notify {
            true => Some(notifier::PersonNotifier::from_settings(&context::load_settings()?)?),
            false => None,
        };
        // Recovery may record that tasks have ended, and each such record is a new notice.
        let recovered = context::recover_all(&root)?;
        let is_person = caller::is_person_by_settings();
        let at_terminal = is_person && self.is_text() && io::stdout().is_terminal();
        let outbox = self.open_outbox(&root, session, at_terminal)?;
        let marks_read = at_terminal && self.consumer.is_none() && !self.notify && !self.all;
        let acknowledges = self.ack || marks_read;
        let printed_for = match is_person && !acknowledges {
            true => Some(self.open_reader_outbox(&root, outbox.session().clone())?),
            false => None,
        };
        let mut printer = NoticePrinter {
            args: &self,
            root: &root,
            outbox: &outbox,
            at_terminal,
            acknowledges,
            printed_for,
            notifier,
            printed: HashSet::new(),
            unreadable: 0,
        };
        let result = if self.follow { printer.follow() } else { printer.print_once() };
        if let Some(people) = printer.notifier.take() {
            people.finish();
        }
        result?;
        Ok(if recovered && printer.unreadable == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::from(exit::SIDING_FAILED)
        })
    }

    /// Returns whether the notices are printed as text for people.
    const fn is_text(&self) -> bool {
        !self.json && !self.xml
    }

    /// Opens the outbox from which the call reads, for the consumer that was named, otherwise for
    /// the one that receives the output.
    fn open_outbox<'r>(
        &self,
        root: &'r StateDir,
        session: SessionId,
        at_terminal: bool,
    ) -> Result<Outbox<'r>, Failure> {
        let outbox = match &self.consumer {
            Some(consumer) => Outbox::new(root, session, consumer.clone()),
            // A call that notifies a person must not acknowledge notices for the agent.
            None if self.notify => Outbox::new(root, session, Consumer::person()),
            None if at_terminal => Outbox::for_terminal(root, session),
            None => Outbox::new(root, session, Consumer::agent()),
        }?;
        Ok(if self.all { outbox.with_acknowledged() } else { outbox })
    }

    /// Opens the outbox in which a person acknowledges printed notices by `siding notices ack`.
    fn open_reader_outbox<'r>(
        &self,
        root: &'r StateDir,
        session: SessionId,
    ) -> Result<Outbox<'r>, Failure> {
        let consumer = self.consumer.clone().unwrap_or_else(Consumer::terminal);
        Ok(Outbox::new(root, session, consumer)?)
    }
}

/// Prints a session's notices, and acknowledges them if the call requests that or a person reads
/// them at a terminal.
struct NoticePrinter<'a> {
    args: &'a Args,
    root: &'a StateDir,
    outbox: &'a Outbox<'a>,
    /// Whether a person reads the text at a terminal.
    at_terminal: bool,
    acknowledges: bool,
    /// The outbox that records what was printed, for `siding notices ack`; `None` unless a person
    /// runs a call that acknowledges nothing.
    printed_for: Option<Outbox<'a>>,
    notifier: Option<notifier::PersonNotifier>,
    /// Notices that this call has printed and not acknowledged, so that `--follow` prints each only
    /// once.
    printed: HashSet<NoticeId>,
    /// Number of failed attempts to read a task; if there were any, the command fails.
    unreadable: usize,
}

impl NoticePrinter<'_> {
    fn print_once(&mut self) -> Result<(), Failure> {
        let _keeps_alive = self.lock_delivery()?;
        let mut pending = self.outbox.pending()?;
        show_screens_in_notices(self.root, &mut pending.notices);
        let reader = self.deliver(&pending)?;
        if pending.notices.is_empty() {
            self.report_empty();
        } else if self.at_terminal && self.acknowledges && reader == out::ReaderState::Connected {
            render::print_note(
                "the notices above are acknowledged here; `siding notices --all` shows them again",
            );
        }
        Ok(())
    }

    fn report_empty(&self) {
        let session = self.outbox.session();
        if self.args.json {
            return;
        }
        if self.args.all {
            errln!("siding: no notices in session `{session}`");
        } else if self.at_terminal {
            errln!("siding: nothing new in session `{session}`; --all shows earlier notices");
        } else {
            errln!("siding: nothing new in session `{session}`");
        }
    }

    fn follow(&mut self) -> Result<(), Failure> {
        // The follower opens one descriptor for each running task.
        descriptor::raise_open_limit();
        let mut follower = OutboxFollower::new(self.outbox, SHIM_PROGRAM)?;
        let stdout = std::io::stdout();
        let mut tasks: Option<Vec<TaskId>> = None;
        loop {
            let delivery_lock = self.lock_delivery()?;
            let mut pending = match &tasks {
                None => self.outbox.pending()?,
                Some(tasks) => self.outbox.pending_for(tasks)?,
            };
            show_screens_in_notices(self.root, &mut pending.notices);
            let reader = self.deliver(&pending)?;
            drop(delivery_lock);
            follower.schedule_later(&pending);
            if reader == out::ReaderState::Disconnected {
                return Ok(());
            }
            if self.at_terminal && tasks.is_none() {
                render::print_note("waiting for new notices; Ctrl-C ends this call");
            }
            tasks = match follower.next_event(stdout.as_fd())? {
                FollowEvent::TasksChanged(tasks) => Some(tasks),
                FollowEvent::ReaderClosed => return Ok(()),
            };
        }
    }

    /// Acquires the delivery lock if notices will be acknowledged, so that no other process
    /// delivers the same notices.
    fn lock_delivery(&self) -> Result<Option<siding_core::notices::DeliveryLock>, Failure> {
        Ok(if self.acknowledges { Some(self.outbox.lock_delivery()?) } else { None })
    }

    /// Prints the notices that were not printed before. Unless the reader has closed the output,
    /// also notifies the person and acknowledges the notices, each if requested. If the terminal is
    /// gone, the failed write prevents both.
    fn deliver(&mut self, pending: &PendingNotices) -> Result<out::ReaderState, Failure> {
        for (id, error) in &pending.unreadable {
            self.unreadable += 1;
            errln!("siding: task {id}: {}", one_line(&error.to_string(), usize::MAX));
        }
        let new: Vec<&NoticeView> = pending
            .notices
            .iter()
            .filter(|notice| !self.printed.contains(&notice.notice_id))
            .collect();
        let reader = self.print_notices(&new)?;
        if reader == out::ReaderState::Connected {
            if let Some(people) = &mut self.notifier {
                people.notify(&new);
            }
            let ids: Vec<NoticeId> = new.iter().map(|notice| notice.notice_id).collect();
            if self.acknowledges {
                self.outbox.acknowledge(&ids)?;
            } else if !ids.is_empty() {
                self.printed.extend(ids);
                self.record_printed();
            }
        }
        Ok(reader)
    }

    /// Records what was printed, for a later `siding notices ack`. Without the record, the notices
    /// have to be acknowledged by their ids, so a failure is not reported.
    fn record_printed(&self) {
        if let Some(reader) = &self.printed_for {
            let ids: Vec<NoticeId> = self.printed.iter().copied().collect();
            let _best_effort = reader.record_printed(&ids);
        }
    }

    fn print_notices(&self, notices: &[&NoticeView]) -> Result<out::ReaderState, Failure> {
        if self.args.json && !self.args.follow {
            return json::print_to_reader(&notices);
        }
        let mut text = String::new();
        for notice in notices {
            if self.args.json {
                text.push_str(&json::to_line(notice)?);
            } else if self.args.xml {
                text.push_str(&format_notice_xml(notice));
            } else {
                text.push_str(&text::format_notice(notice));
            }
        }
        if text.is_empty() {
            Ok(out::ReaderState::Connected)
        } else if self.args.json || self.args.xml {
            out::print_exact(&text)
        } else {
            out::print(&text)
        }
    }
}
