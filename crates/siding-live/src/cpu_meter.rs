//! Computes rates from the counters of two samples.

use siding_model::process::{MonotonicMs, ProcRef};

/// The counters of the previous sample of a task.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuMeter {
    previous: Option<CounterSample>,
}

/// The counters of a task at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CounterSample {
    pub(crate) at: MonotonicMs,
    /// The shim at that moment. Its CPU time includes that of the processes which it has reaped, so
    /// counters below two different shims cannot be compared.
    pub(crate) shim: ProcRef,
    /// CPU time of the shim and of all processes, with the children that they have reaped, in
    /// milliseconds.
    pub(crate) cpu_ms: u64,
    /// Bytes of output that the task has written.
    pub(crate) output_bytes: u64,
}

/// The rates between two samples; `None` if the counters cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Rates {
    pub(crate) cpu_percent: Option<f64>,
    pub(crate) output_rate: Option<f64>,
}

impl CpuMeter {
    /// Returns the rates since the previous sample, and stores this one in its place.
    pub(crate) fn advance(&mut self, now: CounterSample) -> Rates {
        let previous = self.previous.replace(now);
        let Some(before) = previous.filter(|before| now.at > before.at) else {
            return Rates::default();
        };
        let elapsed_ms = to_float(now.at.ms_since(before.at));
        // A process that leaves the tree takes its CPU time with it, so the sum can shrink.
        let cpu_ms = to_float(now.cpu_ms.saturating_sub(before.cpu_ms));
        let bytes = to_float(now.output_bytes.saturating_sub(before.output_bytes));
        Rates {
            cpu_percent: (now.shim == before.shim).then_some(cpu_ms * 100.0 / elapsed_ms),
            output_rate: Some(bytes * 1_000.0 / elapsed_ms),
        }
    }
}

/// Converts a counter. Above 2^53 the result is rounded, which a rate does not show.
#[expect(clippy::cast_precision_loss, reason = "a rate is shown with few digits")]
const fn to_float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SHIM: ProcRef = ProcRef { pid: 7, start_ticks: 1 };

    fn sample(at: u64, cpu_ms: u64, output_bytes: u64) -> CounterSample {
        CounterSample { at: MonotonicMs(at), shim: SHIM, cpu_ms, output_bytes }
    }

    #[test]
    fn the_first_sample_has_no_rates_and_the_second_does() {
        let mut meter = CpuMeter::default();
        assert_eq!(meter.advance(sample(1_000, 50, 10)), Rates::default());
        let rates = Rates { cpu_percent: Some(200.0), output_rate: Some(5.0) };
        assert_eq!(meter.advance(sample(3_000, 4_050, 20)), rates);
    }

    #[test]
    fn samples_of_the_same_moment_have_no_rates() {
        let mut meter = CpuMeter::default();
        let _first = meter.advance(sample(1_000, 50, 10));
        assert_eq!(meter.advance(sample(1_000, 60, 11)), Rates::default());
    }

    #[test]
    fn counters_below_two_shims_are_not_compared() {
        let mut meter = CpuMeter::default();
        let _first = meter.advance(sample(1_000, 50, 10));
        let shim = ProcRef { pid: 8, start_ticks: 2 };
        let rates = meter.advance(CounterSample { shim, ..sample(2_000, 900, 10) });
        assert_eq!(rates, Rates { cpu_percent: None, output_rate: Some(0.0) });
    }

    proptest! {
        /// Neither a process that leaves the tree nor truncated output makes a rate negative.
        #[test]
        fn rates_are_finite_and_never_negative(
            samples in prop::collection::vec((any::<u32>(), any::<u64>(), any::<u64>()), 1..20),
        ) {
            let mut meter = CpuMeter::default();
            for (at, cpu_ms, bytes) in samples {
                let rates = meter.advance(sample(at.into(), cpu_ms, bytes));
                for rate in [rates.cpu_percent, rates.output_rate].into_iter().flatten() {
                    prop_assert!(rate.is_finite() && rate >= 0.0, "{rate}");
                }
            }
        }
    }
}
