//! Describes in one or two words why a task needs attention. The JSON output has the same facts.

use siding_model::evidence::{AttentionView, WhyVerdict};
use siding_model::task_view::{PhaseName, TaskView};
use siding_model::terminal::AwaitedInput;

/// Returns the most urgent label: needed input or a stopped process, an exceeded limit, silence, or
/// remaining processes of an ended command. Returns `None` for a task that has ended or needs no
/// attention.
pub(crate) fn attention_label(view: &TaskView) -> Option<&'static str> {
    if view.outcome.is_some() {
        return None;
    }
    let attention = view.attention.as_ref();
    let silent = attention.and_then(silence_label);
    let limit = (!view.breaches.is_empty()).then_some("over limit");
    let needs_answer = attention
        .filter(|found| found.verdict.asks_for_input() || found.verdict.needs_action())
        .and(silent);
    let lingering = (view.phase == PhaseName::Lingering).then_some("work left");
    needs_answer.or(limit).or(silent).or(lingering)
}

fn silence_label(attention: &AttentionView) -> Option<&'static str> {
    let awaited = attention.awaited_input;
    match attention.verdict {
        WhyVerdict::InputWait | WhyVerdict::InputLikely => Some(match awaited {
            Some(AwaitedInput::Secret) => "password",
            Some(AwaitedInput::Line | AwaitedInput::Keys) | None => "needs input",
        }),
        WhyVerdict::PasswordLikely => Some("password"),
        WhyVerdict::TtyStopped | WhyVerdict::Stopped => Some("stopped"),
        WhyVerdict::Quiet if awaited == Some(AwaitedInput::Keys) => Some("idle"),
        WhyVerdict::Waiting | WhyVerdict::Busy | WhyVerdict::Quiet | WhyVerdict::Unknown => {
            Some("silent")
        }
        // A server without requests is silent, so its silence needs no attention.
        WhyVerdict::Serving => None,
    }
}

#[cfg(test)]
mod tests {
    use siding_model::outcome::Outcome;

    use super::super::sample::{ended_task, running_task, sample_attention, sample_breach};
    use super::*;

    #[test]
    fn the_awaited_input_decides_whether_a_secret_is_needed_or_nothing() {
        let label = |verdict, awaited| {
            let attention =
                AttentionView { awaited_input: Some(awaited), ..sample_attention(verdict) };
            attention_label(&TaskView { attention: Some(attention), ..running_task() })
        };
        assert_eq!(label(WhyVerdict::InputWait, AwaitedInput::Secret), Some("password"));
        assert_eq!(label(WhyVerdict::InputWait, AwaitedInput::Keys), Some("needs input"));
        assert_eq!(label(WhyVerdict::InputWait, AwaitedInput::Line), Some("needs input"));
        assert_eq!(label(WhyVerdict::Quiet, AwaitedInput::Keys), Some("idle"));
    }

    #[test]
    fn the_most_urgent_label_is_chosen() {
        let mut view = running_task();
        assert_eq!(attention_label(&view), None);
        view.phase = PhaseName::Lingering;
        assert_eq!(attention_label(&view), Some("work left"));
        for (verdict, word) in [
            (WhyVerdict::Waiting, "silent"),
            (WhyVerdict::Busy, "silent"),
            (WhyVerdict::InputWait, "needs input"),
            (WhyVerdict::PasswordLikely, "password"),
            (WhyVerdict::TtyStopped, "stopped"),
        ] {
            view.attention = Some(sample_attention(verdict));
            assert_eq!(attention_label(&view), Some(word));
        }
        view.breaches = vec![sample_breach()];
        assert_eq!(attention_label(&view), Some("stopped"), "it does not continue by itself");
        view.attention = Some(sample_attention(WhyVerdict::Quiet));
        assert_eq!(attention_label(&view), Some("over limit"));
        let over = ended_task(Outcome::Exited { code: 0 });
        assert_eq!(attention_label(&TaskView { breaches: view.breaches, ..over }), None);
    }
}
