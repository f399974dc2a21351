//! The pages of the workflows: a list with their states, and the graph and the steps of one.

use maud::{Markup, PreEscaped, html};
use siding_core::sys::clock;
use siding_live::LiveTask;
use siding_model::id::{TaskId, TaskKind};
use siding_model::process::UnixMs;
use siding_model::text::one_line;
use siding_workflow::{
    LoadedWorkflow, RunState, StepStatus, StepView, WorkflowView, read_journal, render_svg,
};

use super::chrome::{NavItem, Page};
use super::format;
use super::table::{CellKind, table};
use crate::context::WebContext;

/// Maximum number of workflows on the page.
const MAX_LISTED_WORKFLOWS: usize = 50;

const WORKFLOW_COLUMNS: [(&str, CellKind); 5] = [
    ("Workflow", CellKind::Text),
    ("State", CellKind::Text),
    ("Steps", CellKind::Number),
    ("Took", CellKind::Number),
    ("Started", CellKind::Text),
];

const STEP_COLUMNS: [(&str, CellKind); 6] = [
    ("Step", CellKind::Text),
    ("State", CellKind::Text),
    ("Needs", CellKind::Text),
    ("Attempt", CellKind::Number),
    ("Took", CellKind::Number),
    ("Task", CellKind::Text),
];

/// Returns the page of all workflows, the running ones first.
pub(super) fn workflows_page(context: &WebContext) -> Page {
    let workflows: Vec<WorkflowView> = workflow_tasks(context)
        .into_iter()
        .filter_map(|id| read_journal(&context.root, id).ok())
        .take(MAX_LISTED_WORKFLOWS)
        .map(|workflow| workflow_view(context, &workflow))
        .collect();
    let is_running = workflows.iter().any(|view| view.state == RunState::Running);
    let content = html! {
        h1 { "Workflows" }
        div data-live="workflows" data-refresh[is_running] {
            @if workflows.is_empty() {
                p.hint { "There is no workflow. " code { "siding workflow run FILE" } " starts one." }
            } @else {
                (table(&WORKFLOW_COLUMNS, workflows.iter().map(workflow_cells)))
            }
        }
    };
    Page::new(NavItem::Workflows, "Workflows", content)
}

/// Returns the page of a workflow, identified by the task that started it or by one that resumed
/// it; `None` if there is no such workflow.
pub(super) fn workflow_page(context: &WebContext, id: TaskId) -> Option<Page> {
    let workflow = read_journal(&context.root, id).ok().or_else(|| find_resumed(context, id))?;
    let view = workflow_view(context, &workflow);
    let name = view.name.as_deref().unwrap_or(&view.file);
    let content = html! {
        h1 { (one_line(name, 120)) }
        div data-live="workflow" data-refresh[view.state == RunState::Running] {
            p.line {
                (state_badge(view.state.as_str(), run_class(view.state)))
                @if let Some(ms) = view.elapsed_ms { span { (format::duration_ms(ms)) } }
                code { (one_line(&view.file, 200)) }
            }
            @if let Some(text) = next_step(&view) { p.need { (format::sentence(&text)) } }
            // siding-workflow draws the picture and escapes the text of the file.
            div.wide role="region" aria-label="Graph of the steps" tabindex="0" {
                (PreEscaped(render_svg(&view)))
            }
            h2 { "Steps " span.count { (view.steps.len()) } }
            (table(&STEP_COLUMNS, view.steps.iter().map(step_cells)))
            h2 { "Tasks of the workflow " span.count { (view.tasks.len()) } }
            ul { @for task in &view.tasks { li { a href={ "/tasks/" (task) } { (task) } } } }
        }
    };
    Some(Page::new(NavItem::Workflows, &one_line(name, 60), content))
}

fn workflow_tasks(context: &WebContext) -> Vec<TaskId> {
    context.feed.read_fresh(|view| {
        let ids = view.tasks().map(|task| task.view.task_id);
        ids.filter(|id| id.kind() == TaskKind::LocalWorkflow).collect()
    })
}

/// Returns the workflow that a later task has resumed. Its journal is in the session of its first
/// task.
fn find_resumed(context: &WebContext, id: TaskId) -> Option<LoadedWorkflow> {
    if id.kind() != TaskKind::LocalWorkflow {
        return None;
    }
    let mut workflows = workflow_tasks(context)
        .into_iter()
        .filter_map(|first| read_journal(&context.root, first).ok());
    workflows.find(|workflow| workflow.tasks.contains(&id))
}

