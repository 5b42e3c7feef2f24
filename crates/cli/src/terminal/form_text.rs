//! The text of forms and URL requests of servers. No input and no output.

use serde_json::{Map, Value};
use toolway_config::ServerName;
use toolway_host::inbox::{FieldKind, Form, FormField, FormOption};
use url::Url;

use super::text::{self, Line, Style};
use crate::output::clean;

/// Options that are listed; the others can be typed.
const LISTED_OPTIONS: usize = 60;

/// The beginning of a form.
pub(crate) fn heading(server: &ServerName, message: &str, form: &Form, width: usize) -> Vec<Line> {
    let mut lines = text::lines(Style::Strong, &format!("`{server}` asks for information. It says:"), width);
    lines.extend(text::marked(message, width));
    let count = form.fields.len();
    let fields = if count == 1 { "1 field".to_owned() } else { format!("{count} fields") };
    lines.extend(text::lines(Style::Faint, &format!("{fields}; Esc: decline or cancel"), width));
    lines
}

/// One field, up to the input. `number` counts from 1.
pub(crate) fn field(
    field: &FormField,
    number: usize,
    of: usize,
    given: Option<&Value>,
    server: &ServerName,
    width: usize,
) -> Vec<Line> {
    let required = if field.required { "required" } else { "optional" };
    let label = clean::exact_flat(field.label());
    let mut lines = text::lines(Style::Strong, &format!("{number}/{of} {label} ({required})"), width);
    if let Some(description) = &field.description {
        lines.extend(text::marked(description, width));
    }
    if field.looks_secret {
        let warning =
            format!("! looks like a secret: `{server}` will read what you type; servers must not ask for secrets");
        lines.extend(text::lines(Style::Warning, &warning, width));
    }
    lines.extend(options(&field.kind, width));
    let mut hints = vec![hint(&field.kind)];
    match given {
        Some(value) => {
            hints.push(format!("Enter: {}", shown(field, value)));
            hints.extend((!field.required).then(|| "Ctrl-D: leave out".to_owned()));
        }
        None if !field.required => hints.push("Enter: skip".to_owned()),
        None => {}
    }
    lines.extend(text::lines(Style::Faint, &hints.join("; "), width));
    lines
}

/// All answers, before they are sent.
pub(crate) fn review(server: &ServerName, form: &Form, content: &Map<String, Value>, width: usize) -> Vec<Line> {
    let mut lines = text::lines(Style::Strong, &format!("Send to `{server}`:"), width);
    for field in &form.fields {
        let value = content.get(&field.name).map_or_else(|| "(left out)".to_owned(), |value| shown(field, value));
        let line = format!("  {}: {value}", clean::exact_flat(field.label()));
        lines.extend(text::wrap(&line, width, "", "    ").into_iter().map(|line| Line::new(Style::Plain, line)));
    }
    lines
}

