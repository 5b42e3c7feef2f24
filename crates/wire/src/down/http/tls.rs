//! TLS of a listener: certificate and key from PEM files, read again when they change.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use rustls::{
    ServerConfig,
    client::verify_server_name,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::ParsedCertificate,
};
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// Certificate and key of a listener.
#[derive(Debug)]
pub struct ServerTls {
    cert: PathBuf,
    key: PathBuf,
    // Nothing awaits under this lock.
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    /// The certificate of this server itself.
    leaf: CertificateDer<'static>,
    /// The files as they were last read, whether they could be used or not.
    stamps: [Option<Stamp>; 2],
}

/// What tells one version of a file from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    modified: SystemTime,
    length: u64,
    inode: u64,
}

/// Why certificate and key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read `{file}`: {problem}")]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Error of the operating system.
        problem: io::Error,
    },
    /// A file has no PEM section of the expected kind.
    #[error("`{file}` has no {expected} in PEM format")]
    NotPem {
        /// The file.
        file: PathBuf,
        /// What was looked for.
        expected: &'static str,
    },
    /// The key does not belong to the certificate, or its kind is not supported.
    #[error("cannot use the certificate `{cert}` with the key `{key}`: {problem}")]
    Unusable {
        /// File of the certificate.
        cert: PathBuf,
        /// File of the key.
        key: PathBuf,
        /// Reason of the TLS library.
        problem: rustls::Error,
    },
}

/// How often the files are checked for a change.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// First byte of a TLS handshake.
const HANDSHAKE: u8 = 0x16;
/// The answer to a request in plain HTTP.
const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\n\
    content-length: 47\r\nconnection: close\r\n\r\nthis address speaks HTTPS; use an https:// URL\n";

// === impl ServerTls ===

impl ServerTls {
    /// Reads certificate chain and key.
    pub fn open(cert: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Arc<Self>, TlsError> {
        let cert = cert.into();
        let key = key.into();
        let current = Current::read(&cert, &key)?;
        Ok(Arc::new(Self { cert, key, current: Mutex::new(current) }))
    }

    /// Whether the certificate is valid for this host, as far as its names are concerned.
    pub fn covers(&self, host: &str) -> bool {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let Ok(name) = ServerName::try_from(host) else { return false };
        let current = self.current.lock();
        ParsedCertificate::try_from(&current.leaf).is_ok_and(|leaf| verify_server_name(&leaf, &name).is_ok())
    }

    /// Reads the files again whenever they change. Never returns.
    pub(super) async fn watch(&self) {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            self.reload_if_changed();
        }
    }

    /// Connections in progress keep their certificate. While the new files cannot be used, the previous ones are in force.
    fn reload_if_changed(&self) {
        let mut current = self.current.lock();
        let stamps = stamps(&self.cert, &self.key);
        if stamps == current.stamps {
            return;
        }
        match Current::read(&self.cert, &self.key) {
            Ok(read) => {
                *current = read;
                tracing::info!(file = %self.cert.display(), "certificate read again; new connections use it");
            }
            Err(problem) => {
                current.stamps = stamps;
                tracing::error!(%problem, "the previous certificate stays in use");
            }
        }
    }

    /// Performs the handshake; `None` if the client speaks plain HTTP, which is answered.
    pub(super) async fn accept(&self, mut stream: TcpStream) -> io::Result<Option<TlsStream<TcpStream>>> {
        let mut first = [0; 1];
        if stream.peek(&mut first).await? == 1 && first[0] != HANDSHAKE {
            stream.write_all(PLAIN_HTTP).await?;
            stream.shutdown().await?;
            return Ok(None);
        }
        let config = Arc::clone(&self.current.lock().config);
        TlsAcceptor::from(config).accept(stream).await.map(Some)
    }
}

// === impl Current ===

impl Current {
    fn read(cert: &Path, key: &Path) -> Result<Self, TlsError> {
        // Taken first: a change during the read causes another read.
        let stamps = stamps(cert, key);
        let read =
            |file: &Path| fs::read(file).map_err(|problem| TlsError::Unreadable { file: file.to_owned(), problem });
        let not_pem = |file: &Path, expected| TlsError::NotPem { file: file.to_owned(), expected };
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(cert)?).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| not_pem(cert, "certificate"))?;
        let leaf = chain.first().cloned().ok_or_else(|| not_pem(cert, "certificate"))?;
        let private = PrivateKeyDer::from_pem_slice(&read(key)?).map_err(|_| not_pem(key, "private key"))?;
        let unusable = |problem| TlsError::Unusable { cert: cert.to_owned(), key: key.to_owned(), problem };
        let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .map_err(unusable)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), leaf, stamps })
    }
}

// === impl Stamp ===

impl Stamp {
    /// Follows links: a renewed certificate is often a new target of the same link.
    fn of(file: &Path) -> Option<Self> {
        let found = fs::metadata(file).ok()?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&found);
        #[cfg(not(unix))]
        let inode = 0;
        Some(Self { modified: found.modified().ok()?, length: found.len(), inode })
    }
}

fn stamps(cert: &Path, key: &Path) -> [Option<Stamp>; 2] {
    [Stamp::of(cert), Stamp::of(key)]
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{PLAIN_HTTP, ServerTls, TlsError};

    fn pair(name: &str) -> (String, String) {
        let made = rcgen::generate_simple_self_signed([name.to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn changed_files_are_read_again_once_both_fit() {
        let folder = tempfile::tempdir().unwrap();
        let cert_file = folder.path().join("cert.pem");
        let key_file = folder.path().join("key.pem");
        let (cert, key) = pair("old.example");
        fs::write(&cert_file, cert).unwrap();
        fs::write(&key_file, key).unwrap();
        let tls = ServerTls::open(&cert_file, &key_file).unwrap();
        assert!(tls.covers("old.example") && !tls.covers("new.example"));
        let (cert, key) = pair("new.example");
        fs::remove_file(&cert_file).unwrap();
        fs::write(&cert_file, cert).unwrap();
        tls.reload_if_changed();
        assert!(tls.covers("old.example"), "the new certificate does not fit the old key");
        fs::remove_file(&key_file).unwrap();
        fs::write(&key_file, key).unwrap();
        tls.reload_if_changed();
        assert!(tls.covers("new.example"));
    }

    #[test]
    fn unusable_files_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let cert_file = folder.path().join("cert.pem");
        let key_file = folder.path().join("key.pem");
        assert!(matches!(ServerTls::open(&cert_file, &key_file), Err(TlsError::Unreadable { .. })));
        fs::write(&cert_file, pair("one.example").0).unwrap();
        fs::write(&key_file, "nothing").unwrap();
        assert!(matches!(ServerTls::open(&cert_file, &key_file), Err(TlsError::NotPem { .. })));
        fs::write(&key_file, pair("other.example").1).unwrap();
        assert!(matches!(ServerTls::open(&cert_file, &key_file), Err(TlsError::Unusable { .. })));
    }

    #[test]
    fn answer_in_plain_http_has_the_length_it_says() {
        let text = std::str::from_utf8(PLAIN_HTTP).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())), "{}", body.len());
    }
}
