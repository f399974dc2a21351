//! Job arrays of Slurm: several jobs that are submitted with one call of sbatch(1).

use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::id::TaskId;

/// Time without a new element after which an array is submitted although elements are missing, in
/// milliseconds. The tasks of the missing elements may never start.
const MAX_GAP_MS: u64 = 2_000;

/// The place of a job in a job array. A workflow assigns it to the instances of a matrix step that
/// start together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArrayElement {
    /// The workflow whose steps are the jobs.
    pub workflow: TaskId,
    /// Index of the first of these steps in the plan of the workflow.
    pub first_step: usize,
    /// Number of the attempt of the first step. An attempt begins only once, so a resumed workflow
    /// never continues an earlier array.
    pub attempt: u32,
    /// Index of the job in the array, from 0.
    pub index: u32,
    /// Number of jobs for which the array is planned.
    pub count: u32,
}

impl ArrayElement {
    /// Returns the name of the array, which no other array has.
    #[must_use]
    pub fn array_name(&self) -> String {
        format!("{}.{}.{}", self.workflow, self.first_step, self.attempt)
    }

    /// Returns whether the array must be submitted now. `present` is the number of its elements,
    /// and `gap_ms` the time since the last one was added.
    #[must_use]
    pub fn is_array_due(&self, present: usize, gap_ms: u64) -> bool {
        let is_complete = usize::try_from(self.count).is_ok_and(|count| present >= count);
        is_complete || gap_ms >= MAX_GAP_MS
    }
}

/// Returns ascending indexes in the notation of the option `--array` of sbatch(1): `0,2-5`.
#[must_use]
pub fn format_array_indexes(indexes: &[u32]) -> String {
    let runs = indexes.chunk_by(|before, after| before.checked_add(1) == Some(*after));
    let texts = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        rest => rest.iter().map(u32::to_string).collect(),
    });
    texts.collect::<Vec<_>>().join(",")
}

/// Returns the number of an element's job, as squeue(1) prints it: `9_2`.
#[must_use]
pub fn element_job_id(array_job_id: &str, index: impl Display) -> String {
    format!("{array_job_id}_{index}")
}

/// Returns the number of the array to which a job belongs: `9` for `9_2`.
#[must_use]
pub fn array_job_id(job_id: &str) -> &str {
    job_id.split_once('_').map_or(job_id, |(array, _)| array)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::TaskKind;

    fn element(count: u32) -> ArrayElement {
        let workflow = TaskId::from_random(TaskKind::LocalWorkflow, 7 << 12, u64::MAX);
        let workflow = workflow.expect("a valid id");
        ArrayElement { workflow, first_step: 3, attempt: 2, index: 0, count }
    }

    #[test]
    fn an_array_is_due_when_it_is_complete_or_no_element_follows() {
        let element = element(3);
        for (present, gap_ms, is_due) in
            [(1, 0, false), (2, 1_999, false), (3, 0, true), (2, 2_000, true), (4, 0, true)]
        {
            assert_eq!(element.is_array_due(present, gap_ms), is_due, "{present} {gap_ms}");
        }
    }

    #[test]
    fn the_name_of_an_array_contains_the_attempt() {
        let element = element(2);
        let later = ArrayElement { attempt: 3, ..element };
        assert_eq!(element.array_name(), format!("{}.3.2", element.workflow));
        assert_ne!(later.array_name(), element.array_name());
    }

    #[test]
    fn indexes_are_written_as_ranges() {
        for (indexes, text) in [
            (&[0, 2, 3, 4, 5][..], "0,2-5"),
            (&[7], "7"),
            (&[0, 1], "0-1"),
            (&[0, 2, 4], "0,2,4"),
            (&[u32::MAX], "4294967295"),
            (&[], ""),
        ] {
            assert_eq!(format_array_indexes(indexes), text);
        }
    }

    #[test]
    fn the_number_of_an_element_contains_that_of_its_array() {
        assert_eq!(element_job_id("9", 2), "9_2");
        assert_eq!(array_job_id("9_2"), "9");
        assert_eq!(array_job_id("9"), "9");
    }
}
