//! The order of steps that need each other.

use std::collections::BTreeSet;

use siding_model::text::one_line;

use super::plan::Step;

/// Columns of the steps that are named in an error.
const LIST: usize = 300;

/// Returns the places of the steps, each behind those that it needs and otherwise in their order.
///
/// # Errors
///
/// The places of steps that need each other in a circle, in that order.
pub(super) fn order(steps: &[Step]) -> Result<Vec<usize>, Vec<usize>> {
    let mut order = Vec::with_capacity(steps.len());
    let mut open: Vec<usize> = steps.iter().map(|step| step.needs.len()).collect();
    let mut needed_by = vec![Vec::new(); steps.len()];
    for (at, step) in steps.iter().enumerate() {
        step.needs.iter().for_each(|need| needed_by[*need].push(at));
    }
    let mut free: BTreeSet<usize> = (0..steps.len()).filter(|at| open[*at] == 0).collect();
    while let Some(at) = free.pop_first() {
        order.push(at);
        for &next in &needed_by[at] {
            open[next] -= 1;
            if open[next] == 0 {
                free.insert(next);
            }
        }
    }
    if order.len() == steps.len() {
        return Ok(order);
    }
    // Each that is left needs one that is left: whoever follows them comes by the same one again.
    let mut way: Vec<usize> = Vec::new();
    let mut at = open.iter().position(|count| *count > 0).unwrap_or(0);
    loop {
        if let Some(first) = way.iter().position(|before| *before == at) {
            return Err(way.split_off(first));
        }
        way.push(at);
        let Some(next) = steps[at].needs.iter().find(|need| open[**need] > 0) else {
            return Err(way);
        };
        at = *next;
    }
}

/// Names steps that need each other in a circle.
pub(super) fn circle(steps: &[Step], at: &[usize]) -> String {
    let mut names: Vec<&str> = at.iter().map(|at| steps[*at].id.as_str()).collect();
    names.extend(names.first().copied());
    format!("steps need each other in a circle: {}", one_line(&names.join(" needs "), LIST))
}
