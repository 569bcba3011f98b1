//! What an HTTP client of a remote tool does with a redirect.

use url::Url;

use super::shown::ShownUrl;
use super::tool_url::{Origin, has_credentials};

/// How many redirects one request follows.
///
/// A server that adds a slash and moves a path needs two; a loop ends soon.
pub const MAX_REDIRECTS: usize = 5;

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Streams and the older transport.
    Get,
    /// Everything with a body.
    Post,
}

/// What to do with an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Redirect {
    /// The status is not 3xx: the answer is the answer.
    NotARedirect,
    /// Ask there, with the same method and body.
    Follow(Url),
    /// Make no further request; the call is refused as `redirected`.
    Refuse(RedirectFault),
}

/// Why a redirect is not followed; says the URL to use where there is one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RedirectFault {
    /// No `Location` header.
    #[error("{from} answered {status} without saying where to")]
    NoLocation {
        /// The origin that was asked.
        from: Origin,
        /// The status.
        status: u16,
    },
    /// A `Location` that is no URL of a tool: not readable, not HTTP, or with a user name.
    #[error("{from} sent us to `{location}`, which is no URL that a tool is called at")]
    BadLocation {
        /// The origin that was asked.
        from: Origin,
        /// What it named.
        location: ShownUrl,
    },
    /// Another origin.
    #[error(
        "{from} sent us to {to}, which is another origin; if the tool moved, its plugin must name that URL"
    )]
    OtherOrigin {
        /// The origin that was asked.
        from: Origin,
        /// The URL that it named.
        to: ShownUrl,
    },
    /// The URL that was just asked.
    #[error("{from} sent us back to {to}, the URL that was just asked")]
    Loop {
        /// The origin that was asked.
        from: Origin,
        /// The URL.
        to: ShownUrl,
    },
    /// A status that does not keep method and body, or asks for a choice.
    #[error("{from} answered {status}, which is not followed here; the URL to use is {to}")]
    Status {
        /// The origin that was asked.
        from: Origin,
        /// The status.
        status: u16,
        /// The URL that it named.
        to: ShownUrl,
    },
}

/// Judges an answer to a request at `from`, a URL of a tool. The caller counts up to
/// [`MAX_REDIRECTS`] and judges the address of the next connection.
pub fn redirect(method: Method, from: &Url, status: u16, location: Option<&str>) -> Redirect {
    let Some(origin) = Origin::of(from).filter(|_| (300..400).contains(&status)) else {
        return Redirect::NotARedirect;
    };
    let Some(location) = location else {
        return Redirect::Refuse(RedirectFault::NoLocation { from: origin, status });
    };
    let to = from.join(location).ok().filter(|to| !has_credentials(location_authority(location), to));
    let Some((to, to_origin)) = to.and_then(|to| Origin::of(&to).map(|origin| (to, origin))) else {
        return Redirect::Refuse(RedirectFault::BadLocation {
            from: origin,
            location: ShownUrl::from(location),
        });
    };
    let shown = ShownUrl::from(&to);
    if to_origin != origin {
        return Redirect::Refuse(RedirectFault::OtherOrigin { from: origin, to: shown });
    }
    if without_fragment(&to) == without_fragment(from) {
        return Redirect::Refuse(RedirectFault::Loop { from: origin, to: shown });
    }
    let follows = match method {
        Method::Get => matches!(status, 301 | 302 | 303 | 307 | 308),
        Method::Post => matches!(status, 307 | 308),
    };
    if follows {
        Redirect::Follow(to)
    } else {
        Redirect::Refuse(RedirectFault::Status { from: origin, status, to: shown })
    }
}

/// The part of a `Location` that may name a host; a path may well hold an `@`.
fn location_authority(location: &str) -> &str {
    let trimmed = location.trim_start_matches(|c: char| c <= ' ');
    let names_host = trimmed.starts_with("//")
        || trimmed.starts_with("\\\\")
        || trimmed.split(['/', '\\', '?', '#']).next().is_some_and(|start| start.contains(':'));
    if names_host { trimmed } else { "" }
}

fn without_fragment(url: &Url) -> Url {
    let mut url = url.clone();
    url.set_fragment(None);
    url
}
