//! `cargo xtask messages`: every text of the program that a user, operator or client may read, on one page.
//!
//! The page is made from the sources: texts of errors, notices, hints and log lines are string literals with at least
//! two words; those of the console's pages are literals of its scripts (`messages/script.rs`). Help texts stand in `docs/reference/cli.md`, descriptions of configuration keys in `config.md`.

mod script;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// The page, below the root of the repository.
const PAGE: &str = "docs/reference/messages.md";

/// Crates that are shipped. The configuration descriptions of `config/src/**/keys.rs` are a page of their own.
const CRATES: &[&str] =
    &["agent", "auth", "cli", "config", "console", "gateway", "host", "model", "sample", "store", "vault", "wire"];

/// Scripts of the console's pages.
const SCRIPTS: &str = "crates/console/web";

/// Macros and methods whose text only a developer sees.
const FOR_DEVELOPERS: &[&str] = &["assert", "assert_eq", "debug_assert", "expect", "panic", "unreachable"];

/// Writes the page.
pub(crate) fn write(root: &Path) -> io::Result<()> {
    fs::write(root.join(PAGE), page(root)?)
}

/// The page as it should be.
fn page(root: &Path) -> io::Result<String> {
    let mut page = String::from(
        "# Messages\n\nEvery text of the program that a user, an operator or a client may read, by crate and file. \
         Made from the sources by\n`cargo xtask messages`; a test keeps it current. `{…}` stands for a value.\n",
    );
    for name in CRATES {
        let source = root.join("crates").join(name).join("src");
        let sections = sections(&source, &files_in(&source, &is_shipped_source)?, texts_of)?;
        if !sections.is_empty() {
            let _written = write!(page, "\n## {name}\n{sections}");
        }
    }
    let source = root.join(SCRIPTS);
    let scripts = files_in(&source, &|path| path.extension().is_some_and(|ending| ending == "js"))?;
    let of_script =
        |text: &str| Ok(each_once(script::literals(text).into_iter().filter(|text| is_prose(text)).collect()));
    let _written = write!(page, "\n## pages of the console\n{}", sections(&source, &scripts, of_script)?);
    Ok(page)
}

/// A section for each file with texts.
fn sections(
    source: &Path,
    files: &BTreeSet<PathBuf>,
    texts_of: impl Fn(&str) -> syn::Result<Vec<String>>,
) -> io::Result<String> {
    let mut sections = String::new();
    for file in files {
        let place = file.strip_prefix(source).map_err(io::Error::other)?.display().to_string();
        let texts =
            texts_of(&fs::read_to_string(file)?).map_err(|error| io::Error::other(format!("{place}: {error}")))?;
        if !texts.is_empty() {
            let lines: String = texts.iter().map(|text| format!("{}\n", text.escape_debug())).collect();
            let lines = lines.replace("\\\"", "\"").replace("\\'", "'");
            let _written = write!(sections, "\n### {place}\n\n```text\n{lines}```\n");
        }
    }
    Ok(sections)
}

fn files_in(folder: &Path, is_wanted: &dyn Fn(&Path) -> bool) -> io::Result<BTreeSet<PathBuf>> {
    let mut files = BTreeSet::new();
    if !folder.is_dir() {
        return Ok(files);
    }
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(files_in(&path, is_wanted)?);
        } else if is_wanted(&path) {
            files.insert(path);
        }
    }
    Ok(files)
}

fn is_shipped_source(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.ends_with(".rs") && name != "tests.rs" && !path.iter().any(|part| part == "tests")
}

/// The texts of one source file, in the order they stand there, each once.
fn texts_of(source: &str) -> syn::Result<Vec<String>> {
    let mut collector = Collector::default();
    collector.visit_file(&syn::parse_file(source)?);
    Ok(each_once(collector.texts))
}

fn each_once(mut texts: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    texts.retain(|text| seen.insert(text.clone()));
    texts
}

#[derive(Default)]
struct Collector {
    texts: Vec<String>,
}

// === impl Collector ===

impl Collector {
    fn take(&mut self, text: String) {
        if is_prose(&text) {
            self.texts.push(text);
        }
    }

