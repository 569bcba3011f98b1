//! Classes of addresses: which are public, private or this machine, and which are never called.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

use super::tool_url::is_localhost;

/// Where an address leads. It is pinned with an origin; connecting to another class is a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AddressClass {
    /// The internet.
    Public,
    /// Networks of an organisation (RFC 1918, RFC 6598, RFC 4193, RFC 2544).
    Private,
    /// This machine.
    Loopback,
}

impl AddressClass {
    /// The word that people read and formats carry.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Public => "public",
            Self::Private => "private",
            Self::Loopback => "loopback",
        }
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An address that no tool is ever called at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{address} is {what}, which no tool is called at")]
pub struct AddressFault {
    /// The address, as it was resolved or written.
    pub address: IpAddr,
    /// What kind of address it is.
    pub what: &'static str,
}

/// The class of an address that is about to be connected to. An IPv4 address inside an IPv6 one
/// (mapped, NAT64, 6to4) counts as what it leads to.
///
/// # Errors
/// Link-local and metadata addresses, unspecified, multicast, broadcast and reserved ones.
pub fn class_of_address(address: IpAddr) -> Result<AddressClass, AddressFault> {
    let class = match address {
        IpAddr::V4(v4) => class_of_v4(v4),
        IpAddr::V6(v6) => embedded_v4(v6).map_or_else(|| class_of_v6(v6), class_of_v4),
    };
    class.map_err(|what| AddressFault { address, what })
}

/// The class that a URL's host shows by itself: of a literal address or `localhost`. `None` for a
/// name, whose class is what it resolves to.
///
/// # Errors
/// As [`class_of_address`].
pub fn class_of_host(url: &Url) -> Result<Option<AddressClass>, AddressFault> {
    match url.host() {
        Some(Host::Ipv4(v4)) => class_of_address(v4.into()).map(Some),
        Some(Host::Ipv6(v6)) => class_of_address(v6.into()).map(Some),
        Some(host) if is_localhost(&host) => Ok(Some(AddressClass::Loopback)),
        _ => Ok(None),
    }
}

/// Which classes besides public ones an edge's policy allows its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassPolicy {
    /// Addresses of the organisation's networks.
    pub private: bool,
    /// The node's own machine (never the node's own listeners, which `tools` refuses by itself).
    pub loopback: bool,
}

/// Why an address of a class is not connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ClassFault {
    /// Reported as a move, `ORIGIN (public) -> ORIGIN (private)`, and approvable like one.
    #[error("connect to a {seen} address where a {pinned} one is pinned")]
    Moved {
        /// What the pin says.
        pinned: AddressClass,
        /// What would be connected to.
        seen: AddressClass,
    },
    /// The pin would allow it, the edge does not.
    #[error("connect to a {seen} address, which the edge's policy does not allow")]
    Policy {
        /// What would be connected to.
        seen: AddressClass,
    },
}

/// Judges the class of the resolved address that is about to be connected to. `pinned` is `None`
/// until the first node listed the tool completely, which pins the class that it connected to.
///
/// # Errors
/// Another class than the pinned one; a class that the edge's policy does not allow.
pub fn judge_class(
    pinned: Option<AddressClass>,
    seen: AddressClass,
    policy: ClassPolicy,
) -> Result<(), ClassFault> {
    if let Some(pinned) = pinned.filter(|pinned| *pinned != seen) {
        return Err(ClassFault::Moved { pinned, seen });
    }
    let allowed = match seen {
        AddressClass::Public => true,
        AddressClass::Private => policy.private,
        AddressClass::Loopback => policy.loopback,
    };
    if allowed { Ok(()) } else { Err(ClassFault::Policy { seen }) }
}

/// Addresses of clouds' metadata services outside the link-local ranges.
const METADATA_V4: [Ipv4Addr; 2] = [
    // Alibaba Cloud.
    Ipv4Addr::new(100, 100, 100, 200),
    // Oracle Cloud, classic.
    Ipv4Addr::new(192, 0, 0, 192),
];

/// AWS IMDS over IPv6 (`fd00:ec2::254`) and Google's (`fd20:ce::254`), inside the private range.
const METADATA_V6: [Ipv6Addr; 2] =
    [Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254), Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)];

const METADATA: &str = "a metadata address";

fn class_of_v4(v4: Ipv4Addr) -> Result<AddressClass, &'static str> {
    let [a, b, c, _] = v4.octets();
    if METADATA_V4.contains(&v4) {
        return Err(METADATA);
    }
    match (a, b, c) {
        (169, 254, _) => Err("a link-local address"),
        (0, _, _) => Err("an unspecified address"),
        (224..=239, _, _) => Err("a multicast address"),
        (240..=255, _, _) => Err("a reserved address"),
        (127, _, _) => Ok(AddressClass::Loopback),
        (10, _, _)
        | (172, 16..=31, _)
        | (192, 168, _)
        | (100, 64..=127, _)
        | (198, 18..=19, _)
        | (192, 0, 0) => Ok(AddressClass::Private),
        _ => Ok(AddressClass::Public),
    }
}

fn class_of_v6(v6: Ipv6Addr) -> Result<AddressClass, &'static str> {
    if METADATA_V6.contains(&v6) {
        return Err(METADATA);
    }
    let [first, ..] = v6.segments();
    match first {
        _ if v6.is_unspecified() => Err("an unspecified address"),
        _ if v6.is_loopback() => Ok(AddressClass::Loopback),
        0xfe80..=0xfebf => Err("a link-local address"),
        0xff00..=0xffff => Err("a multicast address"),
        // Unique local ones, and the site-local ones before them.
        0xfc00..=0xfdff | 0xfec0..=0xfeff => Ok(AddressClass::Private),
        _ => Ok(AddressClass::Public),
    }
}

/// The IPv4 address that packets to an IPv6 one end at: mapped (`::ffff:0:0/96`), compatible
/// (`::/96`), NAT64 (`64:ff9b::/96`), 6to4 (`2002::/16`).
fn embedded_v4(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let octets = v6.octets();
    let v4_at = |start: usize| {
        let four: [u8; 4] = octets.get(start..start + 4)?.try_into().ok()?;
        Some(Ipv4Addr::from(four))
    };
    match v6.segments() {
        // `::` and `::1` are IPv6's own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => None,
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] | [0x64, 0xff9b, 0, 0, 0, 0, ..] => v4_at(12),
        [0x2002, ..] => v4_at(2),
        _ => None,
    }
}
