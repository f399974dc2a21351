//! Files that the text itself writes, or fetches, and then runs.

use std::rc::Rc;

use super::call::Shape;
use super::expand::{ANY, Field, NEXT, SURE, joined, programs};
use super::variables::Variables;
use super::walk::{Place, Walker};
use super::{literals, output};
use crate::ast::{Redirect, Statement, Word};
use crate::parse::Origin;

/// Programs that fetch a file.
const FETCHING: &[&str] = &["aria2c", "curl", "fetch", "wget"];

/// Under which name it is kept among the variables where a download is unpacked.
const UNPACKED: &str = "unpacked in";

/// Bytes of a written file that are kept.
const FILE_MAX: usize = 32 << 10;

/// What is kept of a file that comes from elsewhere.
fn fetched() -> String {
    NEXT.to_string()
}

/// Under which name the content of a file is kept among the variables; none can have it.
fn key(path: &str) -> String {
    format!("file {}", path.trim_start_matches("./"))
}

impl Walker {
    /// Keeps what a statement writes into files.
    pub(super) fn writes(&mut self, statement: &Statement, place: &Place) {
        let named = |to: &Word| {
            let path = joined(to, &self.variables, 0).text;
            (!path.contains(ANY) && !path.starts_with("/dev/")).then_some(path)
        };
        let redirected = |redirect: &Redirect| match redirect {
            Redirect::Writes { to, appends } => Some((named(to)?, *appends)),
            Redirect::Reads(_) | Redirect::Given(_) | Redirect::Other(_) => None,
        };
        let mut files: Vec<(String, bool)> =
            statement.redirects.iter().filter_map(redirected).collect();
        let programs = programs(std::slice::from_ref(statement));
        let tees = programs.iter().any(|program| program == "tee");
        let is_fetched = programs.iter().any(|name| is_fetching(name));
        if files.is_empty() && !tees && !is_fetched {
            return;
        }
        let input = place.stdin.as_ref().map(|field| field.text.clone());
        let text = output::of_statement(statement, input, &self.variables);
        let text = if is_fetched { Some(fetched()) } else { text };
        let Some(text) = text.filter(|text| text.len() <= FILE_MAX) else { return };
        let mut last = vec![];
        output::each_simple(statement, &mut |words| {
            last = words.iter().map(|word| joined(word, &self.variables, 0).text).collect();
        });
        if is_fetched {
            self.unpacks(&last);
        }
        let appends = tees && last.iter().any(|word| word == "-a" || word == "--append");
        files.extend(own_files(&last).into_iter().map(|file| (file, appends)));
        for (file, appends) in files {
            let before = content(&self.variables, &file).filter(|_| appends).unwrap_or_default();
            let text = if before == fetched() { before } else { before + &text };
            Rc::make_mut(&mut self.variables).set(&key(&file), text, true);
        }
    }

    /// Keeps where a download is unpacked: `curl … | tar xz -C DIRECTORY`.
    fn unpacks(&mut self, words: &[String]) {
        let Some(("tar" | "bsdtar" | "unzip" | "cpio", args)) =
            words.split_first().map(|(name, args)| (name.as_str(), args))
        else {
            return;
        };
        let at = args.iter().position(|arg| matches!(arg.as_str(), "-C" | "-d" | "--directory"));
        let directory = at.and_then(|at| args.get(at + 1)).map_or(".", String::as_str);
        let directory = directory.trim_end_matches('/').to_owned();
        Rc::make_mut(&mut self.variables).set(UNPACKED, directory, true);
    }

    /// Whether a script lies where a download was unpacked.
    fn was_unpacked(&self, path: &str) -> bool {
        let is_script = path.ends_with(".sh") || path.ends_with("/install");
        let directory = self.variables.get(UNPACKED, 0);
        is_script
            && directory.is_some_and(|directory| match directory.as_str() {
                "." => !path.starts_with(['/', '~']),
                directory => path.strip_prefix(directory).is_some_and(|r| r.starts_with('/')),
            })
    }

