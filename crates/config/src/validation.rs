//! Settings of validation: what happens to arguments and results that do not match the schemas of a tool.

use crate::{
    error::ConfigError,
    settings::{Setting, Settings},
    shape::{Field, Key, Shape, put},
};

/// Settings of validation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValidationModes {
    /// What happens to invalid arguments; `None` means the default of the surface.
    pub arguments: Option<ArgumentValidation>,
    /// What happens to invalid results.
    pub results: ResultValidation,
}

/// Settings of validation, each with its origin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidationSettings {
    /// What happens to invalid arguments; `None` means the default of the surface.
    pub arguments: Setting<Option<ArgumentValidation>>,
    /// What happens to invalid results.
    pub results: Setting<ResultValidation>,
}

/// What happens to arguments that do not match the input schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentValidation {
    /// They are not sent; the caller gets the error.
    Reject,
    /// They are sent; the error is recorded.
    Report,
    /// They are not checked.
    Off,
}

/// What happens to results that do not match the output schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResultValidation {
    /// They are relayed; the error is recorded and shown.
    #[default]
    Report,
    /// They are not checked.
    Off,
}

const ARGUMENTS: &[(&str, ArgumentValidation)] =
    &[("reject", ArgumentValidation::Reject), ("report", ArgumentValidation::Report), ("off", ArgumentValidation::Off)];
const ARGUMENTS_VALUES: &[&str] = &["reject", "report", "off"];
const RESULTS: &[(&str, ResultValidation)] = &[("report", ResultValidation::Report), ("off", ResultValidation::Off)];
const RESULTS_VALUES: &[&str] = &["report", "off"];

const MEMBERS: &[(&str, &[&str])] = &[("arguments", ARGUMENTS_VALUES), ("results", RESULTS_VALUES)];

/// The top-level key `validation`.
pub(crate) const VALIDATION: Key<Settings> = Key {
    name: "validation",
    shape: Shape::Choices(MEMBERS),
    doc: "What happens to values that do not match the schemas of a tool. `arguments`: `reject` (not sent; the caller gets \
          the error), `report` (sent; the error is recorded) or `off`; default `reject` for `call`, `chat`, `run` and the \
          console, `report` for the gateway. `results`: `report` (default: relayed; the error is recorded and shown) or \
          `off`. A schema that cannot be checked rejects nothing.",
    example: r#"{"arguments": "reject"}"#,
    set: read,
};

fn read(settings: &mut Settings, field: &Field<'_>) -> Result<(), ConfigError> {
    let validation = &mut settings.validation;
    for (key, field) in field.members()? {
        match key {
            "arguments" => {
                let mode = field.choice(ARGUMENTS, Shape::OneOf(ARGUMENTS_VALUES))?;
                put(&mut validation.arguments, field.setting(Some(mode)))?;
            }
            "results" => {
                let mode = field.choice(RESULTS, Shape::OneOf(RESULTS_VALUES))?;
                put(&mut validation.results, field.setting(mode))?;
            }
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    Ok(())
}

impl ValidationSettings {
    /// The values alone.
    pub fn modes(&self) -> ValidationModes {
        ValidationModes { arguments: self.arguments.value, results: self.results.value }
    }

    /// These settings, overridden by those that the nearer layer sets.
    #[must_use]
    pub(crate) fn overridden_by(self, nearer: Self) -> Self {
        Self {
            arguments: self.arguments.overridden_by(nearer.arguments),
            results: self.results.overridden_by(nearer.results),
        }
    }
}

impl ArgumentValidation {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        ARGUMENTS.iter().find(|(_, mode)| *mode == self).map_or("report", |(word, _)| word)
    }
}

impl ResultValidation {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        RESULTS.iter().find(|(_, mode)| *mode == self).map_or("report", |(word, _)| word)
    }
}
