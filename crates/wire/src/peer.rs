//! Connections between the gateways of a cluster: TLS 1.3 in which both sides prove the key of the cluster.
//!
//! The identity of every gateway is the same Ed25519 key, derived from the secret, as a raw public key (RFC 7250). Each
//! side signs the handshake with it, so nothing is read or written before both have proven it, and neither a recording nor
//! a listener on an address from the database is of use. There is no resumption and no early data: each connection proves
//! the key anew, so a secret that was removed opens nothing.

mod idle;
mod vanishing;

use std::{fmt, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{
    StreamExt,
    stream::{self, BoxStream},
};
use http::{Request, Response};
use http_body_util::{BodyDataStream, BodyExt, Full};
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::{
    ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
    client::{
        AlwaysResolvesClientRawPublicKeys, Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature_with_raw_key},
    pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime},
    server::{
        AlwaysResolvesServerRawPublicKeys,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    sign::{CertifiedKey, SigningKey},
};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, server};
use tokio_util::task::AbortOnDropHandle;

use self::idle::{IdleConnections, ProvenConnection};
use crate::{
    cluster_key::{ClusterKey, ClusterKeys, KeyUse},
    down::KEEP_ALIVE,
};

/// Both sides of a connection between gateways. Clones share the configuration.
#[derive(Clone)]
pub struct PeerTls {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    idle: IdleConnections,
    silence: PeerSilence,
}

/// How long another gateway may be silent before its connection counts as lost. One that is well is never silent for that
/// long, so that silence shows a network that loses everything, or a process that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerSilence {
    /// Until the head of a response. It is sent within [`KEEP_ALIVE`], after the first listing of a server at most.
    pub head: Duration,
    /// Between two pieces of a body. A stream has a comment every [`KEEP_ALIVE`].
    pub piece: Duration,
}

/// The response of another gateway. Dropping it before the end of its body closes the connection, which cancels the request
/// there.
pub struct PeerResponse {
    /// Head and body; the body ends with the connection.
    pub response: Response<Incoming>,
    connection: ProvenConnection,
    address: String,
    idle: IdleConnections,
    /// Longest time between two pieces of the body.
    silence: Duration,
}

impl PeerResponse {
    /// The body as it comes. An error means that it is not complete.
    pub fn pieces(self) -> BoxStream<'static, io::Result<Bytes>> {
        let Self { response, connection, address, idle, silence } = self;
        let reading = Reading { body: response.into_body().into_data_stream(), connection, address, idle, silence };
        Box::pin(stream::unfold(Some(reading), |reading| async {
            let mut reading = reading?;
            match tokio::time::timeout(reading.silence, reading.body.next()).await {
                Ok(Some(Ok(piece))) => Some((Ok(piece), Some(reading))),
                Ok(Some(Err(error))) => Some((Err(io::Error::other(error)), None)),
                Err(_) => Some((Err(timed_out()), None)),
                Ok(None) => {
                    reading.idle.keep(&reading.address, reading.connection);
                    None
                }
            }
        }))
    }
}

/// A response that is being read.
struct Reading {
    body: BodyDataStream<Incoming>,
    connection: ProvenConnection,
    address: String,
    idle: IdleConnections,
    silence: Duration,
}

impl fmt::Debug for PeerResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PeerResponse").field("status", &self.response.status()).finish_non_exhaustive()
    }
}

impl PeerError {
    /// Whether there is no process at the address: the system says so itself, at once.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Unreachable { source, .. } if source.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// Whether the other side was gone before it had proven the key, as a process that ends is.
    pub fn is_cut_in_handshake(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        let Self::Unproven { source, .. } = self else { return false };
        matches!(source.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
    }
}

/// Why another gateway has not answered.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// There is no connection: nothing of the request was sent.
    #[error("cannot connect to the gateway at `{address}`: {source}")]
    Unreachable {
        /// Host and port.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// The other side did not prove the key of the cluster, or did not accept ours. Nothing of the request was sent.
    #[error("the program at `{address}` did not prove the key of the cluster: {source}")]
    Unproven {
        /// Host and port.
        address: String,
        /// What the TLS library says.
        source: io::Error,
    },
    /// The connection was lost, or the other side was silent for too long: the request may have been received.
    #[error("the connection to the gateway at `{address}` was lost: {source}")]
    Lost {
        /// Host and port.
        address: String,
        /// What the HTTP library says.
        source: io::Error,
    },
}

/// Time for a connection and for the proof of the key, each.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);
/// Default for the head of a response: longer than a server may take to connect (30 s) and to be listed (60 s).
const HEAD_SILENCE: Duration = Duration::from_secs(120);
/// A body counts as lost after this many keep-alive comments that did not come.
const MISSED_COMMENTS: u32 = 3;
/// Beginning of an Ed25519 private key in PKCS #8 (RFC 8410), before its 32 bytes.
const PKCS8: [u8; 16] =
    [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];

impl PeerTls {
    /// Connections under these keys: the current one is proven, both are accepted.
    pub fn new(keys: &ClusterKeys) -> Result<Self, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let own = identity(&keys.current)?;
        let accepted = keys.accepted.as_ref().map(identity).transpose()?;
        let verifier = PeerVerifier {
            accepted: [Some(&own), accepted.as_ref()].into_iter().flatten().map(|one| one.public.clone()).collect(),
            algorithms: provider.signature_verification_algorithms,
        };
        let verifier = Arc::new(verifier);
        let certified = Arc::new(CertifiedKey::new(vec![CertificateDer::from(own.public.to_vec())], own.private));
        Ok(Self {
            server: Arc::new(server_config(&provider, &verifier, &certified)?),
            client: Arc::new(client_config(&provider, &verifier, certified)?),
            idle: IdleConnections::default(),
            silence: PeerSilence::default(),
        })
    }

