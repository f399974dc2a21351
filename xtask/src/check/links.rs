//! Checks the links from Markdown documents to each other and to files of the workspace.
//!
//! Only links within the checkout are checked; web addresses are not fetched.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::steps::StepOutcome;
use crate::workspace::Workspace;

/// Rejects links to a missing file or heading in the Markdown files of the root directory and of
/// `docs`.
pub(super) fn check(workspace: &Workspace) -> Result<StepOutcome> {
    let mut texts = BTreeMap::new();
    for path in markdown_files(&workspace.root)? {
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("could not read `{}`", path.display()))?;
        texts.insert(path, text);
    }
    let (mut broken, mut links) = (0, 0);
    for (path, text) in &texts {
        for link in find_links(text) {
            links += 1;
            if let Some(problem) = check_link(path, &link.target, &texts) {
                broken += 1;
                let path = workspace.relative(path).display();
                println!("  {path}:{}: `{}`: {problem}", link.line, link.target);
            }
        }
    }
    if broken > 0 {
        bail!("broken links: {broken}");
    }
    Ok(StepOutcome::PassedWithNote(format!("links: {links}, documents: {}", texts.len())))
}

/// Returns the Markdown files in the root directory and everywhere below `docs`.
fn markdown_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(directory) = open.pop() {
        let entries = std::fs::read_dir(&directory)
            .with_context(|| format!("could not list `{}`", directory.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                if path.starts_with(root.join("docs")) {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    Ok(found)
}

/// The target of a relative link, and the number of the line that contains the link.
#[derive(Debug, PartialEq, Eq)]
struct Link {
    line: usize,
    target: String,
}

/// Returns the relative links of a document, except links in code.
fn find_links(text: &str) -> Vec<Link> {
    let mut links = Vec::new();
    for (line, prose) in lines_outside_code(text) {
        let prose = strip_code_spans(prose);
        let inline = prose.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
        let definition = prose.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        for target in inline.map(|(target, _)| target).chain(definition.map(|(_, target)| target)) {
            // A title may follow the target: `[text](target "title")`.
            let target = target.split_whitespace().next().unwrap_or_default();
            let target = target.trim_matches(['<', '>']);
            if !target.contains("://") && !target.starts_with("mailto:") {
                links.push(Link { line, target: target.to_owned() });
            }
        }
    }
    links
}

/// Returns the lines outside fenced code, with their numbers.
fn lines_outside_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence: Option<&str> = None;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let bare = line.trim_start();
        let marker = ["```", "~~~"].into_iter().find(|marker| bare.starts_with(marker));
        match (fence, marker) {
            (None, Some(opened)) => fence = Some(opened),
            (Some(opened), Some(closed)) if opened == closed => fence = None,
            (None, None) => return Some((at + 1, line)),
            (Some(_), _) => {}
        }
        None
    })
}

fn strip_code_spans(line: &str) -> String {
    let pieces: Vec<&str> = line.split('`').collect();
    // An unpaired backtick opens no code span, so the last piece is always prose.
    let last = pieces.len() - 1;
    let outside = pieces.iter().enumerate().filter(|(at, _)| at % 2 == 0 || *at == last);
    outside.map(|(_, piece)| *piece).collect::<Vec<_>>().join("`")
}

/// Returns the error in a link, or `None` for a valid link.
fn check_link(
    from: &Path,
    target: &str,
    texts: &BTreeMap<PathBuf, String>,
) -> Option<&'static str> {
    let (file, heading) =
        target.split_once('#').map_or((target, None), |(file, heading)| (file, Some(heading)));
    if file.starts_with('/') {
        return Some("must be relative");
    }
    let path = if file.is_empty() {
        from.to_path_buf()
    } else {
        normalize_path(&from.parent().unwrap_or(from).join(file))
    };
    if !path.exists() {
        return Some("no such file");
    }
    let heading = heading?;
    match texts.get(&path) {
        Some(text) if heading_anchors(text).iter().any(|anchor| anchor == heading) => None,
        Some(_) => Some("no such heading"),
        None => Some("points into a file without headings; line numbers change"),
    }
}

/// Resolves `.` and `..` without reading the file system, so that paths can be compared.
fn normalize_path(path: &Path) -> PathBuf {
    let mut normalized = PathBuf::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => {
                normalized.pop();
            }
            std::path::Component::CurDir => {}
            std::path::Component::Prefix(_)
            | std::path::Component::RootDir
            | std::path::Component::Normal(_) => normalized.push(part),
        }
    }
    normalized
}

/// Returns the anchors of a document's headings, as GitHub generates them.
fn heading_anchors(text: &str) -> Vec<String> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = Vec::new();
    for (_, line) in lines_outside_code(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let anchor: String = title
            .trim()
            .chars()
            .filter(|character| character.is_alphanumeric() || matches!(character, ' ' | '-' | '_'))
            .map(|character| if character == ' ' { '-' } else { character })
            .collect::<String>()
            .to_lowercase();
        let earlier = seen.entry(anchor.clone()).or_default();
        anchors.push(if *earlier == 0 { anchor } else { format!("{anchor}-{earlier}") });
        *earlier += 1;
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(text: &str) -> Vec<String> {
        find_links(text).into_iter().map(|link| link.target).collect()
    }

    #[test]
    fn every_form_of_link_is_found() {
        assert_eq!(
            targets("see [a](docs/a.md), [b](<b.md> \"title\") and ![c](c.png)\n\n[d]: d.md\n"),
            ["docs/a.md", "b.md", "c.png", "d.md"]
        );
        assert!(targets("[a](https://example.org/x) [b](mailto:x@example.org)").is_empty());
    }

    #[test]
    fn links_in_code_are_ignored() {
        assert!(targets("`[a](b)` and\n```text\n[c](d)\n```\n").is_empty());
        assert_eq!(targets("a ` and [b](c)"), ["c"]);
        assert_eq!(find_links("```\n\n```\n[a](b)")[0].line, 4);
    }

    #[test]
    fn anchors_are_spelled_as_on_the_web() {
        assert_eq!(
            heading_anchors("# What `siding` keeps: a task\n#!not\n## Same\n## Same\n"),
            ["what-siding-keeps-a-task", "same", "same-1"]
        );
    }

    #[test]
    fn missing_files_and_missing_headings_are_distinguished() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        let mut texts = BTreeMap::from([(here.clone(), "# Title".to_owned())]);
        assert_eq!(check_link(&here, "Cargo.toml", &texts), None);
        assert_eq!(check_link(&here, "src/../Cargo.toml", &texts), None);
        assert_eq!(check_link(&here, "gone.md", &texts), Some("no such file"));
        assert_eq!(check_link(&here, "/Cargo.toml", &texts), Some("must be relative"));
        texts.insert(manifest, "# Some heading".to_owned());
        assert_eq!(check_link(&here, "Cargo.toml#some-heading", &texts), None);
        assert_eq!(check_link(&here, "Cargo.toml#other", &texts), Some("no such heading"));
        assert!(check_link(&here, "src/main.rs#L3", &texts).is_some());
    }
}
