//! `siding export otlp`: sends each ended task as a span to an OpenTelemetry collector.

use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use siding_core::store::StateDir;
use siding_core::sys::{self, system_info};
use siding_core::upkeep::export::{self, EndWatch, ExportLog};
use siding_model::duration::format_duration;
use siding_model::fnv::Fnv1a;
use siding_model::id::TaskId;
use siding_model::notice::next_retry_delay;
use siding_model::otlp::{self, SpanOptions, TaskSpan, export_request};
use siding_model::text::one_line;

use super::collector::{Collector, SendFailure};
use super::program_name::program_name;
use crate::context;
use crate::exit;
use crate::failure::Failure;
use crate::render::out::{self, ReaderState};

/// Maximum number of spans in one request. A span with many events has about 30 kB, and collectors
/// accept 4 MiB.
const MAX_BATCH_SPANS: usize = 100;
/// Delay before the next attempt if the collector asks for a delay so long that
/// [`next_retry_delay`] returns `None`.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);
/// Maximum width in columns of a message of the collector.
const MESSAGE_COLUMNS: usize = 200;
/// Variable with the endpoint, if no flag gives it.
const ENDPOINT_VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Variable with headers, such as a token.
const HEADERS_VARIABLE: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// Sends each ended task as a span to an OpenTelemetry collector (OTLP over HTTP, as JSON).
///
/// A span has the start, the end and the outcome of its task, and events for the hand-over, stalls,
/// limits and stops. If the task's starter had a TRACEPARENT in its environment, the span is below
/// the starter's span. The command line is not sent unless --command-line is given; the output is
/// never sent.
///
/// A task is recorded as exported after the collector has accepted it. After a crash in between it
/// is sent again, with the same ids. Each endpoint gets all kept tasks once.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding export otlp --endpoint http://localhost:4318
  siding export otlp --endpoint http://localhost:4318 --follow

The first sends the tasks that have ended so far, the second also those that end
later.

OTEL_EXPORTER_OTLP_HEADERS has the headers of the requests, such as a token:
  authorization=Bearer%20TOKEN")]
pub(crate) struct Args {
    /// Address of the collector, to which /v1/traces is added (default:
    /// $OTEL_EXPORTER_OTLP_ENDPOINT)
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Send the tasks that have ended so far, then exit (default)
    #[arg(long, conflicts_with = "follow")]
    once: bool,
    /// Continue, and send each task when it ends; retry while the collector is unreachable
    #[arg(long)]
    follow: bool,
    /// Send the command line as well, which may contain secrets
    #[arg(long)]
    command_line: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let endpoint = self.endpoint.or_else(|| read_variable(ENDPOINT_VARIABLE));
        let Some(endpoint) = endpoint else {
            return Err(Failure::new("no collector is named").with_hint(format!(
                "give `--endpoint http://localhost:4318`, or set {ENDPOINT_VARIABLE}"
            )));
        };
        let headers = read_variable(HEADERS_VARIABLE).unwrap_or_default();
        let headers = otlp::parse_headers(&headers)
            .map_err(|error| Failure::new(format!("{HEADERS_VARIABLE}: {error}")))?;
        let collector = Collector::new(&endpoint, headers)?;
        let root = context::open_state_dir()?;
        // A task whose shim was killed has no end until it is repaired.
        let _logged_by_callee = context::recover_all(&root)?;
        // The address may contain a secret, so only its hash is stored.
        let hash = Fnv1a::default().with_bytes(collector.address.as_bytes()).to_hex();
        let name = format!("otlp-{hash}");
        let Some(log) = ExportLog::open(&root, &name).map_err(Failure::new)? else {
            return Err(Failure::new("another `siding export otlp` sends to this endpoint")
                .with_hint(
                    "each endpoint has one exporter at a time; `--follow` sends everything",
                ));
        };
        let with_command_line = self.command_line;
        let mut exporter = Exporter { root: &root, log, collector, with_command_line };
        if self.follow {
            return exporter.follow();
        }
        match exporter.export_pending() {
            Ok(count) => {
                let _receiver_dropped = out::print(&count.to_string())?;
                Ok(ExitCode::SUCCESS)
            }
            Err(ExportStop::Failure(failure)) => Err(failure),
            Err(ExportStop::Refused { why, .. }) => {
                errln!("siding: the collector did not accept the spans: {why}");
                errln!("  hint: nothing is lost; the next call sends them again");
                Ok(ExitCode::from(exit::INCOMPLETE))
            }
        }
    }
}

fn read_variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Numbers of spans of an export that the collector has accepted and rejected.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct ExportCount {
    accepted: usize,
    rejected: usize,
}

impl fmt::Display for ExportCount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.accepted {
            1 => formatter.write_str("1 span exported")?,
            count => write!(formatter, "{count} spans exported")?,
        }
        match self.rejected {
            0 => writeln!(formatter),
            count => writeln!(formatter, ", {count} left out"),
        }
    }
}

/// The reason why an export ended before all pending tasks were sent.
enum ExportStop {
    /// siding itself failed.
    Failure(Failure),
    /// The collector did not accept the spans.
    Refused {
        why: String,
        /// Whether a later attempt may succeed.
        is_temporary: bool,
        retry_after: Option<Duration>,
    },
}

struct Exporter<'r> {
    root: &'r StateDir,
    log: ExportLog,
    collector: Collector,
    with_command_line: bool,
}

