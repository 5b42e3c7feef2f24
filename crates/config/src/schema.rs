//! The document described for editors and for people, made from the table it is read by.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::{
    layers,
    server::{KEYS, OF_OTHERS, timeouts},
    settings::SETTINGS,
    shape::{Key, Shape, TIME_PATTERN},
};

/// A JSON Schema of the document.
pub fn schema() -> Value {
    let mut properties = members(SETTINGS);
    properties
        .insert("$schema".to_owned(), json!({ "type": "string", "description": "Where editors find this schema." }));
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
        "description": "The servers by label; the id is made from the label.",
        "additionalProperties": { "$ref": "#/$defs/server" },
    })
}

fn server() -> Value {
    let mut properties = members(KEYS);
    for (name, why) in OF_OTHERS {
        let description = format!("Known from other hosts and ignored: {why}.");
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
        Shape::FlagOrTexts => json!({ "anyOf": [{ "type": "boolean" }, texts] }),
        Shape::Count => json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
        Shape::Time => json!({ "$ref": "#/$defs/time" }),
        Shape::Texts => texts,
        Shape::Pairs => json!({ "type": "object", "additionalProperties": { "type": "string" } }),
        Shape::Word(words) => json!({ "enum": words }),
        Shape::WordOrAlias(words, aliases) => json!({ "anyOf": [{ "enum": words }, { "enum": aliases }] }),
        Shape::Words(words) => json!({ "type": "array", "items": { "enum": words } }),
        Shape::Times(clocks) => object(clocks.iter().map(|clock| (*clock, of_shape(Shape::Time)))),
        Shape::Members(members) => object(members.iter().map(|(key, shape)| (*key, of_shape(*shape)))),
        Shape::Port => json!({ "type": "integer", "minimum": 1, "maximum": u16::MAX }),
        Shape::WordOrKinds(words, kinds) => {
            let kinds = kinds.iter().map(|(kind, members)| of_kind(kind, members));
            json!({ "anyOf": std::iter::once(json!({ "enum": words })).chain(kinds).collect::<Vec<_>>() })
        }
        Shape::Choices(choices) => object(choices.iter().map(|(key, words)| (*key, json!({ "enum": words })))),
    }
}

