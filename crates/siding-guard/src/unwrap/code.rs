//! Programs that take a text for a shell, or that put words together in a way of their own.

use super::call::Shape;
use super::expand::{Field, SURE};
use super::lists;
use super::values::is_command;
use super::walk::{Carrier, Place, Walker};
use super::within;
use super::wrappers::behind;
use crate::parse::Origin;

/// Programs of which each word, options left out, is a text for a shell.
const EVERY_WORD: &[&str] = &["concurrently", "hyperfine", "mispipe", "mprocs", "pee"];

/// Programs with an option, or a word, whose value is a text for a shell.
const TEXT_BEHIND: &[(&str, &[&str])] = &[
    ("complete", &["-C"]),
    ("compgen", &["-C"]),
    ("entr", &["-s"]),
    ("flock", &["-c", "--command"]),
    ("fly", &["-C", "--command"]),
    ("flyctl", &["-C", "--command"]),
    ("gcloud", &["--command"]),
    (
        "git",
        &[
            "-x",
            "--cc-cmd",
            "--env-filter",
            "--exec",
            "--extcmd",
            "--index-filter",
            "--msg-filter",
            "--open-files-in-pager",
            "--receive-pack",
            "--to-cmd",
            "--tree-filter",
            "--upload-pack",
        ],
    ),
    ("man", &["-P", "-H", "--pager", "--html"]),
    ("mapfile", &["-C"]),
    ("nix-shell", &["--run", "--command"]),
    ("nodemon", &["-x", "--exec"]),
    ("npm", &["-c", "--call"]),
    ("npx", &["-c", "--call"]),
    ("readarray", &["-C"]),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("runuser", &["-c", "--command", "--session-command"]),
    ("scp", &["-S"]),
    ("script", &["-c", "--command"]),
    ("sort", &["--compress-program"]),
    ("split", &["--filter"]),
    ("tcpdump", &["-z"]),
    ("wget", &["--use-askpass"]),
    ("sg", &["-c"]),
    ("su", &["-c", "--command", "--session-command"]),
    (
        "tar",
        &[
            "-F",
            "-I",
            "--checkpoint-action",
            "--info-script",
            "--new-volume-script",
            "--rsh-command",
            "--to-command",
            "--use-compress-program",
        ],
    ),
    ("vagrant", &["-c", "--command"]),
    ("watchexec", &["-c", "--command"]),
    ("zip", &["-TT", "--unzip-command"]),
    ("cargo", &["-s", "--shell"]),
];

/// Takes the programs of this file. Returns whether there is nothing more to unwrap.
pub(super) fn texts(walker: &mut Walker, program: &str, args: &[Field], place: &Place) -> bool {
    for (name, options) in TEXT_BEHIND {
        if *name == program {
            text_behind(walker, args, options, place);
        }
    }
    within::commands(walker, program, args, place);
    if EVERY_WORD.contains(&program) {
        for field in args.iter().filter(|field| !field.text.starts_with('-')) {
            walker.text_of(field, place);
        }
        return true;
    }
    match program {
        "eval" => eval(walker, args, place),
        "trap" | "batch" | "at" => {
            let first = args.iter().find(|field| field.text != "--");
            if let Some(first) = first.filter(|first| program == "trap" && is_code(first)) {
                walker.text_of(first, place);
            }
            if let Some(stdin) = place.stdin.clone().filter(|_| program != "trap") {
                walker.text_of(&stdin, place);
            }
        }
        "alias" => {
            for field in args {
                if let Some((_, text)) = field.text.split_once('=') {
                    let field = Field { text: text.to_owned(), at: None, ..field.clone() };
                    walker.text_of(&field, place);
                }
            }
        }
        "source" | "." => {
            if let Some(file) = args.first() {
                walker.file(file, place);
            }
        }
        "env" => return env(walker, args, place),
        "scp" | "sftp" | "sshfs" | "ssh-copy-id" => ssh_options(walker, args, place),
        "watch" => {
            let values = &["-n", "--interval", "-q", "--equexit"];
            joined(walker, behind(args, values, 0), place);
        }
        "ssh" | "dbclient" | "autossh" => ssh(walker, args, place),
        "adb" => adb(walker, args, place),
        "bind" => {
            for field in args {
                if let Some((_, text)) = field.text.split_once("\":") {
                    let field = Field { text: text.to_owned(), at: None, ..field.clone() };
                    walker.text_of(&field, place);
                }
            }
        }
        "complete" | "compgen" => {
            for pair in args.windows(2).filter(|pair| pair[0].text == "-W") {
                walker.expanded(&pair[1].text, pair[1].span);
            }
        }
        "xargs" => lists::xargs(walker, args, place),
        "env_parallel" | "parallel" | "rush" | "sem" => lists::parallel(walker, args, place),
        "find" | "fd" | "fdfind" | "bfs" => lists::find(walker, program, args, place),
        "git" => git(walker, args, place),
        "tmux" | "screen" => within::terminal(walker, program, args, place),
        "make" | "gmake" => within::make(walker, args, place),
        "siding" => siding(walker, args, place),
        _ => return false,
    }
    true
}

