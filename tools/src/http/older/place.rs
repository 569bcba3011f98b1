//! Where a server of the older transport wants messages posted, judged before it is used.

use domain::origin::{Origin, ShownUrl};
use url::{Host, Url};

use crate::error::EndpointFault;

/// The URL that `named` means at `base`, which it may not leave.
///
/// # Errors
/// It is none, or at another origin.
pub(super) fn place(base: &Url, named: &str) -> Result<Url, EndpointFault> {
    let shown = || ShownUrl::from(named);
    let url = base.join(named.trim()).map_err(|_| EndpointFault::NoUrl { named: shown() })?;
    let origin = Origin::of(&url).ok_or_else(|| EndpointFault::NoUrl { named: shown() })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(EndpointFault::User { named: shown() });
    }
    let wanted = Origin::of(base).ok_or_else(|| EndpointFault::NoUrl { named: shown() })?;
    if origin == wanted {
        return Ok(url);
    }
    let is_unspecified = match url.host() {
        Some(Host::Ipv4(address)) => address.is_unspecified(),
        Some(Host::Ipv6(address)) => address.is_unspecified(),
        _ => false,
    };
    let (origin, wanted) = (origin.to_string().into(), wanted.to_string().into());
    Err(if is_unspecified {
        EndpointFault::Unspecified { origin, wanted }
    } else {
        EndpointFault::OtherOrigin { origin, wanted }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Case C26.
    #[test]
    fn only_what_stays_at_the_origin_is_posted_to() {
        let base: Url = "https://mcp.example.com/sse".parse().unwrap();
        let good = "https://mcp.example.com/messages?sid=1";
        for named in [
            "/messages?sid=1",
            "https://MCP.example.com:443/messages?sid=1",
            "messages?sid=1",
            " /messages?sid=1 ",
        ] {
            assert_eq!(place(&base, named).unwrap().as_str(), good, "{named}");
        }
        for (named, wanted) in [
            ("https://evil.example/collect", "at https://evil.example instead of https://mcp.example.com"),
            ("//evil.example/collect", "at https://evil.example instead"),
            ("http://mcp.example.com/m", "at http://mcp.example.com instead"),
            ("https://mcp.example.com:8443/m", "at https://mcp.example.com:8443 instead"),
            ("http://0.0.0.0:3001/messages?sid=1", "http://0.0.0.0:3001, the address that it listens on"),
            ("http://[::]:3001/m", "the address that it listens on"),
            ("https://mcp.example.com@evil.example/m", "a URL with a user name"),
            ("javascript:alert(1)", "which is no http or https URL"),
            ("https://", "which is no http or https URL"),
        ] {
            let fault = place(&base, named).expect_err(named).to_string();
            assert!(fault.contains(wanted), "{named}: {fault}");
        }
    }
}
