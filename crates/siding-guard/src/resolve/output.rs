//! Determines the output of commands such as `echo`, `printf`, `cat` and `base64 -d` from the text.

use super::decode::{decode_base64, decode_hex, format_printf, unescape};
use super::expand::{
    NONEMPTY_MARKER, PID_LOOKUP_MARKER, UNKNOWN_MARKER, basename, expand_fields, expand_unsplit,
    program_names,
};
use super::file_listing;
use super::variables::{DIRECTORY_KEY, Variables};
use crate::ast::{Node, Redirect, Statement, Word};

/// Programs whose output is unknown, but is never empty and is not controlled by another machine.
const NONEMPTY_OUTPUT_PROGRAMS: &[&str] =
    &["basename", "date", "dirname", "hostname", "id", "nproc", "uname", "uuidgen", "whoami"];

/// Programs whose output lines are a selection of their input lines.
const LINE_FILTERS: &[&str] = &[
    "egrep", "fgrep", "grep", "head", "pv", "rg", "shuf", "sort", "sponge", "tac", "tail", "uniq",
];

/// Programs that print settings for a shell, as in `eval "$(ssh-agent)"`. Each entry has the
/// beginning of the argument that makes the program do so; it is empty if the program needs none.
const SHELL_SETTINGS_GENERATORS: &[(&str, &str)] = &[
    ("asdf", ""),
    ("brew", "shellenv"),
    ("cargo", "llvm-cov"),
    ("conda", "shell"),
    ("dircolors", ""),
    ("direnv", ""),
    ("docker-machine", "env"),
    ("fnm", "env"),
    ("fzf", "--"),
    ("getopt", ""),
    ("keychain", ""),
    ("lesspipe", ""),
    ("locale", ""),
    ("luarocks", "path"),
    ("mamba", "shell"),
    ("micromamba", "shell"),
    ("minikube", "docker-env"),
    ("mise", "activate"),
    ("nodenv", "init"),
    ("opam", "env"),
    ("perl", "-Mlocal::lib"),
    ("pip", "completion"),
    ("poetry", "env"),
    ("pyenv", ""),
    ("rbenv", "init"),
    ("register-python-argcomplete", ""),
    ("resize", ""),
    ("rustup", "completions"),
    ("siding", "shell-init"),
    ("ssh-agent", ""),
    ("starship", "init"),
    ("tset", ""),
    ("zoxide", "init"),
];

/// Returns the output of a list of commands, or `None` if the output is unknown.
pub(crate) fn body_output(body: &[Statement], variables: &Variables) -> Option<String> {
    match body {
        [] => Some(String::new()),
        [one] => statement_output(one, None, variables),
        several => chain_output(several, variables),
    }
}

/// Returns the output of a statement whose standard input is `input`, or `None` if the output is
/// unknown.
pub(crate) fn statement_output(
    statement: &Statement,
    input: Option<String>,
    variables: &Variables,
) -> Option<String> {
    let heredoc = statement.redirects.iter().rev().find_map(|redirect| match redirect {
        Redirect::Heredoc(word) => Some(expand_unsplit(word, variables, 0).text),
        Redirect::Reads(_) | Redirect::Writes { .. } | Redirect::Other(_) => None,
    });
    let input = heredoc.or(input);
    match &statement.node {
        Node::Simple { words, .. } => simple_output(words, input, &statement.redirects, variables),
        Node::Pipeline(stages) => {
            let mut stdin = input;
            for stage in stages {
                stdin = statement_output(stage, stdin, variables);
            }
            stdin
        }
        Node::Group { body, .. } => match body.as_slice() {
            [one] => statement_output(one, input, variables),
            _ => None,
        },
        Node::Chain(parts) => chain_output(parts, variables),
        Node::Declaration { .. }
        | Node::Branches { .. }
        | Node::Loop(_)
        | Node::Function { .. }
        | Node::Expression(_)
        | Node::Jump { .. } => None,
    }
}