    /// The same, with other limits on silence.
    #[must_use]
    pub fn with_silence(self, silence: PeerSilence) -> Self {
        Self { silence, ..self }
    }

    /// The side that listens: performs the handshake.
    pub(crate) async fn accept(&self, stream: TcpStream) -> io::Result<server::TlsStream<TcpStream>> {
        vanishing::watch_requests(&stream)?;
        TlsAcceptor::from(Arc::clone(&self.server)).accept(stream).await
    }

    /// The side that connects: sends one request once the other side has proven the key.
    pub async fn send(
        &self,
        host: &str,
        port: u16,
        mut request: Request<Full<Bytes>>,
    ) -> Result<PeerResponse, PeerError> {
        let address = format!("{host}:{port}");
        let lost = |source| PeerError::Lost { address: address.clone(), source };
        loop {
            let kept = self.idle.take(&address);
            let is_new = kept.is_none();
            let mut connection = match kept {
                Some(connection) => connection,
                None => self.connect(host, port, &address).await?,
            };
            let sending = connection.sender.try_send_request(request);
            let mut error = match tokio::time::timeout(self.silence.head, sending).await {
                Ok(Ok(response)) => {
                    let silence = self.silence.piece;
                    return Ok(PeerResponse { response, connection, address, idle: self.idle.clone(), silence });
                }
                Ok(Err(error)) => error,
                Err(_) => return Err(lost(timed_out())),
            };
            match error.take_message() {
                // A kept connection was closed before anything was written.
                Some(unsent) if !is_new => request = unsent,
                _ => return Err(lost(io::Error::other(error.into_error()))),
            }
        }
    }

    /// A new connection, once the other side has proven the key.
    async fn connect(&self, host: &str, port: u16, address: &str) -> Result<ProvenConnection, PeerError> {
        let in_time = |result: Result<io::Result<TcpStream>, _>| result.unwrap_or_else(|_| Err(timed_out()));
        let stream = in_time(tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect((host, port))).await);
        let stream = stream.and_then(|stream| {
            stream.set_nodelay(true)?;
            vanishing::watch_responses(&stream)?;
            Ok(stream)
        });
        let stream = stream.map_err(|source| PeerError::Unreachable { address: address.to_owned(), source })?;
        let unproven = |source| PeerError::Unproven { address: address.to_owned(), source };
        let name = ServerName::try_from("gateway").map_err(|error| unproven(io::Error::other(error)))?;
        let connecting = TlsConnector::from(Arc::clone(&self.client)).connect(name, stream);
        let stream = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
        let stream = stream.unwrap_or_else(|_| Err(timed_out())).map_err(unproven)?;
        let lost = |source| PeerError::Lost { address: address.to_owned(), source: io::Error::other(source) };
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(lost)?;
        let task = AbortOnDropHandle::new(tokio::runtime::Handle::current().spawn(async move {
            // The request reports the same error.
            drop(connection.await);
        }));
        Ok(ProvenConnection { sender, _task: task })
    }
}

impl Default for PeerSilence {
    fn default() -> Self {
        Self { head: HEAD_SILENCE, piece: KEEP_ALIVE * MISSED_COMMENTS }
    }
}

fn timed_out() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "no answer in time")
}

/// The key pair that stands for the cluster.
struct Identity {
    private: Arc<dyn SigningKey>,
    public: SubjectPublicKeyInfoDer<'static>,
}

fn identity(key: &ClusterKey) -> Result<Identity, rustls::Error> {
    let pkcs8 = [PKCS8.as_slice(), &key.derive(KeyUse::Peers)].concat();
    let private = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8))?;
    let public = private.public_key().ok_or_else(|| rustls::Error::General("the key has no public part".to_owned()))?;
    let public = public.into_owned();
    Ok(Identity { private, public })
}

fn server_config(
    provider: &Arc<CryptoProvider>,
    verifier: &Arc<PeerVerifier>,
    own: &Arc<CertifiedKey>,
) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_client_cert_verifier(Arc::clone(verifier) as Arc<dyn ClientCertVerifier>)
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(Arc::clone(own))));
    config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn client_config(
    provider: &Arc<CryptoProvider>,
    verifier: &Arc<PeerVerifier>,
    own: Arc<CertifiedKey>,
) -> Result<ClientConfig, rustls::Error> {
    let mut config = ClientConfig::builder_with_provider(Arc::clone(provider))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::clone(verifier) as Arc<dyn ServerCertVerifier>)
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(own)));
    config.resumption = Resumption::disabled();
    config.enable_sni = false;
    Ok(config)
}

/// Accepts the identity of the cluster, and no other.
#[derive(Debug)]
struct PeerVerifier {
    accepted: Vec<SubjectPublicKeyInfoDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PeerVerifier {
    fn check(&self, presented: &CertificateDer<'_>) -> Result<(), rustls::Error> {
        let is_accepted = self.accepted.iter().any(|key| key.as_ref() == presented.as_ref());
        let refused = rustls::CertificateError::ApplicationVerificationFailure;
        if is_accepted { Ok(()) } else { Err(rustls::Error::InvalidCertificate(refused)) }
    }

    fn check_signature(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(presented.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }
}

/// TLS 1.2 is not offered.
fn only_tls13() -> Result<HandshakeSignatureValid, rustls::Error> {
    Err(rustls::Error::General("TLS 1.2 between gateways".to_owned()))
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(end_entity).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        only_tls13()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, presented, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for PeerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(end_entity).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        only_tls13()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.check_signature(message, presented, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl fmt::Debug for PeerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerTls(..)")
    }
}
