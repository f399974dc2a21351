//! Checks that the top-level modules of each crate do not use each other in a cycle.
//!
//! Without a cycle, each module can be read and tested after the modules that it uses. A dependency
//! is a path `crate::room::…` or `super::room::…` in the source, outside unit tests, or such a
//! path to a name that the crate root re-exports from the room. Crates without a library are not
//! checked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Result, bail};
use proc_macro2::{TokenStream, TokenTree};

use super::tokens::{identifiers, is_word, read, without_unit_tests};
use crate::steps::StepOutcome;
use crate::workspace::Workspace;

/// The top-level modules that each top-level module of a crate uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Rejects cycles between the top-level modules of a crate.
pub(super) fn check(workspace: &Workspace) -> Result<StepOutcome> {
    let mut cycles = 0;
    let mut rooms = 0;
    for (name, member) in &workspace.metadata.members {
        let source = member.directory.join("src");
        if !source.join("lib.rs").exists() {
            continue;
        }
        let graph = graph(workspace, &source)?;
        rooms += graph.len();
        for cycle in find_cycles(&graph) {
            cycles += 1;
            println!("  {name}: these modules use each other: {}", cycle.join(", "));
            for user in &cycle {
                let used: Vec<&str> = graph[user]
                    .iter()
                    .filter(|used| cycle.contains(used))
                    .map(String::as_str)
                    .collect();
                println!("    {user} uses {}", used.join(", "));
            }
        }
    }
    if cycles > 0 {
        bail!("cycles between modules: {cycles}; move the shared part into a module below both");
    }
    Ok(StepOutcome::PassedWithNote(format!("top-level modules: {rooms}")))
}

/// Returns the dependencies between the top-level modules of a crate.
fn graph(workspace: &Workspace, source: &Path) -> Result<Graph> {
    let mut files = Vec::new();
    let mut rooms = BTreeSet::new();
    for path in workspace.rust_files(source)? {
        let module = module_path(path.strip_prefix(source)?);
        let Some(room) = module.first() else { continue };
        if room == "main" || module.iter().any(|name| name == "tests") {
            continue;
        }
        rooms.insert(room.clone());
        files.push((path, module));
    }
    let exports = root_exports(&source.join("lib.rs"), &rooms)?;
    let mut graph: Graph = rooms.iter().map(|room| (room.clone(), BTreeSet::new())).collect();
    for (path, module) in files {
        let stream = read(&path)?;
        let mut used = BTreeSet::new();
        collect_paths(&without_unit_tests(stream), module.len(), &mut used);
        let user = &module[0];
        for name in used {
            let room = exports.get(&name).unwrap_or(&name);
            if room != user && rooms.contains(room) {
                graph.entry(user.clone()).or_default().insert(room.clone());
            }
        }
    }
    Ok(graph)
}

/// Returns the module path of a file relative to `src`: `wait/ready.rs` is `["wait", "ready"]`.
fn module_path(relative: &Path) -> Vec<String> {
    let path = relative.with_extension("");
    let mut names: Vec<String> =
        path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
    if names.last().is_some_and(|name| name == "mod" || (names.len() == 1 && name == "lib")) {
        names.pop();
    }
    names
}

/// Returns the names that the crate root re-exports, each with the module that declares it.
fn root_exports(lib: &Path, rooms: &BTreeSet<String>) -> Result<BTreeMap<String, String>> {
    let mut exports = BTreeMap::new();
    let tokens: Vec<TokenTree> = read(lib)?.into_iter().collect();
    for item in
        tokens.split(|token| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ';'))
    {
        let mut after_use = item.iter().skip_while(|token| !is_word(token, "use")).skip(1);
        let Some(TokenTree::Ident(room)) = after_use.next() else { continue };
        let room = room.to_string();
        if rooms.contains(&room) {
            for name in identifiers(&after_use.cloned().collect()) {
                exports.insert(name.to_string(), room.clone());
            }
        }
    }
    Ok(exports)
}