fn object<'a>(members: impl Iterator<Item = (&'a str, Value)>) -> Value {
    let properties: Map<String, Value> = members.map(|(key, value)| (key.to_owned(), value)).collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

fn of_kind(kind: &str, members: &[(&str, Shape)]) -> Value {
    let said = members.iter().map(|(key, shape)| (*key, of_shape(*shape)));
    let mut described = object(std::iter::once(("kind", json!({ "const": kind }))).chain(said));
    described["required"] = json!(["kind"]);
    described
}

fn time() -> Value {
    json!({
        "description": "Seconds, or a text such as `500ms`, `30s`, `5m` or `2h`.",
        "anyOf": [{ "type": "number", "exclusiveMinimum": 0 }, { "type": "string", "pattern": TIME_PATTERN }],
    })
}

fn example(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

/// The same for people, as a page.
pub fn reference() -> String {
    let mut page = String::from(HEAD);
    page.push_str("## The document\n\n");
    page.push_str("| key | takes | meaning |\n|---|---|---|\n");
    rows(SETTINGS, &mut page);
    page.push_str("| `mcpServers` | an object of servers | The servers by label; the id is made from the label. |\n");
    page.push_str(
        "\nA key that is not here changes nothing and is named in a warning; inside `naming`, `gateway` and `signIn` it is an error. A server whose\n\
         entry says what it may not (an empty `command`, a number among its variables, an unknown key of `timeouts`) is\n\
         not used: `config check` fails on it with file and line, every other server works.\n",
    );
    page.push_str("\n## A server\n\n| key | takes | meaning |\n|---|---|---|\n");
    rows(KEYS, &mut page);
    page.push_str(SERVER_NOTES);
    page.push_str("\n## Keys of other hosts\n\nThey change nothing here; a warning says so.\n\n");
    page.push_str("| key | instead |\n|---|---|\n");
    for (name, why) in OF_OTHERS {
        line(&mut page, &format!("| `{name}` | {why} |"));
    }
    page.push_str("\n## Times\n\n| what | unless said |\n|---|---|\n");
    for (what, time) in [
        ("connecting, a program's start included (`timeouts.connect`)", timeouts::CONNECT),
        ("finding out which era a server speaks", timeouts::PROBE),
        ("a handshake, or a page of a list", timeouts::LIST),
        ("a call without a sign of life (`timeouts.idle`)", timeouts::IDLE),
        ("a call in all (`timeouts.total`, `requestTimeout`)", timeouts::TOTAL),
    ] {
        line(&mut page, &format!("| {what} | {} s |", time.as_secs()));
    }
    page.push_str("\n## Variables\n\n| variable | in the place of |\n|---|---|\n");
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

<!-- Made by `cargo xtask schema` from the table the program reads by; edit crates/config/src, not this page. -->

One document, as JSON (comments and a comma too many are fine) or as YAML, by the file's extension: `toolway.json`,
`toolway.jsonc`, `toolway.yaml` or `toolway.yml`. The user's is in `$XDG_CONFIG_HOME/toolway` (`~/.config/toolway`), a
project's in the project. What is said nearer holds: defaults, the user's file, the project's, the environment, the
command line. `config.schema.json` beside this page gives completion in editors.

";

const SERVER_NOTES: &str = "
A server is a program (`command`) or an address (`url`). An entry without either changes a server of the same name that
an imported file has: variables and headers are put over its own, filters only narrow.

### References

| in any text | stands for |
|---|---|
| `${NAME}`, `${env:NAME}` | a variable of the environment |
| `${NAME:-text}` | the same, and `text` where it is unset or empty; `text` may have references |
| `${file:path}` | what a file holds, without the last line break; at most 64 KiB |
| `${keychain:service/entry}` | an entry of the keychain |
| `$${` | `${` itself |

In `env`, `headers` and the secrets of `auth` and `oauth` a whole value of `keychain:service/entry`, `file:/path` or `file:~/path` is a reference too. A
reference is filled in when the server is started or dialled; one that leads nowhere is an error with key, file and
line, never an empty text.
";

const TAIL: &str = "
## A project's file

It is looked for from the current directory upwards, as far as the repository's root (the folder with `.git`) and not
as far as the home directory. It may add servers, switch servers of the user off and narrow what they offer, nothing
else: a file with anything else in it is not used, which is said with file and line and takes nothing away from the
user; a single entry that cannot be used leaves the others. A server it adds is neither started nor dialled before a person has accepted it;
acceptance is bound to command, arguments, directory, variables, address, headers and what is said about signing in, and
a change of any of them is asked about again. Where the user has a server of the same name, the user's is used.

A file is not used, and is named in a warning, if it or its folder belongs to another user, if everybody may change
either, or if it is a link that leads out of its folder. The same holds for the files of other hosts in the project.
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
        shape::{Shape, TIME_PATTERN, read_time},
    };

    fn config(text: &str) -> Result<Config, String> {
        let document = Document::of("/x/toolway.json".as_ref(), text).map_err(|error| error.to_string())?;
        Config::of(&document, None).map_err(|error| error.to_string())
    }

    #[test]
    fn every_key_of_a_server_has_an_effect_and_minds_its_shape() {
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
            let said = config(&json!({ "mcpServers": { "a": entry } }).to_string()).unwrap();
            assert!(said.warnings.is_empty(), "{}: {:?}", key.name, said.warnings);
            assert_ne!(said.find("a").unwrap(), plain.find("a").unwrap(), "{} changes nothing", key.name);

            entry[key.name] = json!({ "wrong": [[]] });
            let refused = config(&json!({ "mcpServers": { "a": entry } }).to_string()).unwrap_err();
            assert!(refused.contains(key.name), "{refused}");
        }
    }

    #[test]
    fn every_setting_has_an_effect() {
        for key in SETTINGS {
            let said = config(&json!({ key.name: example(key.example) }).to_string()).unwrap();
            assert!(said.warnings.is_empty());
            assert_ne!(said.settings, Config::default().settings, "{} changes nothing", key.name);
        }
    }

    #[test]
    fn the_schema_knows_every_key() {
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
    fn the_pattern_of_a_time_is_what_is_read() {
        assert_eq!(TIME_PATTERN, r"^[0-9]+(\.[0-9]+)?(ms|s|m|min|h)?$");
        for text in ["1", "1.5h", "10min", "7ms"] {
            assert!(read_time(text).is_some(), "{text}");
        }
        for text in ["1.", ".5", "1.2.3", "1 s", "1d", "-1"] {
            assert!(read_time(text).is_none(), "{text}");
        }
    }
}
