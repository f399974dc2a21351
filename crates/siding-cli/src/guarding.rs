//! The guard's rules as they are in force here: the built-in ones and the files of each layer.

use siding_core::settings::{self, Environment};
use siding_guard::{Layer, Rules, Source};
use siding_model::settings::Origin;

use crate::failure::Failure;

/// Returns the rules in force. Says what was ignored.
///
/// A mistake in the administrator's or the user's file is a failure: rules that somebody relies on
/// must not be missing in silence. One in a project's file leaves out that file alone, which could
/// not have loosened anything.
pub(crate) fn rules() -> Result<Rules, Failure> {
    let found = settings::rule_files(&Environment::from_process());
    for warning in &found.warnings {
        errln!("siding: {warning}");
    }
    for (origin, mistake) in found.mistakes {
        match layer(&origin) {
            Layer::Project => errln!("siding: {mistake}; the file is not used"),
            Layer::BuiltIn | Layer::System | Layer::User => return Err(mistake.into()),
        }
    }
    let mut rules = Rules::builtin();
    for file in found.files {
        let source = Source { layer: layer(&file.origin), path: Some(file.path) };
        rules.lay(&file.text, source).map_err(|error| {
            Failure::new(error).with_hint("`siding guard test FILE` tells all about a rule file")
        })?;
    }
    for warning in rules.warnings() {
        errln!("siding: {warning}");
    }
    Ok(rules)
}

const fn layer(origin: &Origin) -> Layer {
    match origin {
        Origin::System { .. } => Layer::System,
        Origin::User { .. } => Layer::User,
        // Whatever else there will be can only make the guard stricter.
        Origin::BuiltIn
        | Origin::Host { .. }
        | Origin::Project { .. }
        | Origin::Environment { .. }
        | Origin::Call { .. }
        | _ => Layer::Project,
    }
}