/// A request to open a URL, up to the answers; `Err` with the reason if it cannot be opened.
pub(crate) fn url(server: &ServerName, message: &str, url: &str, width: usize) -> Result<Vec<Line>, String> {
    let parsed = Url::parse(url).map_err(|error| format!("the URL is invalid: {error}"))?;
    let host = parsed.host_str().filter(|host| !host.is_empty()).ok_or("the URL has no host")?;
    if !matches!(parsed.scheme(), "http" | "https") {
        return Err(format!("the scheme `{}` is not opened", parsed.scheme()));
    }
    let mut lines = text::lines(Style::Strong, &format!("`{server}` asks you to open a web page. It says:"), width);
    lines.extend(text::marked(message, width));
    lines.push(Line::new(Style::Plain, "address:"));
    lines.extend(text::marked(parsed.as_str(), width));
    let port = parsed.port().map(|port| format!(":{port}")).unwrap_or_default();
    lines.extend(text::lines(Style::Strong, &format!("host: {host}{port}"), width));
    let warnings = [
        (parsed.scheme() == "http" && !is_loopback(&parsed), "not encrypted: others can read and change this page"),
        (!parsed.username().is_empty() || parsed.password().is_some(), "a user name stands before the host"),
        (host.split('.').any(|part| part.starts_with("xn--")), "the host has letters that may look like others"),
    ];
    for (_, warning) in warnings.into_iter().filter(|(applies, _)| *applies) {
        lines.extend(text::lines(Style::Warning, &format!("! {warning}"), width));
    }
    Ok(lines)
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        Some(url::Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// A value for the user; secrets are hidden.
fn shown(field: &FormField, value: &Value) -> String {
    let option = |value: &Value| {
        let (FieldKind::Choice { options } | FieldKind::MultiChoice { options, .. }) = &field.kind else { return None };
        let option = options.iter().find(|option| Some(option.value.as_str()) == value.as_str())?;
        option.title.clone().or_else(|| Some(option.value.clone()))
    };
    let text = match value {
        Value::String(_) if field.looks_secret => "••••••".to_owned(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(values) => {
            let names = values.iter().map(|value| option(value).unwrap_or_else(|| value.to_string()));
            names.collect::<Vec<_>>().join(", ")
        }
        Value::String(text) => option(value).unwrap_or_else(|| text.clone()),
        other => other.to_string(),
    };
    clean::exact_flat(&text)
}

/// What may be typed.
fn hint(kind: &FieldKind) -> String {
    match kind {
        FieldKind::Text { format, min_length, max_length, pattern } => {
            let mut hint = format.map_or_else(|| "text".to_owned(), |format| format.as_str().to_owned());
            match (min_length, max_length) {
                (Some(least), Some(most)) => hint.push_str(&format!(", {least} to {most} characters")),
                (Some(least), None) => hint.push_str(&format!(", at least {least} characters")),
                (None, Some(most)) => hint.push_str(&format!(", at most {most} characters")),
                (None, None) => {}
            }
            if let Some(pattern) = pattern {
                hint.push_str(&format!(", pattern {}", clean::exact_flat(pattern)));
            }
            hint
        }
        FieldKind::Number { integer, minimum, maximum } => {
            let mut hint = if *integer { "integer" } else { "number" }.to_owned();
            match (minimum, maximum) {
                (Some(least), Some(most)) => hint.push_str(&format!(", {least} to {most}")),
                (Some(least), None) => hint.push_str(&format!(", at least {least}")),
                (None, Some(most)) => hint.push_str(&format!(", at most {most}")),
                (None, None) => {}
            }
            hint
        }
        FieldKind::Boolean => "yes or no".to_owned(),
        FieldKind::Choice { .. } => "one number or name".to_owned(),
        FieldKind::MultiChoice { min_items, max_items, .. } => {
            let mut hint = "numbers or names, separated by commas".to_owned();
            if let Some(least) = min_items.filter(|least| 0 < *least) {
                hint.push_str(&format!(", at least {least}"));
            }
            if let Some(most) = max_items {
                hint.push_str(&format!(", at most {most}"));
            }
            hint
        }
    }
}

fn options(kind: &FieldKind, width: usize) -> Vec<Line> {
    let (FieldKind::Choice { options } | FieldKind::MultiChoice { options, .. }) = kind else { return Vec::new() };
    let name = |option: &FormOption| match option.title.as_deref().filter(|title| *title != option.value) {
        Some(title) => format!("{title} ({})", option.value),
        None => option.value.clone(),
    };
    let line = |(number, option): (usize, &FormOption)| {
        let text = format!("  {number}) {}", clean::exact_flat(&name(option)));
        text::wrap(&text, width, "", "     ").into_iter().map(|line| Line::new(Style::Plain, line))
    };
    let mut lines: Vec<Line> = (1..).zip(options.iter().take(LISTED_OPTIONS)).flat_map(line).collect();
    if let more @ 1.. = options.len().saturating_sub(LISTED_OPTIONS) {
        lines.push(Line::new(Style::Faint, format!("  … {more} more")));
    }
    lines
}
