//! Classification of IP addresses.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// Range of an IP address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Range {
    /// Addresses of this machine.
    Loopback,
    /// Private network.
    Private,
    /// Link-local, which includes cloud metadata servers.
    LinkLocal,
    /// Unspecified, multicast, broadcast, reserved and tunnel addresses, where no authorization server is.
    Special,
    /// All other addresses.
    Public,
}

impl Range {
    /// Range of this address; an embedded IPv4 address counts as itself.
    pub fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::of_v4(address),
            IpAddr::V6(address) => inside(address).map_or_else(|| Self::of_v6(address), Self::of_v4),
        }
    }

    fn of_v4(address: Ipv4Addr) -> Self {
        let [first, second, third, _] = address.octets();
        match (first, second) {
            (192, 0) if third == 0 => Self::Special,
            (127, _) => Self::Loopback,
            (169, 254) => Self::LinkLocal,
            (10, _) | (172, 16..=31) | (192, 168) | (100, 64..=127) | (198, 18..=19) => Self::Private,
            (0 | 224..=255, _) => Self::Special,
            _ => Self::Public,
        }
    }

    fn of_v6(address: Ipv6Addr) -> Self {
        let [first, second, third, ..] = address.segments();
        match first {
            0x2001 if second == 0 => Self::Special,
            0x64 if second == 0xff9b && third == 1 => Self::Private,
            _ if address.is_loopback() => Self::Loopback,
            _ if address.is_unspecified() || address.is_multicast() => Self::Special,
            0xfe80..=0xfebf => Self::LinkLocal,
            0xfc00..=0xfdff | 0xfec0..=0xfeff => Self::Private,
            _ => Self::Public,
        }
    }
}

/// IPv4 address that is embedded in an IPv6 address: mapped, compatible, 6to4 or translated.
fn inside(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let joined = |high: u16, low: u16| {
        let ([one, two], [three, four]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(one, two, three, four)
    };
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0..=1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low]
        | [0, 0, 0, 0, 0xffff, 0, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => Some(joined(high, low)),
        _ => None,
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback => "a loopback address",
            Self::Private => "a private address",
            Self::LinkLocal => "a link-local address",
            Self::Special => "a reserved address",
            Self::Public => "a public address",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Range;

    #[test]
    fn addresses_are_classified_in_every_notation() {
        for (address, range) in [
            ("127.9.9.9", Range::Loopback),
            ("::1", Range::Loopback),
            ("::ffff:127.0.0.1", Range::Loopback),
            ("64:ff9b::7f00:1", Range::Loopback),
            ("::ffff:0:127.0.0.1", Range::Loopback),
            ("64:ff9b:1::1", Range::Private),
            ("192.0.0.192", Range::Special),
            ("2001:0:1::1", Range::Special),
            ("10.0.0.1", Range::Private),
            ("172.31.0.1", Range::Private),
            ("172.32.0.1", Range::Public),
            ("192.168.1.1", Range::Private),
            ("100.64.0.1", Range::Private),
            ("2002:c0a8:101::", Range::Private),
            ("fd12::1", Range::Private),
            ("169.254.169.254", Range::LinkLocal),
            ("::ffff:169.254.169.254", Range::LinkLocal),
            ("fe80::1", Range::LinkLocal),
            ("0.0.0.0", Range::Special),
            ("::", Range::Special),
            ("255.255.255.255", Range::Special),
            ("ff02::1", Range::Special),
            ("93.184.216.34", Range::Public),
            ("2606:2800:220:1::1", Range::Public),
        ] {
            assert_eq!(Range::of(address.parse().unwrap()), range, "{address}");
        }
    }
}
