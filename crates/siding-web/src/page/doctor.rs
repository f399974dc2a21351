//! The page of the checks of this machine.

use maud::{Markup, html};
use siding_core::upkeep::doctor::{self, Check, DoctorVerdict};
use siding_model::text::one_line;

use super::chrome::{NavItem, Page};
use super::format;
use super::table::{CellKind, table};
use crate::context::WebContext;

const COLUMNS: [(&str, CellKind); 4] = [
    ("Check", CellKind::Text),
    ("State", CellKind::Text),
    ("Found", CellKind::Text),
    ("If it is missing", CellKind::Text),
];

/// Returns the page.
pub(super) fn doctor_page(context: &WebContext) -> Page {
    let checks = doctor::run_checks(Some(context.root.path()), &context.settings.shell);
    let summary = match doctor::verdict(&checks) {
        DoctorVerdict::Whole => "Every guarantee holds on this machine.",
        DoctorVerdict::Weaker => "siding works here, but a guarantee is weaker.",
        DoctorVerdict::Broken => "siding cannot work here; a check that it needs has failed.",
    };
    let content = html! {
        h1 { "Doctor" }
        p { strong { (summary) } }
        (table(&COLUMNS, checks.iter().map(cells)))
    };
    Page::new(NavItem::Doctor, "Doctor", content)
}

fn cells(check: &Check) -> Vec<Markup> {
    let state = check.state.as_str();
    vec![
        html! { (check.name) },
        html! { span.state data-check=(state) { (state) } },
        format::sentence(&one_line(&check.found, 300)),
        format::sentence(&one_line(check.missing_guarantee, 300)),
    ]
}
