//! What each dialect makes of the same texts.

use std::path::Path;

use super::{Dialect, Lookup, Template};
use crate::{Environment, NoKeychain};

fn environment() -> Environment {
    let set = [("TOKEN", "t0k"), ("EMPTY", ""), ("A", "${TOKEN}"), ("HOME", "/home/ada")];
    set.into_iter().map(|(name, value)| (name.into(), value.into())).collect()
}

fn expand(text: &str, dialect: Dialect) -> Result<String, String> {
    let environment = environment();
    let lookup = Lookup {
        environment: &environment,
        keychain: &NoKeychain,
        folder: Some(Path::new("/work/project")),
        base: Path::new("/work"),
        server: "files",
    };
    let expanded = Template::new(text, dialect, 1).expand(&lookup);
    expanded.map(|secret| secret.expose().to_owned()).map_err(|reason| reason.to_string())
}

#[test]
fn variables_become_their_values() {
    for (text, expanded) in [
        ("Bearer ${TOKEN}", "Bearer t0k"),
        ("${TOKEN}${env:TOKEN}", "t0kt0k"),
        ("${NONE:-x}${EMPTY:-y}[${EMPTY}]", "xy[]"),
        ("${NONE:-${EMPTY:-${TOKEN}}}!", "t0k!"),
        ("${env:NONE:-x}", "x"),
        ("$TOKEN costs 5$ {TOKEN}", "$TOKEN costs 5$ {TOKEN}"),
        ("${not a name} ${", "${not a name} ${"),
        ("${TOKEN", "${TOKEN"),
        ("$${TOKEN} $$ ${TOKEN}", "${TOKEN} $$ t0k"),
        ("${}", "${}"),
        ("", ""),
    ] {
        assert_eq!(expand(text, Dialect::Toolway).as_deref(), Ok(expanded), "{text}");
    }
}

#[test]
fn what_leads_nowhere_is_an_error() {
    for (text, said) in [
        ("${NONE}", "needs the variable NONE, which is not set"),
        ("${env:NONE}", "needs the variable NONE, which is not set"),
        ("${NONE:-${ALSO}}", "needs the variable ALSO, which is not set"),
        ("${file:none}", "needs the file /work/none: No such file or directory (os error 2)"),
        ("${file:~/none}", "needs the file /home/ada/none: No such file or directory (os error 2)"),
        ("${file:/dev/zero}", "needs the file /dev/zero: it is not a regular file"),
        ("${keychain:a}", "has `${keychain:a}`, which nothing here can fill in"),
        ("${input:x}", "has `${input:x}`, which nothing here can fill in"),
        ("${workspace:x}", "has `${workspace:x}`, which nothing here can fill in"),
    ] {
        assert_eq!(expand(text, Dialect::Toolway), Err(said.to_owned()), "{text}");
    }
    let refused = expand("${keychain:github/token}", Dialect::Toolway).unwrap_err();
    assert!(refused.starts_with("needs `token` of `github` from the keychain: no keychain is connected"), "{refused}");
}

#[test]
fn what_a_variable_holds_is_not_expanded_again() {
    assert_eq!(expand("${A}", Dialect::Toolway).as_deref(), Ok("${TOKEN}"));
}

#[test]
fn a_whole_value_may_be_a_reference_where_secrets_stand() {
    let file = expand("file:/none", Dialect::ToolwayValue).unwrap_err();
    assert_eq!(file, "needs the file /none: No such file or directory (os error 2)");
    assert!(expand("keychain:a/b", Dialect::ToolwayValue).is_err());
    // An address and a database are not files to be read.
    for text in ["file:///data", "file:./dev.db", "file:dev.db", "a file:/none"] {
        assert_eq!(expand(text, Dialect::ToolwayValue).as_deref(), Ok(text));
    }
    assert_eq!(expand("file:/none", Dialect::Toolway).as_deref(), Ok("file:/none"));
}

#[test]
fn each_dialect_knows_its_own_forms_and_refuses_what_only_looks_like_one() {
    use Dialect::{Braces, Cursor, Gemini, Literal, Mcporter, Opencode, Roo, Shell, VsCode, Windsurf};
    let unknown = |text: &str| Err(format!("has `{text}`, which nothing here can fill in"));
    let known = |text: &str| Ok(text.to_owned());
    for (text, dialect, expected) in [
        ("${TOKEN} $TOKEN {env:TOKEN}", Literal, known("${TOKEN} $TOKEN {env:TOKEN}")),
        ("${TOKEN} ${NONE:-x} $TOKEN", Shell, known("t0k x $TOKEN")),
        ("${env:TOKEN}", Shell, unknown("${env:TOKEN}")),
        ("${TOKEN} $TOKEN", Braces, known("t0k $TOKEN")),
        ("${NONE:-x}", Braces, unknown("${NONE:-x}")),
        ("$TOKEN ${TOKEN} ${NONE:-x} 5$ $5", Gemini, known("t0k t0k x 5$ $5")),
        ("$NONE", Gemini, Err("needs the variable NONE, which is not set".to_owned())),
        ("${env:TOKEN} ${userHome} ${workspaceFolder}", Cursor, known("t0k /home/ada /work/project")),
        ("${workspaceFolderBasename}${/}${pathSeparator}", Cursor, known("project//")),
        ("${TOKEN}", Cursor, unknown("${TOKEN}")),
        ("${input:tok}", Cursor, unknown("${input:tok}")),
        ("${input:tok}", VsCode, Err("needs the input `tok`, which nobody has given yet".to_owned())),
        ("${command:x}", VsCode, unknown("${command:x}")),
        ("${env:TOKEN}", Roo, known("t0k")),
        ("${TOKEN}", Roo, unknown("${TOKEN}")),
        ("${env:TOKEN}", Windsurf, known("t0k")),
        ("${file:/none}", Windsurf, Err("needs the file /none: No such file or directory (os error 2)".to_owned())),
        ("{env:TOKEN} ${TOKEN} {x}", Opencode, known("t0k ${TOKEN} {x}")),
        ("{env:NONE}", Opencode, Err("needs the variable NONE, which is not set".to_owned())),
        ("$env:TOKEN ${TOKEN} ${NONE:-x} $TOKEN", Mcporter, known("t0k t0k x $TOKEN")),
    ] {
        assert_eq!(expand(text, dialect), expected, "{dialect:?} {text}");
    }
}

#[test]
fn a_file_gives_its_text_without_the_last_line_break() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "one\ntwo\r\n").unwrap();
    let text = format!("<${{file:{}}}>", file.display());
    assert_eq!(expand(&text, Dialect::Toolway).as_deref(), Ok("<one\ntwo>"));
    std::fs::write(&file, vec![b'x'; 65 * 1024]).unwrap();
    assert!(expand(&text, Dialect::Toolway).unwrap_err().ends_with("it is larger than 65536 bytes"));
    std::fs::write(&file, [0xff]).unwrap();
    assert!(expand(&text, Dialect::Toolway).unwrap_err().ends_with("it is not UTF-8"));
}

#[test]
fn a_template_does_not_print_itself() {
    assert!(!format!("{:?}", Template::literal("hunter2")).contains("hunter2"));
}