fn workflow_view(context: &WebContext, workflow: &LoadedWorkflow) -> WorkflowView {
    let newest = workflow.tasks.last();
    let is_running = context
        .feed
        .read(|view| newest.and_then(|id| view.task(*id)).is_some_and(LiveTask::is_live));
    let mut view = WorkflowView::from_workflow(workflow, is_running, clock::unix_now());
    view.add_queued_steps(&context.root);
    view
}

fn workflow_cells(view: &WorkflowView) -> Vec<Markup> {
    let name = view.name.as_deref().unwrap_or(&view.file);
    let finished = view.steps.iter().filter(|step| step.state.is_finished()).count();
    let started = view.started_at.as_deref().and_then(UnixMs::from_rfc3339);
    vec![
        html! {
            @if let Some(id) = view.workflow_id {
                a href={ "/workflows/" (id) } { (one_line(name, 120)) }
            } @else { (one_line(name, 120)) }
            " " span.hint { (one_line(&view.file, 120)) }
        },
        state_badge(view.state.as_str(), run_class(view.state)),
        html! { (finished) " of " (view.steps.len()) },
        html! { (view.elapsed_ms.map_or_else(|| "-".to_owned(), format::duration_ms)) },
        started.map_or_else(|| html! { "-" }, format::time_element),
    ]
}

fn step_cells(step: &StepView) -> Vec<Markup> {
    vec![
        html! {
            (one_line(&step.id, 120))
            @if let Some(queued) = &step.queued {
                " " span.hint { (one_line(&queued.describe(None), 200)) }
            }
            @if let Some(why) = &step.why { " " span.need { (format::sentence(&one_line(why, 200))) } }
        },
        state_badge(&step.state_text(), step_class(step.state)),
        html! { (one_line(&step.needs.join(", "), 200)) },
        html! { (step.attempt) " of " (step.attempts.max(step.attempt)) },
        html! { (step.elapsed_ms.map_or_else(|| "-".to_owned(), format::duration_ms)) },
        html! {
            @match step.task_id {
                Some(id) => a href={ "/tasks/" (id) } { (id) },
                None => { "-" },
            }
        },
    ]
}

fn state_badge(word: &str, class: &str) -> Markup {
    html! { span.state data-state=(class) { (word) } }
}

/// Returns the state whose color the style sheet uses.
const fn run_class(state: RunState) -> &'static str {
    match state {
        RunState::Running => "running",
        RunState::Ok => "succeeded",
        RunState::Failed => "failed",
        RunState::Interrupted | RunState::Stopped => "stopping",
        RunState::Planned => "planned",
    }
}

const fn step_class(state: StepStatus) -> &'static str {
    match state {
        StepStatus::Running => "running",
        StepStatus::Ok => "succeeded",
        StepStatus::Failed => "failed",
        StepStatus::Stopped => "stopping",
        StepStatus::Waiting | StepStatus::Skipped | StepStatus::NotRun => "waiting",
    }
}

/// Returns a sentence for a workflow that a person can continue.
fn next_step(view: &WorkflowView) -> Option<String> {
    let id = view.workflow_id?;
    match view.state {
        RunState::Interrupted => Some(format!(
            "The process of the workflow has ended, and its steps are stopped; `siding workflow resume {id}` continues it."
        )),
        RunState::Stopped => Some(format!("`siding workflow resume {id}` continues it.")),
        RunState::Running | RunState::Ok | RunState::Failed | RunState::Planned => None,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use siding_workflow::Plan;

    use super::*;

    const FILE: &str = "name = \"<b>build</b>\"\n[[step]]\nid = \"compile\"\nrun = \"true\"\n\
        [[step]]\nid = \"test\"\nneeds = [\"compile\"]\nrun = \"true\"\n";

    #[test]
    fn a_workflow_is_listed_with_escaped_names() {
        let path = Path::new("flow.toml");
        let plan = Plan::parse(path, FILE).expect("a workflow");
        let view = WorkflowView::from_plan(path, &plan);
        let cells: Vec<String> =
            workflow_cells(&view).into_iter().map(Markup::into_string).collect();
        assert!(cells[0].contains("&lt;b&gt;build&lt;/b&gt;"), "{}", cells[0]);
        assert!(cells[2].starts_with("0 of 2"), "{}", cells[2]);
        let steps: Vec<Vec<String>> = view
            .steps
            .iter()
            .map(|step| step_cells(step).into_iter().map(Markup::into_string).collect())
            .collect();
        assert_eq!((steps[1][0].as_str(), steps[1][2].as_str()), ("test", "compile"));
        assert_eq!(next_step(&view), None);
    }
}
