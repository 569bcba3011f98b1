//! Targets for a fuzzer: any text as a tool's URL, any `Location` of a redirect. `scripts/fuzz` drives them; as
//! tests they take what is kept in `__fuzz__` and a thousand inputs more.

use url::Url;

use super::*;

#[test]
fn any_url_is_refused_or_called_where_it_is_pinned() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let Ok(text) = std::str::from_utf8(bytes) else { return };
        for allow_http in [false, true] {
            let Ok(ToolUrl { url, origin }) = parse_tool_url(text, allow_http) else { continue };
            assert_eq!(Origin::parse(&origin.to_string()).as_ref(), Ok(&origin), "it is read as it is shown");
            assert_eq!(Origin::of(&url), Some(origin.clone()), "it is called where it is pinned");
            let again = parse_tool_url(url.as_str(), allow_http).expect("it is taken as it is connected to");
            assert_eq!((&again.url, &again.origin), (&url, &origin));
            assert!(url.username().is_empty() && url.password().is_none());
            let class = class_of_host(&url).expect("an address that may be called");
            assert!(allow_http || origin.scheme() == "https" || class == Some(AddressClass::Loopback));
            assert!(parse_tool_url(text, true).is_ok(), "what is taken without a word is taken with it");
        }
    });
}

#[test]
fn no_redirect_leads_out_of_its_origin() {
    let from = Url::parse("https://mcp.example.com/mcp?a=1").unwrap();
    bolero::check!().for_each(|bytes: &[u8]| {
        let Ok(location) = std::str::from_utf8(bytes) else { return };
        for method in [Method::Get, Method::Post] {
            for status in [200, 300, 301, 302, 303, 304, 307, 308] {
                match redirect(method, &from, status, Some(location)) {
                    Redirect::Follow(to) => {
                        assert_eq!(Origin::of(&to), Origin::of(&from));
                        assert!(to.username().is_empty() && to.password().is_none());
                        assert!(method == Method::Get || matches!(status, 307 | 308), "the body is kept");
                    }
                    Redirect::Refuse(fault) => {
                        assert!(crate::visible::is_visible(&fault.to_string()), "{fault}");
                    }
                    Redirect::NotARedirect => assert_eq!(status, 200),
                }
            }
        }
    });
}
