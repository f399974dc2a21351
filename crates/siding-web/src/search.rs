//! Searches the whole output of a task for lines.

use std::ops::ControlFlow;

use regex::{Regex, RegexBuilder};
use siding_core::output::{LineMatch, LineMatcher, MatchHandler};
use siding_core::store::TaskDir;
use siding_model::text::one_line;

use crate::query::Query;

/// Maximum number of lines that a search returns.
const MAX_HITS: usize = 100;
/// Maximum width of a line of the result, in columns.
const HIT_COLUMNS: usize = 300;
/// Maximum size of the compiled expression, in bytes.
const MAX_REGEX_BYTES: usize = 1 << 20;

/// The lines that are searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SearchTarget {
    /// Lines that contain this text, in any letter case.
    Text(String),
    /// Lines that look like errors.
    Errors,
}

/// A line that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SearchHit {
    /// Offset of the line in the output.
    pub(crate) from: u64,
    /// The readable text of the line, shortened.
    pub(crate) text: String,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SearchResult {
    /// The first lines that match, and whether there are more.
    Hits { hits: Vec<SearchHit>, has_more: bool },
    /// The output could not be searched.
    Invalid(String),
}

impl SearchResult {
    /// Returns whether the search found no line.
    pub(crate) const fn is_empty(&self) -> bool {
        match self {
            Self::Hits { hits, .. } => hits.is_empty(),
            Self::Invalid(_) => false,
        }
    }
}

impl SearchTarget {
    /// Returns the search of an address: `find` for a text, `errors` for errors.
    pub(crate) fn from_query(query: &Query) -> Option<Self> {
        let text = query.get("find").map(|text| Self::Text(text.to_owned()));
        text.or_else(|| query.get("errors").map(|_| Self::Errors))
    }
}

fn compile(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&regex::escape(text))
        .case_insensitive(true)
        .size_limit(MAX_REGEX_BYTES)
        .build()
}

/// Searches the output of a task from its beginning. The memory in use does not depend on the
/// output's length.
pub(crate) fn search(dir: &TaskDir, target: &SearchTarget) -> SearchResult {
    let mut matcher = match target {
        SearchTarget::Errors => LineMatcher::for_errors(HitList::default()),
        SearchTarget::Text(text) => match compile(text) {
            Ok(pattern) => LineMatcher::new(Some(pattern), HitList::default()),
            Err(error) => return SearchResult::Invalid(error.to_string()),
        },
    };
    if let Err(error) = matcher.read_from(dir, 0) {
        return SearchResult::Invalid(format!("could not read the output: {error}"));
    }
    matcher.finish();
    let HitList { hits, has_more } = std::mem::take(matcher.handler());
    SearchResult::Hits { hits, has_more }
}

#[derive(Debug, Default)]
struct HitList {
    hits: Vec<SearchHit>,
    has_more: bool,
}

impl MatchHandler for HitList {
    fn on_match(&mut self, hit: LineMatch<'_>) -> ControlFlow<()> {
        if self.hits.len() >= MAX_HITS {
            self.has_more = true;
            return ControlFlow::Break(());
        }
        self.hits.push(SearchHit { from: hit.from, text: one_line(hit.text, HIT_COLUMNS) });
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_searched_literally_and_in_any_case() {
        let found = |text: &str, line: &str| compile(text).expect("a pattern").is_match(line);
        assert!(found("a.b(", "x A.B( y") && !found("a.b", "axb"));
        assert!(compile(&"x".repeat(200_000)).is_err(), "its expression is too large");
    }
}
