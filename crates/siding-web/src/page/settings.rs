//! The page of the settings, each with its origin.

use maud::{Markup, html};
use siding_core::settings::{self, Environment};
use siding_model::text::one_line;

use super::chrome::{self, NavItem};
use crate::context::WebContext;

/// Returns the page. The settings are those of the directory in which the server was started.
pub(super) fn page(context: &WebContext) -> Markup {
    let reading = settings::read(&Environment::from_process());
    let content = html! {
        h1 { "Settings" }
        p.hint { "As in the directory where " code { "siding web" } " was started. "
            code { "siding config set KEY VALUE" } " changes one." }
        @for mistake in &reading.mistakes { p.need { (one_line(&mistake.to_string(), 300)) } }
        div.scroll {
            table {
                thead { tr {
                    @for title in ["Setting", "Value", "Origin", "Meaning"] { th scope="col" { (title) } }
                } }
                tbody {
                    @for entry in reading.settings.entries() {
                        tr {
                            td { code { (entry.key.name()) } }
                            td { code { (one_line(&entry.key.format_value(&entry.value), 200)) } }
                            td {
                                (entry.source.origin.layer())
                                @if let Some(path) = entry.source.origin.path() {
                                    " " code { (one_line(&path.display().to_string(), 200)) }
                                }
                                @if entry.locked { " (locked)" }
                            }
                            td { (entry.key.about()) }
                        }
                    }
                }
            }
        }
    };
    chrome::wrap(context, NavItem::Settings, "Settings", &content)
}
