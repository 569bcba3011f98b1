use serde_json::Value;
use url::Url;

use super::*;

mod pins;

fn files() -> Vec<Value> {
    [include_str!("../../tests/vectors/origins.json"), include_str!("../../tests/cases/C25-urls.json")]
        .iter()
        .map(|file| serde_json::from_str(file).unwrap())
        .collect()
}

fn rows(list: &str) -> Vec<Value> {
    files().iter().filter_map(|file| file[list].as_array()).flatten().cloned().collect()
}

fn text<'a>(row: &'a Value, member: &str) -> &'a str {
    row[member].as_str().unwrap()
}

// R3.62
#[test]
fn every_url_is_pinned_in_its_published_form() {
    let rows = rows("url");
    assert_eq!(rows.len(), 35);
    for row in rows {
        let read = parse_tool_url(text(&row, "url"), false).unwrap();
        assert_eq!(read.origin.to_string(), text(&row, "origin"), "{row}");
        assert_eq!(Origin::parse(text(&row, "origin")).unwrap(), read.origin);
    }
}

#[test]
fn urls_that_no_plugin_may_list_are_refused() {
    let rows = rows("refused");
    assert_eq!(rows.len(), 25);
    for row in rows {
        assert!(parse_tool_url(text(&row, "url"), false).is_err(), "{row}");
    }
    for url in [
        "https://169.254.169.254/latest/",
        "https://[fe80::1]/",
        "https://[::ffff:169.254.169.254]/",
        "https://0.0.0.0/",
        "https:\t//@mcp.example.com/",
        "//@mcp.example.com",
        "https://[fd00:ec2::254]/",
    ] {
        assert!(parse_tool_url(url, true).is_err(), "{url}");
    }
}

#[test]
fn plain_http_to_another_host_needs_the_tools_word() {
    for url in ["http://mcp.example.com/", "http://10.0.0.1/", "http://localhost.evil.example/"] {
        assert!(parse_tool_url(url, false).unwrap_err().rule.contains("allow_http"), "{url}");
        assert!(parse_tool_url(url, true).is_ok(), "{url}");
    }
    for url in ["http://localhost./", "http://a.localhost/", "http://127.9.9.9/", "http://[::1]/"] {
        assert!(parse_tool_url(url, false).is_ok(), "{url}");
    }
    assert!(parse_tool_url("https://mcp.example.com/?to=a@b", false).is_ok());
}

// R3.63, R3.73
#[test]
fn only_another_origin_is_a_move() {
    let rows = rows("moves");
    assert_eq!(rows.len(), 19);
    for row in rows {
        let origin = |member| parse_tool_url(text(&row, member), true).unwrap().origin;
        assert_eq!(origin("pinned") != origin("now"), row["moved"] == true, "{row}");
    }
}

#[test]
fn what_is_written_differently_is_no_origin() {
    for bad in ["", "https://a.example/", "https://A.example", "https://a.example:443", "ftp://a.example"] {
        assert!(Origin::parse(bad).is_err(), "{bad}");
    }
}

// R3.74, R3.75
#[test]
fn redirects_stay_within_the_origin() {
    let rows = rows("redirects");
    assert_eq!(rows.len(), 26);
    for row in rows {
        let method = if row["method"] == "GET" { Method::Get } else { Method::Post };
        let from = Url::parse(text(&row, "from")).unwrap();
        let status = u16::try_from(row["status"].as_u64().unwrap()).unwrap();
        let then = match redirect(method, &from, status, row["location"].as_str()) {
            Redirect::Follow(to) => {
                assert_eq!(Origin::of(&to), Origin::of(&from));
                "follow"
            }
            Redirect::Refuse(_) => "refuse",
            Redirect::NotARedirect => "pass",
        };
        assert_eq!(then, text(&row, "then"), "{row}");
    }
}