fn text_behind(walker: &mut Walker, args: &[Field], options: &[&str], place: &Place) {
    for (at, field) in args.iter().enumerate() {
        let text = field.text.as_str();
        if options.iter().any(|option| is_option(text, option))
            && let Some(code) = args.get(at + 1)
        {
            walker.text_of(code, place);
        }
        let long = text.split_once('=').filter(|(option, _)| options.contains(option));
        // `-c'rm -rf x'`: a text, and no further letters.
        let attached = || {
            let short =
                options.iter().find(|option| option.len() == 2 && text.starts_with(*option))?;
            text.contains(' ').then(|| &text[short.len()..])
        };
        if let Some(value) = long.map(|(_, value)| value).or_else(attached) {
            // `tar --checkpoint-action=exec=…`
            let value = value.strip_prefix("exec=").unwrap_or(value);
            let field = Field { text: value.to_owned(), at: None, ..field.clone() };
            walker.text_of(&field, place);
        }
    }
}

/// Whether a word is this option, or several letters of which it is the last: `-qec`.
pub(super) fn is_option(word: &str, option: &str) -> bool {
    let letter = option.strip_prefix('-').filter(|letter| letter.len() == 1);
    let letters = word.strip_prefix('-').unwrap_or_default();
    word == option
        || letter.is_some_and(|letter| {
            letters.ends_with(letter) && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
        })
}

/// `trap - INT`, `trap '' INT` and `trap cleanup EXIT` with a function have no text to read, or
/// one of a single word, which reads the same.
fn is_code(field: &Field) -> bool {
    !field.text.is_empty() && !field.text.starts_with('-')
}

/// Joins words by blanks, as `eval` and `ssh` do, into a text for a shell.
fn joined(walker: &mut Walker, args: &[Field], place: &Place) {
    match args {
        [] => {}
        [one] => walker.text_of(one, place),
        [first, .., last] => {
            let words: Vec<&str> = args.iter().map(|field| field.text.as_str()).collect();
            let span = first.span.to(last.span);
            let field = Field { text: words.join(" "), span, ..Field::default() };
            walker.text_of(&field, place);
        }
    }
}

fn eval(walker: &mut Walker, args: &[Field], place: &Place) {
    let args = match args.split_first() {
        Some((first, rest)) if first.text == "--" => rest,
        _ => args,
    };
    let has_lines = |field: &&Field| field.text.trim_matches('\n').contains('\n');
    // Lines of a value that is not in quotes become one line; so do several arguments.
    let lost = args.len() > 1
        && args.iter().any(|field| field.was_split && !field.text.starts_with(SURE))
        || args.len() > 1 && args.iter().any(|field| has_lines(&field));
    if lost && let Some(first) = args.first() {
        let span = args.iter().fold(first.span, |span, field| span.to(field.span));
        walker.shape(Shape::EvalLines, span);
    }
    match args {
        [one] => {
            let origin = one.at.map_or(Origin::Within(one.span), Origin::At);
            walker.queue_carried(one.text.clone(), origin, place, Carrier::Eval);
        }
        args => joined(walker, args, place),
    }
}

/// `env -S 'text'`; everything else of `env` is a plain wrapper.
fn env(walker: &mut Walker, args: &[Field], place: &Place) -> bool {
    for (at, field) in args.iter().enumerate() {
        let text = field.text.as_str();
        if is_option(text, "-S") || text == "--split-string" {
            match args.get(at + 1..).unwrap_or_default() {
                [code, rest @ ..] if !rest.is_empty() => {
                    let words = code.text.split_whitespace().map(|word| Field {
                        text: word.to_owned(),
                        at: None,
                        ..code.clone()
                    });
                    let words: Vec<Field> = words.chain(rest.iter().cloned()).collect();
                    walker.call(&words, code.span, place);
                }
                code => joined(walker, code, place),
            }
            return true;
        }
        let attached = text.strip_prefix("-S").or_else(|| text.strip_prefix("--split-string="));
        if let Some(code) = attached {
            let field = Field { text: code.to_owned(), at: None, ..field.clone() };
            walker.text_of(&field, place);
            return true;
        }
        // A function by way of the environment.
        if let Some((_, body)) = text.split_once("%%=()").filter(|_| text.starts_with("BASH_FUNC_"))
        {
            walker.text_of(&Field { text: body.to_owned(), at: None, ..field.clone() }, place);
        } else if let Some((_name, value)) =
            text.split_once('=').filter(|(name, _)| is_command(name))
        {
            walker.value_is_command(value, field.span, place);
        } else if !text.starts_with('-') && !text.contains('=') {
            break;
        }
    }
    false
}

