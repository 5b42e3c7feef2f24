//! The database: its URL, TLS, a few connections, and the runtime on which they run.
//!
//! The store is used from threads with and without a runtime, and is closed from both, so its connections have one of their
//! own with a single thread.

use std::{future::Future, sync::Arc, time::Duration};

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime as PoolRuntime};
use futures_util::future::BoxFuture;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use tokio::runtime::Runtime;
use tokio_postgres::{
    Config,
    config::{Host, SslMode},
};
use tokio_postgres_rustls::MakeRustlsConnect;
use toolway_config::Secret;

use super::migration;
use crate::StoreError;

/// Connections that are open at once: one for writes, the others for queries; a further query waits.
const MOST: usize = 5;
/// Connections of members: renewals of a lease do not wait for queries.
const MEMBERS: usize = 3;
/// How long a transaction may take: as long as the end of a call is held before its caller gets an error.
pub(super) const TRANSACTION: Duration = Duration::from_secs(10);
/// How long a connection may take to open.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a query waits for a connection that others use.
const WAIT: Duration = Duration::from_secs(10);
/// How long sent bytes may stay without an acknowledgement before a connection is given up.
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

/// Name under which connections are listed by the server.
const APPLICATION: &str = "toolway";
/// Parameter of the URL with a file of certificates that are trusted besides those of the system.
const ROOT_CERTIFICATES: &str = "sslrootcert";

/// A database that can be reached, with a current schema.
#[derive(Debug)]
pub(crate) struct Database {
    pool: Pool,
    /// For what is asked by this gateway as a member of a cluster, and for its clients' sessions.
    members: Pool,
    place: Arc<str>,
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
}

impl Database {
    /// Connects and brings the schema up to date. Blocks.
    pub(crate) fn open(url: &Secret) -> Result<Arc<Self>, StoreError> {
        let Target { config, certificates } = Target::parse(url)?;
        let place: Arc<str> = place_of(&config).into();
        let invalid =
            |reason: String| StoreError::Database { place: Arc::clone(&place), reason: Arc::from(reason.as_str()) };
        // Reading the certificates of the system takes longer than connecting.
        let trusted = match config.get_ssl_mode() {
            SslMode::Disable => Ok(RootCertStore::empty()),
            _ => trusted(certificates.as_deref()),
        };
        let tls = MakeRustlsConnect::new(tls(trusted.map_err(invalid)?).map_err(invalid)?);
        let pool = |most: usize| {
            let recycling = ManagerConfig { recycling_method: RecyclingMethod::Fast };
            Pool::builder(Manager::from_config(config.clone(), tls.clone(), recycling))
                .max_size(most)
                .runtime(PoolRuntime::Tokio1)
                .wait_timeout(Some(WAIT))
                .create_timeout(Some(CONNECT + Duration::from_secs(1)))
                .build()
                .map_err(|error| invalid(error.to_string()))
        };
        // Connections are opened when they are used first.
        let members = pool(MEMBERS)?;
        let pool = pool(MOST)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("toolway-postgres")
            .enable_all()
            .build()
            .map_err(|error| invalid(error.to_string()))?;
        let database = Self { pool, members, place, runtime: Some(runtime) };
        database.wait(async {
            let mut client = database.client().await?;
            migration::migrate(&mut client, &database.place).await
        })?;
        Ok(Arc::new(database))
    }

    /// Host, port and name, without a password.
    pub(crate) fn place(&self) -> &Arc<str> {
        &self.place
    }

