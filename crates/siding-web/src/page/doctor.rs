//! The page of the checks of this machine.

use maud::{Markup, html};
use siding_core::upkeep::doctor;
use siding_model::text::one_line;

use super::chrome::{self, NavItem};
use super::format;
use crate::context::WebContext;

/// Returns the page.
pub(super) fn page(context: &WebContext) -> Markup {
    let checks = doctor::run_checks(Some(context.root.path()), &context.settings.shell);
    let verdict = doctor::verdict(&checks);
    let content = html! {
        h1 { "Doctor" }
        p { "Guarantees on this machine: " strong { (format::words(&verdict)) } }
        div.scroll {
            table {
                thead { tr {
                    @for title in ["Check", "State", "Found", "If it is missing"] {
                        th scope="col" { (title) }
                    }
                } }
                tbody {
                    @for check in &checks {
                        tr {
                            td { (check.name) }
                            td { span.state data-check=(check.state.as_str()) { (check.state.as_str()) } }
                            td { (one_line(&check.found, 300)) }
                            td { (one_line(check.missing_guarantee, 300)) }
                        }
                    }
                }
            }
        }
    };
    chrome::wrap(context, NavItem::Doctor, "Doctor", &content)
}
