//! Converts the text after the options of `--help` into sections of a manual page.
//!
//! roff fills text: it joins lines and stretches the spaces between words (groff(7), "Filling").
//! An example must keep its spacing and a table its columns, so both are written between `.EX` and
//! `.EE`, which turn filling off (groff_man(7)).

use clap_mangen::roff::{Roff, roman};

/// The indentation of literal lines in a help text.
const LITERAL_INDENT: &str = "  ";
/// Prefix of the paragraph that lists the exit codes.
const EXIT_CODES_PREFIX: &str = "Exit codes: ";

/// Returns the sections of a help text: `EXAMPLES`, `EXIT STATUS`, and `NOTES` for the remaining
/// paragraphs.
pub(super) fn to_sections(text: &str) -> Roff {
    let mut page = Roff::new();
    let mut section = "";
    for paragraph in split_paragraphs(text) {
        let heading = match paragraph[0] {
            "Examples:" => "EXAMPLES",
            line if line.starts_with(EXIT_CODES_PREFIX) => "EXIT STATUS",
            _ => "NOTES",
        };
        if section != heading {
            page.control("SH", [heading]);
            section = heading;
        } else {
            page.control("PP", []);
        }
        append_paragraph(&mut page, &paragraph, heading);
    }
    page
}

/// Appends a paragraph. Its indented lines are printed as they are, without filling.
fn append_paragraph(page: &mut Roff, lines: &[&str], heading: &str) {
    let mut is_literal = false;
    for line in lines {
        if *line == "Examples:" {
            continue;
        }
        let literal = line.strip_prefix(LITERAL_INDENT);
        if literal.is_some() != is_literal {
            is_literal = !is_literal;
            page.control(if is_literal { "EX" } else { "EE" }, []);
        }
        let rendered =
            if heading == "EXIT STATUS" { line.strip_prefix(EXIT_CODES_PREFIX) } else { None };
        page.text([roman(literal.or(rendered).unwrap_or(line))]);
    }
    if is_literal {
        page.control("EE", []);
    }
}

/// Splits a text into paragraphs. The exit codes start a paragraph even if no empty line precedes
/// them.
fn split_paragraphs(text: &str) -> Vec<Vec<&str>> {
    let mut paragraphs = vec![Vec::new()];
    for line in text.lines() {
        if line.trim().is_empty() || line.starts_with(EXIT_CODES_PREFIX) {
            paragraphs.push(Vec::new());
        }
        if let Some(last) = paragraphs.last_mut().filter(|_| !line.trim().is_empty()) {
            last.push(line);
        }
    }
    paragraphs.retain(|lines| !lines.is_empty());
    paragraphs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_and_tables_are_literal_and_prose_is_filled() {
        let text = "Examples:\n  siding run -- 'a  b'   two\n  .hidden\n\nWhat --for takes:\n  exit    all\n\nOne\nparagraph.\nExit codes: 0 well,\n1 not.";
        let page = to_sections(text).to_roff();
        let wanted = [
            ".SH EXAMPLES",
            ".EX",
            "siding run \\-\\- 'a  b'   two",
            "\\&.hidden",
            ".EE",
            ".SH NOTES",
            "What \\-\\-for takes:",
            ".EX",
            "exit    all",
            ".EE",
            ".PP",
            "One",
            "paragraph.",
            ".SH \"EXIT STATUS\"",
            "0 well,",
            "1 not.",
        ];
        assert_eq!(page.lines().collect::<Vec<_>>(), wanted, "{page}");
    }
}
