//! The decision table: one line for each request, with what both files say and the expected decision.
//!
//! Columns: surface, item, trust (with `trusted=TOOL`, `confirm=TOOL`, `folder`, `nofiles`), hints, arguments, the user's policy, the project's policy, decision. In a policy entries
//! are separated by `;`: `mode MODE`, or an effect with conditions (`deny tool=write /path=/etc/*`); `_` is a space.

use serde_json::{Value, json};

use toolway_config::FileAccess;

use super::*;

const TABLE: &str = r#"
# Defaults of the surfaces.
call     | write | read      | -  | {}                  | -                                   | -                       | allow
call     | write | untrusted | d  | {}                  | -                                   | -                       | allow
call     | read  | read      | r  | {}                  | -                                   | -                       | allow
chat     | write | read      | -  | {}                  | -                                   | -                       | ask
chat     | read  | read      | r  | {}                  | -                                   | -                       | allow
chat     | read  | untrusted | r  | {}                  | -                                   | -                       | ask
chat     | write | full      | d  | {}                  | -                                   | -                       | allow
run      | write | read      | -  | {}                  | -                                   | -                       | ask
run      | read  | read      | r  | {}                  | -                                   | -                       | allow
run      | read  | untrusted | r  | {}                  | -                                   | -                       | ask
run      | write | full      | d  | {}                  | -                                   | -                       | allow
gateway  | write | read      | -  | {}                  | -                                   | -                       | allow
gateway  | write | untrusted | d  | {}                  | -                                   | -                       | allow
console  | write | read      | d  | {}                  | -                                   | -                       | allow
page     | write | read      | -  | {}                  | -                                   | -                       | ask
page     | read  | read      | r  | {}                  | -                                   | -                       | allow
library  | write | read      | -  | {}                  | -                                   | -                       | allow
# Hints: writes passes what only reads, and contradicting hints count as destructive.
chat     | read  | read      | rd | {}                  | -                                   | -                       | ask
run      | read  | read      | rd | {}                  | -                                   | -                       | ask
chat     | read  | full      | rd | {}                  | -                                   | -                       | allow
chat     | read  | read      | rn | {}                  | -                                   | -                       | allow
chat     | write | read      | n  | {}                  | -                                   | -                       | ask
chat     | write | read      | w  | {}                  | -                                   | -                       | ask
gateway  | read  | read      | rd | {}                  | writes                              | -                       | ask
gateway  | read  | read      | r  | {}                  | writes                              | -                       | allow
chat     | read  | read      | rd | {}                  | allow readOnly=true                 | -                       | ask
chat     | read  | read      | r  | {}                  | deny destructive=true; allow        | -                       | allow
chat     | read  | read      | rd | {}                  | deny destructive=true; allow        | -                       | deny
chat     | read  | untrusted | r  | {}                  | allow readOnly=true                 | -                       | ask
chat     | read  | untrusted | r  | {}                  | deny destructive=true; allow        | -                       | deny
# Modes replace the default of every surface.
call     | write | read      | -  | {}                  | mode ask                            | -                       | ask
call     | read  | full      | r  | {}                  | mode ask                            | -                       | ask
chat     | read  | full      | r  | {}                  | mode ask                            | -                       | ask
run      | read  | full      | r  | {}                  | mode ask                            | -                       | ask
gateway  | read  | full      | r  | {}                  | mode ask                            | -                       | ask
console  | read  | full      | r  | {}                  | mode ask                            | -                       | ask
library  | read  | full      | r  | {}                  | mode ask                            | -                       | ask
call     | write | read      | -  | {}                  | mode writes                         | -                       | ask
call     | read  | read      | r  | {}                  | mode writes                         | -                       | allow
gateway  | write | read      | -  | {}                  | mode writes                         | -                       | ask
gateway  | write | full      | -  | {}                  | mode writes                         | -                       | allow
library  | read  | untrusted | r  | {}                  | mode writes                         | -                       | ask
run      | write | untrusted | d  | {}                  | mode allow                          | -                       | allow
chat     | write | untrusted | d  | {}                  | mode allow                          | -                       | allow
# Mode ask turns every allow into ask, and nothing else changes.
chat     | write | read      | -  | {}                  | mode ask; allow                     | -                       | ask
run      | write | full      | -  | {}                  | mode ask; allow caller=agent        | -                       | ask
call     | write | full      | -  | {}                  | mode ask; allow tool=write          | -                       | ask
chat     | read  | read      | r  | {}                  | mode ask; writes                    | -                       | ask
chat     | write | read      | -  | {}                  | mode ask; deny                      | -                       | deny
chat     | write | read      | -  | {}                  | mode ask; allow                     | deny                    | deny
# Rules of the user: the first match decides.
chat     | write | read      | -  | {}                  | allow                               | -                       | allow
chat     | write | read      | -  | {}                  | ask                                 | -                       | ask
chat     | read  | read      | r  | {}                  | ask                                 | -                       | ask
chat     | write | full      | -  | {}                  | deny                                | -                       | deny
call     | write | read      | -  | {}                  | deny                                | -                       | deny
chat     | write | read      | -  | {}                  | allow tool=write; deny              | -                       | allow
chat     | read  | read      | -  | {}                  | allow tool=write; deny              | -                       | deny
chat     | write | read      | -  | {}                  | deny; allow tool=write              | -                       | deny
chat     | write | read      | -  | {}                  | allow tool=wri*                     | -                       | allow
chat     | write | read      | -  | {}                  | allow tool=files.write              | -                       | allow
chat     | write | read      | -  | {}                  | allow tool=files__write             | -                       | allow
chat     | write | read      | -  | {}                  | allow tool=mail.write               | -                       | ask
chat     | write | read      | -  | {}                  | allow server=files                  | -                       | allow
chat     | write | read      | -  | {}                  | allow server=mail                   | -                       | ask
chat     | write | read      | -  | {}                  | allow caller=agent                  | -                       | allow
chat     | write | read      | -  | {}                  | allow caller=client                 | -                       | ask
gateway  | write | read      | -  | {}                  | ask caller=client:editor            | -                       | ask
gateway  | write | read      | -  | {}                  | ask caller=client:other             | -                       | allow
gateway  | write | read      | -  | {}                  | deny caller=client:ed*              | -                       | deny
chat     | write | read      | -  | {}                  | allow surface=chat                  | -                       | allow
run      | write | read      | -  | {}                  | allow surface=chat                  | -                       | ask
chat     | write | read      | -  | {}                  | allow kind=prompt                   | -                       | ask
chat     | write | untrusted | -  | {}                  | mode allow; deny trust=untrusted    | -                       | deny
chat     | write | read      | -  | {}                  | mode allow; deny trust=untrusted    | -                       | allow
chat     | write | read      | w  | {}                  | mode allow; deny openWorld=true     | -                       | deny
chat     | write | read      | c  | {}                  | mode allow; deny openWorld=true     | -                       | allow
# A project only makes it stricter, whatever it says and the user does not.
chat     | write | read      | -  | {}                  | -                                   | ask                     | ask
chat     | read  | read      | r  | {}                  | -                                   | ask                     | ask
chat     | read  | read      | r  | {}                  | -                                   | writes                  | allow
chat     | write | read      | -  | {}                  | -                                   | writes                  | ask
run      | write | read      | -  | {}                  | -                                   | writes                  | ask
call     | write | read      | -  | {}                  | -                                   | writes                  | ask
call     | write | read      | -  | {}                  | -                                   | ask                     | ask
call     | write | full      | -  | {}                  | -                                   | deny                    | deny
gateway  | write | full      | -  | {}                  | -                                   | deny server=files       | deny
gateway  | write | full      | -  | {}                  | -                                   | deny server=mail        | allow
chat     | write | read      | -  | {}                  | allow                               | writes                  | ask
chat     | read  | read      | r  | {}                  | allow                               | writes                  | allow
chat     | write | read      | -  | {}                  | allow                               | ask                     | ask
chat     | write | read      | -  | {}                  | allow                               | deny                    | deny
chat     | write | read      | -  | {}                  | writes                              | ask                     | ask
chat     | read  | read      | r  | {}                  | ask                                 | writes                  | ask
chat     | write | read      | -  | {}                  | deny                                | ask                     | deny
chat     | write | read      | -  | {}                  | deny                                | writes                  | deny
chat     | write | read      | -  | {}                  | mode allow                          | deny                    | deny
chat     | write | read      | -  | {}                  | mode allow                          | ask                     | ask
chat     | read  | full      | r  | {}                  | mode ask                            | writes                  | ask
chat     | write | read      | -  | {}                  | allow                               | ask tool=read; deny     | deny
chat     | write | read      | -  | {}                  | allow                               | ask tool=write; deny    | ask
chat     | write | read      | -  | {"path":"/etc/x"}   | allow                               | deny /path=/etc/*       | deny
chat     | write | read      | -  | {"path":"/tmp/x"}   | allow                               | deny /path=/etc/*       | allow
chat     | write | read      | -  | {"path":["/etc"]}   | allow                               | ask /path=/etc/*        | deny
# Arguments.
chat     | write | read      | -  | {"path":"/tmp/a"}   | allow /path=/tmp/*                  | -                       | allow
chat     | write | read      | -  | {"path":"/etc/a"}   | allow /path=/tmp/*                  | -                       | ask
chat     | write | read      | -  | {}                  | allow /path=/tmp/*                  | -                       | ask
chat     | write | read      | -  | {"path":null}       | allow /path=/tmp/*                  | -                       | ask
chat     | write | read      | -  | {"path":"/tmp/../etc/a"} | allow /path=/tmp/*             | -                       | ask
chat     | write | read      | -  | {"path":"/tmp/../etc/a"} | mode allow; deny /path=/etc/*  | -                       | deny
chat     | write | read      | -  | {"path":"/tmp/../etc/a"} | mode allow; ask /path=/etc/*   | -                       | ask
chat     | read  | read      | r  | {"path":"/tmp/../etc/a"} | mode allow; writes /path=/etc/* | -                      | allow
chat     | write | read      | -  | {"path":"/tmp/../etc/a"} | ask /path=/etc/*; deny         | -                       | deny
chat     | write | read      | -  | {"path":"/tmp/../etc/a"} | ask /path=/etc/*; allow        | -                       | ask
chat     | write | read      | -  | {"path":"/tmp/../etc/a"} | writes /path=/etc/*; allow     | -                       | ask
chat     | write | read      | -  | {"path":["/tmp/a"]} | allow /path=/tmp/*                  | -                       | deny
chat     | write | read      | -  | {"Path":"/tmp/a"}   | allow /path=/tmp/*                  | -                       | deny
chat     | write | read      | -  | {"n":"3"}           | allow /n=3                          | -                       | allow
# Addresses and commands.
chat     | write | read      | -  | {"url":"https://a.example/x"} | allow /url=https://a.example/* | -                  | allow
chat     | write | read      | -  | {"url":"https://a.example"}   | allow /url=https://a.example/* | -                  | allow
chat     | write | read      | -  | {"url":"https:a.example/x"}   | allow /url=https://a.example/* | -                  | ask
chat     | write | read      | -  | {"url":"https://a.example@b.example/"} | allow /url=https://a.example/* | -         | ask
chat     | write | read      | -  | {"url":"//b.example/x"} | mode allow; deny /url=https://b.example/* | -             | deny
chat     | write | read      | -  | {"url":"some text"}     | mode allow; deny /url=https://b.example/* | -             | deny
chat     | write | read      | -  | {"url":"some text"}     | mode allow; ask /url=https://b.example/*  | -             | ask
chat     | write | read      | -  | {"url":"https://c.example/"} | mode allow; deny /url=https://b.example/* | -        | allow
chat     | write | read      | -  | {"url":"http://2130706433/"} | mode allow; deny /url=http://127.0.0.1/* | -         | deny
chat     | write | read      | -  | {"url":"http://2130706433/"} | mode allow              | deny /url=http://127.0.0.1/* | deny
chat     | write | read      | -  | {"cmd":"git log"}       | allow /cmd=git_*                | -                       | allow
chat     | write | read      | -  | {"cmd":"git log; rm x"} | allow /cmd=git_*                | -                       | ask
chat     | write | read      | -  | {"cmd":"git log |sh"}   | mode allow; deny /cmd=rm_*      | -                       | deny
chat     | write | read      | -  | {"cmd":"git log\nrm x"} | mode allow; ask /cmd=rm_*       | -                       | ask
# Pointers to every element.
chat     | write | read      | -  | {"paths":["/tmp/a","/tmp/b"]} | allow /paths/*=/tmp/*     | -                       | allow
chat     | write | read      | -  | {"paths":["/tmp/a","/etc/b"]} | allow /paths/*=/tmp/*     | -                       | ask
chat     | write | read      | -  | {"paths":["/tmp/a","/etc/b"]} | mode allow; deny /paths/*=/etc/* | -                | deny
chat     | write | read      | -  | {"paths":["/tmp/a","/etc/b"]} | mode allow; ask /paths/*=/etc/* | -                 | ask
chat     | write | read      | -  | {"paths":["/tmp/a"]}    | mode allow; deny /paths/*=/etc/* | -                      | allow
chat     | write | read      | -  | {"paths":[]}            | allow /paths/*=/tmp/*           | -                       | ask
chat     | write | read      | -  | {"paths":[]}            | mode allow; deny /paths/*=/etc/* | -                      | allow
chat     | write | read      | -  | {"paths":"/etc/b"}      | mode allow; deny /paths/*=/etc/* | -                      | deny
chat     | write | read      | -  | {"paths":{"a":"/etc/b"}} | mode allow; deny /paths/*=/etc/* | -                     | deny
chat     | write | read      | -  | {"items":[{"url":"https://a.example/"},{"url":"https://b.example/"}]} | mode allow; deny /items/*/url=https://b.example/* | - | deny
chat     | write | read      | -  | {"items":[{"url":"https://a.example/"},{}]} | allow /items/*/url=https://a.example/* | -  | ask
chat     | write | read      | -  | {"items":[{"url":"https://a.example/"}]}    | allow /items/*/url=https://a.example/* | -  | allow
chat     | write | read      | -  | {"items":[{"paths":["/tmp/a","/etc/b"]}]}   | mode allow; deny /items/*/paths/*=/etc/* | - | deny
# Resources, prompts and methods.
chat     | resource file:///a   | read      | - | {}    | -                                   | -                       | allow
chat     | resource file:///a   | untrusted | - | {}    | -                                   | -                       | ask
chat     | resource file://h/etc/a | read   | - | {}    | deny kind=resource tool=file:///etc/* | -                     | deny
chat     | resource file:///tmp/a  | read   | - | {}    | deny kind=resource tool=file:///etc/* | -                     | allow
chat     | prompt review        | read      | - | {}    | -                                   | -                       | allow
chat     | prompt review        | read      | - | {}    | deny tool=review                    | -                       | deny
chat     | method resources/list | read     | - | {}    | -                                   | -                       | allow
chat     | method admin/reset   | read      | - | {}    | -                                   | -                       | ask
chat     | method admin/reset   | read      | - | {}    | allow                               | deny kind=method        | deny
# Trusted tools pass `writes`, and nothing else.
chat     | write | read trusted=write        | -  | {} | -                                   | -                       | allow
chat     | write | untrusted trusted=write   | d  | {} | -                                   | -                       | allow
run      | write | untrusted trusted=wri*    | -  | {} | -                                   | -                       | allow
chat     | write | read trusted=Write        | -  | {} | -                                   | -                       | ask
chat     | write | read trusted=writ         | -  | {} | -                                   | -                       | ask
chat     | read  | untrusted trusted=write   | r  | {} | -                                   | -                       | ask
chat     | write | read trusted=write        | -  | {} | ask                                 | -                       | ask
chat     | write | read trusted=write        | -  | {} | deny                                | -                       | deny
chat     | write | read trusted=write        | -  | {} | -                                   | ask                     | ask
chat     | write | read trusted=write        | -  | {} | -                                   | writes                  | allow
chat     | write | read trusted=write        | -  | {} | mode ask                            | -                       | ask
chat     | write | read trusted=write        | -  | {"url":"https://new.example/"} | -       | -                       | allow
chat     | method admin/reset | read trusted=* | - | {} | -                                  | -                       | ask
chat     | resource file:///a | untrusted trusted=* | - | {} | -                             | -                       | ask
# A required confirmation asks whatever allows, and lifts no refusal.
chat     | write | full confirm=write        | -  | {} | -                                   | -                       | ask
chat     | read  | read confirm=read         | r  | {} | -                                   | -                       | ask
call     | write | read confirm=write        | -  | {} | -                                   | -                       | ask
gateway  | write | read confirm=write        | -  | {} | -                                   | -                       | ask
run      | write | read confirm=write        | -  | {} | allow                               | -                       | ask
chat     | write | read confirm=write        | -  | {} | mode allow                          | -                       | ask
chat     | write | read confirm=write        | -  | {} | deny                                | -                       | deny
chat     | write | read confirm=write        | -  | {} | mode allow                          | deny                    | deny
chat     | write | read trusted=write confirm=write | - | {} | -                             | -                       | ask
gateway  | write | read confirm=delete       | -  | {} | -                                   | -                       | allow
# Folders: the level that rules see.
chat     | read  | read folder               | r  | {} | -                                   | -                       | allow
chat     | write | read folder               | -  | {} | -                                   | -                       | ask
chat     | write | full folder               | d  | {} | -                                   | -                       | allow
chat     | write | full folder               | -  | {} | ask trustLevel=trusted-folder       | -                       | ask
chat     | write | full                      | -  | {} | ask trustLevel=trusted-folder       | -                       | allow
chat     | write | full                      | -  | {} | ask trustLevel=server-trusted       | -                       | ask
chat     | write | untrusted                 | -  | {} | deny trustLevel=untrusted           | -                       | deny
chat     | write | untrusted trusted=write   | -  | {} | deny trustLevel=untrusted           | -                       | allow
chat     | write | full folder trusted=write | -  | {} | deny trustLevel=tool-allowlisted    | -                       | deny
# Risk: what is said against a tool counts, what is said for it only from a trusted server.
chat     | read  | read      | r  | {}                  | ask risk=medium                     | -                       | ask
chat     | read  | untrusted | r  | {}                  | mode allow; deny risk=medium        | -                       | allow
chat     | read  | untrusted | r  | {}                  | mode allow; deny risk=high          | -                       | deny
chat     | write | read      | -  | {}                  | mode allow; deny risk=high          | -                       | deny
chat     | write | read      | d  | {}                  | mode allow; deny risk=critical      | -                       | deny
chat     | write | untrusted | d  | {}                  | mode allow; deny risk=critical      | -                       | deny
chat     | write | read      | w  | {}                  | mode allow; deny risk=critical      | -                       | deny
chat     | read  | read      | rd | {}                  | mode allow; deny risk=critical      | -                       | deny
chat     | write | full      | d  | {}                  | -                                   | deny risk=critical      | deny
chat     | prompt review      | read | - | {}            | deny risk=low                       | -                       | deny
chat     | resource file:///a | read | - | {}            | ask risk=low                        | -                       | ask
# Without file access, paths outside the roots are refused whatever allows.
chat     | write | full nofiles | -  | {"path":"/etc/a"} | allow                              | -                       | deny
call     | read  | full nofiles | r  | {"path":"/etc/a"} | -                                  | -                       | deny
call     | read  | full nofiles | r  | {"paths":[{"p":"FILE:///etc/a"}]} | -                  | -                       | deny
chat     | read  | read nofiles | r  | {"path":"a/b"}    | -                                  | -                       | allow
call     | read  | full nofiles | r  | {"path":"/roots/../etc/a"} | -                         | -                       | deny
call     | read  | full nofiles | r  | {"path":"/roots/a"} | -                                | -                       | allow
call     | read  | full nofiles | r  | {"path":"/roots-evil/a"} | -                           | -                       | deny
call     | read  | full nofiles | r  | {"/etc/a":1}      | -                                  | -                       | deny
call     | resource file:///etc/a  | full nofiles | - | {} | -                               | -                       | deny
call     | resource file:///roots/a | full nofiles | - | {} | -                              | -                       | allow
call     | resource notes://a       | full nofiles | - | {} | -                              | -                       | allow
"#;

fn hints(word: &str) -> &'static str {
    match word {
        "-" => "{}",
        "r" => r#"{"readOnlyHint": true}"#,
        "d" => r#"{"destructiveHint": true}"#,
        "n" => r#"{"destructiveHint": false}"#,
        "rd" => r#"{"readOnlyHint": true, "destructiveHint": true}"#,
        "rn" => r#"{"readOnlyHint": true, "destructiveHint": false}"#,
        "w" => r#"{"openWorldHint": true}"#,
        "c" => r#"{"openWorldHint": false}"#,
        other => panic!("unknown hints {other}"),
    }
}

/// A policy as JSON.
fn written(policy: &str) -> &'static str {
    let (mut mode, mut rules) = (None, Vec::new());
    for entry in policy.split(';').map(str::trim).filter(|entry| *entry != "-") {
        let mut words = entry.split(' ').filter(|word| !word.is_empty());
        let then = words.next().unwrap();
        if then == "mode" {
            mode = words.next();
            continue;
        }
        let mut matches = json!({});
        for (key, value) in words.map(|word| word.split_once('=').unwrap()) {
            let value = value.replace('_', if key == "tool" { "_" } else { " " });
            let value = value.parse().map_or_else(|_| json!(value), |flag: bool| json!(flag));
            match key.starts_with('/') {
                true => matches["arguments"][key] = value,
                false => matches[key] = value,
            }
        }
        rules.push(json!({ "match": matches, "then": then }));
    }
    let mut policy = json!({ "rules": rules });
    if let Some(mode) = mode {
        policy["mode"] = Value::from(mode);
    }
    Box::leak(policy.to_string().into_boxed_str())
}

fn read(line: &'static str) -> (Row, &'static str) {
    let columns: Vec<&str> = line.split(" | ").map(str::trim).collect();
    let [surface, item, trust, annotations, arguments, user, project, expected] = columns[..] else { panic!("{line}") };
    let agent = || Caller::Agent("a".into());
    let (caller, surface) = match surface {
        "call" => (Caller::Terminal, Surface::Call),
        "chat" => (agent(), Surface::Chat),
        "run" => (agent(), Surface::Run),
        "gateway" => (Caller::Client("editor".into()), Surface::Gateway),
        "console" => (Caller::Console, Surface::Console),
        "page" => (agent(), Surface::Console),
        _ => (Caller::Program, Surface::Library),
    };
    let (kind, tool) = match item.split_once(' ') {
        None => (CallKind::Tool, item),
        Some(("resource", uri)) => (CallKind::Resource, uri),
        Some(("prompt", name)) => (CallKind::Prompt, name),
        Some((_, method)) => (CallKind::Method, method),
    };
    let mut words = trust.split(' ');
    let trust = match words.next() {
        Some("untrusted") => Trust::Untrusted,
        Some("read") => Trust::Read,
        Some("full") => Trust::Full,
        other => panic!("unknown trust {other:?}"),
    };
    let mut lists = TrustLists::NONE;
    for word in words {
        match word.split_once('=') {
            Some(("trusted", tool)) => lists.trusted_tools.push(tool.into()),
            Some(("confirm", tool)) => lists.require_confirmation.push(tool.into()),
            None if word == "folder" => lists.folder = Some(trust),
            None if word == "nofiles" => lists.file_access = FileAccess::RootsOnly,
            _ => panic!("unknown list {word}"),
        }
    }
    let (annotations, user, project) = (hints(annotations), written(user), written(project));
    let row = Row { caller, surface, kind, server: "files", tool, trust, lists, annotations, arguments, user, project };
    (row, expected)
}

#[test]
fn every_row_is_decided_as_expected() {
    let lines: Vec<&str> = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert!(160 <= lines.len(), "{} rows", lines.len());
    let mut wrong = Vec::new();
    for line in lines {
        let (row, expected) = read(line);
        let decided = row.verdict().effect.as_str();
        if decided != expected {
            wrong.push(format!("{line}: decided {decided}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Over all rows: a project's rule never makes the decision less strict than it is without the project.
#[test]
fn no_project_makes_any_row_less_strict() {
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let alone = Row { project: "{}", ..read(line).0 }.verdict().effect;
        for project in
            ["writes", "ask", "deny", "writes caller=agent", "ask /path=/etc/*", "deny /url=https://b.example/*"]
        {
            let with = Row { project: written(project), ..read(line).0 }.verdict().effect;
            assert!(alone <= with, "{line}: {alone:?} alone, {with:?} with {project}");
        }
    }
}
