//! Who may talk to the endpoint at all: `Host`, `Origin` and the bearer token.
//!
//! Pages in a browser on this machine can reach loopback, by their own origin or by a name that
//! they let point here (DNS rebinding); so both headers are judged before the token. There is no
//! CORS: no page is ever allowed to read an answer.

use std::net::IpAddr;

use axum::response::Response;
use http::request::Parts;
use http::{HeaderName, HeaderValue, StatusCode, header};
use url::Url;

use super::Shared;
use super::answer;
use super::protocol::INVALID_REQUEST;

/// Lets the request in, or answers it.
///
/// # Errors
/// The answer: 400 or 403 for `Host`, 403 for `Origin`, 401 for the token.
#[expect(clippy::result_large_err, reason = "the error is the answer, and is sent at once")]
pub(super) fn check(shared: &Shared, request: &Parts) -> Result<(), Response> {
    let forbid = |sentence: &str| answer::failure(StatusCode::FORBIDDEN, None, INVALID_REQUEST, sentence);
    let host = match request.uri.authority() {
        Some(authority) => Some(authority.as_str()),
        None => single(request, &header::HOST),
    };
    let Some(host) = host else {
        let sentence = "one Host header is expected";
        return Err(answer::failure(StatusCode::BAD_REQUEST, None, INVALID_REQUEST, sentence));
    };
    if !is_our_host(shared, host) {
        return Err(forbid(
            "this Host is none of the endpoint's names; setting `gateway.allowed_hosts` names more",
        ));
    }
    if request.headers.contains_key(header::ORIGIN) {
        let origin = single(request, &header::ORIGIN);
        if !origin.is_some_and(|origin| is_allowed_origin(&shared.config.allowed_origins, origin)) {
            return Err(forbid(
                "pages of this Origin may not use the endpoint; setting `gateway.allowed_origins` names more",
            ));
        }
    }
    let shown = request.headers.get(header::AUTHORIZATION);
    if shown.is_some_and(|header| shared.token.is_shown_by(header.as_bytes())) {
        return Ok(());
    }
    Err(unauthorized(shown.is_some()))
}

fn unauthorized(is_shown: bool) -> Response {
    let sentence = "the node's token is expected as `Authorization: Bearer …`; it is in the file mcp.token of the node's data folder";
    let mut response = answer::failure(StatusCode::UNAUTHORIZED, None, INVALID_REQUEST, sentence);
    let challenge =
        if is_shown { r#"Bearer realm="pintle", error="invalid_token""# } else { r#"Bearer realm="pintle""# };
    response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
    response
}

/// A header that is there exactly once.
fn single<'r>(request: &'r Parts, name: &HeaderName) -> Option<&'r str> {
    let mut values = request.headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn is_our_host(shared: &Shared, host: &str) -> bool {
    let name = without_port(host);
    if is_loopback(name) || shared.config.allowed_hosts.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        return true;
    }
    let bound = shared.address.ip();
    // A page cannot make a browser name an address that is not its own.
    address(name).is_some_and(|ip| ip == bound || bound.is_unspecified())
}

fn without_port(host: &str) -> &str {
    let end = match host.find(']') {
        Some(bracket) => bracket + 1,
        None => host.find(':').unwrap_or(host.len()),
    };
    host.get(..end).unwrap_or(host)
}

fn address(name: &str) -> Option<IpAddr> {
    name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name).parse().ok()
}

fn is_loopback(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || address(name).is_some_and(|ip| ip.is_loopback())
}

fn is_allowed_origin(allowed: &[String], origin: &str) -> bool {
    if allowed.iter().any(|known| known.eq_ignore_ascii_case(origin)) {
        return true;
    }
    let Ok(url) = Url::parse(origin) else { return false };
    matches!(url.scheme(), "http" | "https") && url.host_str().is_some_and(is_loopback)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_no_part_of_a_name() {
        let rows = [
            ("localhost:7410", "localhost"),
            ("[::1]:7410", "[::1]"),
            ("[::1]", "[::1]"),
            ("a.example", "a.example"),
        ];
        for (host, name) in rows {
            assert_eq!(without_port(host), name);
        }
    }

    #[test]
    fn only_loopback_and_named_origins_are_allowed() {
        let allowed = vec!["https://console.example".to_owned(), "app://agent".to_owned()];
        for good in [
            "http://localhost:3000",
            "https://127.0.0.1",
            "http://[::1]:1",
            "https://console.example",
            "app://agent",
        ] {
            assert!(is_allowed_origin(&allowed, good), "{good}");
        }
        for bad in [
            "null",
            "",
            "http://localhost.evil.example",
            "http://evil.example",
            "file://localhost",
            "https://console.example.evil.example",
            "http://127.0.0.1.evil.example",
        ] {
            assert!(!is_allowed_origin(&allowed, bad), "{bad}");
        }
    }
}
