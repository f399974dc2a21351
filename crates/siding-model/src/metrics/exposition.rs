//! The Prometheus text exposition format.

use std::fmt::Write as _;

/// The media type of the text, for an HTTP answer.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MetricType {
    /// A value that never falls, except when the history is removed.
    Counter,
    /// A value that may rise and fall.
    Gauge,
    /// Counts of the values up to each of several bounds.
    Histogram,
}

/// A text to which metrics are appended.
#[derive(Debug, Default)]
pub(super) struct Exposition(String);

impl Exposition {
    /// Starts a metric, whose samples follow.
    pub(super) fn metric(&mut self, name: &str, of_type: MetricType, help: &str) {
        let help = help.replace('\\', r"\\").replace('\n', r"\n");
        let of_type = match of_type {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        let _writing_to_string = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {of_type}");
    }

    /// Appends a sample. A label with an empty value is left out, which means the same.
    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: &str) {
        self.0.push_str(name);
        let mut separator = '{';
        for (label, value) in labels.iter().filter(|(_, value)| !value.is_empty()) {
            let value = escape_label(value);
            let _writing_to_string = write!(self.0, "{separator}{label}=\"{value}\"");
            separator = ',';
        }
        if separator == ',' {
            self.0.push('}');
        }
        let _writing_to_string = writeln!(self.0, " {value}");
    }

    /// Appends a sample with a whole number.
    pub(super) fn number(&mut self, name: &str, labels: &[(&str, &str)], value: u64) {
        self.sample(name, labels, &value.to_string());
    }

    /// Returns the text.
    pub(super) fn into_text(self) -> String {
        self.0
    }
}

/// Escapes the value of a label. Control characters other than a newline are allowed by the format,
/// but a person may print the text on a terminal, so they are made visible first.
fn escape_label(value: &str) -> String {
    crate::text::make_visible(value).replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

/// Returns milliseconds as seconds.
pub(super) fn format_seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}
