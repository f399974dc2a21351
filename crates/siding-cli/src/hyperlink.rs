//! Links to files for terminals that open them (OSC 8).

use std::fmt::Write as _;
use std::io::IsTerminal;

use siding_core::sys::system_info;
use siding_model::task_view::TaskView;

use crate::caller;

/// Terminal programs (`TERM_PROGRAM`) that support links in every version in use.
const TERMINAL_PROGRAMS: [&str; 7] =
    ["Hyper", "WezTerm", "ghostty", "iTerm.app", "rio", "terminology", "vscode"];
/// Values of `TERM` that only terminals with links set.
const TERMINAL_TYPES: [&str; 4] = ["alacritty", "foot", "xterm-ghostty", "xterm-kitty"];
/// The first version of the VTE library (GNOME Terminal, Tilix and others) whose links are safe;
/// 0.50.0 crashed (`VTE_VERSION`, as in 5001).
const MIN_VTE_VERSION: u32 = 5001;
/// The first version of Konsole with links (`KONSOLE_VERSION`).
const MIN_KONSOLE_VERSION: u32 = 201_200;

/// Links the ids of tasks and the paths of their output in `text` to the output files, if `stream`
/// is a terminal of a person and supports links. Otherwise returns the text unchanged.
pub(crate) fn link_outputs(text: &str, views: &[TaskView], stream: &impl IsTerminal) -> String {
    let is_shown = stream.is_terminal()
        && is_supported(|name| std::env::var(name).ok())
        && caller::is_person_by_settings();
    if !is_shown {
        return text.to_owned();
    }
    let links: Vec<FileLink> = views
        .iter()
        .filter(|view| view.output.path.starts_with('/'))
        .flat_map(|view| {
            [view.task_id.to_string(), view.output.path.clone()].map(|label| (label, view))
        })
        .map(|(label, view)| FileLink { label, path: view.output.path.clone() })
        .collect();
    add_links(text, &links, &system_info::hostname())
}

/// Returns whether the terminal that these environment variables describe supports links. Unknown
/// terminals could print the sequence as text, so they get none. `FORCE_HYPERLINK` decides if it is
/// set: `0` turns links off, and any other value turns them on.
fn is_supported(variable: impl Fn(&str) -> Option<String>) -> bool {
    let value = |name| variable(name).filter(|value: &String| !value.is_empty());
    if let Some(forced) = value("FORCE_HYPERLINK") {
        return forced != "0";
    }
    let terminal = value("TERM").unwrap_or_default();
    // A multiplexer inherits the variables of the terminal in which it was started.
    let is_multiplexer = terminal.starts_with("screen") || terminal.starts_with("tmux");
    if terminal.is_empty() || terminal == "dumb" || is_multiplexer || value("TMUX").is_some() {
        return false;
    }
    let is_at_least = |name, version: u32| {
        value(name).and_then(|text| text.parse().ok()).is_some_and(|found: u32| found >= version)
    };
    value("TERM_PROGRAM").is_some_and(|name| TERMINAL_PROGRAMS.contains(&name.as_str()))
        || TERMINAL_TYPES.iter().any(|known| {
            terminal
                .strip_prefix(known)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        })
        || is_at_least("VTE_VERSION", MIN_VTE_VERSION)
        || is_at_least("KONSOLE_VERSION", MIN_KONSOLE_VERSION)
        || value("WT_SESSION").is_some()
        || value("DOMTERM").is_some()
}

/// A text that occurs in siding's output, and the file to which it links.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FileLink {
    /// The text, such as an id.
    label: String,
    /// The absolute path of the file.
    path: String,
}

/// Turns every occurrence of a link's label in `text` into a link. `machine` is the name of this
/// machine: a terminal on another one must not open its own file.
fn add_links(text: &str, links: &[FileLink], machine: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let next = links
            .iter()
            .filter(|link| !link.label.is_empty())
            .filter_map(|link| rest.find(&link.label).map(|at| (at, link)))
            .min_by_key(|(at, link)| (*at, std::cmp::Reverse(link.label.len())));
        let Some((at, link)) = next else {
            out.push_str(rest);
            return out;
        };
        let (before, found) = rest.split_at(at);
        out.push_str(before);
        out.push_str(&format_link(link, machine));
        rest = &found[link.label.len()..];
    }
}

fn format_link(link: &FileLink, machine: &str) -> String {
    let (machine, path) = (percent_encode(machine), percent_encode(&link.path));
    format!("\x1b]8;;file://{machine}{path}\x1b\\{}\x1b]8;;\x1b\\", link.label)
}

/// Encodes a path for a URI (RFC 3986). The result consists of printable ASCII characters.
fn percent_encode(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => {
                let _writing_to_string = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_known_terminals_get_links() {
        let with = |set: &[(&str, &str)]| {
            is_supported(|name| {
                set.iter().find(|(other, _)| *other == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let xterm = ("TERM", "xterm-256color");
        assert!(!with(&[]) && !with(&[xterm]));
        assert!(with(&[xterm, ("TERM_PROGRAM", "WezTerm")]));
        assert!(!with(&[xterm, ("TERM_PROGRAM", "Apple_Terminal")]));
        assert!(with(&[xterm, ("VTE_VERSION", "7402")]));
        assert!(!with(&[xterm, ("VTE_VERSION", "5000")]) && !with(&[xterm, ("VTE_VERSION", "x")]));
        assert!(with(&[("TERM", "xterm-kitty")]) && with(&[("TERM", "foot-extra")]));
        assert!(!with(&[("TERM", "football")]));
        let vte = ("VTE_VERSION", "7402");
        assert!(!with(&[("TERM", "tmux-256color"), vte]) && !with(&[("TERM", "screen"), vte]));
        assert!(!with(&[("TERM", "dumb"), vte]));
        assert!(with(&[("FORCE_HYPERLINK", "1")]));
        assert!(!with(&[xterm, vte, ("FORCE_HYPERLINK", "0")]));
    }

    #[test]
    fn labels_become_links() {
        let link = |label: &str| FileLink { label: label.to_owned(), path: "/a b/ö".to_owned() };
        assert_eq!(
            add_links("x b-1 y", &[link("b-1")], "host"),
            "x \x1b]8;;file://host/a%20b/%C3%B6\x1b\\b-1\x1b]8;;\x1b\\ y"
        );
        assert_eq!(add_links("x b-1 y", &[link("b-2"), link("")], "host"), "x b-1 y");
    }

    proptest! {
        #[test]
        fn a_link_changes_only_what_is_invisible(
            path in any::<String>(), machine in any::<String>(), text in "[a-c -]{0,20}",
        ) {
            let links = [FileLink { label: "a-b".to_owned(), path }];
            let linked = add_links(&text, &links, &machine);
            let options = siding_model::text::RenderOptions::default();
            prop_assert_eq!(siding_model::text::render_output(linked.as_bytes(), options), text);
        }
    }
}
