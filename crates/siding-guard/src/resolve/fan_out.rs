//! Resolves calls of programs that run a command for each of several inputs: `xargs`, `parallel`,
//! `find`.

use siding_model::shell_words::single_quote;

use super::expand::{Field, NONEMPTY_MARKER, UNKNOWN_MARKER};
use super::file_listing;
use super::walk::{ExecContext, MAX_CHOICES, Walker};
use super::wrappers::skip_options;

pub(super) fn resolve_xargs(walker: &mut Walker, args: &[Field], context: &ExecContext) {
    const XARGS_VALUE_OPTIONS: &[&str] = &[
        "-I",
        "-n",
        "-P",
        "-L",
        "-d",
        "-E",
        "-s",
        "-a",
        "--max-args",
        "--max-procs",
        "--max-lines",
        "--delimiter",
        "--arg-file",
        "-J",
        "-R",
    ];
    let command = skip_options(args, XARGS_VALUE_OPTIONS, 0);
    let Some(first) = command.first() else { return };
    let options = &args[..args.len() - command.len()];
    // The standard input, if the text determines it: `echo / | xargs rm -rf`.
    let read = context.stdin.as_ref().map(|field| field.text.as_str());
    let placeholder = find_placeholder(options);
    let words =
        read.map(|text| split_input(text, placeholder.is_some() || splits_by_line(options)));
    let words =
        words.filter(|given| !given.is_empty()).unwrap_or_else(|| vec![UNKNOWN_MARKER.to_string()]);
    // The command does not read this input. The programs before `xargs` are retained, because rules
    // match the origin of the words.
    let mut inner = ExecContext { stdin: None, ..context.clone() };
    inner.upstream.push("xargs".to_owned());
    match placeholder {
        Some(mark) => {
            for one in words.iter().take(MAX_CHOICES) {
                walker.resolve_call(&replace_placeholder(command, &mark, one), first.span, &inner);
            }
        }
        None => {
            let fields = words
                .into_iter()
                .fold(command.to_vec(), |fields, one| Walker::append_argument(&fields, one));
            walker.resolve_call(&fields, first.span, &inner);
        }
    }
}

/// Maximum number of input words that are passed to one command. Words beyond this number are
/// treated as one unknown word.
const MAX_INPUT_WORDS: usize = 64;

/// Returns the words into which `xargs` or `parallel` splits its input.
fn split_input(text: &str, by_line: bool) -> Vec<String> {
    let is_end = |c: char| matches!(c, '\n' | '\0') || !by_line && c.is_whitespace();
    let mut words = text.split(is_end).filter(|word| !word.trim().is_empty());
    let mut given: Vec<String> = words.by_ref().take(MAX_INPUT_WORDS).map(str::to_owned).collect();
    if words.next().is_some() {
        given.push(UNKNOWN_MARKER.to_string());
    }
    given
}

/// Returns whether the input is split into lines instead of words, because an option such as `-0`
/// or `-d` replaces the separator.
fn splits_by_line(options: &[Field]) -> bool {
    let by_line = |option: &str| {
        option.starts_with("-d")
            || option.starts_with("--delimiter")
            || option == "--null"
            || option.starts_with('-') && !option.starts_with("--") && option.contains('0')
    };
    options.iter().any(|field| by_line(&field.text))
}

/// Returns the placeholder that an option defines for an input word: `-I{}`, `-I {}`, `-i`,
/// `--replace`.
fn find_placeholder(options: &[Field]) -> Option<String> {
    options.iter().enumerate().find_map(|(at, field)| {
        let text = field.text.as_str();
        if let Some(mark) = text.strip_prefix("--replace=") {
            return Some(mark.to_owned());
        }
        let attached = match text {
            "--replace" | "-i" => "{}",
            _ => text.strip_prefix("-I").or_else(|| text.strip_prefix("-i"))?,
        };
        let next = options.get(at + 1).map_or("{}", |field| field.text.as_str());
        Some(if attached.is_empty() { next } else { attached }.to_owned())
    })
}

fn replace_placeholder(command: &[Field], placeholder: &str, one: &str) -> Vec<Field> {
    let replaced = |field: &Field| {
        let text = field.text.replace(placeholder, one);
        Field { offset: field.offset.filter(|_| text == field.text), text, ..field.clone() }
    };
    command.iter().map(replaced).collect()
}

