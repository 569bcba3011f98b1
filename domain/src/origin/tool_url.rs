//! The URL of a remote tool and its origin, read by the rules that the connection is made by.

use std::fmt;

use url::{Host, Url};

use super::address::{AddressClass, class_of_host};
use super::shown::ShownUrl;

/// Scheme, host and port that a tool is called at; written `scheme://host[:port]`.
///
/// The host is lower-case ASCII (IDNA), an IPv6 address in brackets; the default port is left out.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    scheme: Scheme,
    host: String,
    port: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Scheme {
    Http,
    Https,
}

impl Scheme {
    const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    const fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Text that is no origin as [`Origin`] writes it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read `{got}` as an origin, scheme://host[:port]")]
pub struct OriginFault {
    /// What was given.
    pub got: ShownUrl,
}

impl Origin {
    /// The origin of an `http` or `https` URL; others have none.
    pub fn of(url: &Url) -> Option<Self> {
        let scheme = match url.scheme() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return None,
        };
        let host = url.host_str()?.to_owned();
        Some(Self { scheme, host, port: url.port().unwrap_or_else(|| scheme.default_port()) })
    }

    /// Reads an origin back as it was written.
    ///
    /// # Errors
    /// Anything that [`Origin`] would write differently.
    pub fn parse(text: &str) -> Result<Self, OriginFault> {
        let origin = Url::parse(text).ok().as_ref().and_then(Self::of);
        origin
            .filter(|origin| origin.to_string() == text)
            .ok_or_else(|| OriginFault { got: ShownUrl::from(text) })
    }

    /// `http` or `https`.
    pub const fn scheme(&self) -> &'static str {
        self.scheme.name()
    }

    /// The host as URLs write it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port, the scheme's own if none was written.
    pub const fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.host)?;
        if self.port == self.scheme.default_port() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A URL that a plugin's tool may be called at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolUrl {
    /// As it is connected to.
    pub url: Url,
    /// As it is pinned.
    pub origin: Origin,
}

/// A URL that no plugin may list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("take `{got}` as a tool's URL: {rule}")]
pub struct UrlFault {
    /// What was given.
    pub got: ShownUrl,
    /// The rule that it breaks, as a sentence without its stop.
    pub rule: String,
}

/// Reads the URL of a remote tool: `https`, or `http` to this machine or with `allow_http`.
///
/// # Errors
/// The rule that it breaks: no URL, another scheme, a user name or password, plain `http` to
/// another host, an address that is never called.
pub fn parse_tool_url(text: &str, allow_http: bool) -> Result<ToolUrl, UrlFault> {
    let fault = |rule: String| UrlFault { got: ShownUrl::from(text), rule };
    let url = Url::parse(text).map_err(|error| fault(error.to_string()))?;
    let origin = Origin::of(&url).ok_or_else(|| fault("its scheme must be https or http".to_owned()))?;
    if has_credentials(text, &url) {
        let rule = "user names and passwords belong in a connection, never in a URL";
        return Err(fault(rule.to_owned()));
    }
    let class = class_of_host(&url).map_err(|address| fault(address.to_string()))?;
    let is_here = class == Some(AddressClass::Loopback);
    if url.scheme() == "http" && !is_here && !allow_http {
        let rule = "plain http is only for this machine, unless the tool says allow_http";
        return Err(fault(rule.to_owned()));
    }
    Ok(ToolUrl { url, origin })
}

/// Whether a URL has a user name or password, an empty one included: the parser drops that, but
/// people read what stands before an `@` as the host.
pub(super) fn has_credentials(text: &str, url: &Url) -> bool {
    if !url.username().is_empty() || url.password().is_some() {
        return true;
    }
    // As the URL standard does first: blanks around and tabs and line breaks anywhere are dropped.
    let text: String = text.trim_matches(|c: char| c <= ' ').replace(['\t', '\n', '\r'], "");
    let after_scheme = match text.split_once(':') {
        Some((scheme, rest)) if !scheme.contains(['/', '\\']) => rest,
        _ => &text,
    };
    let authority = after_scheme.trim_start_matches(['/', '\\']);
    let end = authority.find(['/', '\\', '?', '#']).unwrap_or(authority.len());
    authority.get(..end).is_some_and(|authority| authority.contains('@'))
}

/// Whether a host is a name for this machine.
pub(super) fn is_localhost(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            name == "localhost" || name.ends_with(".localhost")
        }
        _ => false,
    }
}
