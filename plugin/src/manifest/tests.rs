use super::*;

/// The faults of a manifest with these lines after a good head, each as its message.
fn faults(rest: &str) -> Vec<String> {
    let text = format!("name: team\nversion: 1.4.0\n{rest}");
    Manifest::read(&text).unwrap_err().iter().map(ToString::to_string).collect()
}

/// Whether exactly one fault is found, which holds every one of `parts`.
#[track_caller]
fn check(rest: &str, parts: &[&str]) {
    let found = faults(rest);
    assert_eq!(found.len(), 1, "{rest}\n{found:#?}");
    for part in parts {
        assert!(found[0].contains(part), "`{part}` is not in: {}", found[0]);
    }
}

fn tool(id: &str) -> String {
    format!("tools:\n  {id}: {{ command: [\"node\"] }}\n")
}

fn url(url: &str, more: &str) -> String {
    format!(
        "tools:\n  crm: {{ url: \"{url}\"{more} }}\n\
         connections: {{ crm: {{ params: {{ host: {{ required: true }}, token: {{ secret: true }} }} }} }}\n"
    )
}

#[test]
fn what_is_no_manifest_at_all_is_refused_with_its_place() {
    let rows = [
        ("", "the file is empty"),
        ("# only a comment\n", "the file is empty"),
        ("- a\n", "a list where a map is expected"),
        ("just text\n", "text where a map is expected"),
        ("a: [1, 2\n", "this is no YAML"),
        ("a: \"\\q\"\n", "this is no YAML"),
        ("\u{0}", "no YAML"),
        ("name: a\n---\nname: b\n", "a second document"),
        ("name: &x a\n", "an anchor"),
        ("name: !!str a\n", "a tag"),
        ("a: &x [1]\nb: *x\n", "an alias"),
        ("<<: { name: a }\n", "a merge key"),
        ("[a]: b\n", "a list as a key"),
    ];
    for (text, part) in rows {
        let found = Manifest::read(text).unwrap_err();
        assert!(found.iter().any(|fault| fault.to_string().contains(part)), "{text:?}: {found:#?}");
    }
}

