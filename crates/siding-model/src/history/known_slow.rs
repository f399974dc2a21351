//! The built-in list of slow commands.
//!
//! Only the words of parsed commands are compared, never the raw text: `cat latest.txt` and `git
//! commit -m "tests"` do not run tests.

/// A simple command of a shell text, or a program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SimpleCommand {
    /// The words, starting with the program, without redirections and assignments. A word is `None`
    /// when only the running shell can expand it, such as `$CC`.
    pub words: Vec<Option<String>>,
}

/// Programs that are slow with nearly all arguments.
const ALWAYS_SLOW_PROGRAMS: &[&str] = &[
    "ant",
    "ctest",
    "deploy",
    "deploy.sh",
    "gmake",
    "jest",
    "make",
    "mocha",
    "mvn",
    "mvnw",
    "ninja",
    "nosetests",
    "nox",
    "py.test",
    "pytest",
    "rspec",
    "tox",
    "vitest",
    "xcodebuild",
];

/// Programs that are slow with some subcommands. A subcommand may consist of several words, such as
/// `s3 sync`.
const SLOW_SUBCOMMANDS: &[(&str, &[&str])] = &[
    ("amplify", &["push", "publish"]),
    ("apt", &["dist-upgrade", "full-upgrade", "install", "update", "upgrade"]),
    ("apt-get", &["dist-upgrade", "install", "update", "upgrade"]),
    ("aws", &["cloudformation deploy", "s3 sync"]),
    ("az", &["deployment group create", "functionapp deployment", "webapp up"]),
    ("bazel", &["build", "coverage", "run", "test"]),
    ("brew", &["install", "update", "upgrade"]),
    ("buildah", &["bud", "build"]),
    ("bun", &["install", "test", "run build", "run deploy", "run test"]),
    ("bundle", &["install", "update", "exec cap", "exec rspec"]),
    ("cabal", &["build", "install", "test"]),
    ("cap", &["production deploy", "staging deploy"]),
    (
        "cargo",
        &[
            "b", "bench", "build", "c", "check", "clippy", "d", "doc", "install", "llvm-cov",
            "miri", "nextest", "r", "run", "rustc", "t", "test",
        ],
    ),
    ("cdk", &["deploy", "destroy", "synth"]),
    ("cmake", &["--build"]),
    ("composer", &["install", "update"]),
    ("conda", &["create", "env", "install", "update"]),
    ("dnf", &["install", "update", "upgrade"]),
    ("docker", &["build", "buildx build", "compose build", "compose pull", "pull", "push"]),
    ("docker-compose", &["build", "pull"]),
    ("dotnet", &["build", "publish", "restore", "test"]),
    ("eas", &["build", "submit", "update"]),
    ("eb", &["create", "deploy"]),
    ("firebase", &["deploy"]),
    ("fly", &["deploy", "launch"]),
    ("flyctl", &["deploy", "launch"]),
    ("gcloud", &["app deploy", "builds submit", "functions deploy", "run deploy"]),
    ("go", &["build", "generate", "install", "test", "vet"]),
    ("gradle", &["assemble", "build", "check", "test"]),
    ("gradlew", &["assemble", "build", "check", "test"]),
    ("helm", &["install", "upgrade"]),
    ("just", &["build", "deploy", "test"]),
    ("kamal", &["deploy", "setup"]),
    ("meson", &["compile", "test"]),
    ("mix", &["compile", "deps.get", "test"]),
    ("netlify", &["build", "deploy"]),
    ("nix", &["build", "develop"]),
    ("npm", &["ci", "i", "install", "t", "test", "run build", "run test", "run deploy"]),
    (
        "npx",
        &[
            "jest",
            "playwright",
            "vitest",
            "cdk deploy",
            "firebase deploy",
            "netlify deploy",
            "serverless deploy",
            "sst deploy",
            "vercel",
            "wrangler deploy",
        ],
    ),
    ("pip", &["install", "wheel"]),
    ("pip3", &["install", "wheel"]),
    ("playwright", &["install", "test"]),
    ("pnpm", &["i", "install", "test", "build", "run build", "run test", "deploy", "run deploy"]),
    ("podman", &["build", "pull", "push"]),
    ("poetry", &["install", "lock", "update"]),
    ("pulumi", &["destroy", "preview", "up"]),
    ("python", &["-m pip", "-m pytest", "-m unittest"]),
    ("python3", &["-m pip", "-m pytest", "-m unittest"]),
    ("railway", &["up"]),
    ("rake", &["spec", "test", "deploy"]),
    ("sam", &["build", "deploy"]),
    ("sbt", &["compile", "test"]),
    ("serverless", &["deploy"]),
    ("sls", &["deploy"]),
    ("sst", &["deploy"]),
    ("stack", &["build", "test"]),
    ("swift", &["build", "test"]),
    ("task", &["build", "deploy", "test"]),
    ("terraform", &["apply", "destroy", "plan"]),
    ("uv", &["pip install", "run pytest", "sync"]),
    ("vercel", &["build", "deploy"]),
    ("wrangler", &["deploy", "publish", "pages deploy"]),
    ("yarn", &["build", "install", "test", "run build", "run test", "deploy", "run deploy"]),
    ("yum", &["install", "update"]),
];

