//! Reading what a model gives: forgiving where only one thing can be meant, and else in words that
//! name the argument.

use std::collections::BTreeMap;

use rmcp::model::JsonObject;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};
use serde_json::Value;

use crate::answer::Refusal;

/// Reads the arguments of a tool. One that is null is one that was left out.
pub(super) fn read<T: DeserializeOwned>(mut arguments: JsonObject) -> Result<T, Refusal> {
    arguments.retain(|_, value| !value.is_null());
    let parse = |arguments: &JsonObject| {
        serde_json::from_value::<T>(arguments.clone().into()).map_err(|error| error.to_string())
    };
    parse(&arguments).map_err(|why| {
        // The error does not say where it is: there, without which it would be another.
        let is_at_fault = |name: &&String| {
            let mut others = arguments.clone();
            others.remove(name.as_str());
            parse(&others).err().as_ref() != Some(&why)
        };
        let named = |name: &String| why.contains(&format!("`{name}`"));
        Refusal::Arguments(match arguments.keys().find(is_at_fault) {
            Some(name) if !named(name) => format!("`{name}`: {why}"),
            Some(_) | None => why.clone(),
        })
    })
}

/// Takes one text for a list of one: small models write it so.
pub(super) fn texts<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    let text = |value| {
        let Value::String(text) = value else {
            return Err(D::Error::custom(format!("{value}: write a text or a list of texts")));
        };
        Ok(text)
    };
    let value = Value::deserialize(from)?;
    if let Value::Array(values) = value {
        return values.into_iter().map(text).collect();
    }
    Ok(vec![text(value)?])
}

/// Takes numbers and truth values for their text: a variable has no other.
pub(super) fn variables<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, String>, D::Error> {
    let text = |(name, value)| match value {
        Value::String(text) => Ok((name, text)),
        Value::Number(_) | Value::Bool(_) => Ok((name, value.to_string())),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            Err(D::Error::custom(format!("{value} of {name}: write a text")))
        }
    };
    let value = Value::deserialize(from)?;
    let Value::Object(values) = value else {
        return Err(D::Error::custom(format!("{value}: write names with their texts")));
    };
    values.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{run, wait};
    use super::*;

    fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, String> {
        let Value::Object(arguments) = arguments else { unreachable!() };
        read(arguments).map_err(|refusal| refusal.to_string())
    }

    #[track_caller]
    fn refused<T: DeserializeOwned>(arguments: Value, parts: &[&str]) {
        let why = parse::<T>(arguments).err().expect("is wrong");
        for part in parts {
            assert!(why.contains(part), "no {part} in {why}");
        }
    }

    #[test]
    fn what_is_wrong_with_arguments_is_said_with_what_is_right() {
        refused::<run::Args>(json!({ "command": "true", "timout": 3 }), &["`timout`", "`timeout`"]);
        refused::<run::Args>(json!({ "command": null }), &["missing field `command`"]);
    }

    #[test]
    fn the_argument_that_is_wrong_is_named() {
        let arguments = json!({ "command": "true", "stdin": false, "budget": "soon" });
        refused::<run::Args>(arguments, &["`budget`: ", "soon"]);
        refused::<run::Args>(json!({ "command": ["true"] }), &["`command`: "]);
        let arguments = json!({ "command": "true", "env": { "A": 1, "B": [] } });
        refused::<run::Args>(arguments, &["`env`: ", "of B", "a text"]);
        refused::<wait::Args>(json!({ "ids": 7 }), &["`ids`: 7", "a text or a list of texts"]);
        refused::<wait::Args>(json!({ "ids": ["b", 7] }), &["`ids`: 7", "a list of texts"]);
        refused::<wait::Args>(json!({ "id": {} }), &["`id`: {}", "a list of texts"]);
    }

    #[test]
    fn what_can_mean_only_one_thing_is_taken() {
        let arguments = json!({
            "command": "true", "cwd": null, "budget": null, "stdin": null, "env": null,
            "wait_for": null, "background": null,
        });
        assert!(parse::<run::Args>(arguments).is_ok());
        assert!(parse::<wait::Args>(json!({ "ids": "b-1", "for": "exit" })).is_ok());
        let values = json!({ "A": "x", "B": 8080, "C": true, "D": 0.5 });
        let taken = variables(values).expect("all have a text");
        let taken: Vec<&str> = taken.values().map(String::as_str).collect();
        assert_eq!(taken, ["x", "8080", "true", "0.5"]);
    }
}
