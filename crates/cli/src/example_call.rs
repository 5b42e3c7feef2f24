//! An example of a call: the command line with a value for each required argument.

use toolway_wire::{json::Raw, message::item::Tool};

use crate::{schema::Schema, target::Target};

/// The command that calls a tool, ready to be edited and run.
pub(crate) fn command(target: &Target, tool: &Tool) -> String {
    let address = match (&target.entry, target.is_program()) {
        (Some(entry), _) => quoted(&format!("{}.{}", entry.name, tool.name)),
        // The command or URL may contain a secret.
        (None, true) => format!("--stdio '…' {}", quoted(&tool.name)),
        (None, false) => format!("--url '…' {}", quoted(&tool.name)),
    };
    let schema = Schema::new(tool.input_schema.clone());
    let required = schema.properties().into_iter().filter(|property| property.required);
    let arguments =
        required.map(|property| format!(" {}", quoted(&argument(&schema, &property.name, &property.schema))));
    format!("toolway call {address}{}", arguments.collect::<String>())
}

/// `name=value`, or `name:=json` for values that are not plain.
fn argument(schema: &Schema, name: &str, property: &Raw) -> String {
    let examples = property.get("examples").map(|list| list.elements()).unwrap_or_default();
    let given = [property.get("default"), property.get("example"), examples.into_iter().next()];
    let known = given.into_iter().flatten().chain(schema.choices(property)).next();
    match known.as_ref().map(|value| (value.as_str(), value)) {
        Some((Some(text), _)) => return format!("{name}={text}"),
        Some((None, value)) => return format!("{name}:={value}"),
        None => {}
    }
    match schema.kinds(property).first().map(String::as_str) {
        Some("number" | "integer") => format!("{name}=1"),
        Some("boolean") => format!("{name}=true"),
        Some("array") => format!("{name}:=[]"),
        Some("object") => format!("{name}:={{}}"),
        _ => format!("{name}=example"),
    }
}

/// The word as a shell needs it.
fn quoted(word: &str) -> String {
    // `shlex` also quotes `=`, which is plain after the first word.
    if !word.is_empty() && word.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./:=".contains(letter)) {
        return word.to_owned();
    }
    shlex::try_quote(word).map(std::borrow::Cow::into_owned).unwrap_or_default()
}
