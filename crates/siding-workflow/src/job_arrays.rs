//! Groups the instances of a matrix step that start in the same round, so that a cluster receives
//! them as one job array.
//!
//! The runner starts one step at a time, and decides again after each of them. A round lasts until
//! the runner waits for an event.

use std::collections::BTreeMap;

use siding_model::executor::ArrayElement;
use siding_model::id::TaskId;

use super::plan::Plan;
use super::state::StepStart;

/// The job arrays of the current round.
#[derive(Debug, Default)]
pub(super) struct JobArrays {
    /// The elements that have not started, by the index of their step.
    elements: BTreeMap<usize, ArrayElement>,
}

impl JobArrays {
    /// Returns the place of the first of these steps in a job array. `None` if no other instance of
    /// its matrix starts in this round. The caller starts the step.
    pub(super) fn first_element(
        &mut self,
        workflow: TaskId,
        plan: &Plan,
        starts: &[StepStart],
    ) -> Option<ArrayElement> {
        let first = starts.first()?;
        if let Some(element) = self.elements.remove(&first.step) {
            return Some(element);
        }
        let file_step = |start: &StepStart| plan.steps()[start.step].file_step;
        let is_instance = |start: &&StepStart| {
            file_step(start) == file_step(first) && !self.elements.contains_key(&start.step)
        };
        let instances: Vec<usize> =
            starts.iter().filter(is_instance).map(|start| start.step).collect();
        if instances.len() < 2 {
            return None;
        }
        let (first_step, attempt) = (first.step, first.attempt);
        let count = u32::try_from(instances.len()).ok()?;
        for (index, step) in (0..count).zip(instances) {
            let element = ArrayElement { workflow, first_step, attempt, index, count };
            self.elements.insert(step, element);
        }
        self.elements.remove(&first_step)
    }

    /// Forgets the elements that were not started. Their arrays are submitted without them.
    pub(super) fn end_round(&mut self) {
        self.elements.clear();
    }
}
