//! The page of the settings, each with its origin.

use maud::{Markup, html};
use siding_core::settings::{self, Environment};
use siding_model::settings::SettingEntry;
use siding_model::text::one_line;

use super::chrome::{NavItem, Page};
use super::format;
use super::table::{CellKind, table};

const COLUMNS: [(&str, CellKind); 4] = [
    ("Setting", CellKind::Text),
    ("Value", CellKind::Text),
    ("Origin", CellKind::Text),
    ("Meaning", CellKind::Text),
];

/// Returns the page. The settings are those of the directory in which the server was started.
pub(super) fn settings_page() -> Page {
    let reading = settings::read(&Environment::from_process());
    let content = html! {
        h1 { "Settings" }
        p.hint { "The settings apply in the directory where " code { "siding web" } " was started. "
            code { "siding config set KEY VALUE" } " changes a setting." }
        @for mistake in &reading.mistakes { p.need { (format::sentence(&one_line(&mistake.to_string(), 300))) } }
        (table(&COLUMNS, reading.settings.entries().map(|entry| cells(&entry))))
    };
    Page::new(NavItem::Settings, "Settings", content)
}

fn cells(entry: &SettingEntry<'_>) -> Vec<Markup> {
    let origin = &entry.source.origin;
    vec![
        html! { code { (entry.key.name()) } },
        html! { code { (one_line(&entry.key.format_value(&entry.value), 200)) } },
        html! {
            (origin.layer())
            @if let Some(path) = origin.path() {
                " " code { (one_line(&path.display().to_string(), 200)) }
            }
            @if entry.locked { " (locked)" }
        },
        format::sentence(entry.key.about()),
    ]
}
