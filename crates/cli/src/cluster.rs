//! What makes `serve` one of several gateways: the secret that they share, where they reach this one, and its registration.

use std::{sync::Arc, time::Duration};

use tokio::net::TcpListener;
use toolway_config::{ClusterSettings, Config, Replicas, interpolate::Template};
use toolway_gateway::cluster::{BootClock, ClusterMembership, ClusterOptions, MemberOptions};
use toolway_host::cluster::GatewayId;
use toolway_store::Store;
use toolway_wire::{
    cluster_key::{ClusterKey, ClusterKeys},
    peer::PeerTls,
};
use uuid::Uuid;

use crate::{app::App, exit_code::ExitCode, report::Report};

/// A gateway that is about to be one of several.
#[derive(Debug)]
pub(crate) struct ClusterPlan {
    settings: ClusterSettings,
    keys: ClusterKeys,
    tls: PeerTls,
}

/// How long the first registration may take.
const JOIN: Duration = Duration::from_secs(20);

impl App {
    /// What the configuration says about a cluster; `None` without one.
    pub(crate) fn cluster_plan(&self, config: &Config) -> Result<Option<ClusterPlan>, Report> {
        let settings = &config.settings;
        let Some(cluster) = &settings.cluster.value else { return Ok(None) };
        // Each gateway would start one.
        let mut servers = config.servers.iter();
        if let Some((name, _)) = servers.find(|(_, server)| server.replicas == Some(Replicas::One)) {
            let message = format!("`{name}`: `replicas: one` is in preparation and cannot be used with `cluster`");
            return Err(Report::usage("config", message).hint("run that server once, over HTTP, and configure its URL"));
        }
        if self.reach.no_store || settings.store.url.value.is_none() {
            let message = "`cluster` needs `store.url`: several gateways share a Postgres database";
            return Err(Report::usage("config", message).hint(
                "set `store.url`, for example to `env:STORE_URL`, or remove `cluster` to serve with this gateway alone",
            ));
        }
        let key = |template: &Template, key: &str| {
            let secret = self.expand_setting(template, key, settings)?;
            ClusterKey::new(secret.expose()).map_err(|error| Report::usage("config", format!("`{key}`: {error}")))
        };
        let current = key(&cluster.key, "cluster.key")?;
        let accepted =
            cluster.accepted_key.as_ref().map(|template| key(template, "cluster.acceptedKey")).transpose()?;
        let keys = ClusterKeys { current, accepted };
        let tls = PeerTls::new(&keys).map_err(|error| internal(&error))?;
        Ok(Some(ClusterPlan { settings: cluster.clone(), keys, tls }))
    }
}

impl ClusterPlan {
    /// Listens for other gateways. Before the registration, which makes the address known.
    pub(crate) async fn bind(&self) -> Result<TcpListener, Report> {
        let ClusterSettings { address, listen, .. } = &self.settings;
        let bound = match listen {
            Some(listen) => TcpListener::bind(listen).await,
            None => TcpListener::bind((address.host(), address.port())).await,
        };
        let at = listen.map_or_else(|| address.to_string(), |listen| listen.to_string());
        bound.map_err(|error| {
            let message = format!("cannot listen for other gateways on `{at}`: {error}");
            Report::new(ExitCode::Unreachable, "address", message)
                .hint("set `cluster.listen` to an address of this machine if `cluster.address` is not one")
        })
    }

    /// Registers this process as a member.
    pub(crate) async fn join(&self, store: &Store) -> Result<ClusterOptions, Report> {
        let without = || Report::usage("config", "`cluster` needs `store.url`");
        let leases = store.leases().ok_or_else(without)?;
        let sessions = store.client_sessions().ok_or_else(without)?;
        let options = MemberOptions {
            gateway: GatewayId(Uuid::now_v7()),
            address: self.settings.address.clone(),
            lease: self.settings.lease,
            clock: Arc::new(BootClock),
        };
        let membership = ClusterMembership::start(leases, options);
        let mut members = membership.watch();
        let joined = tokio::time::timeout(JOIN, members.wait_for(Option::is_some)).await;
        if !matches!(joined, Ok(Ok(_))) {
            return Err(Report::new(ExitCode::Internal, "store", "cannot register this gateway in the database")
                .hint("see the log for the reason, and check `store.url`"));
        }
        Ok(ClusterOptions { membership, sessions, keys: self.keys.clone(), tls: self.tls.clone() })
    }
}

fn internal(problem: &dyn std::fmt::Display) -> Report {
    Report::new(ExitCode::Internal, "internal", problem.to_string())
}
