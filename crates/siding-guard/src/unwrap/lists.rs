//! Programs that run a command for each of many things: `xargs`, `parallel`, `find`.

use super::expand::{ANY, Field, SURE};
use super::found;
use super::walk::{CHOICES_MAX, Place, Walker};
use super::wrappers::behind;

pub(super) fn xargs(walker: &mut Walker, args: &[Field], place: &Place) {
    const VALUES: &[&str] = &[
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
    let command = behind(args, VALUES, 0);
    let Some(first) = command.first() else { return };
    let own = &args[..args.len() - command.len()];
    // What it reads, when the text says so: `echo / | xargs rm -rf`.
    let read = place.stdin.as_ref().map(|field| field.text.as_str());
    let mark = replaced(own);
    let given = read.map(|text| words_of(text, mark.is_some() || is_by_line(own)));
    let given = given.filter(|given| !given.is_empty()).unwrap_or_else(|| vec![ANY.to_string()]);
    // It reads nothing itself, but who wrote the words is worth knowing.
    let mut inner = Place { stdin: None, ..place.clone() };
    inner.upstream.push("xargs".to_owned());
    match mark {
        Some(mark) => {
            for one in given.iter().take(CHOICES_MAX) {
                walker.call(&with_replaced(command, &mark, one), first.span, &inner);
            }
        }
        None => {
            let fields = given
                .into_iter()
                .fold(command.to_vec(), |fields, one| Walker::with_argument(&fields, one));
            walker.call(&fields, first.span, &inner);
        }
    }
}

/// Words that are given to one command at most; what comes behind them is not known.
const GIVEN_MAX: usize = 64;

/// Returns the words that `xargs` makes of what it reads.
fn words_of(text: &str, by_line: bool) -> Vec<String> {
    let is_end = |c: char| matches!(c, '\n' | '\0') || !by_line && c.is_whitespace();
    let mut words = text.split(is_end).filter(|word| !word.trim().is_empty());
    let mut given: Vec<String> = words.by_ref().take(GIVEN_MAX).map(str::to_owned).collect();
    if words.next().is_some() {
        given.push(ANY.to_string());
    }
    given
}

/// `-0`, `-d`, `-L`: whole lines.
fn is_by_line(options: &[Field]) -> bool {
    let by_line = |option: &str| {
        option.starts_with("-d")
            || option.starts_with("--delimiter")
            || option == "--null"
            || option.starts_with('-') && !option.starts_with("--") && option.contains('0')
    };
    options.iter().any(|field| by_line(&field.text))
}

/// Returns what stands for a word that is read: `-I{}`, `-I {}`, `-i`, `--replace`.
fn replaced(options: &[Field]) -> Option<String> {
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

fn with_replaced(command: &[Field], mark: &str, one: &str) -> Vec<Field> {
    let replaced = |field: &Field| {
        let text = field.text.replace(mark, one);
        Field { at: field.at.filter(|_| text == field.text), text, ..field.clone() }
    };
    command.iter().map(replaced).collect()
}

pub(super) fn parallel(walker: &mut Walker, args: &[Field], place: &Place) {
    const VALUES: &[&str] = &[
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
    let command = behind(args, VALUES, 0);
    let end = command.iter().position(|field| field.text.starts_with(":::"));
    let (command, given) = command.split_at(end.unwrap_or(command.len()));
    if command.is_empty() {
        // The words are commands themselves.
        for field in given.iter().filter(|field| !field.text.starts_with(":::")) {
            walker.text_of(field, place);
        }
        if given.is_empty() {
            walker.read(args, place);
        }
        return;
    }
    let own = &args[..args.len() - command.len() - given.len()];
    let mark = replaced(own).unwrap_or_else(|| "{}".to_owned());
    let is_quoted = own.iter().any(|field| matches!(field.text.as_str(), "-q" | "--quote"));
    let read = place.stdin.as_ref().map(|field| words_of(&field.text, true));
    let rows = match given {
        [] => read
            .unwrap_or_else(|| vec![ANY.to_string()])
            .into_iter()
            .map(|value| vec![value])
            .collect(),
        given => rows(given),
    };
    let span = command[0].span.to(command[command.len() - 1].span);
    let mut inner = Place { stdin: None, ..place.clone() };
    inner.upstream.push("parallel".to_owned());
    for row in rows.into_iter().take(CHOICES_MAX / 2) {
        let words = with_row(command, &mark, &row);
        // It joins its words by blanks and gives that to a shell, but quotes what it puts in.
        let joined: Vec<String> = words
            .iter()
            .map(|(text, is_value)| match is_quoted || *is_value {
                true => format!("'{}'", text.replace('\'', "'\\''")),
                false => text.clone(),
            })
            .collect();
        let text = joined.join(" ");
        walker.text_of(&Field { text, span, ..Field::default() }, &inner);
        // What is meant by `parallel bash -c '…'`, whatever becomes of the quotes.
        let fields: Vec<Field> =
            words.into_iter().map(|(text, _)| Field { text, span, ..Field::default() }).collect();
        if is_shell_with_text(&fields) {
            walker.call(&fields, span, &inner);
        }
    }
}

/// `bash -c …`, `sudo sh -c …`
fn is_shell_with_text(fields: &[Field]) -> bool {
    fields.iter().any(|field| field.text == "-c" || field.text == "-lc")
}

/// Returns each combination of the words behind several `:::`.
fn rows(given: &[Field]) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = vec![vec![]];
    for group in given.split(|field| field.text.starts_with(":::")).skip(1) {
        let is_files = given.iter().any(|field| field.text.starts_with("::::"));
        let values: Vec<String> = match is_files {
            true => vec![ANY.to_string()],
            false => group.iter().map(|field| field.text.clone()).collect(),
        };
        let longer = |row: &Vec<String>| {
            let row = row.clone();
            let one = move |value: &String| [row.as_slice(), std::slice::from_ref(value)].concat();
            values.iter().map(one).collect::<Vec<_>>()
        };
        rows = rows.iter().flat_map(longer).take(CHOICES_MAX).collect();
    }
    rows
}

/// Returns the words with the values put in, and whether each is nothing but a value.
fn with_row(command: &[Field], mark: &str, row: &[String]) -> Vec<(String, bool)> {
    let mut has_mark = false;
    let all = row.join(" ");
    let mut words = vec![];
    for field in command {
        let mut text = field.text.replace(mark, &all);
        for (at, value) in row.iter().enumerate() {
            text = text.replace(&format!("{{{}}}", at + 1), value);
        }
        for change in ["{.}", "{/}", "{//}", "{/.}", "{#}", "{%}"] {
            text = text.replace(change, &SURE.to_string());
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

pub(super) fn find(walker: &mut Walker, program: &str, args: &[Field], place: &Place) {
    let is_find = matches!(program, "find" | "bfs");
    let is_start = |field: &Field| {
        if is_find {
            matches!(field.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir")
        } else {
            matches!(field.text.as_str(), "-x" | "-X" | "--exec" | "--exec-batch")
        }
    };
    let words: Vec<&str> = args.iter().map(|field| field.text.as_str()).collect();
    let found = if is_find { found::find(&words) } else { found::fd(&words) };
    let inner = Place { stdin: None, upstream: vec![], ..place.clone() };
    // `-delete` is what `rm` does with all that is found.
    if let Some(field) = args.iter().find(|field| is_find && field.text == "-delete") {
        let rm = ["rm", "-r"].map(|text| Field {
            text: text.to_owned(),
            span: args[0].span.to(field.span),
            ..Field::default()
        });
        let fields = found
            .iter()
            .fold(rm.to_vec(), |fields, one| Walker::with_argument(&fields, one.clone()));
        walker.call(&fields, rm[0].span, &inner);
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
                true => with_replaced(command, "{}", one),
                // `fd -x` adds what it finds; `find` runs the command as it is.
                false if !is_find => Walker::with_argument(command, one.clone()),
                false => command.to_vec(),
            };
            walker.call(&fields, first.span, &inner);
            if !has_mark && is_find {
                break;
            }
        }
    }
}
