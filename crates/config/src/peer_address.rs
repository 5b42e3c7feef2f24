//! The address at which other gateways reach one: a host and a port.

use std::{fmt, str::FromStr};

/// Host and port of a gateway, for other gateways. It is dialled, not listened on: a name may stand for it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerAddress {
    host: String,
    port: u16,
}

/// A text that is not `host:port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a peer address must be `host:port`, such as `10.0.0.5:7719` or `[fd00::5]:7719`")]
pub struct InvalidPeerAddress;

/// Longest name in the DNS.
const MAX_HOST: usize = 253;

impl PeerAddress {
    /// The host, without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, never 0.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for PeerAddress {
    type Err = InvalidPeerAddress;

    fn from_str(text: &str) -> Result<Self, InvalidPeerAddress> {
        let (host, port) = text.rsplit_once(':').ok_or(InvalidPeerAddress)?;
        let port = port.parse().ok().filter(|port| 0 < *port).ok_or(InvalidPeerAddress)?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_valid = match bracketed {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => is_host(host),
        };
        let host = bracketed.unwrap_or(host).to_owned();
        is_valid.then_some(Self { host, port }).ok_or(InvalidPeerAddress)
    }
}

/// A name or an IPv4 address, which only has characters of a name.
fn is_host(host: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_".contains(letter))
    };
    host.len() <= MAX_HOST && host.split('.').all(is_label)
}

impl fmt::Display for PeerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        if host.contains(':') { write!(f, "[{host}]:{port}") } else { write!(f, "{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::PeerAddress;

    #[test]
    fn address_is_a_host_and_a_port_and_reads_back_as_it_was_written() {
        for text in ["10.0.0.5:7719", "gateway-1.internal:7719", "localhost:1", "[fd00::5]:7719"] {
            assert_eq!(text.parse::<PeerAddress>().unwrap().to_string(), text);
        }
        for text in
            ["", "7719", ":7719", "host:", "host:0", "host:70000", "http://host:1", "a b:1", "fd00::5:1", "[x]:1"]
        {
            assert!(text.parse::<PeerAddress>().is_err(), "{text}");
        }
    }
}
