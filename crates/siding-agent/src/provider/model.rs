//! Names of models, and the choice of a model.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use siding_model::text::one_line;

/// The environment variable that names the model if the command line does not.
pub const MODEL_VARIABLE: &str = "SIDING_MODEL";

/// The allowed forms of a model's name, for error messages.
const ALLOWED_FORMS: &str = "`anthropic:NAME`, `openai:NAME` or `script:FILE`";

/// Maximum columns of an invalid name that an error message quotes.
const SHOWN_COLUMNS: usize = 60;

/// The name of a model, with its provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Model {
    /// A model of Anthropic, or of another server with the Messages API.
    Anthropic(String),
    /// A model of OpenAI, or of another server with the chat completions API.
    OpenAi(String),
    /// A file with scripted answers.
    Script(PathBuf),
}

/// Why a model's name is unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// No name was given.
    #[error(
        "no model is chosen: give `--model PROVIDER:NAME` or set {}; a model is {}",
        MODEL_VARIABLE,
        ALLOWED_FORMS
    )]
    Missing,
    /// The name has an unknown form.
    #[error("`{given}` is not a model: a model is {}", ALLOWED_FORMS)]
    Unknown {
        /// The given name, safe to print.
        given: String,
    },
    /// The name consists of a provider without a model.
    #[error("`{provider}:` names only a provider: a model is {}", ALLOWED_FORMS)]
    Nameless {
        /// The provider that was given, such as `anthropic`.
        provider: &'static str,
    },
}

impl Model {
    /// Returns the model named by the argument, or otherwise by the environment. There is no
    /// further default: siding does not guess which model to spend money on.
    ///
    /// # Errors
    ///
    /// [`ModelError`] if neither names a model, or if the first name given is invalid.
    pub fn choose(call: Option<&str>, environment: Option<&str>) -> Result<Self, ModelError> {
        let is_set = |given: &&str| !given.trim().is_empty();
        call.or_else(|| environment.filter(is_set)).ok_or(ModelError::Missing)?.parse()
    }

    /// Returns the provider's name, the part before the colon.
    #[must_use]
    pub const fn provider(&self) -> &'static str {
        match self {
            Self::Anthropic(_) => "anthropic",
            Self::OpenAi(_) => "openai",
            Self::Script(_) => "script",
        }
    }
}

impl FromStr for Model {
    type Err = ModelError;

    fn from_str(given: &str) -> Result<Self, ModelError> {
        let unknown = || ModelError::Unknown { given: one_line(given, SHOWN_COLUMNS) };
        let (provider, name) = given.trim().split_once(':').ok_or_else(unknown)?;
        let model = match provider {
            "anthropic" => Self::Anthropic(name.to_owned()),
            "openai" => Self::OpenAi(name.to_owned()),
            "script" => Self::Script(PathBuf::from(name)),
            _ => return Err(unknown()),
        };
        if name.is_empty() {
            return Err(ModelError::Nameless { provider: model.provider() });
        }
        Ok(model)
    }
}

/// Formats the name in the form that [`Model::from_str`] parses.
impl fmt::Display for Model {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anthropic(name) | Self::OpenAi(name) => write!(out, "{}:{name}", self.provider()),
            Self::Script(file) => write!(out, "{}:{}", self.provider(), file.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_is_parsed_as_provider_and_name() {
        for (given, model) in [
            ("anthropic:claude-opus-5", Model::Anthropic("claude-opus-5".to_owned())),
            // Compatible servers use colons and slashes in the names of models.
            ("openai:qwen3:8b", Model::OpenAi("qwen3:8b".to_owned())),
            (" script:a dir/s.toml ", Model::Script(PathBuf::from("a dir/s.toml"))),
        ] {
            assert_eq!(given.parse(), Ok(model.clone()));
            assert_eq!(model.to_string(), given.trim());
        }
    }

    #[test]
    fn an_invalid_model_is_reported_with_the_allowed_forms() {
        for (given, expected) in [
            ("claude-opus-5", "`claude-opus-5` is not a model"),
            ("Anthropic:x", "`Anthropic:x` is not a model"),
            ("", "`` is not a model"),
            ("a\u{1b}[2J:x", "`a\\e[2J:x` is not a model"),
            ("openai:", "`openai:` names only a provider"),
        ] {
            let error = given.parse::<Model>().expect_err("invalid model").to_string();
            assert_eq!(error, format!("{expected}: a model is {ALLOWED_FORMS}"));
        }
    }

    #[test]
    fn the_argument_takes_precedence_over_the_environment() {
        let chosen =
            |call, environment| Model::choose(call, environment).map(|one| one.to_string());
        assert_eq!(chosen(Some("openai:a"), Some("openai:b")).as_deref(), Ok("openai:a"));
        assert_eq!(chosen(None, Some("openai:b")).as_deref(), Ok("openai:b"));
        assert_eq!(chosen(None, Some(" ")), Err(ModelError::Missing));
        let error = chosen(None, None).expect_err("no model is chosen").to_string();
        assert!(
            error.contains("--model PROVIDER:NAME") && error.contains("SIDING_MODEL"),
            "{error}"
        );
    }
}
