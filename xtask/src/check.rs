//! `cargo xtask check`: runs the checks that CI requires.

mod crates;
mod deny;
mod links;
mod lock;
mod names;
mod promises;
mod rooms;
mod size;
mod source;
mod tokens;
mod toolchain;

use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::steps::{self, AfterFailure, RunOutcome, Step, StepTier};
use crate::workspace::Workspace;

pub(crate) const COMMAND: crate::XtaskCommand = crate::XtaskCommand {
    name: "check",
    about: "runs the steps of CI: format, lints, docs, rules of the workspace, licenses, tests",
    usage: "\
Usage: cargo xtask check [--quick] [--keep-going] [STEP...]

  --quick       skips the slow steps: deny and tests
  --keep-going  continues after a failure, and fails at the end
  STEP...       runs these steps only: format, crates, source, rooms, names, size, prose,
                lock, links, promises, clippy, docs, deny, tests

With CI=true a step that cannot run here is a failure; otherwise it is skipped, with a message.
",
    run: run_check,
};

/// All steps, in the order in which they run: the cheap steps first.
const STEPS: &[Step] = &[
    Step {
        name: "format",
        about: "every file is formatted by rustfmt",
        tier: StepTier::Quick,
        run: toolchain::check_format,
    },
    Step {
        name: "crates",
        about: "crates depend only on those that xtask/src/check/crates.rs allows",
        tier: StepTier::Quick,
        run: crates::check,
    },
    Step {
        name: "source",
        about: "unsafe code and OS calls stay in siding-core/src/sys",
        tier: StepTier::Quick,
        run: source::check,
    },
    Step {
        name: "rooms",
        about: "the top-level modules of a crate have no cycle",
        tier: StepTier::Quick,
        run: rooms::check,
    },
    Step {
        name: "names",
        about: "names say what they stand for",
        tier: StepTier::Quick,
        run: names::check,
    },
    Step {
        name: "size",
        about: "no source file is too long, and none is called mod.rs",
        tier: StepTier::Quick,
        run: size::check,
    },
    Step {
        name: "prose",
        about: "comments and documents are in standard English",
        tier: StepTier::Quick,
        run: crate::prose::check,
    },
    Step {
        name: "lock",
        about: "Cargo.lock stays within its limit",
        tier: StepTier::Quick,
        run: lock::check,
    },
    Step {
        name: "links",
        about: "links in the documents have a target",
        tier: StepTier::Quick,
        run: links::check,
    },
    Step {
        name: "promises",
        about: "every promise in docs/promises.md cites tests that exist",
        tier: StepTier::Quick,
        run: promises::check,
    },
    Step {
        name: "clippy",
        about: "no warning in any target, with all features and with the shipped ones",
        tier: StepTier::Quick,
        run: toolchain::run_clippy,
    },
    Step {
        name: "docs",
        about: "no warning in the documentation",
        tier: StepTier::Quick,
        run: toolchain::build_docs,
    },
    Step {
        name: "deny",
        about: "licenses, bans, sources and advisories of every dependency",
        tier: StepTier::Slow,
        run: deny::check,
    },
    Step {
        name: "tests",
        about: "every test of the workspace",
        tier: StepTier::Slow,
        run: toolchain::run_tests,
    },
];

fn run_check(arguments: &[String]) -> Result<ExitCode> {
    let request = CheckRequest::parse(arguments)?;
    Ok(match request.run(&Workspace::open()?) {
        RunOutcome::Passed | RunOutcome::PassedWithSkips => ExitCode::SUCCESS,
        RunOutcome::Failed => ExitCode::FAILURE,
    })
}

/// Runs every step of `cargo xtask check` until one fails.
pub(crate) fn run_all_steps(workspace: &Workspace) -> RunOutcome {
    let request = CheckRequest { steps: STEPS.iter().collect(), after_failure: AfterFailure::Stop };
    request.run(workspace)
}

/// The steps that the command line selects, and the behavior after a failure.
struct CheckRequest {
    steps: Vec<&'static Step>,
    after_failure: AfterFailure,
}

impl CheckRequest {
    fn parse(arguments: &[String]) -> Result<Self> {
        let mut slowest = StepTier::Slow;
        let mut after_failure = AfterFailure::Stop;
        let mut named = Vec::new();
        for argument in arguments {
            match argument.as_str() {
                "--quick" => slowest = StepTier::Quick,
                "--keep-going" => after_failure = AfterFailure::Continue,
                name => match STEPS.iter().find(|step| step.name == name) {
                    Some(step) => named.push(step),
                    None => bail!("no step or option `{name}`; see `cargo xtask check --help`"),
                },
            }
        }
        let everything =
            STEPS.iter().filter(|step| slowest == StepTier::Slow || step.tier == StepTier::Quick);
        Ok(Self {
            steps: if named.is_empty() { everything.collect() } else { named },
            after_failure,
        })
    }

    fn run(&self, workspace: &Workspace) -> RunOutcome {
        steps::run(&self.steps, workspace, self.after_failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step_names(arguments: &[&str]) -> Vec<&'static str> {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let request = CheckRequest::parse(&arguments).unwrap();
        request.steps.iter().map(|step| step.name).collect()
    }

    #[test]
    fn quick_skips_exactly_the_slow_steps() {
        assert_eq!(
            step_names(&["--quick"]),
            [
                "format", "crates", "source", "rooms", "names", "size", "prose", "lock", "links",
                "promises", "clippy", "docs"
            ]
        );
        assert_eq!(step_names(&[]).len(), STEPS.len());
    }

    #[test]
    fn named_steps_run_alone_and_in_the_order_given() {
        assert_eq!(step_names(&["links", "--keep-going", "deny"]), ["links", "deny"]);
        assert!(CheckRequest::parse(&["--fast".to_owned()]).is_err());
    }

    #[test]
    fn the_help_text_names_every_step() {
        for step in STEPS {
            assert!(COMMAND.usage.contains(step.name), "{}", step.name);
        }
    }
}
