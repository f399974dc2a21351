//! Programs that run a command for each of many things: `xargs`, `parallel`, `find`.

use super::expand::{ANY, Field, SURE};
use super::walk::{Place, Walker};
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
        "--replace",
        "-J",
        "-R",
    ];
    let command = behind(args, VALUES, 0);
    if command.is_empty() {
        return;
    }
    // What it reads, when the text says so: `echo / | xargs rm -rf`.
    let read = place.stdin.as_ref().map(|field| field.text.clone());
    let replaced = args.iter().position(|field| field.text.starts_with("-I")).map(|at| {
        let attached = &args[at].text[2..];
        match attached {
            "" => args.get(at + 1).map_or("{}", |field| field.text.as_str()).to_owned(),
            name => name.to_owned(),
        }
    });
    // It reads nothing itself, but what wrote the words is worth knowing.
    let inner = Place { stdin: None, ..place.clone() };
    let span = command[0].span;
    let mut given: Vec<String> = match &read {
        Some(text) if !text.contains([ANY, SURE]) => {
            text.split_whitespace().take(64).map(str::to_owned).collect()
        }
        Some(_) | None => vec![ANY.to_string()],
    };
    if given.is_empty() {
        given.push(ANY.to_string());
    }
    let fields = match replaced {
        Some(mark) => command
            .iter()
            .map(|field| {
                let text = field.text.replace(&mark, given.first().map_or("", |one| one));
                Field {
                    at: if text == field.text { field.at } else { None },
                    text,
                    ..field.clone()
                }
            })
            .collect(),
        None => given
            .into_iter()
            .fold(command.to_vec(), |fields, one| Walker::with_argument(&fields, one)),
    };
    walker.call(&fields, span, &inner);
}

pub(super) fn parallel(walker: &mut Walker, args: &[Field], place: &Place) {
    const VALUES: &[&str] = &["-j", "-n", "-N", "-P", "-a", "--jobs", "--delay", "--colsep", "-S"];
    let command = behind(args, VALUES, 0);
    let end = command.iter().position(|field| field.text.starts_with(":::"));
    let (command, given) = command.split_at(end.unwrap_or(command.len()));
    if command.is_empty() {
        // The words are commands themselves.
        for field in given.iter().skip(1) {
            walker.text_of(field, place);
        }
        return;
    }
    let words: Vec<&str> = command.iter().map(|field| field.text.as_str()).collect();
    let text = words.join(" ");
    let span = command[0].span.to(command[command.len() - 1].span);
    let values: Vec<String> = match given.len() {
        0 => vec![ANY.to_string()],
        _ => given.iter().skip(1).take(8).map(|field| field.text.clone()).collect(),
    };
    for value in values {
        let text = if text.contains('{') {
            text.replace("{}", &value).replace("{1}", &value)
        } else {
            format!("{text} {value}")
        };
        walker.text_of(&Field { text, span, ..Field::default() }, place);
    }
}

pub(super) fn find(walker: &mut Walker, program: &str, args: &[Field], place: &Place) {
    let is_start = |field: &Field| {
        if program == "find" || program == "bfs" {
            matches!(field.text.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir")
        } else {
            matches!(field.text.as_str(), "-x" | "-X" | "--exec" | "--exec-batch")
        }
    };
    let mut rest = args;
    while let Some(at) = rest.iter().position(is_start) {
        rest = &rest[at + 1..];
        let end = rest.iter().position(|field| matches!(field.text.as_str(), ";" | "+"));
        let (command, after) = rest.split_at(end.unwrap_or(rest.len()));
        let found: Vec<Field> = command
            .iter()
            .map(|field| {
                let text = field.text.replace("{}", &format!("{SURE}/found"));
                Field {
                    at: if text == field.text { field.at } else { None },
                    text,
                    ..field.clone()
                }
            })
            .collect();
        if let Some(first) = found.first() {
            let inner = Place { stdin: None, upstream: vec![], ..place.clone() };
            walker.call(&found, first.span, &inner);
        }
        rest = after;
    }
}
