//! Tasks as spans of OpenTelemetry: the JSON encoding of OTLP, and what a collector answers.
//!
//! A span depends only on the journal of its task, so a repeated export sends the same span with the
//! same ids. Attribute names are those of OpenTelemetry's conventions for processes and command
//! lines (version 1.42.0); those that begin with `siding.` have no convention. Because they may
//! contain secrets, a span never contains the output, and the command line only if the caller asks
//! for it.

mod attribute;
mod headers;
mod request;
mod span;

pub use headers::{BadHeaders, parse_headers};
pub use request::{ExportAnswer, export_request, parse_answer};
pub use span::{SpanOptions, TaskSpan, span_context};