/// `-o ProxyCommand=…`
fn ssh_options(walker: &mut Walker, args: &[Field], place: &Place) {
    for (at, field) in args.iter().enumerate() {
        let next =
            || args.get(at + 1).filter(|_| field.text == "-o").map(|field| field.text.as_str());
        let option =
            field.text.strip_prefix("-o").filter(|option| !option.is_empty()).or_else(next);
        let value = option.and_then(|option| option.split_once(['=', ' ']));
        if let Some((_, value)) = value.filter(|(name, _)| {
            matches!(*name, "ProxyCommand" | "LocalCommand" | "KnownHostsCommand")
        }) {
            walker.value_is_command(value, field.span, place);
        }
    }
}

fn ssh(walker: &mut Walker, args: &[Field], place: &Place) {
    const VALUES: &[&str] = &[
        "-b", "-c", "-D", "-E", "-e", "-F", "-I", "-i", "-J", "-L", "-l", "-m", "-O", "-o", "-p",
        "-Q", "-R", "-S", "-W", "-w", "-M",
    ];
    ssh_options(walker, args, place);
    let command = behind(args, VALUES, 1);
    if command.is_empty() {
        if let Some(stdin) = place.stdin.clone() {
            let inner = Place { stdin: None, has_input: false, ..place.clone() };
            let origin = stdin.at.map_or(Origin::Within(stdin.span), Origin::At);
            walker.queue_carried(stdin.text, origin, &inner, Carrier::Input);
        }
        return;
    }
    joined(walker, command, place);
}

/// `adb -s DEVICE shell 'rm -r /sdcard'`: the device's shell gets the words, joined by blanks.
fn adb(walker: &mut Walker, args: &[Field], place: &Place) {
    let words = behind(args, &["-s", "-t", "-H", "-P", "-L"], 0);
    if let Some((first, text)) = words.split_first()
        && matches!(first.text.as_str(), "shell" | "exec-out" | "exec-in")
        && !text.is_empty()
    {
        joined(walker, behind(text, &["-e"], 0), place);
    }
}

fn git(walker: &mut Walker, args: &[Field], place: &Place) {
    // `git -c alias.x='!rm -rf /' x`, `git config core.pager 'less; …'`
    for (at, field) in args.iter().enumerate() {
        let (key, given) = match field.text.split_once('=') {
            Some((key, value)) => (key, Some((value, field))),
            None => (field.text.as_str(), args.get(at + 1).map(|next| (next.text.as_str(), next))),
        };
        let Some((value, field)) = given else { continue };
        if let Some(code) = value.strip_prefix('!') {
            if key.starts_with("alias.") || key.starts_with("credential.") {
                walker.text_of(&Field { text: code.to_owned(), at: None, ..field.clone() }, place);
            }
        } else if is_git_command(key) {
            walker.value_is_command(value, field.span, place);
        }
    }
    let words: Vec<&str> = args.iter().map(|field| field.text.as_str()).collect();
    if let Some(at) = words.windows(2).position(|pair| pair == ["submodule", "foreach"]) {
        joined(walker, behind(&args[at + 2..], &[], 0), place);
    }
    if let Some(at) = words.windows(2).position(|pair| pair == ["bisect", "run"])
        && let Some(first) = args.get(at + 2)
    {
        walker.call(&args[at + 2..], first.span, place);
    }
}

/// Whether git runs the value of a setting.
fn is_git_command(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    let parts: Vec<&str> = key.split('.').collect();
    match parts.as_slice() {
        ["core", name] => {
            matches!(*name, "askpass" | "editor" | "fsmonitor" | "pager" | "sshcommand")
        }
        ["diff", "external"] | ["sequence", "editor"] | ["gpg", .., "program"] | ["pager", _] => {
            true
        }
        ["diff" | "filter" | "merge" | "mergetool" | "difftool", .., name] => {
            matches!(
                *name,
                "clean" | "cmd" | "command" | "driver" | "process" | "smudge" | "textconv"
            )
        }
        _ => false,
    }
}

/// `siding run 'text'`, `siding run -- program words`, and what else runs a command in a task.
fn siding(walker: &mut Walker, args: &[Field], place: &Place) {
    const VALUES: &[&str] = &[
        "--budget",
        "--settle",
        "--timeout",
        "--on-timeout",
        "--grace",
        "--signal",
        "--session",
        "--cwd",
        "--env",
        "--stdin",
        "--on-leader-exit",
        "--name",
        "--shell",
        "--match",
        "--resource",
        "--tool",
        "--arguments",
        "--every",
        "--restarts",
        "--url",
        "--bearer-env",
    ];
    let Some((first, rest)) = args.split_first() else { return };
    if !matches!(first.text.as_str(), "run" | "monitor" | "monitor-mcp") {
        return;
    }
    let words = behind(rest, VALUES, 0);
    let own = &rest[..rest.len() - words.len()];
    let has_limit = |field: &Field| field.text.starts_with("--timeout");
    let is_bounded = place.is_bounded || own.iter().any(has_limit);
    let place = &Place { is_bounded, ..place.clone() };
    match words {
        [] => {}
        [text] => walker.text_of(text, place),
        words => walker.call(words, words[0].span, place),
    }
}
