//! The processes of a task: the tree, what each of them waits for, and the evidence of the shim.

use std::collections::HashMap;

use maud::{Markup, html};
use siding_core::task::why;
use siding_live::{LiveTask, TreeProcess};
use siding_model::evidence::WhyView;
use siding_model::id::TaskId;
use siding_model::text::one_line;

use super::format;
use super::table::{CellKind, table};
use crate::context::WebContext;
use crate::query::Query;

/// Maximum number of processes on a page.
const MAX_LISTED_PROCESSES: usize = 200;
/// Maximum indent of a process below its parent, in steps of the style sheet.
const MAX_INDENT_STEPS: usize = 8;

const PROCESS_COLUMNS: [(&str, CellKind); 5] = [
    ("Pid", CellKind::Number),
    ("State", CellKind::Text),
    ("CPU time", CellKind::Number),
    ("Command", CellKind::Text),
    ("Waits for", CellKind::Text),
];

/// Returns the tree of the processes, as this program sees them: no shim is asked.
pub(super) fn process_tree(context: &WebContext, task: &LiveTask) -> Markup {
    let place = task.view.process_place();
    let usage = task.usage.as_ref().filter(|_| place.is_none());
    let pids = usage.map_or(&[][..], |usage| usage.pids.as_slice());
    let processes = siding_live::read_process_tree(pids);
    let waits = context.open_task(task.view.task_id);
    let waits = waits.map(|(dir, _)| siding_live::explain_waits(&dir, pids)).unwrap_or_default();
    let hidden = processes.len().saturating_sub(MAX_LISTED_PROCESSES);
    html! {
        h2 #h-processes {
            "Processes"
            @if place.is_none() { " " span.count { (processes.len()) } }
        }
        @if let Some(place) = &place { p.hint { (format::sentence(&one_line(place, 300))) } }
        @if let Some(host) = &task.other_machine {
            p.hint { "The processes run on " (one_line(host, 60)) " and are not visible here." }
        }
        @if let Some(usage) = task.usage.as_ref().filter(|usage| !usage.is_supervised) {
            p.need {
                "The shim of the task does not run, so nothing enforces its deadline ("
                (usage.process_count()) " processes). Any command that names the task, such as " code { "siding show" } ", repairs it."
            }
        }
        @if !processes.is_empty() {
            (table(&PROCESS_COLUMNS,
                processes.iter().take(MAX_LISTED_PROCESSES).map(|one| process_cells(one, &waits))))
        }
        @if hidden > 0 { p.hint { (hidden) " more processes" } }
    }
}

fn process_cells(process: &TreeProcess, waits: &HashMap<i32, String>) -> Vec<Markup> {
    let wait = waits.get(&process.pid).map_or("", String::as_str);
    vec![
        html! { (process.pid) },
        html! { (state_word(process.state)) },
        html! { (format::duration_ms(process.cpu_ms)) },
        html! {
            code class={ "indent-" (process.depth.min(MAX_INDENT_STEPS)) } {
                (one_line(&process.command, 200))
            }
        },
        html! { (one_line(wait, 200)) },
    ]
}

/// Returns a word for a state letter of proc_pid_stat(5).
const fn state_word(state: char) -> &'static str {
    match state {
        'R' => "runs",
        'S' | 'I' => "sleeps",
        'D' => "in the kernel",
        'T' => "stopped",
        't' => "traced",
        'Z' | 'X' => "has exited",
        _ => "other",
    }
}

/// Returns the reason why the task is quiet, or a link that requests this answer, for which the
/// task's shim takes two samples.
pub(super) fn evidence(context: &WebContext, id: TaskId, query: &Query) -> Markup {
    let asked = query.get("evidence").map(|_| why::why_or_outcome(&context.root, id));
    html! {
        @match asked {
            None => p {
                a href={ "/tasks/" (id) "?evidence=1#evidence" } { "What does it wait for?" }
            },
            Some(Err(error)) => p.need #evidence { (format::sentence(&one_line(&error.to_string(), 300))) },
            Some(Ok(why)) => (evidence_chain(&why)),
        }
    }
}

fn evidence_chain(why: &WhyView) -> Markup {
    html! {
        div #evidence {
            h3 { "Evidence: " (why.verdict.phrase_with_certainty(why.waiting_on, why.awaited_input, why.certainty)) }
            p { (format::sentence(&one_line(&why.advice, 400))) }
            p { "Silent for " (format::duration_ms(why.silent_ms)) ", "
                (format!("{:.1}", why.cpu_percent)) "% CPU." }
            @if !why.tail.trim().is_empty() {
                p { "Last line: " code { (one_line(&why.tail, 200)) } }
            }
            ol {
                @for link in &why.chain {
                    li {
                        (link.pid) " " code { (one_line(&link.command, 160)) }
                        @if let Some(wait) = siding_live::describe_wait(link) {
                            ": " (one_line(&wait, 300))
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_indented_below_its_parent() {
        let process = TreeProcess {
            pid: 7,
            parent: 5,
            depth: 30,
            state: 'S',
            cpu_ms: 0,
            command: "<cat>".to_owned(),
        };
        let waits = HashMap::from([(7, "read; the task's standard input".to_owned())]);
        let cells: Vec<String> =
            process_cells(&process, &waits).into_iter().map(Markup::into_string).collect();
        assert_eq!(cells[1], "sleeps");
        assert_eq!(cells[3], "<code class=\"indent-8\">&lt;cat&gt;</code>");
        assert_eq!(cells[4], "read; the task's standard input");
    }
}
