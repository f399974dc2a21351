//! `cargo xtask prose`: checks the language of comments and documents.
//!
//! The command counts markers: phrases of unidiomatic English that readers of this project did not
//! understand. With `--sample`, it draws a random sample of sentences instead. A marker is only a
//! hint that a sentence is unclear. The measure is the sample, read by a person who did not write
//! the sentences.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use regex::Regex;

use crate::steps::StepOutcome;
use crate::workspace::Workspace;

pub(crate) const COMMAND: crate::XtaskCommand = crate::XtaskCommand {
    name: "prose",
    about: "counts markers of unidiomatic English and draws sentences to read",
    usage: "\
Usage: cargo xtask prose [--sample N] [--seed S] [--hits] [PATH...]

  --sample N  prints N sentences drawn at random instead of the counts
  --seed S    draws the same sentences again (default: 1)
  --hits      prints every sentence that has a marker
  PATH...     reads only these files and directories
",
    run: command,
};

/// Maximum number of markers per 1,000 sentences that `cargo xtask check` accepts. The number may
/// only be lowered.
const MAX_MARKERS_PER_1000: f64 = 3.0;

/// Number of files that the summary names: those with the most markers.
const WORST_FILES: usize = 10;

/// A pattern for a phrase that is usually unidiomatic English.
struct Marker {
    name: &'static str,
    pattern: &'static str,
}

const MARKERS: &[Marker] = &[
    Marker {
        name: "sentence opens with What or Who",
        pattern: r"^(?:What|Who|Whom|Whoever|Whatever)\b",
    },
    Marker {
        name: "somebody, nobody, whoever",
        pattern: r"\b(?:somebody|nobody|anybody|everybody|whoever|whomever)\b",
    },
    Marker { name: "beside (for besides)", pattern: r"\bbeside\b" },
    Marker {
        name: "else (for otherwise)",
        pattern: r"\b(?:would|may|might|could|must|is|are|was|were|does|has) else\b|[;,.] [Ee]lse\b|^Else\b",
    },
    Marker { name: "at once", pattern: r"\bat once\b" },
    Marker { name: "anew", pattern: r"\banew\b" },
    Marker { name: "on record", pattern: r"\bon record\b" },
    Marker { name: "is told", pattern: r"\b(?:is|are|was|were|be|been|being|not) told\b" },
    Marker { name: "goes on", pattern: r"\b(?:go|goes|went|going|gone) on\b" },
    Marker { name: "takes up", pattern: r"\b(?:take|takes|taken|taking|took) (?:it )?up\b" },
    Marker { name: "of whom, of which", pattern: r"\bof (?:whom|which)\b" },
    Marker { name: "for want of", pattern: r"\bfor want of\b" },
    Marker { name: "makes of it", pattern: r"\b(?:make|makes|made) of\b" },
    Marker {
        name: "empty opening",
        pattern: r"^(?:The same|Nothing|None|All that|As long)\b[^.]{0,20}\.?$",
    },
    Marker { name: "be had", pattern: r"\bbe had\b" },
];

/// A sentence, with its file and the number of the first line of its paragraph.
#[derive(Debug, PartialEq, Eq)]
struct Sentence {
    path: PathBuf,
    line: usize,
    text: String,
}

impl Sentence {
    fn print(&self, workspace: &Workspace) {
        println!("{}:{}: {}", workspace.relative(&self.path).display(), self.line, self.text);
    }
}

/// Fails if 1,000 sentences have more markers than [`MAX_MARKERS_PER_1000`].
pub(crate) fn check(workspace: &Workspace) -> Result<StepOutcome> {
    let sentences = read(workspace, &[])?;
    let count = count_markers(&sentences)?;
    let rate = count.rate();
    if rate > MAX_MARKERS_PER_1000 {
        bail!(
            "markers of unidiomatic English in 1,000 sentences: {rate:.1}, allowed: \
             {MAX_MARKERS_PER_1000}; `cargo xtask prose --hits PATH` shows them"
        );
    }
    Ok(StepOutcome::PassedWithNote(format!("markers in 1,000 sentences: {rate:.1}")))
}