/// Programs that run another program, each with the number of operands before the other program,
/// such as one in `timeout 5m make`.
const WRAPPER_PROGRAMS: &[(&str, usize)] = &[
    ("command", 0),
    ("doas", 0),
    ("env", 0),
    ("exec", 0),
    ("ionice", 0),
    ("nice", 0),
    ("nohup", 0),
    ("setsid", 0),
    ("stdbuf", 0),
    ("sudo", 0),
    ("time", 0),
    ("timeout", 1),
];

/// Options of wrappers that take the next word as their value.
const OPTIONS_WITH_VALUE: &[&str] = &["-C", "-S", "-c", "-g", "-k", "-n", "-p", "-s", "-u"];

/// Options of programs with slow subcommands that take the next word as their value and may precede
/// the subcommand, as in `docker --context x build`. `--option=value` needs no entry.
const PROGRAM_OPTIONS_WITH_VALUE: &[(&str, &[&str])] = &[
    ("apt", &["-c", "-o", "-t"]),
    ("apt-get", &["-c", "-o", "-t"]),
    ("aws", &["--endpoint-url", "--output", "--profile", "--region"]),
    ("bun", &["--cwd"]),
    ("cargo", &["--color", "--config", "-C", "-Z"]),
    ("composer", &["--working-dir", "-d"]),
    (
        "docker",
        &[
            "--config",
            "--context",
            "--env-file",
            "--file",
            "--host",
            "--log-level",
            "--profile",
            "--project-directory",
            "--project-name",
            "-H",
            "-c",
            "-f",
            "-l",
            "-p",
        ],
    ),
    (
        "docker-compose",
        &["--env-file", "--file", "--profile", "--project-directory", "--project-name", "-f", "-p"],
    ),
    ("gcloud", &["--account", "--configuration", "--project"]),
    ("go", &["-C"]),
    ("gradle", &["--project-dir", "-b", "-p"]),
    ("gradlew", &["--project-dir", "-b", "-p"]),
    ("helm", &["--kube-context", "--kubeconfig", "--namespace", "-n"]),
    ("just", &["--justfile", "--working-directory", "-d", "-f"]),
    ("npm", &["--loglevel", "--prefix", "--registry", "--workspace", "-C", "-w"]),
    ("pnpm", &["--dir", "--filter", "-C", "-F"]),
    ("podman", &["--connection", "--log-level", "--url", "-c"]),
    ("poetry", &["--directory", "--project", "-C", "-P"]),
    ("pulumi", &["--cwd", "-C"]),
    ("task", &["--dir", "--taskfile", "-d", "-t"]),
    ("uv", &["--directory", "--project"]),
    ("yarn", &["--cwd"]),
];

/// Arguments with which no command is treated as slow, because most programs then return
/// immediately.
const IMMEDIATE_ARGUMENTS: &[&str] = &["--dry-run", "--help", "--version", "-V", "-h", "help"];

/// Returns the words that identify the first slow command, such as `cargo build`, or `None` when no
/// command is in the list of slow commands.
#[must_use]
pub fn known_slow_words(commands: &[SimpleCommand]) -> Option<String> {
    commands.iter().find_map(slow_words)
}

fn slow_words(command: &SimpleCommand) -> Option<String> {
    let words: Vec<Option<&str>> = command.words.iter().map(Option::as_deref).collect();
    let words = strip_wrappers(&words);
    let (first, arguments) = words.split_first()?;
    let program = (*first)?.rsplit('/').next()?;
    if arguments.iter().flatten().any(|word| IMMEDIATE_ARGUMENTS.contains(word)) {
        return None;
    }
    if ALWAYS_SLOW_PROGRAMS.contains(&program) {
        // `make -n` only prints the commands, and `pytest --collect-only` only lists the tests.
        let asks = arguments.iter().flatten().any(|word| matches!(*word, "-n" | "--collect-only"));
        return (!asks).then(|| program.to_owned());
    }
    let (_, subcommands) = SLOW_SUBCOMMANDS.iter().find(|(name, _)| *name == program)?;
    let found =
        subcommands.iter().find(|words| starts_with_subcommand(program, arguments, words))?;
    Some(format!("{program} {found}"))
}

