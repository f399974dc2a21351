//! What commands write, where the text says so: `echo`, `printf`, `cat`, `base64 -d`.

use super::expand::{SURE, base, fields, joined};
use super::variables::Variables;
use crate::ast::{Node, Redirect, Statement, Word};

/// Programs whose output is not known but is never empty and comes from the machine itself.
const SURE_OUTPUT: &[&str] = &[
    "basename", "date", "dirname", "hostname", "id", "mktemp", "nproc", "pwd", "tempfile", "uname",
    "uuidgen", "whoami",
];

/// Programs that print settings for a shell, as `eval "$(ssh-agent)"` wants it, with the word by
/// which they do; no word means always.
const GENERATORS: &[(&str, &str)] = &[
    ("asdf", ""),
    ("brew", "shellenv"),
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
    ("ssh-agent", ""),
    ("starship", "init"),
    ("tset", ""),
    ("zoxide", "init"),
];

/// Returns what a body writes, `None` when that is not known.
pub(crate) fn of_body(body: &[Statement], variables: &Variables) -> Option<String> {
    match body {
        [] => Some(String::new()),
        [one] => of_statement(one, None, variables),
        _ => None,
    }
}

/// Returns what a statement writes that reads `input`.
pub(crate) fn of_statement(
    statement: &Statement,
    input: Option<String>,
    variables: &Variables,
) -> Option<String> {
    let given = statement.redirects.iter().rev().find_map(|redirect| match redirect {
        Redirect::Given(word) => Some(joined(word, variables, 0).text),
        Redirect::Reads(_) | Redirect::Writes { .. } | Redirect::Other(_) => None,
    });
    let input = given.or(input);
    match &statement.node {
        Node::Simple { words, .. } => of_simple(words, input, &statement.redirects, variables),
        Node::Pipeline(stages) => {
            let mut carried = input;
            for stage in stages {
                carried = of_statement(stage, carried, variables);
            }
            carried
        }
        Node::Group { body, .. } => match body.as_slice() {
            [one] => of_statement(one, input, variables),
            _ => None,
        },
        Node::Chain(_)
        | Node::Declaration { .. }
        | Node::Branches { .. }
        | Node::Loop(_)
        | Node::Function { .. }
        | Node::Words(_) => None,
    }
}

fn of_simple(
    words: &[Word],
    input: Option<String>,
    redirects: &[Redirect],
    variables: &Variables,
) -> Option<String> {
    let fields: Vec<_> = words.iter().flat_map(|word| fields(word, variables, 0)).collect();
    let (first, args) = fields.split_first()?;
    let args: Vec<&str> = args.iter().map(|field| field.text.as_str()).collect();
    let name = base(&first.text);
    let sure = || Some(SURE.to_string());
    let is_generator = GENERATORS.iter().any(|(program, word)| {
        *program == name && (word.is_empty() || args.iter().any(|arg| arg.starts_with(word)))
    });
    if is_generator || args.iter().any(|arg| matches!(*arg, "completion" | "completions")) {
        return sure();
    }
    match name {
        "echo" => {
            let is_option = |arg: &&str| matches!(*arg, "-n" | "-e" | "-ne" | "-en" | "-E");
            let shown: Vec<&str> = args.iter().copied().skip_while(is_option).collect();
            let text = shown.join(" ");
            let escapes = args.iter().take_while(|arg| is_option(arg)).any(|arg| arg.contains('e'));
            Some(if escapes { unescaped(&text) } else { text } + "\n")
        }
        "printf" => printf(&args),
        "cat" if redirects.iter().any(|one| matches!(one, Redirect::Reads(_))) => None,
        "cat" | "tee" if args.iter().all(|arg| arg.starts_with('-')) => input,
        "tee" => input,
        "base64" if args.iter().any(|arg| matches!(*arg, "-d" | "-D" | "--decode" | "-di")) => {
            let decoded = base64(&input?)?;
            String::from_utf8(decoded).ok()
        }
        "rev" if args.is_empty() => {
            let reversed = |line: &str| line.chars().rev().collect::<String>();
            Some(input?.lines().map(reversed).collect::<Vec<_>>().join("\n") + "\n")
        }
        "xxd" if args.contains(&"-r") && args.iter().any(|arg| arg.contains('p')) => hex(&input?),
        _ if SURE_OUTPUT.contains(&name) => sure(),
        _ => None,
    }
}

fn printf(args: &[&str]) -> Option<String> {
    let args = args.strip_prefix(&["--"]).unwrap_or(args);
    let (format, values) = args.split_first()?;
    if format.starts_with('-') {
        return None;
    }
    let format = unescaped(format);
    if !format.contains('%') {
        return Some(format);
    }
    if format.replace("%s", "").replace("%b", "").contains('%') {
        return None;
    }
    let mut out = String::new();
    let mut values = values.iter();
    loop {
        let mut rest = format.as_str();
        while let Some(at) = rest.find('%') {
            out.push_str(&rest[..at]);
            out.push_str(&unescaped(values.next().copied().unwrap_or_default()));
            rest = &rest[at + 2..];
        }
        out.push_str(rest);
        if values.len() == 0 {
            return Some(out);
        }
    }
}

/// Returns a text with `\n`, `\t`, `\xHH` and `\OOO` as what they stand for.
fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let number = |digits: &str, radix| {
            let end = digits.bytes().take_while(|byte| (*byte as char).is_digit(radix)).count();
            let end = end.min(if radix == 16 { 2 } else { 3 });
            let code = u32::from_str_radix(digits.get(..end)?, radix).ok()?;
            Some((char::from_u32(code)?, end))
        };
        let (shown, used) = match rest.as_bytes().first() {
            Some(b'n') => ('\n', 1),
            Some(b't') => ('\t', 1),
            Some(b'\\') => ('\\', 1),
            Some(b'x') => number(&rest[1..], 16).map_or(('\\', 0), |(c, used)| (c, used + 1)),
            Some(b'0'..=b'7') => number(rest, 8).unwrap_or(('\\', 0)),
            _ => ('\\', 0),
        };
        out.push(shown);
        rest = &rest[used..];
    }
    out.push_str(rest);
    out
}

/// Decodes base64 of RFC 4648, blanks left out. `None` for what is not.
fn base64(text: &str) -> Option<Vec<u8>> {
    let (mut bits, mut held, mut out) = (0_u32, 0, vec![]);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace() && *byte != b'=') {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held & 0xff) as u8);
        }
    }
    Some(out)
}

fn hex(text: &str) -> Option<String> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let bytes =
        digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
    String::from_utf8(bytes.collect::<Option<_>>()?).ok()
}

/// Calls `visit` with the words of every simple command of a statement, those in words left out.
pub(crate) fn each_simple(statement: &Statement, visit: &mut impl FnMut(&[Word])) {
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
            Node::Declaration { .. } | Node::Function { .. } | Node::Words(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_of_the_rfc() {
        for (text, bytes) in [("", ""), ("Zg==", "f"), ("Zm8=", "fo"), ("Zm9v\nYmFy", "foobar")] {
            assert_eq!(base64(text).as_deref(), Some(bytes.as_bytes()), "{text}");
        }
        assert_eq!(base64("a;b"), None);
    }

    #[test]
    fn escapes_of_printf() {
        assert_eq!(unescaped(r"a\nb\x72\155\\c\q"), "a\nbrm\\c\\q");
        assert_eq!(printf(&["%s %s\n", "rm", "-rf", "/"]).as_deref(), Some("rm -rf\n/ \n"));
        assert_eq!(printf(&["%d", "1"]), None);
    }
}