/// Collects the first name after the crate root in each path of a module `depth` levels below the
/// root.
fn collect_paths(stream: &TokenStream, depth: usize, used: &mut BTreeSet<String>) {
    let tokens: Vec<TokenTree> = stream.clone().into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        if let TokenTree::Group(group) = &tokens[at] {
            collect_paths(&group.stream(), depth, used);
        }
        let mut levels = if is_word(&tokens[at], "crate") { depth } else { 0 };
        let mut next = at;
        while tokens.get(next).is_some_and(|token| is_word(token, "super")) {
            levels += 1;
            next = after_separator(&tokens, next + 1).unwrap_or(tokens.len());
        }
        if is_word(&tokens[at], "crate") {
            next = after_separator(&tokens, at + 1).unwrap_or(tokens.len());
        }
        if levels == depth && next > at {
            match tokens.get(next) {
                Some(TokenTree::Ident(name)) => {
                    used.insert(name.to_string());
                }
                Some(TokenTree::Group(group)) => collect_heads(group.stream(), used),
                _ => {}
            }
        }
        at = next.max(at + 1);
    }
}

/// Returns the position after a `::` that starts at `at`, or `None` if there is none.
fn after_separator(tokens: &[TokenTree], at: usize) -> Option<usize> {
    let is_colon =
        |token: &TokenTree| matches!(token, TokenTree::Punct(mark) if mark.as_char() == ':');
    (tokens.len() > at + 1 && is_colon(&tokens[at]) && is_colon(&tokens[at + 1])).then_some(at + 2)
}

/// Collects the first name of each path in the braces of a `use`.
fn collect_heads(stream: TokenStream, used: &mut BTreeSet<String>) {
    let mut is_head = true;
    for token in stream {
        match token {
            TokenTree::Ident(name) if is_head => {
                used.insert(name.to_string());
                is_head = false;
            }
            TokenTree::Punct(mark) => is_head |= mark.as_char() == ',',
            TokenTree::Ident(_) | TokenTree::Group(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Returns the cycles: the sets of modules that depend on each other, each set sorted.
fn find_cycles(graph: &Graph) -> Vec<Vec<String>> {
    let reachable: BTreeMap<&str, BTreeSet<&str>> =
        graph.keys().map(|start| (start.as_str(), reach(graph, start))).collect();
    let mut cycles = BTreeSet::new();
    for (start, reached) in &reachable {
        let cycle: Vec<String> = reached
            .iter()
            .filter(|other| reachable[**other].contains(start))
            .map(|other| (*other).to_owned())
            .collect();
        if cycle.len() > 1 {
            cycles.insert(cycle);
        }
    }
    cycles.into_iter().collect()
}

fn reach<'g>(graph: &'g Graph, start: &str) -> BTreeSet<&'g str> {
    let mut reached = BTreeSet::new();
    let mut open = vec![start];
    while let Some(room) = open.pop() {
        for used in &graph[room] {
            if reached.insert(used.as_str()) {
                open.push(used);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(source: &str, depth: usize) -> Vec<String> {
        let mut used = BTreeSet::new();
        let stream = source.parse().expect("it is Rust");
        collect_paths(&without_unit_tests(stream), depth, &mut used);
        used.into_iter().collect()
    }

    #[test]
    fn paths_from_the_crate_root_are_found_in_every_form() {
        assert_eq!(used("use crate::store::Task;", 1), ["store"]);
        assert_eq!(used("use crate::{store::{a, b}, wait, Id};", 2), ["Id", "store", "wait"]);
        assert_eq!(used("fn f() { println!(\"{}\", crate::net::x()) }", 1), ["net"]);
    }

    #[test]
    fn super_counts_only_when_it_reaches_the_root() {
        assert_eq!(used("use super::store::Task;", 1), ["store"]);
        assert!(used("use super::store::Task;", 2).is_empty());
        assert_eq!(used("use super::super::store::Task;", 2), ["store"]);
    }

    #[test]
    fn unit_tests_are_left_out() {
        assert!(used("#[cfg(test)] mod tests { use crate::store; }", 1).is_empty());
    }

    #[test]
    fn a_cycle_is_reported_once_with_all_its_modules() {
        let edge = |user: &str, used: &[&str]| {
            (user.to_owned(), used.iter().map(|name| (*name).to_owned()).collect())
        };
        let graph: Graph =
            [edge("a", &["b"]), edge("b", &["c"]), edge("c", &["a"]), edge("d", &["a"])].into();
        assert_eq!(find_cycles(&graph), [["a", "b", "c"]]);
    }
}
