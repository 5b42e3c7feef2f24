//! Which crate may use which, and which of ours a third-party crate may come into.
//!
//! The tables are the ones of the architecture page; a new edge is a decision, made there first.

use serde_json::Value;

use super::Finding;

/// Each crate and the ones of ours that it may use. A crate without an entry is an error.
const EDGES: &[(&str, &[&str])] = &[
    ("agent", &["config", "host", "model", "wire"]),
    ("auth", &["config", "wire"]),
    ("bench", &["host", "store", "testkit", "wire"]),
    ("cli", &["agent", "auth", "config", "console", "gateway", "host", "model", "sample", "store", "vault", "wire"]),
    ("config", &[]),
    ("console", &["agent", "config", "gateway", "host", "wire"]),
    ("gateway", &["config", "host", "wire"]),
    ("host", &["auth", "config", "wire"]),
    ("model", &["config", "wire"]),
    ("rmcp-peer", &["host", "testkit", "wire"]),
    ("sample", &["wire"]),
    ("store", &["config", "host"]),
    ("testkit", &["auth", "config", "host", "sample", "vault", "wire"]),
    ("vault", &["auth", "config"]),
    ("wire", &[]),
    ("xtask", &["config"]),
];

/// What any crate may use in its tests.
const FOR_TESTS: &str = "testkit";

/// What single crates may use in their tests besides.
const TEST_EDGES: &[(&str, &[&str])] = &[("console", &["store"])];

/// Third-party crates that are kept in one place, and that place. Tests may use what they like.
const KEPT_IN: &[(&str, &[&str])] = &[
    ("argon2", &["vault"]),
    ("axum", &["console", "gateway"]),
    ("clap", &["bench", "cli", "rmcp-peer"]),
    ("hyper", &["bench", "console", "rmcp-peer", "testkit", "wire"]),
    ("jsonc-parser", &["config"]),
    ("jsonschema", &["cli", "host"]),
    ("p521", &["auth"]),
    ("rmcp", &["bench", "host", "rmcp-peer"]),
    ("rusqlite", &["store"]),
    ("saphyr-parser", &["config"]),
    ("tracing-subscriber", &["bench", "cli", "rmcp-peer", "testkit"]),
    ("zbus", &["vault"]),
];

/// Checks every member of the workspace, as `cargo metadata --no-deps` describes it.
pub(super) fn check(metadata: &Value) -> Vec<Finding> {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    if packages.is_empty() {
        return vec![Finding::broken("cargo metadata", "names no package")];
    }
    packages.iter().flat_map(check_package).collect()
}

fn check_package(package: &Value) -> Vec<Finding> {
    let place = package["name"].as_str().unwrap_or_default();
    let name = short(place);
    let Some((_, may_use)) = EDGES.iter().find(|(crate_name, _)| *crate_name == name) else {
        return vec![Finding::broken(place, "has no line in the table of edges (xtask/src/tidy/edges.rs)")];
    };
    let dependencies = package["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
    dependencies.iter().filter_map(|dependency| check_dependency(place, may_use, dependency)).collect()
}

fn check_dependency(place: &str, may_use: &[&str], dependency: &Value) -> Option<Finding> {
    let name = dependency["name"].as_str().unwrap_or_default();
    let for_tests = dependency["kind"].as_str() == Some("dev");
    if dependency["path"].is_string() {
        let used = short(name);
        let in_tests = TEST_EDGES.iter().any(|(name, uses)| *name == short(place) && uses.contains(&used));
        let allowed = may_use.contains(&used) || (for_tests && (in_tests || used == FOR_TESTS || used == short(place)));
        return (!allowed).then(|| Finding::broken(place, format!("must not use `{name}`")));
    }
    let (_, homes) = KEPT_IN.iter().find(|(kept, _)| *kept == name)?;
    let allowed = for_tests || homes.contains(&short(place));
    (!allowed).then(|| Finding::broken(place, format!("brings in `{name}`, which is kept in {}", homes.join(", "))))
}

/// A package's name as the tables write it.
fn short(package: &str) -> &str {
    package.strip_prefix("toolway-").unwrap_or(package)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn found(name: &str, dependencies: &Value) -> Vec<String> {
        let metadata = json!({ "packages": [{ "name": name, "dependencies": dependencies }] });
        check(&metadata).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_edge_of_the_table_is_fine() {
        let wire = json!([{ "name": "toolway-wire", "path": "/x/crates/wire", "kind": null }]);
        assert!(found("toolway-host", &wire).is_empty());
        assert!(found("toolway-sample", &wire).is_empty());
    }

    #[test]
    fn an_edge_that_is_not_in_the_table_is_found() {
        let host = json!([{ "name": "toolway-host", "path": "/x/crates/host", "kind": null }]);
        assert_eq!(found("toolway-wire", &host), ["broken: toolway-wire: must not use `toolway-host`"]);
        let build = json!([{ "name": "toolway-host", "path": "/x/crates/host", "kind": "build" }]);
        assert_eq!(found("toolway-sample", &build).len(), 1);
    }

    #[test]
    fn the_testkit_is_for_tests() {
        let kit = |kind: &Value| json!([{ "name": "toolway-testkit", "path": "/x/crates/testkit", "kind": kind }]);
        assert!(found("toolway-wire", &kit(&json!("dev"))).is_empty());
        assert_eq!(found("toolway-wire", &kit(&json!(null))).len(), 1);
        assert_eq!(found("toolway-cli", &kit(&json!(null))).len(), 1);
    }

    #[test]
    fn the_console_uses_a_store_in_its_tests_only() {
        let store = |kind: &Value| json!([{ "name": "toolway-store", "path": "/x/crates/store", "kind": kind }]);
        assert!(found("toolway-console", &store(&json!("dev"))).is_empty());
        assert_eq!(found("toolway-console", &store(&json!(null))).len(), 1);
        assert_eq!(found("toolway-gateway", &store(&json!("dev"))).len(), 1);
    }

    #[test]
    fn a_crate_without_an_entry_is_found() {
        assert_eq!(found("toolway-extras", &json!([])).len(), 1);
        assert_eq!(check(&json!({})).len(), 1);
    }

    #[test]
    fn a_third_party_crate_stays_where_it_is_kept() {
        let clap = |kind: &Value| json!([{ "name": "clap", "path": null, "kind": kind }]);
        assert!(found("toolway-cli", &clap(&json!(null))).is_empty());
        assert!(found("toolway-host", &clap(&json!("dev"))).is_empty());
        assert_eq!(
            found("toolway-host", &clap(&json!(null))),
            ["broken: toolway-host: brings in `clap`, which is kept in bench, cli, rmcp-peer"]
        );
    }

    #[test]
    fn the_table_knows_only_its_own_crates_and_has_no_circle() {
        let known = |name: &str| EDGES.iter().any(|(known, _)| *known == name);
        assert!(EDGES.iter().flat_map(|(_, uses)| *uses).all(|used| known(used)));

        // Taking away crates that use nothing left, again and again, must take away all.
        let mut left: Vec<_> = EDGES.to_vec();
        while let Some(index) =
            left.iter().position(|(_, uses)| !uses.iter().any(|used| left.iter().any(|(name, _)| name == used)))
        {
            left.remove(index);
        }
        assert!(left.is_empty(), "{left:?}");
    }
}
