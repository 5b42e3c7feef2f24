//! nginx as a reference for the raw relay.

use std::{
    fs, io,
    io::Read,
    net::TcpListener,
    path::Path,
    process::{ExitCode, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    net::TcpStream,
    process::{Child, Command},
};

/// A running nginx.
pub(crate) struct Nginx {
    /// Listen address, `host:port`.
    pub(crate) address: String,
    _keeper: Child,
    _folder: tempfile::TempDir,
}

impl Nginx {
    /// Starts an nginx that relays to `behind`; `None` if nginx is not installed.
    #[expect(clippy::disallowed_methods, reason = "the bench has no host to start programs")]
    pub(crate) async fn start(behind: &str) -> io::Result<Option<Self>> {
        let found = Command::new("nginx").arg("-v").stdin(Stdio::null()).stderr(Stdio::null()).status().await;
        if !found.is_ok_and(|status| status.success()) {
            return Ok(None);
        }
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("nginx.conf"), configuration(folder.path(), &address, behind))?;
        let mut command = Command::new(std::env::current_exe()?);
        let keeper = command.arg("nginx").arg(folder.path()).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        for _ in 0..100 {
            if TcpStream::connect(&address).await.is_ok() {
                return Ok(Some(Self { address, _keeper: keeper, _folder: folder }));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Err(io::Error::other("nginx does not listen"))
    }
}

/// Runs nginx and terminates it when the parent has ended, because its workers would remain.
pub(crate) fn keep(folder: &Path) -> io::Result<ExitCode> {
    let mut nginx = std::process::Command::new("nginx")
        .arg("-p")
        .arg(folder)
        .arg("-c")
        .arg(folder.join("nginx.conf"))
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    if let Some(pid) = i32::try_from(nginx.id()).ok().and_then(Pid::from_raw) {
        kill_process(pid, Signal::TERM)?;
    }
    nginx.wait().map(|_| ExitCode::SUCCESS)
}

fn configuration(folder: &Path, address: &str, behind: &str) -> String {
    let folder = folder.display();
    format!(
        "daemon off;
worker_processes 2;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    upstream behind {{ server {behind}; keepalive 128; keepalive_requests 1000000000; }}
    server {{
        listen {address};
        keepalive_requests 1000000000;
        location / {{
            proxy_pass http://behind;
            proxy_http_version 1.1;
            proxy_set_header Connection \"\";
        }}
    }}
}}
"
    )
}