    fn take_tokens(&mut self, tokens: TokenStream) {
        let mut for_developers = false;
        for token in tokens {
            match token {
                TokenTree::Group(group) if !for_developers => self.take_tokens(group.stream()),
                TokenTree::Group(_) => for_developers = false,
                TokenTree::Ident(name) if name == "doc" => return,
                TokenTree::Ident(name) => for_developers = FOR_DEVELOPERS.contains(&name.to_string().as_str()),
                TokenTree::Literal(literal) => {
                    if let Ok(text) = syn::parse_str::<syn::LitStr>(&literal.to_string()) {
                        self.take(text.value());
                    }
                }
                TokenTree::Punct(_) => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Collector {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if attribute.path().is_ident("error")
            && let syn::Meta::List(list) = &attribute.meta
        {
            self.take_tokens(list.tokens.clone());
        }
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let name = call.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default();
        if !FOR_DEVELOPERS.contains(&name.as_str()) {
            self.take_tokens(call.tokens.clone());
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "expect" {
            self.visit_expr(&call.receiver);
        } else {
            visit::visit_expr_method_call(self, call);
        }
    }

    fn visit_lit_str(&mut self, literal: &'ast syn::LitStr) {
        self.take(literal.value());
    }
}

pub(crate) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || (attribute.path().is_ident("cfg")
                && matches!(&attribute.meta, syn::Meta::List(list) if list.tokens.to_string() == "test"))
    })
}

/// Parts of header values and of events, which only programs read.
const HEADERS: [&str; 3] = ["default-src 'none'", "SameSite=Strict", "\ndata: "];

/// Two words of letters with a space between them; no JSON, HTTP head, script, SQL, or examples of a command's help.
fn is_prose(text: &str) -> bool {
    let words = text.split_whitespace().filter(|word| {
        let letters = word.trim_matches(|c: char| !c.is_alphanumeric());
        letters.len() > 1 && letters.chars().all(|c| c.is_alphabetic() || c == '\'' || c == '-')
    });
    let start = text.trim_start();
    let is_other = start.starts_with(['[', '<', '#'])
        || (start.starts_with('{') && !begins_with_value(start))
        || HEADERS.iter().any(|part| text.contains(part));
    let is_example = text.starts_with("Examples:") || text.contains("\r\n") || text.contains("toolway __complete");
    words.count() >= 2 && !is_other && !is_example && !is_sql(text)
}

/// Whether a text begins with a placeholder such as `{name}`, and not with an object.
fn begins_with_value(text: &str) -> bool {
    let inside = text.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(inside, _)| inside);
    inside.is_some_and(|inside| inside.chars().all(|c| c.is_ascii_alphanumeric() || "_:.?".contains(c)))
}

/// A statement or a part of one: it has a keyword in capitals, or is a list of columns.
fn is_sql(text: &str) -> bool {
    const KEYWORDS: [&str; 10] =
        ["SELECT", "INSERT", "UPDATE", "DELETE", "WHERE", "AND", "OR", "IN", "SAVEPOINT", "RELEASE"];
    let mut words = text.split(|c: char| c.is_whitespace() || "()".contains(c));
    let is_list = text.contains("_at, ") && text.split(", ").all(|word| !word.contains(' '));
    is_list || text.starts_with("sum(") || words.any(|word| KEYWORDS.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::root;

    #[test]
    fn the_page_is_current() {
        let kept = fs::read_to_string(root().join(PAGE)).unwrap_or_default();
        assert!(kept == page(&root()).unwrap(), "{PAGE} is out of date; run `cargo xtask messages`");
    }

    #[test]
    fn texts_of_errors_macros_and_calls_are_found_and_those_of_tests_are_not() {
        let source = r#"
            #[derive(Error)]
            enum E { #[error("server `{name}`: connection refused")] Refused { name: String } }
            fn a() {
                warn!(server = %name, "the server did not answer");
                let b = x.expect("not a message");
                hint("run `toolway doctor`");
                format!("{issuer} is temporarily unavailable");
                query("SELECT id FROM calls WHERE state = ?");
                thread_local! { /** Not a message. */ static A: u8 = 0 }
                assert!(x, "not a message either");
                key("serverName");
            }
            #[cfg(test)]
            mod tests { fn a() { hint("not this one"); } }
        "#;
        let texts = texts_of(source).unwrap();
        let expected = [
            "server `{name}`: connection refused",
            "the server did not answer",
            "run `toolway doctor`",
            "{issuer} is temporarily unavailable",
        ];
        assert_eq!(texts, expected);
    }
}