impl Exporter<'_> {
    /// Sends every ended task that the collector has neither accepted nor rejected yet.
    fn export_pending(&mut self) -> Result<ExportCount, ExportStop> {
        let failed = |error| ExportStop::Failure(Failure::new(error));
        let mut count = ExportCount::default();
        let spans = self.log.pending(self.root).map_err(failed)?;
        for batch in spans.chunks(MAX_BATCH_SPANS) {
            stop_at_failpoint("export_sending");
            let accepted = match self.send_batch(batch) {
                // One span may be invalid for this collector, and must not block the others.
                Err(SendFailure::BadRequest { .. }) => {
                    batch.chunks(1).map(|span| self.send_single(span)).sum::<Result<_, _>>()?
                }
                result => result.map_err(stop_export)?,
            };
            count.accepted += accepted;
            count.rejected += batch.len() - accepted;
            stop_at_failpoint("export_accepted");
            let ids: Vec<TaskId> = batch.iter().map(|span| span.state().spec.task_id).collect();
            self.log.record_accepted(&ids).map_err(|error| {
                ExportStop::Failure(Failure::new(format!("could not record the export: {error}")))
            })?;
            stop_at_failpoint("export_recorded");
        }
        Ok(count)
    }

    /// Sends one span of a rejected batch. If the collector rejects this span alone, reports it and
    /// leaves it out. Returns the number of accepted spans.
    fn send_single(&self, span: &[TaskSpan]) -> Result<usize, ExportStop> {
        match self.send_batch(span) {
            Err(SendFailure::BadRequest { why }) => {
                let ids = span.iter().map(|span| span.state().spec.task_id.to_string());
                let ids = ids.collect::<Vec<_>>().join(", ");
                errln!("siding: {ids}: the collector rejects its span, which is left out: {why}");
                Ok(0)
            }
            result => result.map_err(stop_export),
        }
    }

    /// Sends spans in one request. Returns the number of spans that the collector has accepted.
    fn send_batch(&self, batch: &[TaskSpan]) -> Result<usize, SendFailure> {
        let spans: Vec<_> = batch
            .iter()
            .map(|span| {
                let spec = &span.state().spec;
                span.to_json(SpanOptions {
                    program: &program_name(spec.task_id.kind(), &spec.command),
                    with_command_line: self.with_command_line,
                    parent_task: export::parent_context(self.root, span.state()),
                })
            })
            .collect();
        let host_name = system_info::hostname();
        let version = env!("CARGO_PKG_VERSION");
        let answer = self.collector.send(export_request(&spans, version, Some(&host_name)))?;
        if let Some(message) = answer.message {
            let message = one_line(&message, MESSAGE_COLUMNS);
            let rejected = answer.rejected_spans;
            errln!("siding: the collector left out {rejected} spans: {message}");
        }
        Ok(batch.len().saturating_sub(usize::try_from(answer.rejected_spans).unwrap_or(0)))
    }

    /// Sends tasks as they end, until the reader of standard output closes it.
    fn follow(&mut self) -> Result<ExitCode, Failure> {
        let failed = |error| {
            Failure::new(format!("could not watch the state directory: {error}"))
                .with_hint("`--once` from a timer needs no watch")
        };
        let watch = EndWatch::new(self.root).map_err(failed)?;
        let mut failures = 0;
        loop {
            let delay = match self.export_pending() {
                Ok(count) => {
                    failures = 0;
                    if count != ExportCount::default()
                        && out::print(&count.to_string())? == ReaderState::Disconnected
                    {
                        return Ok(ExitCode::SUCCESS);
                    }
                    None
                }
                Err(ExportStop::Failure(failure)) => return Err(failure),
                Err(ExportStop::Refused { why, is_temporary: false, .. }) => {
                    errln!("siding: the collector did not accept the spans: {why}");
                    return Ok(ExitCode::from(exit::INCOMPLETE));
                }
                Err(ExportStop::Refused { why, retry_after, .. }) => {
                    failures += 1;
                    let delay = retry_delay(failures, retry_after);
                    errln!("siding: {why}; next attempt in {}", format_duration(delay));
                    Some(delay)
                }
            };
            match delay {
                None => watch.wait(None).map_err(failed)?,
                Some(delay) => std::thread::sleep(delay),
            }
        }
    }
}

/// Stops this process (SIGSTOP) if `SIDING_PAUSE_AT` names this failpoint, so that a test can kill it
/// there. Has no effect in the shipped program, which lacks the feature.
fn stop_at_failpoint(point: &str) {
    let is_armed = || std::env::var("SIDING_PAUSE_AT").is_ok_and(|wanted| wanted == point);
    if cfg!(feature = "pause-points") && is_armed() {
        sys::signals::stop_self();
    }
}

fn retry_delay(failures: u32, retry_after: Option<Duration>) -> Duration {
    let random = sys::random_u64().unwrap_or(0);
    let delay = next_retry_delay(failures, Duration::ZERO, retry_after, random);
    delay.unwrap_or(MAX_RETRY_DELAY)
}

fn stop_export(failure: SendFailure) -> ExportStop {
    match failure {
        SendFailure::Temporary { why, retry_after } => {
            ExportStop::Refused { why, is_temporary: true, retry_after }
        }
        SendFailure::BadRequest { why } | SendFailure::Permanent { why } => {
            ExportStop::Refused { why, is_temporary: false, retry_after: None }
        }
    }
}
