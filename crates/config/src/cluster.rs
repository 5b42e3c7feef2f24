//! Settings of a cluster: several gateways over one database.

use std::{net::SocketAddr, time::Duration};

use crate::{
    error::ConfigError,
    interpolate::Template,
    models,
    peer_address::PeerAddress,
    settings::Settings,
    shape::{Field, Key, Shape, put},
};

/// Settings of this gateway as a member of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterSettings {
    /// The secret that all gateways of the cluster share.
    pub key: Template,
    /// A second one that is accepted and not used, while the key is being changed.
    pub accepted_key: Option<Template>,
    /// Where other gateways reach this one.
    pub address: PeerAddress,
    /// Where this one listens for them; `None`: at `address`.
    pub listen: Option<SocketAddr>,
    /// How long this gateway counts as alive after a renewal.
    pub lease: Duration,
}

/// How many connections the gateways of a cluster have to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replicas {
    /// Every gateway has its own.
    Each,
    /// Those of one client session are at one gateway.
    Session,
    /// One gateway has it for all.
    One,
}

/// Default of `cluster.lease`.
const LEASE: Duration = Duration::from_secs(15);
/// Shortest and longest lease.
const SHORTEST: Duration = Duration::from_secs(3);
const LONGEST: Duration = Duration::from_secs(120);

const MEMBERS: &[(&str, Shape)] = &[
    ("key", Shape::Text),
    ("acceptedKey", Shape::Text),
    ("address", Shape::Text),
    ("listen", Shape::Text),
    ("lease", Shape::Time),
];

const REPLICAS: &[(&str, Replicas)] =
    &[("each", Replicas::Each), ("session", Replicas::Session), ("one", Replicas::One)];
/// Values of `replicas`.
pub(crate) const REPLICAS_VALUES: Shape = Shape::OneOf(&["each", "session", "one"]);

/// The top-level key `cluster`.
pub(crate) const CLUSTER: Key<Settings> = Key {
    name: "cluster",
    shape: Shape::Members(MEMBERS),
    doc: "Makes `serve` one of several gateways over the database of `store.url`. `key`: a reference such as \
          `env:CLUSTER_KEY` or `${secret:cluster}` to the secret that all gateways share, at least 32 characters. \
          `acceptedKey`: a second secret that is accepted and not used, while the key is being changed. `address`: \
          `host:port` where other gateways reach this one. `listen`: the address and port that it listens on for them, \
          if that is not `address`. `lease`: how long this gateway counts as alive after a renewal, from `3s` to `120s`, \
          default `15s`.",
    example: r#"{"key": "env:CLUSTER_KEY", "address": "10.0.0.5:7719"}"#,
    set: |settings, field| put(&mut settings.cluster, field.setting(Some(read(field)?))),
};

fn read(field: &Field<'_>) -> Result<ClusterSettings, ConfigError> {
    let mut key = None;
    let mut accepted_key = None;
    let mut address = None;
    let mut listen = None;
    let mut lease = LEASE;
    for (name, field) in field.members()? {
        match name {
            "key" => key = Some(read_key(&field)?),
            "acceptedKey" => accepted_key = Some(read_key(&field)?),
            "address" => {
                let read = field.text()?.parse::<PeerAddress>();
                address = Some(read.map_err(|_| field.expected("`host:port`, such as `10.0.0.5:7719`"))?);
            }
            "listen" => {
                let read = field.text()?.parse::<SocketAddr>();
                listen = Some(read.map_err(|_| field.expected("an address and port, such as `0.0.0.0:7719`"))?);
            }
            "lease" => {
                lease = field.time()?;
                if !(SHORTEST..=LONGEST).contains(&lease) {
                    return Err(field.expected("a time from `3s` to `120s`"));
                }
            }
            _ => return Err(field.unknown(MEMBERS.iter().map(|(key, _)| *key))),
        }
    }
    let missing = |name: &str, expected: &str| field.below(name).expected(expected);
    let key = key.ok_or_else(|| missing("key", A_REFERENCE))?;
    let address = address.ok_or_else(|| missing("address", "`host:port`, such as `10.0.0.5:7719`"))?;
    Ok(ClusterSettings { key, accepted_key, address, listen, lease })
}

/// What a key must be, after "must be".
const A_REFERENCE: &str = "a reference to a secret, such as `env:CLUSTER_KEY` or `${secret:cluster}`";

/// A key in the file itself would be in every copy of it.
fn read_key(field: &Field<'_>) -> Result<Template, ConfigError> {
    let key = models::api_key_template(field)?;
    if key.is_literal() { Err(field.expected(A_REFERENCE)) } else { Ok(key) }
}

pub(crate) fn read_replicas(field: &Field<'_>) -> Result<Replicas, ConfigError> {
    field.choice(REPLICAS, REPLICAS_VALUES)
}

impl Replicas {
    /// The value as written in configuration.
    pub fn as_str(self) -> &'static str {
        REPLICAS.iter().find(|(_, value)| *value == self).map_or("session", |(word, _)| word)
    }
}
