use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn values(list: &[(&'static str, &'static str)]) -> BTreeMap<&'static str, &'static str> {
    list.iter().copied().collect()
}

fn url(template: &str, list: &[(&'static str, &'static str)]) -> Result<String, String> {
    let values = values(list);
    fill_url(template, false, |name| values.get(name).copied())
        .map(|url| url.url.to_string())
        .map_err(|fault| fault.to_string())
}

// R3.67
#[test]
fn a_host_is_put_where_its_parameter_stands() {
    let at = |host: &'static str| url("https://${params.host}.crm.example/mcp", &[("host", host)]);
    assert_eq!(at("acme").unwrap(), "https://acme.crm.example/mcp");
    assert_eq!(at("a.b").unwrap(), "https://a.b.crm.example/mcp");
}

#[test]
fn no_value_chooses_another_host_port_path_or_user() {
    for bad in [
        "evil.example/",
        "evil.example#",
        "a@evil.example",
        "evil:1",
        "a b",
        "..",
        "a\\b",
        "a?b",
        "%2e",
        "é",
        "",
    ] {
        let said = url("https://${params.host}.crm.example/mcp", &[("host", bad)]).unwrap_err();
        assert!(said.contains("cannot stand in a URL"), "{bad}: {said}");
    }
    let long: &'static str = "a".repeat(254).leak();
    assert!(url("https://x.example/${params.p}", &[("p", long)]).is_err());
    let said = url("https://${params.host}/mcp", &[]).unwrap_err();
    assert_eq!(said, "the parameter `host` has no value");
    assert!(url("https://${host}/mcp", &[("host", "a")]).unwrap_err().contains("write ${params.NAME}"));
    assert!(url("https://${params.host", &[("host", "a")]).is_err());
    assert!(url("https://${params.host}/mcp", &[("host", "169.254.169.254")]).is_err(), "never called");
}

#[test]
fn a_header_carries_a_secret_as_it_is_and_nothing_that_splits_it() {
    let secrets = values(&[("token", "s3cret"), ("bad", "a\r\nx-evil: 1"), ("blank", " a"), ("none", "")]);
    let header = |name: &str, template: &str| fill_header(name, template, |name| secrets.get(name).copied());
    assert_eq!(
        header("Authorization", "Bearer ${params.token}"),
        Ok(("authorization".to_owned(), "Bearer s3cret".to_owned()))
    );
    for bad in ["bad", "none"] {
        let fault = header("x-key", &format!("${{params.{bad}}}")).unwrap_err();
        assert_eq!(fault, Fault::HeaderValue("x-key".to_owned()));
        assert!(!fault.to_string().contains("evil"));
    }
    assert!(header("x-key", "${params.blank}").is_err());
    assert_eq!(header("x-key", "${params.gone}"), Err(Fault::Missing("gone".to_owned())));
    for ours in
        ["Host", "content-length", "Mcp-Session-Id", "mcp-method", "proxy-authorization", "a b", "", "x:y"]
    {
        assert!(header(ours, "x").is_err(), "{ours}");
    }
}

#[test]
fn parameters_of_a_template_are_named_in_order() {
    assert_eq!(named("${params.a} and ${params.b}").unwrap(), ["a", "b"]);
    assert!(named("plain").unwrap().is_empty());
    assert!(named("${env.HOME}").is_err());
}

proptest! {
    /// Whatever a person gives, the URL stays below the suffix that the author wrote.
    #[test]
    fn a_filled_host_stays_below_its_suffix(value in ".{0,40}") {
        if let Ok(url) = fill_url("https://${params.host}.crm.example/mcp", false, |_| Some(&value)) {
            prop_assert!(url.url.host_str().unwrap().ends_with(".crm.example"));
            prop_assert_eq!(url.url.path(), "/mcp");
            prop_assert!(url.url.port().is_none() && url.url.username().is_empty());
        }
    }
}
