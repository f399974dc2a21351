//! Requests to a collector, and its answers.

use serde::Deserialize;
use serde_json::{Value, json};

use super::attribute::Attributes;

/// The version of OpenTelemetry's conventions whose names are used.
const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.42.0";

/// Returns the body of a request to `/v1/traces`. `version` is that of siding.
#[must_use]
pub fn export_request(spans: &[Value], version: &str, host_name: Option<&str>) -> String {
    let resource = Attributes::default()
        .text("service.name", "siding")
        .text("service.version", version)
        .optional_text("host.name", host_name);
    json!({
        "resourceSpans": [{
            "resource": { "attributes": resource.into_json() },
            "scopeSpans": [{
                "scope": { "name": "siding", "version": version },
                "spans": spans,
                "schemaUrl": SCHEMA_URL,
            }],
            "schemaUrl": SCHEMA_URL,
        }]
    })
    .to_string()
}

/// The answer of a collector that has accepted a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExportAnswer {
    /// Number of spans that the collector has rejected. They must not be sent again.
    pub rejected_spans: u64,
    /// The reason for the rejection, or a warning; from the collector, so it must be escaped
    /// wherever it is shown.
    pub message: Option<String>,
}

/// Parses the body of a successful answer. A body that is not an answer, such as an empty one, is
/// read as complete acceptance, because the status of the response has already said so.
#[must_use]
pub fn parse_answer(body: &[u8]) -> ExportAnswer {
    #[derive(Deserialize, Default)]
    #[serde(default, rename_all = "camelCase")]
    struct PartialSuccess {
        rejected_spans: Value,
        error_message: String,
    }
    #[derive(Deserialize, Default)]
    #[serde(default, rename_all = "camelCase")]
    struct Answer {
        partial_success: Option<PartialSuccess>,
    }
    let answer: Answer = serde_json::from_slice(body).unwrap_or_default();
    let partial = answer.partial_success.unwrap_or_default();
    // OTLP's JSON encoding writes a 64-bit integer as a string, but some collectors write a number.
    let text = partial.rejected_spans.as_str().map(str::parse);
    let rejected = text.and_then(Result::ok).or(partial.rejected_spans.as_u64()).unwrap_or(0);
    let message = Some(partial.error_message).filter(|message| !message.is_empty());
    ExportAnswer { rejected_spans: rejected, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejected_spans_are_read_in_both_forms() {
        let answer = |body: &str| parse_answer(body.as_bytes());
        for body in ["", "{}", r#"{"partialSuccess":{}}"#, r#"{"partialSuccess":null}"#, "<html>"] {
            assert_eq!(answer(body), ExportAnswer::default(), "{body}");
        }
        for number in ["\"2\"", "2"] {
            let body = format!(
                r#"{{"partialSuccess":{{"rejectedSpans":{number},"errorMessage":"too old"}}}}"#
            );
            let message = Some("too old".to_owned());
            assert_eq!(answer(&body), ExportAnswer { rejected_spans: 2, message });
        }
    }

    #[test]
    fn the_request_names_the_service() {
        let request: Value =
            serde_json::from_str(&export_request(&[json!({})], "1.2", Some("box"))).expect("JSON");
        let resource = &request["resourceSpans"][0]["resource"]["attributes"];
        assert_eq!(resource[0]["key"], "service.name");
        assert_eq!(resource[0]["value"]["stringValue"], "siding");
        assert_eq!(request["resourceSpans"][0]["scopeSpans"][0]["spans"], json!([{}]));
    }
}