fn command(arguments: &[String]) -> Result<ExitCode> {
    let mut sample = None;
    let mut seed = 1;
    let mut hits = false;
    let mut paths = Vec::new();
    let mut remaining = arguments.iter();
    while let Some(argument) = remaining.next() {
        let mut number = || -> Result<u64> {
            let value = remaining.next().with_context(|| format!("{argument} needs a number"))?;
            value.parse().with_context(|| format!("{argument}: `{value}` is not a number"))
        };
        match argument.as_str() {
            "--sample" => sample = Some(number()?),
            "--seed" => seed = number()?,
            "--hits" => hits = true,
            flag if flag.starts_with('-') => bail!("no option `{flag}`; see --help"),
            path => paths.push(PathBuf::from(path)),
        }
    }
    let workspace = Workspace::open()?;
    let mut sentences = read(&workspace, &paths)?;
    if let Some(sample) = sample {
        let size = usize::try_from(sample).unwrap_or(usize::MAX).min(sentences.len());
        shuffle_front(&mut sentences, size, seed);
        sentences[..size].iter().for_each(|sentence| sentence.print(&workspace));
        return Ok(ExitCode::SUCCESS);
    }
    let count = count_markers(&sentences)?;
    if hits {
        count.hits.iter().for_each(|sentence| sentence.print(&workspace));
    }
    count.print(&workspace);
    Ok(ExitCode::SUCCESS)
}

/// The number of hits of each marker, and the sentences with a hit, once for each marker.
struct MarkerCount<'s> {
    sentences: usize,
    per_marker: Vec<usize>,
    hits: Vec<&'s Sentence>,
}

impl MarkerCount<'_> {
    /// Returns the number of markers per 1,000 sentences.
    fn rate(&self) -> f64 {
        let markers: usize = self.per_marker.iter().sum();
        1000.0 * markers as f64 / self.sentences.max(1) as f64
    }

    fn print(&self, workspace: &Workspace) {
        for (marker, count) in MARKERS.iter().zip(&self.per_marker) {
            println!("{count:6}  {}", marker.name);
        }
        let markers: usize = self.per_marker.iter().sum();
        println!("{markers:6}  in {} sentences, {:.1} in 1,000", self.sentences, self.rate());
        let mut per_file: BTreeMap<&Path, usize> = BTreeMap::new();
        for hit in &self.hits {
            *per_file.entry(&hit.path).or_default() += 1;
        }
        let mut worst: Vec<_> = per_file.into_iter().collect();
        worst.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        for (path, count) in worst.into_iter().take(WORST_FILES) {
            println!("{count:6}  {}", workspace.relative(path).display());
        }
    }
}

fn count_markers(sentences: &[Sentence]) -> Result<MarkerCount<'_>> {
    let mut count =
        MarkerCount { sentences: sentences.len(), per_marker: Vec::new(), hits: Vec::new() };
    for marker in MARKERS {
        let pattern = Regex::new(marker.pattern)?;
        // A pattern for the start of a sentence does not apply to a question, which may start with
        // `What` or `Who`.
        let is_hit = |sentence: &&Sentence| {
            pattern.is_match(&sentence.text)
                && !(marker.pattern.starts_with('^') && sentence.text.ends_with('?'))
        };
        let before = count.hits.len();
        count.hits.extend(sentences.iter().filter(is_hit));
        count.per_marker.push(count.hits.len() - before);
    }
    Ok(count)
}

/// Reads every sentence in the Rust and Markdown files below the paths, or in the whole workspace
/// without paths. Test data is omitted.
fn read(workspace: &Workspace, paths: &[PathBuf]) -> Result<Vec<Sentence>> {
    let root = [workspace.root.clone()];
    let mut files = Vec::new();
    for path in if paths.is_empty() { &root[..] } else { paths } {
        if path.is_dir() {
            files.extend(workspace.list_files(path, "rs")?);
            files.extend(workspace.list_files(path, "md")?);
        } else {
            files.push(path.clone());
        }
    }
    // Test data contains text by other authors.
    files.retain(|path| !path.iter().any(|part| part == "corpus" || part == "fixtures"));
    let boundary = Regex::new(r#"[.!?:](\s+)[A-Z`\["]"#)?;
    let mut sentences = Vec::new();
    for path in files {
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("could not read `{}`", path.display()))?;
        let is_markdown = path.extension().is_some_and(|extension| extension == "md");
        let paragraphs = if is_markdown { paragraphs(&text) } else { comments(&text) };
        for (line, lines) in paragraphs {
            for text in split_sentences(&lines, &boundary) {
                sentences.push(Sentence { path: path.clone(), line, text });
            }
        }
    }
    Ok(sentences)
}

/// Returns the paragraphs of a Markdown document outside code, tables and headings, each with
/// the number of its first line.
fn paragraphs(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut blocks = Blocks::default();
    let mut fenced = false;
    for (at, line) in text.lines().enumerate() {
        let bare = line.trim();
        let is_fence = bare.starts_with("```");
        fenced ^= is_fence;
        if fenced || is_fence || bare.is_empty() || bare.starts_with(['|', '#', '<']) {
            blocks.close();
            continue;
        }
        let item =
            bare.trim_start_matches(|mark: char| "-*.".contains(mark) || mark.is_ascii_digit());
        blocks.push(at + 1, if item.starts_with(' ') { item.trim_start() } else { bare });
    }
    blocks.finish()
}