#[test]
fn a_refused_redirect_names_the_url_to_use() {
    let from = Url::parse("https://mcp.example.com/mcp").unwrap();
    let sentence = |status, location| match redirect(Method::Post, &from, status, location) {
        Redirect::Refuse(fault) => fault.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(sentence(301, Some("/v2")).contains("https://mcp.example.com/v2"));
    assert!(sentence(307, Some("https://new.example/mcp")).contains("https://new.example/mcp"));
    assert!(sentence(307, Some("https://@mcp.example.com/x")).contains("no URL that a tool is called at"));
    assert!(sentence(307, Some("/mcp#again")).contains("just asked"));
    assert!(sentence(307, None).contains("without saying where"));
    assert_eq!(redirect(Method::Get, &from, 200, Some("/x")), Redirect::NotARedirect);
    assert_eq!(redirect(Method::Get, &from, 404, None), Redirect::NotARedirect);
    // A path may hold what would be a user name in a host.
    assert!(matches!(redirect(Method::Post, &from, 308, Some("/users/@me")), Redirect::Follow(_)));
    assert!(matches!(redirect(Method::Post, &from, 308, Some("@me")), Redirect::Follow(_)));
}

#[test]
fn addresses_are_classed_by_where_they_lead() {
    use AddressClass::{Loopback, Private, Public};
    let rows = [
        ("93.184.215.14", Some(Public)),
        ("172.15.0.1", Some(Public)),
        ("172.32.0.1", Some(Public)),
        ("100.63.0.1", Some(Public)),
        ("2001:db8::1", Some(Public)),
        ("10.1.2.3", Some(Private)),
        ("172.16.0.1", Some(Private)),
        ("172.31.255.255", Some(Private)),
        ("192.168.0.1", Some(Private)),
        ("100.64.0.1", Some(Private)),
        ("fd12::1", Some(Private)),
        ("fec0::1", Some(Private)),
        ("127.0.0.1", Some(Loopback)),
        ("127.255.0.1", Some(Loopback)),
        ("::1", Some(Loopback)),
        ("::ffff:127.0.0.1", Some(Loopback)),
        ("::ffff:10.0.0.1", Some(Private)),
        ("64:ff9b::a00:1", Some(Private)),
        ("2002:7f00:1::", Some(Loopback)),
        ("::ffff:169.254.169.254", None),
        ("64:ff9b::a9fe:a9fe", None),
        ("169.254.169.254", None),
        ("169.254.0.1", None),
        ("fe80::1", None),
        ("fd00:ec2::254", None),
        ("100.100.100.200", None),
        ("0.0.0.0", None),
        ("0.1.2.3", None),
        ("::", None),
        ("224.0.0.1", None),
        ("ff02::1", None),
        ("255.255.255.255", None),
        ("240.0.0.1", None),
    ];
    for (address, class) in rows {
        assert_eq!(class_of_address(address.parse().unwrap()).ok(), class, "{address}");
    }
}

#[test]
fn only_literal_addresses_and_localhost_show_their_class() {
    let class = |url: &str| class_of_host(&Url::parse(url).unwrap()).unwrap();
    assert_eq!(class("https://mcp.example.com/"), None);
    assert_eq!(class("http://localhost/"), Some(AddressClass::Loopback));
    assert_eq!(class("http://0x7f.1/"), Some(AddressClass::Loopback));
    assert_eq!(class("https://10.0.0.1/"), Some(AddressClass::Private));
    assert_eq!(class("https://127.0.0.1.nip.example/"), None);
}

#[test]
fn another_class_than_the_pinned_one_is_a_move_and_policy_still_decides() {
    use AddressClass::{Loopback, Private, Public};
    let (none, all) = (ClassPolicy::default(), ClassPolicy { private: true, loopback: true });
    assert_eq!(judge_class(Some(Public), Public, none), Ok(()));
    assert_eq!(judge_class(None, Public, none), Ok(()));
    assert_eq!(
        judge_class(Some(Public), Private, all),
        Err(ClassFault::Moved { pinned: Public, seen: Private })
    );
    assert_eq!(
        judge_class(Some(Private), Public, all),
        Err(ClassFault::Moved { pinned: Private, seen: Public })
    );
    assert_eq!(judge_class(Some(Private), Private, none), Err(ClassFault::Policy { seen: Private }));
    assert_eq!(judge_class(None, Loopback, none), Err(ClassFault::Policy { seen: Loopback }));
    assert_eq!(judge_class(Some(Loopback), Loopback, all), Ok(()));
}