/// Returns the joined output of the commands in a list: `command -v a || command -v b`, `cd x;
/// pwd`. `None` if the output of one of them is unknown.
fn chain_output(parts: &[Statement], variables: &Variables) -> Option<String> {
    let mut has_cd = false;
    let mut out = String::new();
    for part in parts {
        let program =
            program_names(std::slice::from_ref(part)).into_iter().next().unwrap_or_default();
        if program == "cd" {
            has_cd = true;
        } else if has_cd && program == "pwd" {
            out.push(NONEMPTY_MARKER);
        } else {
            out += &statement_output(part, None, variables)?;
            out.push('\n');
        }
    }
    Some(out)
}

fn simple_output(
    words: &[Word],
    input: Option<String>,
    redirects: &[Redirect],
    variables: &Variables,
) -> Option<String> {
    let fields: Vec<_> = words.iter().flat_map(|word| expand_fields(word, variables, 0)).collect();
    let (first, args) = fields.split_first()?;
    let args: Vec<&str> = args.iter().map(|field| field.text.as_str()).collect();
    let name = basename(&first.text);
    let nonempty = || Some(NONEMPTY_MARKER.to_string());
    let is_generator = SHELL_SETTINGS_GENERATORS.iter().any(|(program, word)| {
        *program == name && (word.is_empty() || args.iter().any(|arg| arg.starts_with(word)))
    });
    if is_generator || args.iter().any(|arg| matches!(*arg, "completion" | "completions")) {
        return nonempty();
    }
    match name {
        "echo" => {
            let is_option = |arg: &&str| matches!(*arg, "-n" | "-e" | "-ne" | "-en" | "-E");
            let shown: Vec<&str> = args.iter().copied().skip_while(is_option).collect();
            let text = shown.join(" ");
            let escapes = args.iter().take_while(|arg| is_option(arg)).any(|arg| arg.contains('e'));
            Some(if escapes { unescape(&text) } else { text } + "\n")
        }
        "printf" => format_printf(&args),
        // A selection from a list of process ids is also a list of process ids.
        "awk" | "cut" | "gawk" | "mawk" | "sed" | "tr" | "xargs"
            if is_pid_list(input.as_deref()) =>
        {
            Some(PID_LOOKUP_MARKER.to_string())
        }
        _ if LINE_FILTERS.contains(&name) && reads_input(name, &args) => {
            filter_output(name, &args, input?)
        }
        "pwd" => variables.get(DIRECTORY_KEY, 0),
        "which" | "command" | "type" => lookup_output(name, &args),
        "realpath" | "readlink" | "dirname" => path_output(name, &args).or_else(nonempty),
        "git" if args.contains(&"--show-toplevel") => Some(".".to_owned()),
        "git" if args.contains(&"--git-dir") => Some(".git".to_owned()),
        "cat" if redirects.iter().any(|one| matches!(one, Redirect::Reads(_))) => None,
        "cat" | "tee" if args.iter().all(|arg| arg.starts_with('-')) => input,
        "tee" => input,
        "base64" if args.iter().any(|arg| matches!(*arg, "-d" | "-D" | "--decode" | "-di")) => {
            let decoded = decode_base64(&input?)?;
            String::from_utf8(decoded).ok()
        }
        "rev" if args.is_empty() => {
            let reversed = |line: &str| line.chars().rev().collect::<String>();
            Some(input?.lines().map(reversed).collect::<Vec<_>>().join("\n") + "\n")
        }
        "xxd" if args.contains(&"-r") && args.iter().any(|arg| arg.contains('p')) => {
            decode_hex(&input?)
        }
        "openssl" if is_base64_decode(&args) => String::from_utf8(decode_base64(&input?)?).ok(),
        // Each call of `mktemp` yields a different path, so that content that is written to a path
        // is found when this path is run.
        "mktemp" | "tempfile" => Some(format!("{NONEMPTY_MARKER}{}", words[0].span.start)),
        _ if NONEMPTY_OUTPUT_PROGRAMS.contains(&name) => nonempty(),
        _ => file_listing::listed_paths(name, &args).map(|all| all.join("\n") + "\n"),
    }
}

