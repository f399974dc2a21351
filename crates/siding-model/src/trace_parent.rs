//! The W3C trace context: ids of traces and spans, and the header `traceparent`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::id::TaskId;

/// The id of a trace; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId(u128);

/// The id of a span; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId(u64);

impl TraceId {
    /// Returns the id of the trace of a task without a parent. The same task always has the same id.
    #[must_use]
    pub const fn from_task(task: TaskId) -> Self {
        let bits = task.birthmark().0;
        let high = mix(bits ^ 0x7369_6469_6e67_2d74) as u128;
        // `mix` is a bijection, and its argument differs from that of the span id, so both halves
        // are zero for no more than one of 2^60 tasks.
        Self(high << 64 | (mix(bits) as u128 | 1))
    }
}

impl SpanId {
    /// Returns the id of the span of a task. The same task always has the same id, and no two tasks
    /// have the same one.
    #[must_use]
    pub const fn from_task(task: TaskId) -> Self {
        // A task id is never zero, and `mix` maps only zero to zero.
        Self(mix(task.birthmark().0))
    }
}

/// The finalizer of `MurmurHash3`: a bijection on 64-bit numbers that maps zero to zero. The ids of
/// tasks are random numbers of 60 bits; this distributes them over all 64 bits.
const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let number = (number ^ (number >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ (number >> 33)
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A span and its trace, in the format of the variable `TRACEPARENT` (W3C Trace Context). A task's
/// span is a child of the span in this variable of its starter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TraceParent {
    /// The trace of the starter.
    pub trace_id: TraceId,
    /// The span of the starter.
    pub span_id: SpanId,
    /// The trace flags; the lowest bit means that the starter's span is recorded.
    pub flags: u8,
}

/// The error for a text that is not a trace context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is not a W3C trace context, such as `00-32 digits-16 digits-01`")]
pub struct BadTraceParent;

/// Length of a trace context of version 00, in bytes.
const TRACE_PARENT_BYTES: usize = 55;

impl FromStr for TraceParent {
    type Err = BadTraceParent;

    /// Parses a trace context by the rules of the W3C's recommendation (section 3.2). A newer
    /// version may have further fields, which are dropped.
    fn from_str(text: &str) -> Result<Self, BadTraceParent> {
        let (known, further) = text.split_at_checked(TRACE_PARENT_BYTES).ok_or(BadTraceParent)?;
        let mut fields = known.split('-');
        let mut field = |digits: usize| {
            let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
            let field = fields.next().filter(|field| field.len() == digits);
            let field = field.filter(|field| field.bytes().all(is_hex));
            field.and_then(|field| u128::from_str_radix(field, 16).ok()).ok_or(BadTraceParent)
        };
        let (version, trace, span, flags) = (field(2)?, field(32)?, field(16)?, field(2)?);
        let is_complete = match version {
            0 => further.is_empty(),
            0xff => false,
            _ => further.is_empty() || further.starts_with('-'),
        };
        let (Ok(span), Ok(flags)) = (u64::try_from(span), u8::try_from(flags)) else {
            return Err(BadTraceParent);
        };
        if !is_complete || trace == 0 || span == 0 {
            return Err(BadTraceParent);
        }
        Ok(Self { trace_id: TraceId(trace), span_id: SpanId(span), flags })
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{}-{:02x}", self.trace_id, self.span_id, self.flags)
    }
}

impl From<TraceParent> for String {
    fn from(parent: TraceParent) -> Self {
        parent.to_string()
    }
}

impl TryFrom<String> for TraceParent {
    type Error = BadTraceParent;

    fn try_from(text: String) -> Result<Self, BadTraceParent> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXAMPLE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn the_example_of_the_recommendation_is_parsed() {
        let parent: TraceParent = EXAMPLE.parse().expect("valid");
        assert_eq!(parent.to_string(), EXAMPLE);
        assert_eq!(parent.trace_id.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736");
        let later = EXAMPLE.replacen("00", "cc", 1) + "-what-the-future-will-be-like";
        assert_eq!(later.parse(), Ok(parent));
    }

    #[test]
    fn invalid_contexts_are_rejected() {
        let zero_trace = EXAMPLE.replace("4bf92f3577b34da6a3ce929d0e0e4736", &"0".repeat(32));
        let zero_span = EXAMPLE.replace("00f067aa0ba902b7", &"0".repeat(16));
        for text in [
            "",
            "00",
            &zero_trace,
            &zero_span,
            &EXAMPLE.to_uppercase(),
            &EXAMPLE.replacen("00", "ff", 1),
            &format!("{EXAMPLE}-00"),
            &format!("{EXAMPLE} "),
            &EXAMPLE.replace("4bf9", "+bf9"),
            &EXAMPLE.replace("-01", "-é"),
            &EXAMPLE.replace('-', "_"),
        ] {
            assert_eq!(text.parse::<TraceParent>(), Err(BadTraceParent), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_rejected_or_round_trips(text in "[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}.{0,3}") {
            if let Ok(parent) = text.parse::<TraceParent>() {
                prop_assert_eq!(parent.to_string().parse(), Ok(parent));
                prop_assert_eq!(&parent.to_string()[2..], &text[2..55]);
            }
        }

        #[test]
        fn ids_of_tasks_are_stable_and_distinct(a in TaskId::MIN_BITS..=TaskId::MAX_BITS, b in TaskId::MIN_BITS..=TaskId::MAX_BITS) {
            let task = |bits| TaskId::new(crate::id::TaskKind::LocalBash, bits);
            let (Some(one), Some(other)) = (task(a), task(b)) else { return Ok(()) };
            prop_assert_eq!(SpanId::from_task(one) == SpanId::from_task(other), a == b);
            prop_assert_eq!(TraceId::from_task(one) == TraceId::from_task(other), a == b);
            prop_assert_ne!(SpanId::from_task(one), SpanId(0));
        }
    }
}
