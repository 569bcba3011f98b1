//! The address guard: what is judged is the address that is connected to, not the name.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use domain::origin::{class_of_address, judge_class};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

use crate::error::{AddressRefusal, Error};
use crate::spec::AddressRule;

/// Judges addresses of one endpoint.
#[derive(Debug)]
pub(super) struct Guard {
    rule: AddressRule,
    resolve: Vec<(String, IpAddr)>,
    /// The endpoint's; it has one origin.
    port: u16,
    /// Whether a proxy makes the connections: then only what is never reached is refused.
    is_proxied: bool,
}

/// A refusal on its way through the HTTP client, which wraps it.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub(super) struct Refused(pub(super) Error);

impl Guard {
    pub(super) fn new(
        rule: AddressRule,
        resolve: Vec<(String, IpAddr)>,
        url: &Url,
        is_proxied: bool,
    ) -> Self {
        Self { rule, resolve, port: url.port_or_known_default().unwrap_or_default(), is_proxied }
    }

    /// Judges a URL whose host is an address; those never reach a resolver.
    pub(super) fn judge_url(&self, url: &Url) -> Result<(), Error> {
        match url.host() {
            Some(Host::Ipv4(v4)) => self.judge(&v4.to_string(), v4.into()),
            Some(Host::Ipv6(v6)) => self.judge(&v6.to_string(), v6.into()),
            _ => Ok(()),
        }
    }

    fn judge(&self, host: &str, address: IpAddr) -> Result<(), Error> {
        let refuse = |fault| Err(Error::Address { host: host.into(), address, fault });
        let class = match class_of_address(address) {
            Ok(class) => class,
            Err(fault) => return refuse(AddressRefusal::Never(fault)),
        };
        if self.rule.never.iter().any(|own| self.is(own, address)) {
            return refuse(AddressRefusal::OwnListener);
        }
        if self.is_proxied {
            return Ok(());
        }
        judge_class(self.rule.pinned, class, self.rule.policy)
            .or_else(|fault| refuse(AddressRefusal::Class(fault)))
    }

    fn is(&self, own: &SocketAddr, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let everywhere = own.ip().is_unspecified() && address.is_loopback();
        own.port() == self.port && (everywhere || own.ip().to_canonical() == address)
    }

    async fn allowed(&self, host: &str) -> Result<Vec<SocketAddr>, Box<dyn std::error::Error + Send + Sync>> {
        let given = self.resolve.iter().find(|(name, _)| name.eq_ignore_ascii_case(host));
        let found: Vec<SocketAddr> = match given {
            Some((_, address)) => vec![SocketAddr::new(*address, self.port)],
            None => tokio::net::lookup_host((host, self.port)).await?.collect(),
        };
        let mut refusal = None;
        let mut allowed = Vec::new();
        for address in found {
            match self.judge(host, address.ip()) {
                Ok(()) => allowed.push(address),
                Err(error) => refusal = refusal.or(Some(error)),
            }
        }
        match refusal {
            Some(error) if allowed.is_empty() => Err(Refused(error).into()),
            _ => Ok(allowed),
        }
    }
}

/// The guard as the HTTP client's resolver.
pub(super) struct Resolver(pub(super) Arc<Guard>);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = Arc::clone(&self.0);
        Box::pin(async move {
            let allowed = guard.allowed(name.as_str()).await?;
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}
