//! The class of an address that is about to be connected to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What kind of place an address is (20-listings 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AddressClass {
    /// Reached over the internet.
    Public,
    /// Of a private or shared network.
    Private,
    /// This machine.
    Loopback,
    /// Link-local, where cloud metadata is served, and what is no address of one host: never.
    Never,
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Private => "private",
            Self::Loopback => "loopback",
            Self::Never => "link-local or reserved",
        })
    }
}

/// The class of an address; IPv4 inside IPv6 is judged as what it stands for.
pub fn class(address: IpAddr) -> AddressClass {
    match address.to_canonical() {
        IpAddr::V4(v4) => class_v4(v4),
        IpAddr::V6(v6) => class_v6(v6),
    }
}

fn class_v4(v4: Ipv4Addr) -> AddressClass {
    let [a, b, ..] = v4.octets();
    if v4.is_loopback() {
        AddressClass::Loopback
    } else if v4.is_link_local() || v4.is_broadcast() || v4.is_multicast() || a == 0 || a >= 240 {
        AddressClass::Never
    } else if v4.is_private() || (a == 100 && (64..128).contains(&b)) {
        AddressClass::Private
    } else {
        AddressClass::Public
    }
}

fn class_v6(v6: Ipv6Addr) -> AddressClass {
    let [a, b, c, d, e, f, g, h] = v6.segments();
    let embedded = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        class_v4(Ipv4Addr::new(a, b, c, d))
    };
    if v6.is_loopback() {
        AddressClass::Loopback
    } else if v6.is_unspecified() || v6.is_multicast() || v6.is_unicast_link_local() {
        AddressClass::Never
    } else if (a, b, c) == (0xfd00, 0xec2, 0) {
        // The cloud metadata address of IPv6.
        AddressClass::Never
    } else if (a, b, c, d, e, f) == (0x64, 0xff9b, 0, 0, 0, 0) || [a, b, c, d, e, f] == [0; 6] {
        embedded(g, h)
    } else if a == 0x2002 {
        embedded(b, c)
    } else if v6.is_unique_local() || a & 0xffc0 == 0xfec0 {
        AddressClass::Private
    } else {
        AddressClass::Public
    }
}
