//! Orders the steps by their needs, and finds cycles.

use std::collections::BTreeSet;

use siding_model::text::one_line;

use super::WorkflowStep;

/// Maximum width, in columns, of the list of steps in the error message about a cycle.
const CYCLE_COLUMNS: usize = 300;

/// Returns the indexes of the steps, each after its needs and otherwise in the order of the file.
///
/// # Errors
///
/// The indexes of the steps of a cycle, each followed by a step that it needs.
pub(super) fn topological_order(steps: &[WorkflowStep]) -> Result<Vec<usize>, Vec<usize>> {
    let mut order = Vec::with_capacity(steps.len());
    let mut missing_needs: Vec<usize> = steps.iter().map(|step| step.needs.len()).collect();
    let mut needed_by = vec![Vec::new(); steps.len()];
    for (at, step) in steps.iter().enumerate() {
        step.needs.iter().for_each(|need| needed_by[*need].push(at));
    }
    let mut ready: BTreeSet<usize> =
        (0..steps.len()).filter(|at| missing_needs[*at] == 0).collect();
    while let Some(at) = ready.pop_first() {
        order.push(at);
        for &next in &needed_by[at] {
            missing_needs[next] -= 1;
            if missing_needs[next] == 0 {
                ready.insert(next);
            }
        }
    }
    if order.len() == steps.len() {
        return Ok(order);
    }
    // Each remaining step needs a remaining step, so the path along these needs enters a
    // cycle.
    let mut path: Vec<usize> = Vec::new();
    let mut at = missing_needs.iter().position(|count| *count > 0).unwrap_or(0);
    loop {
        if let Some(first) = path.iter().position(|before| *before == at) {
            return Err(path.split_off(first));
        }
        path.push(at);
        let Some(next) = steps[at].needs.iter().find(|need| missing_needs[**need] > 0) else {
            return Err(path);
        };
        at = *next;
    }
}

/// Describes a cycle for an error message.
pub(super) fn describe_cycle(steps: &[WorkflowStep], at: &[usize]) -> String {
    let mut names: Vec<&str> = at.iter().map(|at| steps[*at].id.as_str()).collect();
    names.extend(names.first().copied());
    format!(
        "the needs of these steps form a cycle: {}",
        one_line(&names.join(" needs "), CYCLE_COLUMNS)
    )
}
