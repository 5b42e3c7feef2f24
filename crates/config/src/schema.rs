//! The JSON Schema and the reference page of the configuration, generated from the tables the parser uses.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::{
    layers,
    server::{ALIASES, FOREIGN_KEYS, KEYS, timeouts},
    settings::SETTINGS,
    shape::{Key, Shape, TIME_PATTERN},
};

/// JSON Schema of the configuration document.
pub fn schema() -> Value {
    let mut properties = members(SETTINGS);
    properties
        .insert("$schema".to_owned(), json!({ "type": "string", "description": "URL of this schema, for editors." }));
    properties.insert("mcpServers".to_owned(), servers());
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Toolway configuration",
        "type": "object",
        "properties": properties,
        "additionalProperties": false,
        "$defs": { "server": server(), "time": time() },
    })
}

fn servers() -> Value {
    json!({
        "type": "object",
        "description": "Servers by label. The server name is derived from the label.",
        "additionalProperties": { "$ref": "#/$defs/server" },
    })
}

fn server() -> Value {
    let mut properties = members(KEYS);
    for (name, own) in ALIASES {
        let description = format!("Other spelling of `{own}`, as some hosts write it.");
        properties.insert((*name).to_owned(), json!({ "deprecated": true, "description": description }));
    }
    for (name, why) in FOREIGN_KEYS {
        let description = format!("Key of other MCP hosts, ignored: {why}.");
        properties.insert((*name).to_owned(), json!({ "deprecated": true, "description": description }));
    }
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn members<T>(keys: &[Key<T>]) -> Map<String, Value> {
    let member = |key: &Key<T>| {
        let mut schema = of_shape(key.shape);
        schema["description"] = Value::from(key.doc);
        schema["examples"] = Value::from(vec![example(key.example)]);
        (key.name.to_owned(), schema)
    };
    keys.iter().map(member).collect()
}

fn of_shape(shape: Shape) -> Value {
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    match shape {
        Shape::Text => json!({ "type": "string" }),
        Shape::Flag => json!({ "type": "boolean" }),
        Shape::FlagOrMembers(keys) => json!({ "anyOf": [{ "type": "boolean" }, of_shape(Shape::Members(keys))] }),
        Shape::FlagOrTexts => json!({ "anyOf": [{ "type": "boolean" }, texts] }),
        Shape::Count => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        Shape::Share => json!({ "type": "number", "minimum": 0, "maximum": 1 }),
        Shape::Number => json!({ "type": "number", "minimum": 0 }),
        Shape::Time => json!({ "$ref": "#/$defs/time" }),
        Shape::TimeOrZero => json!({ "anyOf": [{ "$ref": "#/$defs/time" }, { "enum": [0, "0", "0s"] }] }),
        Shape::TimeOrUnlimited => json!({ "anyOf": [{ "$ref": "#/$defs/time" }, { "const": "unlimited" }] }),
        Shape::Size => {
            let size = json!({ "type": "string", "pattern": "^[0-9]+ ?(B|KB|MB|GB)$" });
            json!({ "anyOf": [{ "type": "integer", "minimum": 1, "maximum": u32::MAX }, size] })
        }
        Shape::SizeOrUnlimited => {
            let size = json!({ "type": "string", "pattern": "^([0-9]+ ?(B|KB|MB|GB)|unlimited)$" });
            json!({ "anyOf": [{ "type": "integer", "minimum": 1 }, size] })
        }
        Shape::Texts => texts,
        Shape::TextOrTexts => json!({ "anyOf": [{ "type": "string" }, texts] }),
        Shape::ListOfMembers(members) => json!({ "type": "array", "items": of_shape(Shape::Members(members)) }),
        Shape::NamedMembers(members) => {
            json!({ "type": "object", "additionalProperties": of_shape(Shape::Members(members)) })
        }
        Shape::AnyObject => json!({ "type": "object" }),
        Shape::Pairs => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        Shape::OneOf(values) => json!({ "enum": values }),
        Shape::OneOfOrAlias(values, aliases) => json!({ "anyOf": [{ "enum": values }, { "enum": aliases }] }),
        Shape::ListOf(values) => json!({ "type": "array", "items": { "enum": values } }),
        Shape::Times(clocks) => object(clocks.iter().map(|clock| (*clock, of_shape(Shape::Time)))),
        Shape::Members(members) => object(members.iter().map(|(key, shape)| (*key, of_shape(*shape)))),
        Shape::Port => json!({ "type": "integer", "minimum": 1, "maximum": u16::MAX }),
        Shape::OneOfOrKind(values, kinds) => {
            let kinds = kinds.iter().map(|(kind, members)| of_kind(kind, members));
            json!({ "anyOf": std::iter::once(json!({ "enum": values })).chain(kinds).collect::<Vec<_>>() })
        }
        Shape::Choices(choices) => object(choices.iter().map(|(key, values)| (*key, json!({ "enum": values })))),
    }
}

fn object<'a>(members: impl Iterator<Item = (&'a str, Value)>) -> Value {
    let properties: Map<String, Value> = members.map(|(key, value)| (key.to_owned(), value)).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn of_kind(kind: &str, members: &[(&str, Shape)]) -> Value {
    let members = members.iter().map(|(key, shape)| (*key, of_shape(*shape)));
    let mut described = object(std::iter::once(("kind", json!({ "const": kind }))).chain(members));
    described["required"] = json!(["kind"]);
    described
}

fn time() -> Value {
    json!({
        "description": "Duration: seconds, or a string such as `500ms`, `30s`, `5m`, `2h` or `90d`.",
        "anyOf": [{ "type": "number", "exclusiveMinimum": 0 }, { "type": "string", "pattern": TIME_PATTERN }],
    })
}

fn example(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

/// Reference page of the configuration, in Markdown.
pub fn reference() -> String {
    let mut page = String::from(HEAD);
    page.push_str("## Top-level keys\n\n");
    page.push_str("| key | type | meaning |\n|---|---|---|\n");
    rows(SETTINGS, &mut page);
    page.push_str("| `mcpServers` | an object | Servers by label. The server name is derived from the label. |\n");
    page.push_str(
        "\nAn unknown top-level key or key of a server is ignored with a warning; an unknown key inside one of\n\
         them is an error. A server with an invalid entry (an empty `command`, a number in `env`, an unknown key of\n\
         `timeouts`) is not used: `toolway config check` fails and names file, line and key. All other servers work.\n",
    );
    page.push_str("\n## Keys of a server\n\n| key | type | meaning |\n|---|---|---|\n");
    rows(KEYS, &mut page);
    page.push_str(SERVER_NOTES);
    page.push_str(
        "\n## Keys of other hosts\n\nOther spellings of our keys, which have an effect if ours is not set:\n\n",
    );
    let aliases: Vec<String> = ALIASES.iter().map(|(alias, own)| format!("`{alias}` (`{own}`)")).collect();
    line(&mut page, &format!("{}.", aliases.join(", ")));
    page.push_str("\nThese keys are ignored with a warning.\n\n");
    page.push_str("| key | what to do instead, or why |\n|---|---|\n");
    for (name, why) in FOREIGN_KEYS {
        line(&mut page, &format!("| `{name}` | {why} |"));
    }
    page.push_str("\n## Timeouts\n\n| what | default |\n|---|---|\n");
    for (what, time) in [
        ("connecting, including the start of a program (`timeouts.connect`)", timeouts::CONNECT),
        ("detecting the protocol era of a server", timeouts::PROBE),
        ("a handshake, or one page of a list", timeouts::LIST),
        ("a call without progress (`timeouts.idle`)", timeouts::IDLE),
        ("a call in total (`timeouts.total`, `requestTimeout`)", timeouts::TOTAL),
    ] {
        line(&mut page, &format!("| {what} | {} s |", time.as_secs()));
    }
    page.push_str("\n## Environment variables\n\n| variable | overrides |\n|---|---|\n");
    for (variable, key) in [
        (layers::AUTO_CONNECT, "autoConnect"),
        (layers::REQUEST_TIMEOUT, "requestTimeout"),
        (layers::NAMING_PREFIX, "naming.prefix"),
    ] {
        line(&mut page, &format!("| `{variable}` | `{key}` |"));
    }
    page.push_str(TAIL);
    page
}

fn rows<T>(keys: &[Key<T>], page: &mut String) {
    for key in keys {
        let takes = key.shape.expected();
        line(page, &format!("| `{}` | {takes}, e.g. `{}` | {} |", key.name, key.example, key.doc));
    }
}

fn line(page: &mut String, line: &str) {
    // Writing to a string cannot fail.
    let _written = writeln!(page, "{line}");
}

const HEAD: &str = "\
# Configuration

<!-- Generated by `cargo xtask schema` from the tables in crates/config/src; do not edit this page. -->

The configuration is one JSON document (comments and trailing commas are allowed) or one YAML document, depending on the
file extension: `toolway.json`, `toolway.jsonc`, `toolway.yaml` or `toolway.yml`. The user file is in
`$XDG_CONFIG_HOME/toolway` (default `~/.config/toolway`), the project file in the project folder. Later sources override
earlier ones: defaults, user file, project file, environment variables, command line. `config.schema.json` in this folder
provides completion in editors.

";

const SERVER_NOTES: &str = "
Set either `command` (a program) or `url` (an HTTP server). An entry without both changes a server of the same name from
an imported file: its `env` and `headers` are merged into those of the import, and its filters can only narrow.

### References

| in any string | is replaced by |
|---|---|
| `${NAME}`, `${env:NAME}` | the value of an environment variable |
| `${NAME:-text}` | the same, or `text` if the variable is unset or empty; `text` may contain references |
| `${file:path}` | the content of a file, without the last line break; at most 64 KiB |
| `${keychain:service/entry}` | an entry of the keychain |
| `${secret:NAME}` | a secret that `toolway secret set NAME` stored |
| `$${` | a literal `${` |

In `env`, `headers` and the secrets of `auth` and `oauth`, a whole value of `keychain:service/entry`, `file:/path` or
`file:~/path` is a reference too. References are resolved when the server is started or connected. A reference that
cannot be resolved is an error that names file, line and key; it is never replaced by an empty string.
";

const TAIL: &str = "
## Project file

Toolway searches for the project file from the current directory upwards, up to the root of the repository (the folder
with `.git`), and stops before the home directory. A project file may only add servers, disable servers of the user and
narrow their filters. A project file with any other key is not used; a warning names file and line, and the configuration
of the user stays in effect. An invalid entry is not used; the other entries are. A server of a project file is not
started or connected before the user accepts it. Acceptance is bound to command, arguments, working directory, variables,
URL, headers and authentication; if any of them changes, the user is asked again. If the user has a server of the same
name, the server of the user is used.

A project file is not used, with a warning, if the file or its folder belongs to another user, if either is writable by
all users, or if the file is a link to a file outside of its folder. The same applies to the files of other hosts in the
project.
";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{example, schema};
    use crate::{
        config::Config,
        document::Document,
        server::KEYS,
        settings::SETTINGS,
        shape::{Shape, TIME_PATTERN, parse_duration},
    };

    fn config(text: &str) -> Result<Config, String> {
        let document = Document::of("/x/toolway.json".as_ref(), text).map_err(|error| error.to_string())?;
        Config::of(&document, None).map_err(|error| error.to_string())
    }

    #[test]
    fn every_key_of_a_server_has_an_effect_and_checks_its_type() {
        for key in KEYS {
            let way = if ["url", "headers", "allowInsecureHttp", "type", "auth", "oauth"].contains(&key.name) {
                "url"
            } else {
                "command"
            };
            let value = if way == "url" { "https://example.org/" } else { "x" };
            let mut entry = json!({ way: value });
            let plain = config(&json!({ "mcpServers": { "a": entry } }).to_string()).unwrap();
            entry[key.name] = example(key.example);
            let changed = config(&json!({ "mcpServers": { "a": entry } }).to_string()).unwrap();
            assert!(changed.warnings.is_empty(), "{}: {:?}", key.name, changed.warnings);
            assert_ne!(changed.find("a").unwrap(), plain.find("a").unwrap(), "{} changes nothing", key.name);

            entry[key.name] = json!({ "wrong": [[]] });
            let refused = config(&json!({ "mcpServers": { "a": entry } }).to_string()).unwrap_err();
            assert!(refused.contains(key.name), "{refused}");
        }
    }

    #[test]
    fn every_setting_has_an_effect() {
        for key in SETTINGS {
            let changed = config(&json!({ key.name: example(key.example) }).to_string()).unwrap();
            assert!(changed.warnings.is_empty());
            assert_ne!(changed.settings, Config::default().settings, "{} changes nothing", key.name);
        }
    }

    #[test]
    fn schema_contains_every_key() {
        let schema = schema();
        for key in KEYS {
            let described = &schema["$defs"]["server"]["properties"][key.name];
            assert_eq!(described["description"], key.doc);
            assert_ne!(described["examples"][0], json!(null), "{} has no example", key.name);
        }
        assert!(schema["properties"]["imports"]["items"]["enum"].as_array().unwrap().len() == 16);
        let times: Vec<_> = KEYS.iter().filter(|key| key.shape == Shape::Time).map(|key| key.name).collect();
        assert_eq!(times, ["idleStop"]);
    }

    #[test]
    fn duration_pattern_matches_what_is_parsed() {
        assert_eq!(TIME_PATTERN, r"^[0-9]+(\.[0-9]+)?(ms|s|m|min|h|d)?$");
        for text in ["1", "1.5h", "10min", "7ms", "90d"] {
            assert!(parse_duration(text).is_some(), "{text}");
        }
        for text in ["1.", ".5", "1.2.3", "1 s", "1w", "-1"] {
            assert!(parse_duration(text).is_none(), "{text}");
        }
    }
}
