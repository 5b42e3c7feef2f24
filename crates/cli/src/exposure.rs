//! How clients reach the gateway of `serve`: its URL, accepted host names and certificate; and what is missing if other
//! machines are to reach it.

use std::{net::SocketAddr, sync::Arc};

use toolway_config::{GatewayAccess, GatewaySettings};
use toolway_wire::down::http::ServerTls;

use crate::{exit_code::ExitCode, report::Report};

/// The URL of the endpoint for clients: `gateway.publicUrl`, or that of the address.
pub(crate) fn endpoint(settings: &GatewaySettings, address: SocketAddr) -> String {
    match &settings.public_url.value {
        Some(url) => url.endpoint(),
        None => own_endpoint(settings, address),
    }
}

/// The endpoint at the address itself.
pub(crate) fn listening(settings: &GatewaySettings, address: SocketAddr) -> String {
    format!("{}://{address}/mcp", scheme(settings))
}

fn own_endpoint(settings: &GatewaySettings, address: SocketAddr) -> String {
    match settings.hosts.value.first().filter(|_| address.ip().is_unspecified()) {
        Some(host) => format!("{}://{host}:{}/mcp", scheme(settings), address.port()),
        None => listening(settings, address),
    }
}

fn scheme(settings: &GatewaySettings) -> &'static str {
    if settings.tls.value.is_some() { "https" } else { "http" }
}

/// Host names that requests may have, in addition to those of this machine; the one of `gateway.publicUrl` first.
pub(crate) fn hosts(settings: &GatewaySettings, address: SocketAddr) -> Vec<String> {
    let public = settings.public_url.value.iter().map(|url| url.host().to_owned());
    // A page that reaches us by another name cannot send this one.
    let own = (!address.ip().is_unspecified()).then(|| match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    });
    public.chain(settings.hosts.value.iter().cloned()).chain(own).collect()
}

/// Certificate and key of `gateway.tls`.
pub(crate) fn tls(settings: &GatewaySettings) -> Result<Option<Arc<ServerTls>>, Report> {
    let Some(files) = &settings.tls.value else { return Ok(None) };
    let failed = |error: toolway_wire::down::http::TlsError| {
        Report::new(ExitCode::Usage, "tls", error.to_string()).hint("see `gateway.tls` in the configuration")
    };
    ServerTls::open(&files.cert, &files.key).map(Some).map_err(failed)
}

/// Whether others than this machine can reach the gateway, at its address or through a proxy.
pub(crate) fn is_exposed(settings: &GatewaySettings, address: SocketAddr) -> bool {
    !address.ip().is_loopback() || settings.public_url.value.is_some() || !settings.hosts.value.is_empty()
}

/// What a gateway at this address needs before other machines can use it safely: a problem and what to set, one each.
pub(crate) fn problems(
    settings: &GatewaySettings,
    address: SocketAddr,
    tls: Option<&ServerTls>,
    stored_keys: usize,
) -> Vec<String> {
    let mut problems = Vec::new();
    let public = settings.public_url.value.as_ref();
    if let (Some(tls), Some(public)) = (tls, public.filter(|public| public.is_https()))
        && !tls.covers(public.host())
    {
        problems.push(format!(
            "the certificate of `gateway.tls` is not for `{}`, the host of `gateway.publicUrl`: clients will refuse it",
            public.host()
        ));
    }
    if address.ip().is_loopback() {
        return problems;
    }
    if address.ip().is_unspecified() && public.is_none() && settings.hosts.value.is_empty() {
        problems.push(format!(
            "requests of other machines are refused, because no host name is accepted: set `gateway.publicUrl` to the URL \
             that clients use, such as `http://NAME:{}`, or list the names in `gateway.hosts`",
            address.port()
        ));
    }
    if settings.access.value == GatewayAccess::Keys && stored_keys == 0 {
        problems.push("no client has a key: create one with `toolway clients add NAME`".to_owned());
    }
    match (tls, public.is_some_and(|public| public.is_https())) {
        (Some(_), _) => {}
        (None, false) => problems.push(
            "keys, arguments and results cross the network unencrypted: set `gateway.tls` to a certificate and its key, or \
             listen on 127.0.0.1 behind an HTTPS proxy"
                .to_owned(),
        ),
        (None, true) => problems.push(format!(
            "clients use HTTPS, but `{address}` is plain HTTP and can be reached without the proxy: listen on 127.0.0.1 if the \
             proxy runs on this machine, or set `gateway.tls`"
        )),
    }
    problems
}

#[cfg(test)]
mod tests {
    use toolway_config::{GatewaySettings, PublicUrl};

    use super::{endpoint, hosts, problems};

    fn settings(public: Option<&str>, hosts: &[&str]) -> GatewaySettings {
        let mut settings = GatewaySettings::default();
        settings.public_url.value = public.and_then(PublicUrl::parse);
        settings.hosts.value = hosts.iter().map(|host| (*host).to_owned()).collect();
        settings
    }

    #[test]
    fn clients_get_the_public_url_then_a_host_name_then_the_address() {
        let anywhere = "0.0.0.0:7717".parse().unwrap();
        assert_eq!(endpoint(&settings(Some("https://t.example/x"), &["a"]), anywhere), "https://t.example/x/mcp");
        assert_eq!(endpoint(&settings(None, &["a"]), anywhere), "http://a:7717/mcp");
        assert_eq!(endpoint(&settings(None, &["a"]), "10.0.0.5:1".parse().unwrap()), "http://10.0.0.5:1/mcp");
        assert_eq!(
            hosts(&settings(Some("https://t.example"), &["a"]), "[fd00::1]:1".parse().unwrap()),
            ["t.example", "a", "[fd00::1]"]
        );
    }

    #[test]
    fn only_an_address_of_other_machines_is_checked() {
        let found = |settings: &GatewaySettings, address: &str, keys| {
            problems(settings, address.parse().unwrap(), None, keys).join("\n")
        };
        assert_eq!(found(&settings(None, &[]), "127.0.0.1:1", 0), "");
        let all = found(&settings(None, &[]), "0.0.0.0:1", 0);
        for expected in ["`gateway.publicUrl`", "`toolway clients add NAME`", "`gateway.tls`"] {
            assert!(all.contains(expected), "{all}");
        }
        assert_eq!(found(&settings(Some("http://a"), &[]), "0.0.0.0:1", 1).lines().count(), 1);
        assert!(found(&settings(Some("https://a"), &[]), "0.0.0.0:1", 1).contains("without the proxy"));
    }
}