/// Strips wrapper programs from a command: `timeout 5m cargo build` becomes `cargo build`.
fn strip_wrappers<'w>(mut words: &'w [Option<&'w str>]) -> &'w [Option<&'w str>] {
    while let Some((Some(first), rest)) = words.split_first() {
        let name = first.rsplit('/').next().unwrap_or(first);
        let Some((_, own)) = WRAPPER_PROGRAMS.iter().find(|(wrapper, _)| *wrapper == name) else {
            break;
        };
        let mut rest = rest;
        while let Some((Some(word), after)) = rest.split_first() {
            let is_assignment = name == "env" && word.contains('=');
            if !word.starts_with('-') && !is_assignment {
                break;
            }
            let skipped = usize::from(OPTIONS_WITH_VALUE.contains(word) && !after.is_empty());
            rest = &after[skipped..];
        }
        words = rest.get(*own..).unwrap_or_default();
    }
    words
}

/// Returns whether the arguments start with this subcommand. Options before and between the words
/// of the subcommand are skipped, with the values of those in [`PROGRAM_OPTIONS_WITH_VALUE`].
fn starts_with_subcommand(program: &str, arguments: &[Option<&str>], subcommand: &str) -> bool {
    let entry = PROGRAM_OPTIONS_WITH_VALUE.iter().find(|(name, _)| *name == program);
    let with_value = entry.map_or(&[][..], |(_, options)| options);
    let mut rest = arguments.iter();
    subcommand.split(' ').all(|wanted| {
        while let Some(Some(word)) = rest.next() {
            // Options and toolchains are skipped, as in `cargo +nightly --locked build`.
            if *word == wanted || !word.starts_with(['-', '+']) {
                return *word == wanted;
            }
            if with_value.contains(word) {
                let _value = rest.next();
            }
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_words(line: &str) -> SimpleCommand {
        let word = |word: &str| (!word.starts_with('$')).then(|| word.to_owned());
        SimpleCommand { words: line.split(' ').map(word).collect() }
    }

    #[test]
    fn builds_tests_and_installs_are_known_slow() {
        for (line, found) in [
            ("cargo build", "cargo build"),
            ("cargo +nightly --locked test -p x", "cargo test"),
            ("/usr/bin/make -j2", "make"),
            ("npm install", "npm install"),
            ("npm run build", "npm run build"),
            ("pytest tests/x.py", "pytest"),
            ("python3 -m pytest -x", "python3 -m pytest"),
            ("docker build .", "docker build"),
            ("docker compose build web", "docker compose build"),
            ("cmake --build build", "cmake --build"),
            ("./gradlew test", "gradlew test"),
            ("npm run deploy", "npm run deploy"),
            ("firebase deploy --only hosting", "firebase deploy"),
            ("gcloud run deploy web", "gcloud run deploy"),
            ("./deploy.sh production", "deploy.sh"),
            ("timeout 5m cargo build", "cargo build"),
            ("timeout -k 5 5m cargo build", "cargo build"),
            ("env -i A=1 nice -n 10 make", "make"),
            ("sudo -u me apt-get install -y x", "apt-get install"),
            ("cargo build $FLAGS", "cargo build"),
            ("docker --context x build .", "docker build"),
            ("docker --context $HOST build .", "docker build"),
            ("docker compose -f a.yaml -f b.yaml build", "docker compose build"),
            ("npm --prefix web install", "npm install"),
            ("npm --prefix=web run build", "npm run build"),
            ("go -C tools build ./...", "go build"),
        ] {
            assert_eq!(known_slow_words(&[parse_words(line)]).as_deref(), Some(found), "{line}");
        }
        assert_eq!(
            known_slow_words(&[parse_words("cd x"), parse_words("make")]).as_deref(),
            Some("make")
        );
    }

    #[test]
    fn similar_words_are_not_known_slow() {
        let message = ["git", "commit", "-m", "cargo build and tests"];
        let commit =
            SimpleCommand { words: message.iter().map(|word| Some((*word).to_owned())).collect() };
        assert_eq!(known_slow_words(&[commit]), None);
        for line in [
            "cat latest.txt",
            "git commit -m tests",
            "echo make",
            "grep -r pytest .",
            "cargo --version",
            "cargo fmt",
            "cargo build --help",
            "make -n",
            "make --version",
            "npm run lint",
            "npm view install",
            "docker ps",
            "pip list",
            "which make",
            "cat deploy.sh",
            "kubectl get deploy",
            "npm run deploy:docs",
            "vercel ls",
            "man make",
            "ls build",
            "python3 build.py",
            "$CARGO build",
            "cargo $SUB build",
            "docker --context build ps",
            "docker --context",
            "npm --prefix install run lint",
            "timeout 5",
            "env",
            "sudo",
            "",
        ] {
            assert_eq!(known_slow_words(&[parse_words(line)]), None, "{line}");
        }
        assert_eq!(known_slow_words(&[SimpleCommand::default()]), None);
    }

    #[test]
    fn the_tables_are_sorted_and_have_no_duplicates() {
        assert!(
            ALWAYS_SLOW_PROGRAMS.is_sorted()
                && SLOW_SUBCOMMANDS.is_sorted_by_key(|(program, _)| program)
        );
        assert!(PROGRAM_OPTIONS_WITH_VALUE.is_sorted_by_key(|(program, _)| program));
        for (program, options) in PROGRAM_OPTIONS_WITH_VALUE {
            assert!(options.is_sorted(), "{program}");
            assert!(SLOW_SUBCOMMANDS.iter().any(|(slow, _)| slow == program), "{program}");
        }
        for (program, subcommands) in SLOW_SUBCOMMANDS {
            assert!(!ALWAYS_SLOW_PROGRAMS.contains(program), "{program}");
            let mut sorted = subcommands.to_vec();
            sorted.sort_unstable();
            sorted.dedup();
            assert_eq!(sorted.len(), subcommands.len(), "{program}");
        }
    }
}
