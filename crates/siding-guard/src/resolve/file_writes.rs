//! Tracks files that the text first writes or downloads and then runs.

use std::rc::Rc;

use super::expand::{
    FIELD_SEPARATOR, Field, NONEMPTY_MARKER, UNKNOWN_MARKER, expand_unsplit, program_names,
};
use super::observation::Construct;
use super::variables::Variables;
use super::walk::{ExecContext, Walker};
use super::{interpreter_code, output};
use crate::ast::{Origin, Redirect, Statement, Word};

/// Programs that download a file.
const DOWNLOADERS: &[&str] = &["aria2c", "curl", "fetch", "wget"];

/// The key in the table of variables for the directory of an unpacked download. It contains a
/// blank, so no shell variable has this name.
const UNPACKED_KEY: &str = "unpacked in";

/// Maximum length of a written file's content that is recorded, in bytes.
const MAX_WRITTEN_FILE_BYTES: usize = 32 << 10;

/// Returns the marker that is recorded as the content of a downloaded file.
fn downloaded_content() -> String {
    FIELD_SEPARATOR.to_string()
}

/// Returns the key in the table of variables for the content of a file. It contains a blank, so no
/// shell variable has this name.
fn file_key(path: &str) -> String {
    format!("file {}", path.trim_start_matches("./"))
}

impl Walker {
    /// Records the content that a statement writes to files, as far as the text determines it.
    pub(super) fn record_writes(&mut self, statement: &Statement, context: &ExecContext) {
        let named = |to: &Word| {
            let path = expand_unsplit(to, &self.variables, 0).text;
            (!path.contains(UNKNOWN_MARKER) && !path.starts_with("/dev/")).then_some(path)
        };
        let redirected = |redirect: &Redirect| match redirect {
            Redirect::Writes { to, is_append: appends } => Some((named(to)?, *appends)),
            Redirect::Reads(_) | Redirect::Heredoc(_) | Redirect::Other(_) => None,
        };
        let mut files: Vec<(String, bool)> =
            statement.redirects.iter().filter_map(redirected).collect();
        let programs = program_names(std::slice::from_ref(statement));
        let tees = programs.iter().any(|program| program == "tee");
        let is_fetched = programs.iter().any(|name| is_downloader(name));
        if files.is_empty() && !tees && !is_fetched {
            return;
        }
        let input = context.stdin.as_ref().map(|field| field.text.clone());
        let text = output::statement_output(statement, input, &self.variables);
        let text = if is_fetched { Some(downloaded_content()) } else { text };
        let Some(text) = text.filter(|text| text.len() <= MAX_WRITTEN_FILE_BYTES) else { return };
        let mut last = vec![];
        output::for_each_simple(statement, &mut |words| {
            last = words.iter().map(|word| expand_unsplit(word, &self.variables, 0).text).collect();
        });
        if is_fetched {
            self.record_unpack(&last);
        }
        let appends = tees && last.iter().any(|word| word == "-a" || word == "--append");
        files.extend(output_files(&last).into_iter().map(|file| (file, appends)));
        for (file, appends) in files {
            let before =
                written_content(&self.variables, &file).filter(|_| appends).unwrap_or_default();
            let text = if before == downloaded_content() { before } else { before + &text };
            Rc::make_mut(&mut self.variables).set(&file_key(&file), text, true);
        }
    }

    /// Records the directory in which a download is unpacked: `curl … | tar xz -C DIRECTORY`.
    fn record_unpack(&mut self, words: &[String]) {
        let Some(("tar" | "bsdtar" | "unzip" | "cpio", args)) =
            words.split_first().map(|(name, args)| (name.as_str(), args))
        else {
            return;
        };
        let at = args.iter().position(|arg| matches!(arg.as_str(), "-C" | "-d" | "--directory"));
        let directory = at.and_then(|at| args.get(at + 1)).map_or(".", String::as_str);
        let directory = directory.trim_end_matches('/').to_owned();
        Rc::make_mut(&mut self.variables).set(UNPACKED_KEY, directory, true);
    }

    /// Returns whether a path names a script in the directory of an unpacked download.
    fn is_unpacked_script(&self, path: &str) -> bool {
        let is_script = path.ends_with(".sh") || path.ends_with("/install");
        let directory = self.variables.get(UNPACKED_KEY, 0);
        is_script
            && directory.is_some_and(|directory| match directory.as_str() {
                "." => !path.starts_with(['/', '~']),
                directory => path.strip_prefix(directory).is_some_and(|r| r.starts_with('/')),
            })
    }

    /// Queues the content of a file that a shell runs, if the content is known. If the file or the
    /// archive that contained it was downloaded, reports this.
    pub(super) fn queue_written_file(&mut self, file: &Field, context: &ExecContext) {
        match written_content(&self.variables, &file.text) {
            Some(text) if text == downloaded_content() => {
                self.report_construct(Construct::PipeToShell, file.span)
            }
            Some(text) => self.queue_text(text, Origin::DerivedFrom(file.span), context),
            None if self.is_unpacked_script(&file.text) => {
                self.report_construct(Construct::PipeToShell, file.span)
            }
            None => {}
        }
    }

    /// Queues the content of a script that is run by its path, such as `./x.sh`, as
    /// [`Self::queue_written_file`] does, if the script is written for a shell. Returns true if the
    /// text writes or downloads the script, and the script may be written for a shell.
    pub(super) fn queue_written_program(&mut self, name: &Field, context: &ExecContext) -> bool {
        let is_path = name.text.contains('/') || name.text.starts_with(NONEMPTY_MARKER);
        let Some(text) = written_content(&self.variables, &name.text).filter(|_| is_path) else {
            if self.is_unpacked_script(&name.text) {
                self.report_construct(Construct::PipeToShell, name.span);
            }
            return false;
        };
        let first = text.lines().next().unwrap_or_default();
        let is_shell = !first.starts_with("#!") || first.ends_with("sh") || first.contains("sh ");
        if text == downloaded_content() || is_shell {
            self.queue_written_file(name, context);
        }
        is_shell
    }

    /// Sets the standard input in the context of an interpreter to the content of its script file,
    /// if the content is known. If the file was downloaded, reports this instead.
    pub(super) fn load_interpreted_file(
        &mut self,
        program: &str,
        args: &[Field],
        context: &mut ExecContext,
    ) {
        let file = args.iter().find(|field| !field.text.starts_with('-'));
        let Some(file) = file else { return };
        let is_code = [".py", ".js", ".mjs", ".ts", ".rb", ".pl", ".php", ".lua"];
        let is_one = is_code.iter().any(|suffix| file.text.ends_with(suffix));
        if !is_one || context.stdin.is_some() || !interpreter_code::takes_code(program) {
            return;
        }
        if let Some(text) = written_content(&self.variables, &file.text) {
            if text == downloaded_content() {
                self.report_construct(Construct::PipeToShell, file.span);
            } else {
                context.stdin = Some(Field { text, span: file.span, ..Field::default() });
            }
        }
    }
}

fn is_downloader(program: &str) -> bool {
    DOWNLOADERS.contains(&program)
}

fn written_content(variables: &Variables, path: &str) -> Option<String> {
    variables.get(&file_key(path), 0)
}

/// Returns the files that `tee`, `curl -o` and `wget` write.
fn output_files(words: &[String]) -> Vec<String> {
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