#[test]
fn a_manifest_that_is_made_to_be_large_is_refused_quickly() {
    let deep = "[".repeat(50_000);
    let nested = format!("a: {}{}", "[".repeat(100), "]".repeat(100));
    let wide = format!("a: [{}]", "1,".repeat(30_000));
    let long = "#".repeat(300_000);
    let keys = (0..30_000).map(|n| format!("k{n}: 1\n")).collect::<Vec<_>>().concat();
    for text in [deep, nested, wide, long, keys] {
        assert!(Manifest::read(&text).is_err());
    }
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_likeliest_one() {
    check(
        &(tool("team") + "descripton: x\n"),
        &["pintle.yaml:5", "descripton", "did you mean `description`?"],
    );
    check("tools:\n  team: { comand: [\"node\"] , command: [\"x\"]}\n", &["tools.team.comand", "`command`"]);
    check(&(tool("team") + "permissions: { team: { reed: [] } }\n"), &["permissions.team.reed", "`read`"]);
    check(&(tool("team") + "permissions: { taem: { read: [] } }\n"), &["no tool `taem`", "`team`"]);
    check(&(tool("team") + "limits: { taem: { files: 64 } }\n"), &["no tool `taem`", "`team`"]);
    check(&(tool("team") + "limits: { team: { memory: 4GB } }\n"), &["limits.team.memory", "512MiB"]);
    check(&(tool("team") + "limits: { team: { files: 3 } }\n"), &["limits.team.files", "16 or more"]);
    check(&(tool("team") + "limits: { team: { calls: 0 } }\n"), &["limits.team.calls", "1 or more"]);
    check(
        &(tool("team") + "limits: { team: { deadline: 60 } }\n"),
        &["limits.team.deadline", "such as 500ms"],
    );
    check(
        &(tool("team") + "limits: { team: { deadline: 1ms } }\n"),
        &["limits.team.deadline", "1s to an hour"],
    );
    check(&(tool("team") + "listing: { ignored: {} }\n"), &["listing.ignored", "`ignore`"]);
    check(&(tool("team") + "zzzzzzzzzz: 1\n"), &["known are `name`"]);
}

#[test]
fn every_fault_is_found_in_one_reading_up_to_fifty() {
    let text =
        "name: Team\nversion: 1.4\ntool: {}\ntools:\n  a.b: { command: [] }\n  b: { url: 1, bash: 2 }\n";
    let found = Manifest::read(text).unwrap_err();
    let lines: Vec<_> = found.iter().map(|fault| fault.line).collect();
    assert_eq!(lines, [Some(1), Some(2), Some(3), Some(5), Some(5), Some(6)], "{found:#?}");
    let many = (0..200).map(|n| format!("unknown{n}: 1\n")).collect::<Vec<_>>().concat();
    assert_eq!(Manifest::read(&many).unwrap_err().len(), 50);
}

#[test]
fn a_name_or_version_outside_its_rule_is_refused_with_the_rule() {
    for (text, part) in [
        ("version: 1.0.0\ntools: { a: { command: [x] } }\n", "has no name"),
        ("name: a\ntools: { a: { command: [x] } }\n", "has no version"),
        ("name: 1a\nversion: 1.0.0\ntools: { a: { command: [x] } }\n", "beginning with a letter"),
        ("name: a\nversion: 1.40\ntools: { a: { command: [x] } }\n", "`1.40` is no SemVer"),
        ("name: a\nversion: v1.0.0\ntools: { a: { command: [x] } }\n", "no SemVer"),
        ("name: a\nversion: [1]\ntools: { a: { command: [x] } }\n", "a list where text"),
        ("name: a\nname: b\nversion: 1.0.0\ntools: { a: { command: [x] } }\n", "stands in line 1 already"),
    ] {
        let found = Manifest::read(text).unwrap_err();
        assert!(found.iter().any(|fault| fault.to_string().contains(part)), "{text:?}: {found:#?}");
    }
}

// R3.59, R3.60
#[test]
fn a_tool_that_a_model_would_take_for_the_platform_is_refused() {
    for id in ["pintle", "Pintle", "PINTLE_", "pintle__x"] {
        check(&tool(id), &["is reserved", id]);
    }
    for id in ["pintle_x", "pintle-x", "pintles", "x-pintle"] {
        assert!(Manifest::read(&format!("name: a\nversion: 1.0.0\n{}", tool(id))).is_ok(), "{id}");
    }
}

#[test]
fn a_tool_id_outside_its_rule_is_refused() {
    for id in ["1a", "_a", "a.b", "\"a b\"", "\"\"", "é", &"a".repeat(49)] {
        assert_eq!(faults(&tool(id)).len(), 1, "{id}");
    }
}

#[test]
fn two_ids_that_are_one_name_to_a_model_are_both_named() {
    let found = faults("tools:\n  a.b: { command: [x] }\n  a__b: { command: [x] }\n");
    assert!(found.iter().any(|fault| fault.contains("`a.b` and `a__b` would be one name")), "{found:#?}");
}

// R3.105
#[test]
fn an_accepted_manifest_keeps_ids_that_later_rules_refuse() {
    let text = format!("name: a\nversion: 1.0.0\n{}", tool("pintle") + "  a.b: { command: [x] }\n");
    assert!(Manifest::read(&text).is_err());
    assert_eq!(Manifest::read_accepted(&text).unwrap().tools.len(), 2);
}

#[test]
fn a_tool_says_exactly_one_way_to_run_it() {
    check("tools:\n  a: {}\n", &["nothing says how"]);
    check("tools:\n  a:\n", &["nothing says how"]);
    check("tools:\n  a: { env: {} }\n", &["nothing says how"]);
    check("tools:\n  a: { command: [x], url: \"https://a.example/\" }\n", &["command and url at once"]);
    check("tools:\n  a: { command: }\n", &["tools.a.command", "nothing stands here"]);
    check("tools: {}\n", &["0 tools"]);
    check("", &["has no tools"]);
    check("tools:\n  a: { command: [x], allow_http: true }\n", &["allow_http", "not known here"]);
    let found = faults("tools:\n  a: { python: { folder: x } }\n");
    assert!(found.iter().any(|fault| fault.contains("the folder is missing")), "{found:#?}");
}

#[test]
fn a_command_names_a_program_that_a_node_can_find() {
    check("tools:\n  a: { command: [] }\n", &["the command is empty"]);
    check("tools:\n  a: { command: node x.js }\n", &["text where a list is expected"]);
    for program in
        ["./server", "bin/server", "${work}/x", "${plugin}", "${plugin}/../x", "${plugin}//x", "", "a\\\\b"]
    {
        check(
            &format!("tools:\n  a: {{ command: [\"{program}\"] }}\n"),
            &["cannot be started", "tools.a.command[0]"],
        );
    }
    for program in ["node", "/usr/bin/node", "${plugin}/bin/server"] {
        let text = format!("name: a\nversion: 1.0.0\ntools:\n  a: {{ command: [\"{program}\"] }}\n");
        assert!(Manifest::read(&text).is_ok(), "{program}");
    }
}

#[test]
fn only_the_two_folders_are_variables_of_a_command() {
    check("tools:\n  a: { command: [x, \"${HOME}/y\"] }\n", &["`${HOME}` is no variable", "command[1]"]);
    check("tools:\n  a: { command: [x, \"${plugin\"] }\n", &["without its `}`"]);
    check("tools:\n  a: { command: [x], env: { A: \"${params.token}\" } }\n", &["tools.a.env.A"]);
    check("tools:\n  a: { command: [x], env: { \"A=B\": x } }\n", &["environment variable"]);
    check("tools:\n  a: { command: [x, \"a\\0b\"] }\n", &["NUL"]);
}

#[test]
fn a_url_that_may_not_be_called_is_refused() {
    for bad in [
        "mcp.example.com/mcp",
        "localhost:3000/mcp",
        "https://user:pw@mcp.example.com/",
        "http://mcp.example.com/",
        "ws://mcp.example.com/",
        "file:///etc/passwd",
        "https://",
        "",
    ] {
        assert_eq!(faults(&url(bad, "")).len(), 1, "{bad}");
    }
    let older =
        format!("name: a\nversion: 1.0.0\n{}", url("https://mcp.example.com/sse", ", transport: sse"));
    let older = &Manifest::read(&older).unwrap().tools["crm"];
    assert!(matches!(older, ToolSpec::Url { transport: Transport::Sse, .. }), "{older:?}");
    let plain = format!("name: a\nversion: 1.0.0\n{}", url("http://mcp.example.com/", ", allow_http: true"));
    assert!(Manifest::read(&plain).is_ok());
}

/// The URLs of the public bug reports about one origin in two spellings.
#[test]
fn the_url_forms_of_the_reports_are_judged_as_they_must_be() {
    let text = include_str!("../../tests/data/urls.json");
    let rows: serde_json::Value = serde_json::from_str(text).unwrap();
    let read = |row: &serde_json::Value| {
        let url = serde_json::to_string(&row["url"]).unwrap();
        Manifest::read(&format!("name: a\nversion: 1.0.0\ntools:\n  t: {{ url: {url} }}\n"))
    };
    for row in rows["url"].as_array().unwrap() {
        assert!(read(row).is_ok(), "{row}: {:?}", read(row));
    }
    for row in rows["refused"].as_array().unwrap() {
        assert!(read(row).is_err(), "{row}");
    }
}

// R3.67
#[test]
fn a_host_from_a_connection_needs_its_parameter() {
    let good = [
        "https://${params.host}/mcp",
        "https://${params.host}.example.com/mcp",
        "https://api.${params.host}:8443/mcp",
        "https://mcp.example.com/${params.host}/mcp",
    ];
    for good in good {
        let text = format!("name: a\nversion: 1.0.0\n{}", url(good, ", connection: crm"));
        assert!(Manifest::read(&text).is_ok(), "{good}: {:?}", Manifest::read(&text));
    }
    check(&url("https://${params.host}/mcp", ""), &["no connection that has it"]);
    check(&url("https://${params.hosts}/mcp", ", connection: crm"), &["no parameter `hosts`", "`host`"]);
    check(&url("https://mcp.example.com/", ", connection: crn"), &["no connection `crn`", "`crm`"]);
    check(&url("https://${params.token}.example.com/", ", connection: crm"), &["the secret `token`"]);
    check(&url("https://${HOST}/", ", connection: crm"), &["`${HOST}` is no variable"]);
    check(&url("https://mcp.example.com/", ", transport: SSE"), &["tools.crm.transport", "`sse`"]);
    check(&url("http://${params.host}/", ", connection: crm"), &["tools.crm.url"]);
}

#[test]
fn a_parameter_that_would_move_the_origin_unseen_is_refused() {
    for (bad, part) in [
        ("${params.host}://mcp.example.com/", "only in the scheme or the port"),
        ("${params.host}", "only in the scheme or the port"),
        ("https://mcp.example.com:${params.host}/", "only in the scheme or the port"),
        ("https://mcp.example.com:${params.host}/${params.host}", "only in the scheme or the port"),
        ("https://[::1]:${params.host}/", "only in the scheme or the port"),
        ("https:///${params.host}example.com/", "could choose another name"),
        ("https:${params.host}/", "only in the scheme or the port"),
        ("https://\\t/${params.host}/", "control character"),
        ("https://${params.host}example.com/", "could choose another name"),
        ("https://${params.host}@example.com/", "as a user name"),
    ] {
        let found = faults(&url(bad, ", connection: crm"));
        assert!(found.iter().any(|fault| fault.contains(part)), "{bad}: {found:#?}");
    }
}

#[test]
fn what_stands_around_the_tools_is_held_to_its_form() {
    let after = |rest: &str| tool("team") + rest;
    check(&after("permissions: { team: { read: [\"x\"] } }\n"), &["begin with `/`"]);
    check(&after("permissions: { team: { read: [\"${work}/../x\"] } }\n"), &["without `..`"]);
    check(&after("permissions: { team: { net: [api.example.com] } }\n"), &["host:port"]);
    check(&after("permissions: { team: { net: [\"a:0\"] } }\n"), &["host:port"]);
    check(&after("permissions: { team: { category: reads } }\n"), &["did you mean `read`?"]);
    check(&after("listing: { ignore: { team: [\"/description\"] } }\n"), &["below /_meta"]);
    check(&after("listing: { ignore: { team: [\"/_meta/\"] } }\n"), &["below /_meta"]);
    check(&after("listing: { ignore: { team: [\"/_meta/a~2\"] } }\n"), &["below /_meta"]);
    check(&after("connections: { \"a b\": {} }\n"), &["cannot be a name"]);
    check(&after("connections: { a: { params: { b: { secret: yes } } } }\n"), &["true or false"]);
    check(&after("evals: ../evals\n"), &["no path inside the plugin"]);
    check(&after("config_keys: [a, a]\n"), &["twice"]);
    check(&after("config_keys: a\n"), &["a list is expected"]);
}

#[test]
fn the_manifest_of_the_design_is_read_as_it_is_meant() {
    let manifest = Manifest::read(include_str!("../../tests/data/team.yaml")).unwrap();
    assert_eq!(manifest.name.as_str(), "team");
    assert_eq!(manifest.version, semver::Version::new(1, 4, 0));
    assert_eq!(manifest.description, "Say hello to the team.");
    let kinds: Vec<_> = manifest.tools.iter().map(|(id, spec)| (id.as_str(), spec.kind().as_str())).collect();
    let expected = [
        ("crm", "url"),
        ("js", "node"),
        ("lines", "bash"),
        ("py", "python"),
        ("srv", "command"),
        ("team", "command"),
        ("wx", "url"),
    ];
    assert_eq!(kinds, expected);
    let tool = |id: &str| &manifest.tools[id];
    assert_eq!(
        *tool("team"),
        ToolSpec::Command {
            command: vec!["node".into(), "${plugin}/dist/server.js".into()],
            env: BTreeMap::from([("LOG".into(), "info".into()), ("DEBUG".into(), "1".into())]),
        }
    );
    assert_eq!(
        *tool("crm"),
        ToolSpec::Url {
            url: "https://${params.host}/mcp".into(),
            connection: Some("crm".into()),
            allow_http: false,
            transport: Transport::Http,
        }
    );
    assert_eq!(
        *tool("lines"),
        ToolSpec::Bash { path: "tools/lines.bash".into(), args: BashArgs::Positional }
    );
    assert_eq!(*tool("py"), ToolSpec::Python { path: "tools/python".into() });
    assert_eq!(manifest.programs(), BTreeSet::from(["bin/server"]));
    assert_eq!(manifest.permissions["team"].category, Some(Category::Read));
    assert_eq!(manifest.permissions["team"].net, ["api.example.com:443"]);
    assert_eq!(manifest.listing_ignore["team"], ["/_meta/build"]);
    assert!(manifest.connections["crm"].params["token"].secret);
    assert_eq!(manifest.evals.as_deref(), Some("evals"));
    assert_eq!(manifest.config_keys, ["my_setting"]);
}

#[test]
fn what_a_tool_may_take_is_read_with_its_units() {
    let text = "name: greeter\nversion: 1.0.0\n".to_owned()
        + &tool("team")
        + "limits: { team: { memory: 512MiB, processes: 3 } }\n";
    let limits = Manifest::read(&text).unwrap().limits["team"];
    let wanted = ToolLimits { memory: Some(512 << 20), processes: Some(3), ..ToolLimits::default() };
    assert_eq!(limits, wanted);
    let text = "name: greeter\nversion: 1.0.0\n".to_owned()
        + &tool("team")
        + "limits: { team: { calls: 4, deadline: 2m, probe: 250ms } }\n";
    let limits = Manifest::read(&text).unwrap().limits["team"];
    let (deadline, probe) = (Duration::from_mins(2), Duration::from_millis(250));
    let wanted =
        ToolLimits { calls: Some(4), deadline: Some(deadline), probe: Some(probe), ..ToolLimits::default() };
    assert_eq!(limits, wanted);
}
