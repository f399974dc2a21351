//! `cargo xtask check`: everything that CI demands.

mod crates;
mod deny;
mod links;
mod lock;
mod source;
mod tokens;
mod toolchain;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::steps::{self, AfterFailure, Ending, Pace, Step};
use crate::workspace::Workspace;

/// The command.
pub(crate) const COMMAND: crate::Command = crate::Command {
    name: "check",
    about: "runs what CI runs: format, lints, docs, rules of the workspace, licences, tests",
    usage: "\
Usage: cargo xtask check [--quick] [--keep-going] [STEP...]

  --quick       leaves out what takes long: deny and tests
  --keep-going  goes on after a failure, and fails at the end
  STEP...       runs these steps only: format, crates, source, lock, links, clippy,
                docs, deny, tests

With CI=true a step that cannot be run here is a failure; otherwise it is left out, loudly.
",
    run: command,
};

/// Every step, the cheap ones first.
const STEPS: &[Step] = &[
    Step {
        name: "format",
        about: "every file is formatted by rustfmt",
        pace: Pace::Quick,
        run: toolchain::format,
    },
    Step {
        name: "crates",
        about: "crates depend only on what ARCHITECTURE.md allows",
        pace: Pace::Quick,
        run: crates::check,
    },
    Step {
        name: "source",
        about: "unsafe code and OS calls stay in siding-core/src/sys",
        pace: Pace::Quick,
        run: source::check,
    },
    Step {
        name: "lock",
        about: "Cargo.lock stays under its ceiling",
        pace: Pace::Quick,
        run: lock::check,
    },
    Step {
        name: "links",
        about: "links in the documents lead somewhere",
        pace: Pace::Quick,
        run: links::check,
    },
    Step {
        name: "clippy",
        about: "no warning in any target, with all features and with the shipped ones",
        pace: Pace::Quick,
        run: toolchain::clippy,
    },
    Step {
        name: "docs",
        about: "no warning in the documentation",
        pace: Pace::Quick,
        run: toolchain::docs,
    },
    Step {
        name: "deny",
        about: "licences, bans, sources and advisories of every dependency",
        pace: Pace::Thorough,
        run: deny::check,
    },
    Step {
        name: "tests",
        about: "every test of the workspace",
        pace: Pace::Thorough,
        run: toolchain::tests,
    },
];

fn command(arguments: &[String]) -> Result<ExitCode> {
    let request = Request::parse(arguments)?;
    Ok(match request.carry_out(&Workspace::open()?) {
        Ending::Passed | Ending::PassedInPart => ExitCode::SUCCESS,
        Ending::Failed => ExitCode::FAILURE,
    })
}

/// Runs every step up to the first failure.
pub(crate) fn everything(workspace: &Workspace) -> Ending {
    let request = Request { steps: STEPS.iter().collect(), after_failure: AfterFailure::Stop };
    request.carry_out(workspace)
}

/// What the command line asks for.
struct Request {
    steps: Vec<&'static Step>,
    after_failure: AfterFailure,
}

impl Request {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut slowest = Pace::Thorough;
        let mut after_failure = AfterFailure::Stop;
        let mut named = Vec::new();
        for argument in arguments {
            match argument.as_str() {
                "--quick" => slowest = Pace::Quick,
                "--keep-going" => after_failure = AfterFailure::GoOn,
                name => match STEPS.iter().find(|step| step.name == name) {
                    Some(step) => named.push(step),
                    None => bail!("no step or option `{name}`; see `cargo xtask check --help`"),
                },
            }
        }
        let everything =
            STEPS.iter().filter(|step| slowest == Pace::Thorough || step.pace == Pace::Quick);
        Ok(Self {
            steps: if named.is_empty() { everything.collect() } else { named },
            after_failure,
        })
    }

    fn carry_out(&self, workspace: &Workspace) -> Ending {
        steps::run(&self.steps, workspace, self.after_failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(arguments: &[&str]) -> Vec<&'static str> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let request = Request::parse(&arguments).unwrap();
        request.steps.iter().map(|step| step.name).collect()
    }

    #[test]
    fn quick_leaves_out_exactly_the_slow_steps() {
        assert_eq!(
            names(&["--quick"]),
            ["format", "crates", "source", "lock", "links", "clippy", "docs"]
        );
        assert_eq!(names(&[]).len(), STEPS.len());
    }

    #[test]
    fn named_steps_run_alone_and_in_the_order_given() {
        assert_eq!(names(&["links", "--keep-going", "deny"]), ["links", "deny"]);
        assert!(Request::parse(&["--fast".to_owned()]).is_err());
    }

    #[test]
    fn the_help_text_names_every_step() {
        for step in STEPS {
            assert!(COMMAND.usage.contains(step.name), "{}", step.name);
        }
    }
}
