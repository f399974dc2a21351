//! The files of the page, which are part of the program.

use http::{Response, StatusCode};
use siding_http::ResponseBody;

use crate::{page, palette, response};

/// Name of the generated style sheet with the palette of 256 colors.
const PALETTE_NAME: &str = "palette.css";
/// Name of the style sheet for the timeline, whose picture siding-model draws.
const TIMELINE_NAME: &str = "timeline.css";
const CSS: &str = "text/css; charset=utf-8";
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// The files by name, each with its type.
const FILES: [(&str, &str, &str); 8] = [
    ("style.css", CSS, include_str!("../assets/style.css")),
    ("page.js", JAVASCRIPT, include_str!("../assets/page.js")),
    ("output.js", JAVASCRIPT, include_str!("../assets/output.js")),
    ("usage.js", JAVASCRIPT, include_str!("../assets/usage.js")),
    ("act.js", JAVASCRIPT, include_str!("../assets/act.js")),
    ("typing.js", JAVASCRIPT, include_str!("../assets/typing.js")),
    ("page-key.js", JAVASCRIPT, include_str!("../assets/page-key.js")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
];

/// Returns a file of the page.
pub(crate) fn respond(name: &str) -> Response<ResponseBody> {
    if name == PALETTE_NAME {
        return response::with_type(StatusCode::OK, CSS, palette::style_sheet());
    }
    if name == TIMELINE_NAME {
        return response::with_type(StatusCode::OK, CSS, page::timeline_style_sheet());
    }
    match FILES.iter().find(|(known, ..)| *known == name) {
        Some((_, kind, text)) => response::with_type(StatusCode::OK, kind, *text),
        None => page::failure(StatusCode::NOT_FOUND, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_insert_no_text_as_markup() {
        for (name, kind, text) in FILES {
            if kind == JAVASCRIPT {
                for sink in
                    ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
                {
                    assert!(!text.contains(sink), "{name}: {sink}");
                }
            }
        }
    }
}
