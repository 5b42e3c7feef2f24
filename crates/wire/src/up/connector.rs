//! Opens outgoing HTTP connections: name resolution, address guard, proxies, TLS.
//!
//! All outgoing HTTP connections are opened here; pooling is in [`super::client`].

use std::{
    fmt, io,
    net::SocketAddr,
    path::PathBuf,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use hyper_util::{
    client::{legacy::connect::proxy::Tunnel, proxy::matcher::Matcher},
    rt::TokioIo,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::OnceCell,
};
use tokio_rustls::TlsConnector;
use tower_service::Service;

use crate::error::{TimeoutKind, WireError};

/// Checks each resolved address before it is dialled.
pub trait AddressGuard: Send + Sync + fmt::Debug {
    /// Returns the reason if the address must not be dialled.
    fn check(&self, host: &str, address: SocketAddr) -> Result<(), String>;
}

/// Options of outgoing connections.
#[derive(Clone, Default)]
pub struct HttpOptions {
    /// Proxy for https URLs (`HTTPS_PROXY`).
    pub https_proxy: Option<String>,
    /// Hosts reached without a proxy (`NO_PROXY`).
    pub no_proxy: Option<String>,
    /// PEM file with CA certificates to trust besides the system's.
    pub extra_ca: Option<PathBuf>,
    /// Checks each resolved address.
    pub guard: Option<Arc<dyn AddressGuard>>,
    /// Timeout for opening a connection; 30 s by default.
    pub connect_timeout: Option<Duration>,
}

impl fmt::Debug for HttpOptions {
    /// Hides the proxy URL, which may contain a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpOptions")
            .field("https_proxy", &self.https_proxy.is_some())
            .field("no_proxy", &self.no_proxy)
            .field("extra_ca", &self.extra_ca)
            .field("guard", &self.guard)
            .field("connect_timeout", &self.connect_timeout)
            .finish()
    }
}

/// The default of [`HttpOptions::connect_timeout`].
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Opens connections.
#[derive(Clone)]
pub(super) struct Connector {
    shared: Arc<Shared>,
}

struct Shared {
    guard: Option<Arc<dyn AddressGuard>>,
    proxies: Matcher,
    extra_ca: Option<PathBuf>,
    connect: Duration,
    tls: OnceCell<TlsConnector>,
}

/// Any bidirectional byte stream.
pub(super) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for S {}

/// An open connection.
pub(super) enum HttpStream {
    Plain(TcpStream),
    Secure(Box<dyn ByteStream>),
}

impl Connector {
    pub(super) fn new(options: HttpOptions) -> Self {
        let proxies = Matcher::builder()
            .https(options.https_proxy.unwrap_or_default())
            .no(options.no_proxy.unwrap_or_default())
            .build();
        let shared = Shared {
            guard: options.guard,
            proxies,
            extra_ca: options.extra_ca,
            connect: options.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT),
            tls: OnceCell::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Opens a connection to the host of `uri`.
    pub(super) async fn open(&self, uri: Uri) -> Result<HttpStream, WireError> {
        let authority = uri.authority().map(|authority| authority.as_str().rsplit('@').next().unwrap_or_default());
        let target = format!("{}://{}", uri.scheme_str().unwrap_or_default(), authority.unwrap_or_default());
        let opened = Arc::clone(&self.shared).open(uri).await;
        opened.map_err(|error| match error.get_ref().and_then(|inner| inner.downcast_ref::<WireError>()) {
            Some(ours) => ours.clone(),
            None => WireError::Unreachable { target, reason: error.to_string() },
        })
    }
}

impl Shared {
    async fn open(self: Arc<Self>, uri: Uri) -> io::Result<HttpStream> {
        let limit = self.connect;
        match tokio::time::timeout(limit, self.dial(uri)).await {
            Ok(opened) => opened,
            Err(_) => Err(io::Error::other(WireError::TimedOut { kind: TimeoutKind::Connect, limit })),
        }
    }

    async fn dial(self: Arc<Self>, uri: Uri) -> io::Result<HttpStream> {
        let host = uri.host().ok_or_else(|| io::Error::other("the URL has no host"))?.to_owned();
        let secure = uri.scheme_str() == Some("https");
        if !secure {
            return self.tcp(&uri).await.map(HttpStream::Plain);
        }
        let tls = self.tls().await?;
        let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned()).map_err(io::Error::other)?;
        let stream: Box<dyn ByteStream> = match self.proxies.intercept(&uri) {
            Some(proxy) => {
                let mut tunnel = Tunnel::new(proxy.uri().clone(), ProxyConnector { shared: Arc::clone(&self) });
                if let Some(auth) = proxy.basic_auth() {
                    tunnel = tunnel.with_auth(auth.clone());
                }
                let opened = Service::call(&mut tunnel, uri.clone()).await.map_err(io::Error::other)?;
                Box::new(opened.into_inner())
            }
            None => Box::new(self.tcp(&uri).await?),
        };
        Ok(HttpStream::Secure(Box::new(tls.connect(name, stream).await?)))
    }

    /// Opens a TCP connection to the first address that accepts it; fails if the guard refuses an address.
    async fn tcp(&self, uri: &Uri) -> io::Result<TcpStream> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host name resolves to no address");
        for address in tokio::net::lookup_host((host, port)).await? {
            if let Some(guard) = &self.guard
                && let Err(reason) = guard.check(host, address)
            {
                return Err(io::Error::other(WireError::Refused(format!(
                    "`{host}` resolves to {}: {reason}",
                    address.ip()
                ))));
            }
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// TLS configuration, loaded at the first use.
    async fn tls(&self) -> io::Result<&TlsConnector> {
        self.tls.get_or_try_init(|| async { load_tls(self.extra_ca.clone()).await }).await
    }
}

async fn load_tls(extra: Option<PathBuf>) -> io::Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    let system = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs).await.map_err(io::Error::other)?;
    roots.add_parsable_certificates(system.certs);
    if let Some(path) = extra {
        let pem = tokio::fs::read(&path).await.map_err(|error| {
            io::Error::other(WireError::Refused(format!("cannot read certificates from `{}`: {error}", path.display())))
        })?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate.map_err(io::Error::other)?).map_err(io::Error::other)?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

/// Opens the TCP connection to a proxy.
#[derive(Clone)]
struct ProxyConnector {
    shared: Arc<Shared>,
}

impl Service<Uri> for ProxyConnector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let shared = Arc::clone(&self.shared);
        Box::pin(async move { shared.tcp(&uri).await.map(TokioIo::new) })
    }
}

impl HttpStream {
    /// Whether writes are buffered by a layer (TLS) before they reach the network.
    pub(super) fn is_layered(&self) -> bool {
        matches!(self, Self::Secure(_))
    }
}

impl AsyncRead for HttpStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Secure(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for HttpStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Secure(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(context),
            Self::Secure(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Secure(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Secure(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Secure(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }
}

impl fmt::Debug for HttpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain(_) => "Plain",
            Self::Secure(_) => "Secure",
        })
    }
}
