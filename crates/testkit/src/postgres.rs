//! A Postgres server for the tests of one run, and a database of its own for each test.
//!
//! The first test that wants a database starts the server; the others find it by the process that runs the tests
//! (`cargo nextest` or `cargo test`), which is their parent. A watchdog waits for the end of that process, stops the server and
//! removes its folder. If the watchdog is killed, the server ends with it.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "test helpers")]

use std::{
    fs::{self, File},
    net::TcpListener,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::{CommandExt, parent_id},
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use tokio_postgres::NoTls;
use toolway_config::Secret;

/// The superuser of the server; it has no password.
const USER: &str = "toolway";
/// The system's user that runs the server where tests run as root, which Postgres refuses.
const SYSTEM_USER: &str = "postgres";
/// How long a server may take to start on a machine that is busy.
const START: Duration = Duration::from_secs(60);
/// For tests: nothing survives the server, so nothing needs to reach the disk.
const UNSYNCED: &[&str] = &["fsync=off", "synchronous_commit=off", "full_page_writes=off"];
const SETTINGS: &[&str] = &[
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_connections=400",
    "shared_buffers=64MB",
    "listen_addresses=127.0.0.1",
    "ssl=on",
];

/// Files in the folder of the server.
const CERTIFICATE: &str = "server.crt";
const KEY: &str = "server.key";

/// Starts the server, waits for the process that runs the tests, and stops it.
const WATCHDOG: &str = r#"
"$@" >"$FOLDER/log" 2>&1 &
server=$!
tail --pid="$RUNNER" -s 0.2 -f /dev/null
kill -INT "$server"
wait "$server"
rm -rf "$FOLDER" "$FOLDER.lock"
"#;

/// What a server does at a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: tests need no more.
    Unsynced,
    /// It writes its log to the disk, as it does by default; for measurements.
    Synced,
}

/// A database that is dropped with it.
#[derive(Debug)]
pub struct TestDatabase {
    port: u16,
    name: String,
    durability: Durability,
}

// === impl TestDatabase ===

impl TestDatabase {
    /// An empty database.
    pub fn new() -> Self {
        Self::with(Durability::Unsynced)
    }

    /// An empty database in a server of this kind.
    pub fn with(durability: Durability) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let database = Self { port: server_port(durability), name, durability };
        database.of_server(&format!("CREATE DATABASE {}", database.name)).unwrap();
        database
    }

    /// Its URL.
    pub fn url(&self) -> Secret {
        self.url_at(self.port)
    }

    /// Its URL at another port of this machine, where something stands between.
    pub fn url_at(&self, port: u16) -> Secret {
        Secret::new(format!("postgres://{USER}@127.0.0.1:{port}/{}?sslmode=disable", self.name))
    }

    /// Its URL with TLS. The certificate of the server is in [`TestDatabase::certificate`].
    pub fn tls_url(&self) -> Secret {
        Secret::new(format!("postgres://{USER}@localhost:{}/{}?sslmode=require", self.port, self.name))
    }

    /// The certificate of the server, signed by itself.
    pub fn certificate(&self) -> PathBuf {
        server_folder(self.durability).join(CERTIFICATE)
    }

    /// Id of the main process of its server.
    pub fn server_process(&self) -> u32 {
        let file = server_folder(self.durability).join("data/postmaster.pid");
        fs::read_to_string(file).unwrap().lines().next().and_then(|line| line.parse().ok()).unwrap()
    }

    /// The port of its server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs statements in it, beside the store.
    pub fn execute(&self, sql: &str) {
        run(self.url(), sql).unwrap();
    }

    /// Ends all connections to it, as a restart of the server does.
    pub fn disconnect_all(&self) {
        let sql = format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}'", self.name);
        self.of_server(&sql).unwrap();
    }

    /// Ends all connections to it and refuses others, as a server that is away does.
    pub fn refuse_connections(&self) {
        self.of_server(&format!("ALTER DATABASE {} ALLOW_CONNECTIONS false", self.name)).unwrap();
        self.disconnect_all();
    }

    /// Accepts connections again.
    pub fn accept_connections(&self) {
        self.of_server(&format!("ALTER DATABASE {} ALLOW_CONNECTIONS true", self.name)).unwrap();
    }

    fn of_server(&self, sql: &str) -> Result<(), tokio_postgres::Error> {
        run(Secret::new(format!("postgres://{USER}@127.0.0.1:{}/postgres", self.port)), sql)
    }
}

impl Default for TestDatabase {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // The server may have ended with its run.
        let _gone = self.of_server(&format!("DROP DATABASE {} WITH (FORCE)", self.name));
    }
}