fn is_pid_list(input: Option<&str>) -> bool {
    input.is_some_and(|text| {
        !text.trim().is_empty() && text.trim().chars().all(|c| c == PID_LOOKUP_MARKER)
    })
}

fn is_base64_decode(args: &[&str]) -> bool {
    args.contains(&"-d") && (args.contains(&"base64") || args.contains(&"-base64"))
}

/// Returns whether a program reads lines from standard input because its arguments name no file.
fn reads_input(name: &str, args: &[&str]) -> bool {
    let changes = |arg: &&str| {
        let letters = arg.strip_prefix('-').unwrap_or_default();
        arg.starts_with('-') && letters.contains(['c', 'o', 'r', 'l', 'L', 'R', 'f'])
    };
    let own = usize::from(matches!(name, "egrep" | "fgrep" | "grep" | "rg"));
    let is_number =
        |arg: &str| arg.starts_with('+') || arg.bytes().all(|byte| byte.is_ascii_digit());
    let operands = args.iter().filter(|arg| !arg.starts_with('-') && !is_number(arg)).count();
    // With such an option, filters other than `sort` do not print lines of standard input.
    operands <= own && (name == "sort" || !args.iter().any(changes))
}

fn filter_output(name: &str, args: &[&str], input: String) -> Option<String> {
    let is_grep = matches!(name, "egrep" | "fgrep" | "grep" | "rg");
    let inverts = |arg: &&str| arg.starts_with('-') && arg.contains('v');
    Some(if is_grep && !args.iter().any(inverts) {
        file_listing::filtered_paths(&input)
    } else {
        input
    })
}

/// Returns the name of the program whose path `which rm`, `command -v rm` or `type -p rm` prints;
/// `None` for other uses of these commands.
fn lookup_output(name: &str, args: &[&str]) -> Option<String> {
    let (options, names): (Vec<&str>, Vec<&str>) =
        args.iter().copied().partition(|arg| arg.starts_with('-'));
    let asks = match name {
        "which" => true,
        "command" => options.contains(&"-v"),
        _ => options.iter().any(|option| matches!(*option, "-p" | "-P")),
    };
    match names.as_slice() {
        [program] if asks => Some((*program).to_owned()),
        _ => None,
    }
}

/// Returns a path to the file or directory whose path `realpath .`, `readlink -f ~` or `dirname
/// "$PWD"` prints, or `None` for an unknown path.
fn path_output(name: &str, args: &[&str]) -> Option<String> {
    let path = args.iter().rfind(|arg| !arg.starts_with('-'))?;
    if path.contains([UNKNOWN_MARKER, NONEMPTY_MARKER]) {
        return None;
    }
    Some(if name == "dirname" { format!("{path}/..") } else { (*path).to_owned() })
}

/// Calls `visit` with the words of every simple command of a statement, except commands within
/// words and within bodies of functions.
pub(crate) fn for_each_simple(statement: &Statement, visit: &mut impl FnMut(&[Word])) {
    let mut open = vec![statement];
    while let Some(statement) = open.pop() {
        match &statement.node {
            Node::Simple { words, .. } => visit(words),
            Node::Pipeline(inner) | Node::Chain(inner) => open.extend(inner.iter().rev()),
            Node::Group { body, .. } => open.extend(body.iter().rev()),
            Node::Branches { always, maybe, .. } => {
                open.extend(maybe.iter().flatten().rev());
                open.extend(always.iter().rev());
            }
            Node::Loop(each) => {
                open.extend(each.body.iter().rev());
                open.extend(each.condition.iter().rev());
            }
            Node::Declaration { .. }
            | Node::Function { .. }
            | Node::Expression(_)
            | Node::Jump { .. } => {}
        }
    }
}