    /// Takes a file that a shell runs.
    pub(super) fn written_file(&mut self, file: &Field, place: &Place) {
        match content(&self.variables, &file.text) {
            Some(text) if text == fetched() => self.shape(Shape::PipeToShell, file.span),
            Some(text) => self.queue_text(text, Origin::Within(file.span), place),
            None if self.was_unpacked(&file.text) => self.shape(Shape::PipeToShell, file.span),
            None => {}
        }
    }

    /// Takes `./x.sh`; returns whether the text says what is in it.
    pub(super) fn runs_written(&mut self, name: &Field, place: &Place) -> bool {
        let is_path = name.text.contains('/') || name.text.starts_with(SURE);
        let Some(text) = content(&self.variables, &name.text).filter(|_| is_path) else {
            if self.was_unpacked(&name.text) {
                self.shape(Shape::PipeToShell, name.span);
            }
            return false;
        };
        let first = text.lines().next().unwrap_or_default();
        let is_shell = !first.starts_with("#!") || first.ends_with("sh") || first.contains("sh ");
        if text == fetched() || is_shell {
            self.written_file(name, place);
        }
        is_shell
    }

    /// Gives an interpreter the file that it is to run as if it read it.
    pub(super) fn reads_written(&mut self, program: &str, args: &[Field], place: &mut Place) {
        let file = args.iter().find(|field| !field.text.starts_with('-'));
        let Some(file) = file else { return };
        let is_code = [".py", ".js", ".mjs", ".ts", ".rb", ".pl", ".php", ".lua"];
        let is_one = is_code.iter().any(|suffix| file.text.ends_with(suffix));
        if !is_one || place.stdin.is_some() || !literals::is_language(program) {
            return;
        }
        if let Some(text) = content(&self.variables, &file.text) {
            if text == fetched() {
                self.shape(Shape::PipeToShell, file.span);
            } else {
                place.stdin = Some(Field { text, span: file.span, ..Field::default() });
            }
        }
    }
}

fn is_fetching(program: &str) -> bool {
    FETCHING.contains(&program)
}

fn content(variables: &Variables, path: &str) -> Option<String> {
    variables.get(&key(path), 0)
}

/// Returns the files that `tee`, `curl -o` and `wget` write.
fn own_files(words: &[String]) -> Vec<String> {
    let Some((program, args)) = words.split_first() else { return vec![] };
    let plain = || args.iter().filter(|arg| !arg.starts_with('-')).cloned();
    let behind = |options: &[&str]| {
        let at = args.iter().position(|arg| options.contains(&arg.as_str()));
        at.and_then(|at| args.get(at + 1).cloned())
    };
    let of_address = || {
        let address = plain().find(|arg| arg.contains("://"))?;
        address.rsplit('/').next().map(|name| name.split('?').next().unwrap_or(name).to_owned())
    };
    match program.as_str() {
        "tee" => plain().collect(),
        "curl" | "aria2c" | "fetch" => {
            let named = args.iter().any(|arg| {
                arg == "--remote-name"
                    || arg.starts_with('-') && !arg.starts_with("--") && arg.contains('O')
            });
            let short = args.iter().position(|arg| {
                arg.starts_with('-') && !arg.starts_with("--") && arg.ends_with('o')
            });
            let short = short.and_then(|at| args.get(at + 1).cloned());
            short
                .or_else(|| behind(&["--output"]))
                .or_else(|| of_address().filter(|_| named))
                .into_iter()
                .collect()
        }
        "wget" => {
            let short = args.iter().position(|arg| {
                arg.starts_with('-') && !arg.starts_with("--") && arg.ends_with('O')
            });
            let short = short.and_then(|at| args.get(at + 1).cloned());
            short
                .or_else(|| behind(&["--output-document"]))
                .or_else(of_address)
                .into_iter()
                .collect()
        }
        _ => vec![],
    }
}
