//! URLs as people are shown them.

use std::fmt;

use url::Url;

use crate::visible::make_visible;

/// Most characters that are shown; a URL of the wild is shorter.
const MOST: usize = 200;

/// A URL as scheme, host, port and path, at most 200 characters: its user name, password, query and fragment may hold
/// a key, so they stand in no log, error or refusal.
#[derive(Clone, PartialEq, Eq)]
pub struct ShownUrl(Box<str>);

impl ShownUrl {
    fn cut(text: &str) -> Self {
        match text.char_indices().nth(MOST) {
            Some((at, _)) => Self([&text[..at], "…"].concat().into()),
            None => Self(text.into()),
        }
    }
}

/// Of text that should be a URL: what stands there, made visible, without what a URL would have to hide.
impl From<&str> for ShownUrl {
    fn from(text: &str) -> Self {
        // As the URL standard does first: tabs and line breaks are dropped wherever they are.
        let text = text.trim().replace(['\t', '\n', '\r'], "");
        let text = text.split(['?', '#']).next().unwrap_or_default();
        let scheme = text.find(':').filter(|at| !text[..*at].contains(['/', '\\'])).map_or(0, |at| at + 1);
        let rest = text[scheme..].trim_start_matches(['/', '\\']);
        let before = &text[..text.len() - rest.len()];
        let (authority, path) = rest.split_at(rest.find(['/', '\\']).unwrap_or(rest.len()));
        let host = authority.rsplit('@').next().unwrap_or_default();
        Self::cut(&make_visible(&[before, host, path].concat()))
    }
}

impl From<&Url> for ShownUrl {
    fn from(url: &Url) -> Self {
        let Some(host) = url.host_str() else { return url.as_str().into() };
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        Self::cut(&[url.scheme(), "://", host, &port, url.path()].concat())
    }
}

impl fmt::Display for ShownUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ShownUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_query_nor_fragment_nor_user_name_is_shown() {
        for (text, shown) in [
            ("https://a.example/mcp?key=SECRET", "https://a.example/mcp"),
            ("https://a.example:8443/a/@b?key=SECRET#SECRET", "https://a.example:8443/a/@b"),
            ("https://SECRET:SECRET@a.example/", "https://a.example/"),
            ("https://SECRET@a.example/#SECRET", "https://a.example/"),
            ("http://[::1]:7/sse?SECRET", "http://[::1]:7/sse"),
        ] {
            assert_eq!(ShownUrl::from(&Url::parse(text).unwrap()).to_string(), shown, "{text}");
            assert_eq!(ShownUrl::from(text).to_string(), shown, "{text}");
        }
        for (text, shown) in [
            ("/mcp?key=SECRET", "/mcp"),
            ("//SECRET@a.example\\x?SECRET", "//a.example\\x"),
            ("ht\ntps:/\\SECRET:SEC@RET@a.example/x", "https:/\\a.example/x"),
            ("https://a.example:port/x#SECRET", "https://a.example:port/x"),
            ("javascript:alert(1)", "javascript:alert(1)"),
            ("\u{202e}a", "\\u{202E}a"),
            ("", ""),
        ] {
            assert_eq!(ShownUrl::from(text).to_string(), shown, "{text}");
        }
        assert_eq!(ShownUrl::from(&Url::parse("data:x?SECRET").unwrap()).to_string(), "data:x");
        let long = ShownUrl::from(&*"é".repeat(1_000)).to_string();
        assert_eq!(long, "é".repeat(200) + "…");
    }
}