    /// Runs a future on this thread, whatever runtime the thread has, with the connections on their own. Blocks.
    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        let _context = self.runtime.as_ref().map(Runtime::enter);
        // A budget of the thread's own runtime would never be renewed here.
        futures_executor::block_on(tokio::task::unconstrained(future))
    }

    /// Runs a task until it ends or the store is closed.
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        if let Some(runtime) = &self.runtime {
            runtime.spawn(task);
        }
    }

    /// Acts with a connection of the members as a task, which goes on if its caller does not wait.
    pub(super) fn transact<A: Send + 'static, T: Send + 'static>(
        self: &Arc<Self>,
        asked: A,
        act: for<'c> fn(&'c Object, A) -> BoxFuture<'c, Result<T, StoreError>>,
    ) -> BoxFuture<'static, Result<T, StoreError>> {
        let Some(runtime) = &self.runtime else { return Box::pin(std::future::ready(Err(StoreError::Closed))) };
        let database = Arc::clone(self);
        let task = runtime.spawn(async move {
            let client = database.connection(&database.members).await?;
            let acted = tokio::time::timeout(TRANSACTION, act(&client, asked)).await;
            let acted = acted.unwrap_or_else(|_| Err(StoreError::TimedOut(Arc::clone(&database.place))));
            if acted.as_ref().is_err_and(StoreError::is_disconnection) {
                // Not back into the pool: a transaction may be open on it.
                drop(Object::take(client));
            }
            acted
        });
        Box::pin(async move { task.await.unwrap_or(Err(StoreError::Closed)) })
    }

    /// A connection of the pool.
    pub(crate) async fn client(&self) -> Result<Object, StoreError> {
        self.connection(&self.pool).await
    }

    async fn connection(&self, pool: &Pool) -> Result<Object, StoreError> {
        pool.get().await.map_err(|error| match error {
            PoolError::Backend(error) if error.as_db_error().is_some() => error.into(),
            PoolError::Backend(error) => StoreError::Database {
                place: Arc::clone(&self.place),
                reason: Arc::from(format!("cannot connect: {}", with_cause(&error)).as_str()),
            },
            PoolError::Timeout(_) => StoreError::TimedOut(Arc::clone(&self.place)),
            PoolError::Closed | PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => StoreError::Closed,
        })
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The last handle may be dropped on a thread that must not block.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Where and how to connect.
struct Target {
    config: Config,
    certificates: Option<String>,
}

impl Target {
    fn parse(url: &Secret) -> Result<Self, StoreError> {
        let (base, query) = url.expose().split_once('?').unwrap_or((url.expose(), ""));
        let of_us = |pair: &&str| pair.split_once('=').is_some_and(|(name, _)| name == ROOT_CERTIFICATES);
        let certificates = query.split('&').find(of_us).and_then(|pair| pair.split_once('='));
        let others: Vec<&str> = query.split('&').filter(|pair| !of_us(pair) && !pair.is_empty()).collect();
        let invalid = |reason: String| StoreError::Database { place: "`store.url`".into(), reason: reason.into() };
        let whole = if others.is_empty() { base.to_owned() } else { format!("{base}?{}", others.join("&")) };
        let mut config = whole.parse::<Config>().map_err(|error| invalid(with_cause(&error)))?;
        // The driver goes on in clear where a server, or something on the way, says that it has no TLS.
        if config.get_ssl_mode() == SslMode::Prefer {
            if whole.contains("sslmode") {
                return Err(invalid("`sslmode=prefer` verifies nothing; use `require` or `disable`".to_owned()));
            }
            if !config.get_hosts().iter().all(is_local) {
                config.ssl_mode(SslMode::Require);
            }
        }
        if config.get_application_name().is_none() {
            config.application_name(APPLICATION);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(UNACKNOWLEDGED);
        }
        config.keepalives_idle(UNACKNOWLEDGED);
        Ok(Self { config, certificates: certificates.map(|(_, path)| path.replace("%2F", "/")) })
    }
}

/// Whether a server is reached over a socket of this machine, which has no TLS.
fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(_) => false,
        #[cfg(unix)]
        Host::Unix(_) => true,
    }
}

/// The certificates of the system, and those of a file.
fn trusted(certificates: Option<&str>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let _counts = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if let Some(path) = certificates {
        let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
        let read = read.map_err(|error| format!("`{ROOT_CERTIFICATES}`: `{path}`: {error}"))?;
        if roots.add_parsable_certificates(read).0 == 0 {
            return Err(format!("`{ROOT_CERTIFICATES}`: `{path}` has no certificate"));
        }
    }
    Ok(roots)
}

fn tls(roots: RootCertStore) -> Result<ClientConfig, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn place_of(config: &Config) -> String {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(host)) => host.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => "localhost".to_owned(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432);
    let name = config.get_dbname().or(config.get_user()).unwrap_or_default();
    format!("`{name}` at {host}:{port}")
}

fn with_cause(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}