pub(super) fn resolve_parallel(walker: &mut Walker, args: &[Field], context: &ExecContext) {
    const PARALLEL_VALUE_OPTIONS: &[&str] = &[
        "-j",
        "-n",
        "-N",
        "-P",
        "-a",
        "-I",
        "-S",
        "-C",
        "--jobs",
        "--delay",
        "--colsep",
        "--joblog",
        "--results",
        "--retries",
        "--tagstring",
        "--arg-file",
        "--sshlogin",
        "--workdir",
        "--id",
    ];
    let command = skip_options(args, PARALLEL_VALUE_OPTIONS, 0);
    let end = command.iter().position(|field| field.text.starts_with(":::"));
    let (command, given) = command.split_at(end.unwrap_or(command.len()));
    if command.is_empty() {
        // Without a command, the words after `:::` are the commands.
        for field in given.iter().filter(|field| !field.text.starts_with(":::")) {
            walker.queue_field(field, context);
        }
        if given.is_empty() {
            walker.queue_stdin(args, context);
        }
        return;
    }
    let options = &args[..args.len() - command.len() - given.len()];
    let placeholder = find_placeholder(options).unwrap_or_else(|| "{}".to_owned());
    let is_quoted = options.iter().any(|field| matches!(field.text.as_str(), "-q" | "--quote"));
    let read = context.stdin.as_ref().map(|field| split_input(&field.text, true));
    let rows = match given {
        [] => read
            .unwrap_or_else(|| vec![UNKNOWN_MARKER.to_string()])
            .into_iter()
            .map(|value| vec![value])
            .collect(),
        given => argument_combinations(given),
    };
    let span = command[0].span.join(command[command.len() - 1].span);
    let mut inner = ExecContext { stdin: None, ..context.clone() };
    inner.upstream.push("parallel".to_owned());
    for row in rows.into_iter().take(MAX_CHOICES / 2) {
        let words = substitute_row(command, &placeholder, &row);
        // `parallel` joins its words with spaces to form a shell text, but quotes the inserted
        // values.
        let joined: Vec<String> = words
            .iter()
            .map(|(text, is_value)| match is_quoted || *is_value {
                true => single_quote(text),
                false => text.clone(),
            })
            .collect();
        let text = joined.join(" ");
        walker.queue_field(&Field { text, span, ..Field::default() }, &inner);
        // `parallel bash -c '…'` is also resolved without the quoting that `parallel` adds, because
        // that is the command that its author probably intended.
        let fields: Vec<Field> =
            words.into_iter().map(|(text, _)| Field { text, span, ..Field::default() }).collect();
        if has_code_option(&fields) {
            walker.resolve_call(&fields, span, &inner);
        }
    }
}

/// Returns whether the words contain an option `-c`, as in `bash -c …` and `sudo sh -c …`.
fn has_code_option(fields: &[Field]) -> bool {
    fields.iter().any(|field| field.text == "-c" || field.text == "-lc")
}

/// Returns at most [`MAX_CHOICES`] combinations of the words in the groups after `:::`. The words
/// of a group after `::::` come from files and are unknown. `given` starts with one of these
/// separators.
fn argument_combinations(given: &[Field]) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = vec![vec![]];
    let mut rest = given;
    while let Some((separator, words)) = rest.split_first() {
        let end = words.iter().position(|field| field.text.starts_with(":::"));
        let (group, next) = words.split_at(end.unwrap_or(words.len()));
        rest = next;
        let values: Vec<String> = match separator.text.starts_with("::::") {
            true => vec![UNKNOWN_MARKER.to_string()],
            false => group.iter().map(|field| field.text.clone()).collect(),
        };
        let longer = |row: &Vec<String>| {
            let row = row.clone();
            let one = move |value: &String| [row.as_slice(), std::slice::from_ref(value)].concat();
            values.iter().map(one).collect::<Vec<_>>()
        };
        rows = rows.iter().flat_map(longer).take(MAX_CHOICES).collect();
    }
    rows
}

/// Returns the words of a command with the values of a row inserted. A word is paired with true if
/// a value was inserted and the word itself has no blank, so that it stays one word.
fn substitute_row(command: &[Field], placeholder: &str, row: &[String]) -> Vec<(String, bool)> {
    let mut has_mark = false;
    let all = row.join(" ");
    let mut words = vec![];
    for field in command {
        let mut text = field.text.replace(placeholder, &all);
        for (at, value) in row.iter().enumerate() {
            text = text.replace(&format!("{{{}}}", at + 1), value);
        }
        for change in ["{.}", "{/}", "{//}", "{/.}", "{#}", "{%}"] {
            text = text.replace(change, &NONEMPTY_MARKER.to_string());
        }
        has_mark |= text != field.text;
        let is_value = text != field.text && !field.text.contains(' ');
        words.push((text, is_value));
    }
    if !has_mark {
        words.extend(row.iter().map(|value| (value.clone(), true)));
    }
    words
}

pub(super) fn resolve_find(
    walker: &mut Walker,
    program: &str,
    args: &[Field],
    context: &ExecContext,
) {
    let is_find = matches!(program, "find" | "bfs");
    let is_start = |field: &Field| {
        if is_find {
            matches!(field.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir")
        } else {
            matches!(field.text.as_str(), "-x" | "-X" | "--exec" | "--exec-batch")
        }
    };
    let words: Vec<&str> = args.iter().map(|field| field.text.as_str()).collect();
    let found = if is_find {
        file_listing::find_patterns(&words)
    } else {
        file_listing::fd_patterns(&words)
    };
    let inner = ExecContext { stdin: None, upstream: vec![], ..context.clone() };
    // `-delete` is resolved as one call of `rm -r` for all matches.
    if let Some(field) = args.iter().find(|field| is_find && field.text == "-delete") {
        let rm = ["rm", "-r"].map(|text| Field {
            text: text.to_owned(),
            span: args[0].span.join(field.span),
            ..Field::default()
        });
        let fields = found
            .iter()
            .fold(rm.to_vec(), |fields, one| Walker::append_argument(&fields, one.clone()));
        walker.resolve_call(&fields, rm[0].span, &inner);
    }
    let mut rest = args;
    while let Some(at) = rest.iter().position(is_start) {
        rest = &rest[at + 1..];
        let end = rest.iter().position(|field| matches!(field.text.as_str(), ";" | "+"));
        let (command, after) = rest.split_at(end.unwrap_or(rest.len()));
        rest = after;
        let Some(first) = command.first() else { continue };
        let has_mark = command.iter().any(|field| field.text.contains("{}"));
        for one in &found {
            let fields = match has_mark {
                true => replace_placeholder(command, "{}", one),
                // `fd -x` appends the match to a command that has no placeholder; `find` does not.
                false if !is_find => Walker::append_argument(command, one.clone()),
                false => command.to_vec(),
            };
            walker.resolve_call(&fields, first.span, &inner);
            if !has_mark && is_find {
                break;
            }
        }
    }
}
