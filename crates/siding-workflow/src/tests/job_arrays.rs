//! Tests the grouping of steps into job arrays.

use siding_model::executor::ArrayElement;

use super::{plan, task};
use crate::StepStart;
use crate::job_arrays::JobArrays;

/// Steps 0 to 2 are instances of one matrix, step 3 has no matrix, and steps 4 and 5 are instances
/// of another matrix.
const MATRICES: &str = r#"
[[step]]
id = "a"
run = "x"
matrix = { n = [0, 1, 2] }
[[step]]
id = "b"
run = "x"
[[step]]
id = "c"
run = "x"
matrix = { n = [0, 1] }
"#;

fn start(step: usize) -> StepStart {
    StepStart { step, attempt: 1 }
}

/// Starts these steps in one round, and returns their places in the job arrays.
fn start_round(arrays: &mut JobArrays, starts: &[StepStart]) -> Vec<Option<ArrayElement>> {
    let plan = plan(MATRICES);
    let left = (0..starts.len()).map(|started| &starts[started..]);
    let places = left.map(|left| arrays.first_element(task(1), &plan, left)).collect();
    arrays.end_round();
    places
}

fn element(first_step: usize, index: u32, count: u32) -> Option<ArrayElement> {
    Some(ArrayElement { workflow: task(1), first_step, attempt: 1, index, count })
}

#[test]
fn instances_that_start_together_form_an_array() {
    let places = start_round(&mut JobArrays::default(), &[0, 1, 2, 3, 4, 5].map(start));
    let expected = [
        element(0, 0, 3),
        element(0, 1, 3),
        element(0, 2, 3),
        None,
        element(4, 0, 2),
        element(4, 1, 2),
    ];
    assert_eq!(places, expected);
}

#[test]
fn an_instance_that_starts_alone_forms_no_array() {
    assert_eq!(start_round(&mut JobArrays::default(), &[1, 3, 4].map(start)), [None; 3]);
}

#[test]
fn elements_that_do_not_start_in_their_round_form_a_new_array() {
    let (mut arrays, plan) = (JobArrays::default(), plan(MATRICES));
    let first = arrays.first_element(task(1), &plan, &[0, 1, 2].map(start));
    assert_eq!(first, element(0, 0, 3));
    arrays.end_round();
    let places = start_round(&mut arrays, &[1, 2].map(start));
    assert_eq!(places, [element(1, 0, 2), element(1, 1, 2)]);
}

#[test]
fn a_later_attempt_is_no_element_of_an_earlier_array() {
    let (mut arrays, plan) = (JobArrays::default(), plan(MATRICES));
    let _started = arrays.first_element(task(1), &plan, &[0, 1, 2].map(start));
    // The first instance failed while the others were being started.
    let again = StepStart { step: 0, attempt: 2 };
    assert_eq!(arrays.first_element(task(1), &plan, &[again, start(1), start(2)]), None);
    let second = arrays.first_element(task(1), &plan, &[1, 2].map(start));
    assert_eq!(second, element(0, 1, 3));
}
