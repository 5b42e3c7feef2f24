//! Third-party code: under which licences, which crates never, from where.
//!
//! The lists are those of `deny.toml`, which `cargo deny` reads as well; this check stands in where that program is not
//! installed. Bans and sources are read from `Cargo.lock`, so they hold for every platform; licences are known only for
//! the platform we are on.

use serde_json::Value;

use super::{Finding, licence};

/// The part of `deny.toml` that is checked here.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rules {
    licences: Vec<String>,
    banned: Vec<String>,
    registries: Vec<String>,
}

impl Rules {
    /// Reads `deny.toml`. A list that is missing or empty is an error: it would allow or forbid everything.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let document: toml::Table = text.parse().map_err(|error| format!("deny.toml: {error}"))?;
        let list = |section: &str, key: &str| {
            let entries = document.get(section).and_then(|section| section.get(key)).and_then(toml::Value::as_array);
            let names: Option<Vec<String>> = entries.and_then(|entries| entries.iter().map(name).collect());
            names.filter(|names| !names.is_empty()).ok_or_else(|| format!("deny.toml: no list `{section}.{key}`"))
        };
        Ok(Self {
            licences: list("licenses", "allow")?,
            banned: list("bans", "deny")?,
            registries: list("sources", "allow-registry")?,
        })
    }
}

/// An entry is a bare name, or a table that gives it as `crate`.
fn name(entry: &toml::Value) -> Option<String> {
    entry.as_str().or_else(|| entry.get("crate")?.as_str()).map(str::to_owned)
}

/// Checks `Cargo.lock` for banned crates and foreign sources.
pub(super) fn check_lock(rules: &Rules, text: &str) -> Vec<Finding> {
    let packages = match text.parse::<toml::Table>() {
        Ok(mut document) => document.remove("package"),
        Err(error) => return vec![Finding::broken("Cargo.lock", error.to_string())],
    };
    let Some(toml::Value::Array(packages)) = packages else {
        return vec![Finding::broken("Cargo.lock", "names no package")];
    };
    packages.iter().flat_map(|package| check_locked(rules, package)).collect()
}

fn check_locked(rules: &Rules, package: &toml::Value) -> Vec<Finding> {
    let text = |key: &str| package.get(key).and_then(toml::Value::as_str);
    let name = text("name").unwrap_or_default();
    let mut findings = Vec::new();
    if rules.banned.iter().any(|banned| banned == name) {
        findings.push(Finding::broken("Cargo.lock", format!("`{name}` is banned, deny.toml says why")));
    }
    let source = text("source");
    let known = |source: &str| {
        source.strip_prefix("registry+").is_some_and(|url| rules.registries.iter().any(|registry| registry == url))
    };
    if !source.is_none_or(known) {
        let source = source.unwrap_or_default();
        findings.push(Finding::broken("Cargo.lock", format!("`{name}` comes from `{source}`")));
    }
    findings
}

/// Checks the licences of all packages that are not ours, as `cargo metadata` describes them.
pub(super) fn check_licences(rules: &Rules, metadata: &Value) -> Vec<Finding> {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let foreign = packages.iter().filter(|package| !package["source"].is_null());
    foreign.filter_map(|package| check_licence(rules, package)).collect()
}

fn check_licence(rules: &Rules, package: &Value) -> Option<Finding> {
    let name = package["name"].as_str().unwrap_or_default();
    let Some(expression) = package["license"].as_str() else {
        return Some(Finding::broken(name, "names no licence"));
    };
    let met = licence::is_met(expression, &rules.licences);
    (!met).then(|| Finding::broken(name, format!("its licence `{expression}` is not allowed by deny.toml")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const REGISTRY: &str = "https://github.com/rust-lang/crates.io-index";

    fn rules() -> Rules {
        let text = format!(
            "[licenses]\nallow = [\"MIT\"]\n[bans]\ndeny = [\"left-pad\", {{ crate = \"openssl\", reason = \"x\" }}]\n\
             [sources]\nallow-registry = [\"{REGISTRY}\"]\n"
        );
        Rules::read(&text).unwrap()
    }

    fn locked(name: &str, source: &str) -> Vec<String> {
        let text = format!("[[package]]\nname = \"{name}\"\nversion = \"1.0.0\"\n{source}\n");
        check_lock(&rules(), &text).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_lists_are_read_from_deny_toml() {
        assert_eq!(rules().banned, ["left-pad", "openssl"]);
    }

    #[test]
    fn a_missing_or_empty_list_is_an_error() {
        assert!(Rules::read("").is_err());
        assert!(Rules::read("[licenses]\nallow = []\n").is_err());
        assert!(Rules::read("[licenses").is_err());
    }

    #[test]
    fn our_own_crates_and_the_registry_are_fine() {
        assert!(locked("toolway-wire", "").is_empty());
        assert!(locked("serde", &format!("source = \"registry+{REGISTRY}\"")).is_empty());
    }

    #[test]
    fn a_banned_crate_is_found() {
        let found = locked("openssl", &format!("source = \"registry+{REGISTRY}\""));
        assert_eq!(found, ["broken: Cargo.lock: `openssl` is banned, deny.toml says why"]);
    }

    #[test]
    fn a_foreign_source_is_found() {
        for source in
            ["registry+https://example.org/index", "git+https://example.org/a#0", "sparse+https://example.org/"]
        {
            let found = locked("serde", &format!("source = \"{source}\""));
            assert_eq!(found, [format!("broken: Cargo.lock: `serde` comes from `{source}`")]);
        }
    }

    #[test]
    fn an_empty_or_broken_lock_file_does_not_pass() {
        assert_eq!(check_lock(&rules(), "").len(), 1);
        assert_eq!(check_lock(&rules(), "[[package").len(), 1);
    }

    #[test]
    fn licences_of_others_are_checked_and_ours_are_not() {
        let package = |source: &Value, licence: &Value| json!({ "name": "a", "source": source, "license": licence });
        let found = |package: Value| check_licences(&rules(), &json!({ "packages": [package] })).len();
        let registry = json!("registry");
        assert_eq!(found(package(&registry, &json!("MIT OR Apache-2.0"))), 0);
        assert_eq!(found(package(&json!(null), &json!("Apache-2.0"))), 0);
        assert_eq!(found(package(&registry, &json!("Apache-2.0"))), 1);
        assert_eq!(found(package(&registry, &json!(null))), 1);
    }
}
