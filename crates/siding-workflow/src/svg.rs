//! An SVG diagram of a workflow. It shows each step with its status, to the right of the steps that
//! the step needs.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::time::Duration;

use siding_model::duration::format_duration;
use siding_model::text::{escape_xml, one_line};

use super::step_status::StepStatus;
use super::view::{StepView, WorkflowView};

/// Width and height of a step's box. All sizes are in user units, which are pixels at the natural
/// size.
const BOX_SIZE: (usize, usize) = (210, 46);
const BOX_GAP: (usize, usize) = (70, 16);
const MARGIN: usize = 20;
const TITLE_HEIGHT: usize = 44;
/// Maximum width of a line in a box, in columns of 7 units.
const ID_COLUMNS: usize = 27;
/// Maximum width, in columns, of the name in the diagram's title and of the reason in a step's
/// title.
const TITLE_COLUMNS: usize = 60;

/// Renders a workflow as SVG. The status is shown by a word as well as by a color, and each step
/// has a title for screen readers.
#[must_use]
pub fn render_svg(view: &WorkflowView) -> String {
    let mut rows: Vec<usize> = Vec::new();
    let mut places: HashMap<&str, (usize, usize)> = HashMap::new();
    for step in &view.steps {
        if rows.len() <= step.layer {
            rows.resize(step.layer + 1, 0);
        }
        let at = (
            MARGIN + step.layer * (BOX_SIZE.0 + BOX_GAP.0),
            MARGIN + TITLE_HEIGHT + rows[step.layer] * (BOX_SIZE.1 + BOX_GAP.1),
        );
        rows[step.layer] += 1;
        places.insert(&step.id, at);
    }
    let layers = rows.len();
    let most = rows.into_iter().max().unwrap_or(0);
    let width = 2 * MARGIN + layers * BOX_SIZE.0 + layers.saturating_sub(1) * BOX_GAP.0;
    let height = 2 * MARGIN + TITLE_HEIGHT + most * (BOX_SIZE.1 + BOX_GAP.1);
    let title = title_text(view);
    // The role `img` would hide the titles of the steps from screen readers.
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"group\" aria-labelledby=\"title\" \
         width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, monospace\" font-size=\"12\">\n\
         <title id=\"title\">{title}</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{MARGIN}\" y=\"{}\" font-size=\"15\" fill=\"#1f2328\">{title}</text>\n\
         <g fill=\"none\" stroke=\"#8c959f\" stroke-width=\"1.5\">\n",
        MARGIN + 14
    );
    for step in &view.steps {
        for need in &step.needs {
            if let (Some(from), Some(to)) =
                (places.get(need.as_str()), places.get(step.id.as_str()))
            {
                draw_edge(&mut out, *from, *to);
            }
        }
    }
    out.push_str("</g>\n");
    for step in &view.steps {
        if let Some(at) = places.get(step.id.as_str()) {
            draw_step(&mut out, step, *at);
        }
    }
    out.push_str("</svg>\n");
    out
}

fn title_text(view: &WorkflowView) -> String {
    let name = view.name.as_deref().unwrap_or(&view.file);
    let took =
        view.elapsed_ms.map(|ms| format!(" after {}", format_duration(Duration::from_millis(ms))));
    escape_xml(&format!(
        "{}: {}{}",
        one_line(name, TITLE_COLUMNS),
        view.state.as_str(),
        took.unwrap_or_default()
    ))
}

/// Draws a line from a step to another step that needs the first one.
fn draw_edge(out: &mut String, from: (usize, usize), to: (usize, usize)) {
    let (x1, y1) = (from.0 + BOX_SIZE.0, from.1 + BOX_SIZE.1 / 2);
    let (x2, y2) = (to.0, to.1 + BOX_SIZE.1 / 2);
    let bend = BOX_GAP.0 / 2;
    let (c1, c2) = (x1 + bend, x2.saturating_sub(bend));
    let _writing_to_string =
        writeln!(out, "<path d=\"M{x1} {y1} C{c1} {y1} {c2} {y2} {x2} {y2}\"/>");
}

fn draw_step(out: &mut String, step: &StepView, (x, y): (usize, usize)) {
    let (fill, line) = status_colors(step.state);
    let (width, height) = BOX_SIZE;
    let took = step.elapsed_ms.map(|ms| format!(" {}", format_duration(Duration::from_millis(ms))));
    let attempt = if step.attempt > 1 {
        format!(" (attempt {} of {})", step.attempt, step.attempts)
    } else {
        String::new()
    };
    let how = format!("{}{}{attempt}", step.state_text(), took.unwrap_or_default());
    let why = step.why.as_ref().map(|why| format!(": {}", one_line(why, TITLE_COLUMNS)));
    let _writing_to_string = writeln!(
        out,
        "<g><title>{title}</title>\
         <rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" rx=\"6\" \
         fill=\"{fill}\" stroke=\"{line}\" stroke-width=\"1.5\"/>\
         <text x=\"{tx}\" y=\"{y1}\" fill=\"#1f2328\">{id}</text>\
         <text x=\"{tx}\" y=\"{y2}\" fill=\"#1f2328\">{how}</text></g>",
        title = escape_xml(&format!("{}: {how}{}", step.id, why.unwrap_or_default())),
        tx = x + 10,
        y1 = y + 19,
        y2 = y + 36,
        id = escape_xml(&one_line(&step.id, ID_COLUMNS)),
        how = escape_xml(&one_line(&how, ID_COLUMNS)),
    );
}

/// Returns the fill and the stroke color of a box. Dark text on each fill has the contrast
/// that WCAG AA requires.
const fn status_colors(state: StepStatus) -> (&'static str, &'static str) {
    match state {
        StepStatus::Waiting => ("#f6f8fa", "#8c959f"),
        StepStatus::Running => ("#ddf4ff", "#0969da"),
        StepStatus::Ok => ("#dafbe1", "#1a7f37"),
        StepStatus::Failed => ("#ffebe9", "#cf222e"),
        StepStatus::Skipped => ("#ffffff", "#afb8c1"),
        StepStatus::Stopped => ("#fff8c5", "#9a6700"),
        StepStatus::NotRun => ("#ffffff", "#6e7781"),
    }
}