/// Runs statements on a thread of its own, since the caller's may have a runtime.
fn run(url: Secret, sql: &str) -> Result<(), tokio_postgres::Error> {
    let sql = sql.to_owned();
    let work = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url.expose(), NoTls).await?;
            let work = async {
                let done = client.batch_execute(&sql).await;
                drop(client);
                done
            };
            let (done, _ended) = futures_util::future::join(work, connection).await;
            done
        })
    };
    thread::spawn(work).join().unwrap()
}

/// The port of the server of this run, which is started by the first test.
fn server_port(durability: Durability) -> u16 {
    let folder = server_folder(durability);
    let lock = File::create(folder.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let ready = folder.join("port");
    if let Ok(port) = fs::read_to_string(&ready) {
        let port = port.parse().unwrap();
        if accepts(port) {
            return port;
        }
    }
    // Left behind by a run whose process had this number.
    let _none = fs::remove_dir_all(&folder);
    let port = start(&folder, durability);
    fs::write(ready, port.to_string()).unwrap();
    port
}

/// The folder of the server of this run.
fn server_folder(durability: Durability) -> PathBuf {
    let kind = if durability == Durability::Synced { "-synced" } else { "" };
    std::env::temp_dir().join(format!("toolway-postgres{kind}-{}", parent_id()))
}

fn start(folder: &Path, durability: Durability) -> u16 {
    let data = folder.join("data");
    fs::create_dir(folder).unwrap();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let certificate = folder.join(CERTIFICATE);
    let key = folder.join(KEY);
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    if rustix::process::geteuid().is_root() {
        let entry = fs::read_to_string("/etc/passwd").unwrap();
        let user = entry.lines().find_map(|line| line.strip_prefix(&format!("{SYSTEM_USER}:")));
        let user = user.expect("the user `postgres` is missing; `./test` installs Postgres");
        let id = |field: usize| user.split(':').nth(field).unwrap().parse().unwrap();
        [folder, &certificate, &key].iter().for_each(|path| chown(path, Some(id(1)), Some(id(2))).unwrap());
    }
    let mut initialise = as_user("initdb");
    initialise.args(["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--username", USER, "-D"]);
    let initialised = initialise.arg(&data).current_dir(folder).output().unwrap();
    assert!(initialised.status.success(), "initdb: {}", String::from_utf8_lossy(&initialised.stderr));

    // Free now; nothing else binds it before the server does, since the system gives out others first.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let server = as_user("postgres");
    let mut watchdog = Command::new("sh");
    watchdog.args(["-c", WATCHDOG, "watchdog"]).arg(server.get_program()).args(server.get_args());
    watchdog.arg("-D").arg(&data).arg("-k").arg(folder).args(["-p", &port.to_string()]);
    let unsynced = if durability == Durability::Unsynced { UNSYNCED } else { &[] };
    for setting in SETTINGS.iter().chain(unsynced) {
        watchdog.args(["-c", setting]);
    }
    for (setting, path) in [("ssl_cert_file", &certificate), ("ssl_key_file", &key)] {
        watchdog.arg("-c").arg(format!("{setting}={}", path.display()));
    }
    watchdog.env("FOLDER", folder).env("RUNNER", parent_id().to_string()).current_dir(folder);
    watchdog.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // A signal to the group of a test is not for the server of all.
    let mut watchdog = watchdog.process_group(0).spawn().unwrap();
    let deadline = Instant::now() + START;
    while !accepts(port) {
        let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(watchdog.try_wait().unwrap().is_none() && Instant::now() < deadline, "no server: {}", log());
        thread::sleep(Duration::from_millis(20));
    }
    // It outlives this test.
    thread::spawn(move || watchdog.wait());
    port
}

/// Whether the server takes connections.
fn accepts(port: u16) -> bool {
    run(Secret::new(format!("postgres://{USER}@127.0.0.1:{port}/postgres")), "SELECT 1").is_ok()
}

/// A program of Postgres, which ends with the process that starts it and does not run as root.
fn as_user(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.arg("--pdeathsig=INT");
    if rustix::process::geteuid().is_root() {
        command.args(["--reuid", SYSTEM_USER, "--regid", SYSTEM_USER, "--clear-groups"]);
    }
    command.arg("--").arg(program_path(program));
    command
}

/// Debian has the programs outside of the path, in a folder for each version.
fn program_path(program: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = versions.map(|version| version.path().join("bin").join(program)).filter(|path| path.exists());
    found.max().unwrap_or_else(|| program.into())
}
