//! References in each dialect.

use std::path::Path;

use super::{Dialect, Lookup, Template};
use crate::{Environment, NoKeychain};

const INPUT: &str = "needs the input `tok`; store its value with `toolway secret set files-tok-3c5d1fc2`";

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
        file: Path::new("/work/mcp.json"),
        defined_by: crate::server::DefinedBy::Project,
    };
    let expanded = Template::new(text, dialect, 1).expand(&lookup);
    expanded.map(|secret| secret.expose().to_owned()).map_err(|reason| reason.to_string())
}

#[test]
fn variables_are_replaced_by_their_values() {
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
fn unresolvable_reference_is_an_error() {
    for (text, expected) in [
        ("${NONE}", "needs the environment variable `NONE`, which is not set"),
        ("${env:NONE}", "needs the environment variable `NONE`, which is not set"),
        ("${NONE:-${ALSO}}", "needs the environment variable `ALSO`, which is not set"),
        ("${file:none}", "needs the file `/work/none`: No such file or directory (os error 2)"),
        ("${file:~/none}", "needs the file `/home/ada/none`: No such file or directory (os error 2)"),
        ("${file:/dev/zero}", "needs the file `/dev/zero`: it is not a regular file"),
        ("${keychain:a}", "has the unknown placeholder `${keychain:a}`"),
        ("${input:x}", "has the unknown placeholder `${input:x}`"),
        ("${secret:a b}", "has the unknown placeholder `${secret:a b}`"),
        ("${secret:a:-x}", "has the unknown placeholder `${secret:a:-x}`"),
        ("${secret:a}", "needs the secret `a`: no vault is available"),
        ("${workspace:x}", "has the unknown placeholder `${workspace:x}`"),
    ] {
        assert_eq!(expand(text, Dialect::Toolway), Err(expected.to_owned()), "{text}");
    }
    let refused = expand("${keychain:github/token}", Dialect::Toolway).unwrap_err();
    let keychain = "needs the keychain entry `github/token`: no keychain is available";
    assert!(refused.starts_with(keychain), "{refused}");
}

#[test]
fn value_of_a_variable_is_not_expanded_again() {
    assert_eq!(expand("${A}", Dialect::Toolway).as_deref(), Ok("${TOKEN}"));
}

#[test]
fn whole_value_may_be_a_reference_where_secrets_are_allowed() {
    let file = expand("file:/none", Dialect::ToolwayValue).unwrap_err();
    assert_eq!(file, "needs the file `/none`: No such file or directory (os error 2)");
    assert!(expand("keychain:a/b", Dialect::ToolwayValue).is_err());
    // URLs and databases are not files to read.
    for text in ["file:///data", "file:./dev.db", "file:dev.db", "a file:/none"] {
        assert_eq!(expand(text, Dialect::ToolwayValue).as_deref(), Ok(text));
    }
    assert_eq!(expand("file:/none", Dialect::Toolway).as_deref(), Ok("file:/none"));
}

#[test]
fn each_dialect_resolves_its_own_forms_and_refuses_other_placeholders() {
    use Dialect::{Braces, Cursor, Gemini, Literal, Mcporter, Opencode, Roo, Shell, VsCode, Windsurf};
    let unknown = |text: &str| Err(format!("has the unknown placeholder `{text}`"));
    let known = |text: &str| Ok(text.to_owned());
    for (text, dialect, expected) in [
        ("${TOKEN} $TOKEN {env:TOKEN}", Literal, known("${TOKEN} $TOKEN {env:TOKEN}")),
        ("${TOKEN} ${NONE:-x} $TOKEN", Shell, known("t0k x $TOKEN")),
        ("${env:TOKEN}", Shell, unknown("${env:TOKEN}")),
        ("${TOKEN} $TOKEN", Braces, known("t0k $TOKEN")),
        ("${NONE:-x}", Braces, unknown("${NONE:-x}")),
        ("$TOKEN ${TOKEN} ${NONE:-x} 5$ $5", Gemini, known("t0k t0k x 5$ $5")),
        ("$NONE", Gemini, Err("needs the environment variable `NONE`, which is not set".to_owned())),
        ("${env:TOKEN} ${userHome} ${workspaceFolder}", Cursor, known("t0k /home/ada /work/project")),
        ("${workspaceFolderBasename}${/}${pathSeparator}", Cursor, known("project//")),
        ("${TOKEN}", Cursor, unknown("${TOKEN}")),
        ("${input:tok}", Cursor, unknown("${input:tok}")),
        ("${input:tok}", VsCode, Err(INPUT.to_owned())),
        ("${command:x}", VsCode, unknown("${command:x}")),
        ("${env:TOKEN}", Roo, known("t0k")),
        ("${TOKEN}", Roo, unknown("${TOKEN}")),
        ("${env:TOKEN}", Windsurf, known("t0k")),
        ("${file:/none}", Windsurf, Err("needs the file `/none`: No such file or directory (os error 2)".to_owned())),
        ("{env:TOKEN} ${TOKEN} {x}", Opencode, known("t0k ${TOKEN} {x}")),
        ("{env:NONE}", Opencode, Err("needs the environment variable `NONE`, which is not set".to_owned())),
        ("$env:TOKEN ${TOKEN} ${NONE:-x} $TOKEN", Mcporter, known("t0k t0k x $TOKEN")),
    ] {
        assert_eq!(expand(text, dialect), expected, "{dialect:?} {text}");
    }
}

#[test]
fn file_reference_gives_the_text_without_the_last_line_break() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, "one\ntwo\r\n").unwrap();
    let text = format!("<${{file:{}}}>", file.display());
    assert_eq!(expand(&text, Dialect::Toolway).as_deref(), Ok("<one\ntwo>"));
    std::fs::write(&file, vec![b'x'; 65 * 1024]).unwrap();
    assert!(expand(&text, Dialect::Toolway).unwrap_err().ends_with("it is larger than 65536 bytes"));
    std::fs::write(&file, [0xff]).unwrap();
    assert!(expand(&text, Dialect::Toolway).unwrap_err().ends_with("it is not valid UTF-8"));
}

#[test]
fn a_template_does_not_print_itself() {
    assert!(!format!("{:?}", Template::literal("hunter2")).contains("hunter2"));
}
