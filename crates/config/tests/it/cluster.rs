//! `cluster` and `replicas`: parsed, checked and shown without the key.

use std::time::Duration;

use toolway_config::{Replicas, show::show};

use crate::world::World;

const OWN: &str = "home/.config/toolway/toolway.json";

fn with(settings: &str) -> World {
    let world = World::empty();
    world.write(OWN, &format!("{{ \"mcpServers\": {{}},\n{settings} }}"));
    world
}

#[test]
fn cluster_has_a_key_an_address_and_a_lease() {
    let world =
        with(r#""cluster": {"key": "env:CLUSTER_KEY", "acceptedKey": "${secret:next}", "address": "10.0.0.5:7719"}"#);
    let loaded = world.load().unwrap();
    let cluster = loaded.config.settings.cluster.value.clone().unwrap();
    assert_eq!((cluster.address.host(), cluster.address.port()), ("10.0.0.5", 7719));
    assert_eq!(cluster.lease, Duration::from_secs(15));
    assert!(!cluster.key.is_literal() && cluster.accepted_key.is_some());
    let uses = loaded.secret_uses();
    assert_eq!(uses.iter().map(|found| found.key.as_str()).collect::<Vec<_>>(), ["cluster.acceptedKey"]);
    let shown = show(&loaded.config);
    let value = |key: &str| shown.iter().find(|value| value.key == key).unwrap().value.clone();
    assert_eq!(value("cluster.address"), "10.0.0.5:7719");
    assert_eq!(value("cluster.lease"), 15);
}

#[test]
fn invalid_cluster_is_refused_with_what_it_must_be() {
    let errors = [
        (r#"{"address": "a:1"}"#, "`cluster.key` must be a reference to a secret"),
        (r#"{"key": "in-clear-0123456789abcdef01234567", "address": "a:1"}"#, "`cluster.key` must be a reference"),
        (r#"{"key": "env:K"}"#, "`cluster.address` must be `host:port`"),
        (r#"{"key": "env:K", "address": "http://a"}"#, "`cluster.address` must be `host:port`"),
        (r#"{"key": "env:K", "address": "a:1", "listen": "b:1"}"#, "`cluster.listen` must be an address and port"),
        (r#"{"key": "env:K", "address": "a:1", "lease": "1s"}"#, "`cluster.lease` must be a time from `3s` to `120s`"),
        (r#"{"key": "env:K", "address": "a:1", "leese": "5s"}"#, "unknown key `cluster.leese`"),
    ];
    for (cluster, expected) in errors {
        let error = with(&format!(r#""cluster": {cluster}"#)).load().unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("in-clear"), "{error}");
    }
}

#[test]
fn server_says_how_many_connections_a_cluster_has_to_it() {
    let world = World::empty();
    world.write(OWN, r#"{"mcpServers": {"db": {"command": "db", "replicas": "one"}, "fs": {"command": "fs"}}}"#);
    let config = world.load().unwrap().config;
    assert_eq!(config.find("db").unwrap().replicas, Some(Replicas::One));
    assert_eq!(config.find("fs").unwrap().replicas, None);
    assert!(show(&config).iter().any(|value| value.key == "mcpServers.db.replicas" && value.value == "one"));
}