/// Returns the comments of Rust source that start a line. Adjacent comment lines of one kind form a
/// paragraph.
fn comments(text: &str) -> Vec<(usize, Vec<String>)> {
    let mut blocks = Blocks::default();
    let mut open = "";
    for (at, line) in text.lines().enumerate() {
        let bare = line.trim_start();
        let kind = ["///", "//!", "//"].into_iter().find(|kind| bare.starts_with(kind));
        if kind.is_none_or(|kind| kind != open) {
            blocks.close();
        }
        open = kind.unwrap_or_default();
        if let Some(kind) = kind {
            blocks.push(at + 1, bare[kind.len()..].trim());
        }
    }
    blocks.finish()
}

/// Collects lines into paragraphs, each with the number of its first line.
#[derive(Default)]
struct Blocks {
    closed: Vec<(usize, Vec<String>)>,
    open: Option<(usize, Vec<String>)>,
}

impl Blocks {
    fn push(&mut self, line: usize, text: &str) {
        self.open.get_or_insert_with(|| (line, Vec::new())).1.push(text.to_owned());
    }

    fn close(&mut self) {
        self.closed.extend(self.open.take());
    }

    fn finish(mut self) -> Vec<(usize, Vec<String>)> {
        self.close();
        self.closed
    }
}

/// Splits a paragraph into its sentences of at least two words. Code examples, tables and headings
/// of doc comments are omitted.
fn split_sentences(lines: &[String], boundary: &Regex) -> Vec<String> {
    let mut fenced = false;
    let mut prose = Vec::new();
    for line in lines {
        let is_fence = line.starts_with("```");
        fenced ^= is_fence;
        if !fenced && !is_fence && !line.starts_with('|') && !line.starts_with("# ") {
            prose.push(line.as_str());
        }
    }
    let prose = prose.join(" ");
    let mut sentences = Vec::new();
    let mut start = 0;
    for found in boundary.captures_iter(&prose) {
        if let Some(gap) = found.get(1) {
            sentences.push(&prose[start..gap.start()]);
            start = gap.end();
        }
    }
    sentences.push(&prose[start..]);
    let is_sentence = |text: &&&str| text.split_whitespace().count() > 1;
    sentences.iter().filter(is_sentence).map(|text| text.trim().to_owned()).collect()
}

/// Draws `size` items at random and moves them to the front.
fn shuffle_front<T>(items: &mut [T], size: usize, seed: u64) {
    let mut state = seed;
    for at in 0..size {
        let remaining = (items.len() - at) as u64;
        let offset = usize::try_from(next_random(&mut state) % remaining).unwrap_or_default();
        items.swap(at, at + offset);
    }
}

/// Returns the next number of the generator SplitMix64, whose quality does not depend on the seed.
fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(paragraphs: Vec<(usize, Vec<String>)>) -> Vec<Sentence> {
        let boundary = Regex::new(r#"[.!?:](\s+)[A-Z`\["]"#).expect("it is a pattern");
        let mut found = Vec::new();
        for (line, lines) in paragraphs {
            for text in split_sentences(&lines, &boundary) {
                found.push(Sentence { path: PathBuf::new(), line, text });
            }
        }
        found
    }

    fn texts(paragraphs: Vec<(usize, Vec<String>)>) -> Vec<(usize, String)> {
        sentences(paragraphs).into_iter().map(|found| (found.line, found.text)).collect()
    }

    #[test]
    fn comments_become_sentences() {
        let source = "//! First one. Second\n//! one.\n\nfn f() {} // not here\n    // A reason.\n";
        assert_eq!(
            texts(comments(source)),
            [
                (1, "First one.".to_owned()),
                (1, "Second one.".to_owned()),
                (5, "A reason.".to_owned())
            ]
        );
    }

    #[test]
    fn code_tables_and_headings_are_left_out() {
        let text = "# A heading\n\n- An item.\n\n```sh\nrun this now\n```\n| a | b |\nThe end.\n";
        assert_eq!(
            texts(paragraphs(text)),
            [(3, "An item.".to_owned()), (9, "The end.".to_owned())]
        );
    }

    #[test]
    fn each_marker_is_found_and_standard_english_is_not() {
        let marked = "What is run. Told by nobody. It is told. This must else fail. It goes on.";
        let plain = "The command. Which one is it? Nothing is written before the lock is held.";
        let count = |text: &str| {
            let sentences = sentences(vec![(1, vec![text.to_owned()])]);
            count_markers(&sentences).expect("the patterns are valid").hits.len()
        };
        assert_eq!(count(marked), 5);
        assert_eq!(count(plain), 0);
    }

    #[test]
    fn a_sample_is_the_same_for_the_same_seed() {
        let draw = |seed| {
            let mut items: Vec<u32> = (0..100).collect();
            shuffle_front(&mut items, 10, seed);
            items[..10].to_vec()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
