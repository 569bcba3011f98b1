mod opening;

use std::collections::BTreeMap;
use std::path::Path;

use domain::digest::ListingHash;
use domain::guard::view::SetState;
use domain::id::EdgeName;
use domain::plugin_set::{FunctionTrust, ToolTrust, VersionTrust};
use domain::refusal::Code;
use plugin::manifest::Manifest;
use proto::convert::Seen;
use tools::Call;

use super::judged::Judged;
use super::*;

/// A tool server in shell: lists what the file `list` says, and does what its functions are called.
const SERVER: &str = r#"
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
  notice() { printf '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'; }
  case $line in
    *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"t","version":"1"}}' ;;
    *'"tools/list"'*) echo listed >> "$HOME/asked"; answer "{\"tools\":[$(cat "$1")]}"; [ ! -f "$1.loop" ] || { sleep 0.1; notice; } ;;
    *'"crash"'*) echo 'out of memory' >&2; exit 7 ;;
    *'"change"'*) cp "$1.next" "$1"; notice; answer '{"content":[]}' ;;
    *'"burst"'*) for i in 1 2 3 4 5 6 7 8 9 10; do notice; notice; notice; notice; done; cp "$1.next" "$1"; notice; answer '{"content":[]}' ;;
    *'"id":'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
  esac
done
"#;

fn entry(name: &str, text: &str) -> String {
    format!(r#"{{"name":"{name}","description":"{text}","inputSchema":{{"type":"object"}}}}"#)
}

fn hash(text: &str) -> ListingHash {
    let canonical = format!(r#"{{"description":"{text}","inputSchema":{{"type":"object"}}}}"#);
    ListingHash::of_canonical(&canonical)
}

fn version() -> PluginVersion {
    PluginVersion::parse("team@1.0.0").unwrap()
}

fn tool() -> ToolId {
    ToolId::parse("team").unwrap()
}

struct Bench {
    folder: tempfile::TempDir,
    guard: Arc<Guard>,
    runtime: Arc<Runtime>,
    spool: Arc<Spool>,
    sup: Arc<Supervisor>,
    bundle: Bundle,
}

impl Bench {
    /// A version whose tool lists these, with a snapshot of them, called.
    fn start(entries: &[(&str, &str)]) -> Self {
        Self::on(tempfile::tempdir().unwrap(), entries, SERVER)
    }

    /// The same on a folder that may be that of an earlier one, with this server.
    fn on(folder: tempfile::TempDir, entries: &[(&str, &str)], server: &str) -> Self {
        let list = folder.path().join("list");
        write(&list, entries);
        std::fs::write(folder.path().join("server.sh"), server).unwrap();
        let manifest = format!(
            "name: team\nversion: 1.0.0\ndescription: d\ntools:\n  team:\n    command: [sh, '${{plugin}}/server.sh', '{}']\n",
            list.display()
        );
        let manifest = Arc::new(Manifest::read(&manifest).unwrap());
        let bundle = Bundle { version: version(), folder: folder.path().to_owned(), manifest };
        let bench = Self::new(folder, entries, bundle);
        bench.sup.start(&bench.bundle, &tool());
        bench
    }

    /// The same of another bundle, whose tool is not started.
    fn new(folder: tempfile::TempDir, entries: &[(&str, &str)], bundle: Bundle) -> Self {
        let view = View {
            edge: EdgeName::parse("eu-1").unwrap(),
            set: SetState::Held,
            trust: Arc::new(snapshot(entries)),
            policy: Policy::default(),
            plugins: BTreeMap::new(),
            texts: BTreeMap::new(),
        };
        let (guard, runtime, spool) = (Arc::new(Guard::new(view)), Arc::default(), Arc::default());
        let path = std::env::var("PATH").unwrap();
        let settings = Settings {
            path,
            offers: tools::Offers::default(),
            credentials: crate::credentials::Credentials::default(),
            egress: crate::Egress::default(),
            limits: tools::Limits::default(),
            shim: None,
            listeners: Vec::new(),
            work: folder.path().join("work"),
            logs: folder.path().join("logs"),
        };
        let sup = Supervisor::new(Arc::clone(&guard), Arc::clone(&runtime), Arc::clone(&spool), settings);
        let bench = Self { folder, guard, runtime, spool, sup: Arc::new(sup), bundle };
        bench.sup.open(&bench.bundle);
        bench.sup.show(vec![(PluginName::parse("team").unwrap(), Some(Shown::Serving(version())))]);
        bench
    }

    fn code(&self, name: &str) -> &'static str {
        match self.guard.table().permit(name, self.runtime.now_ms()) {
            Ok(_) => "permitted",
            Err(denial) => denial.refusal.code.as_str(),
        }
    }

    /// Waits for the table to say so.
    async fn until(&self, name: &str, code: &str) {
        let mut changed = self.guard.changed();
        let waiting = async {
            while self.code(name) != code {
                changed.changed().await.unwrap();
            }
        };
        let limit = Duration::from_secs(30);
        assert!(
            tokio::time::timeout(limit, waiting).await.is_ok(),
            "{name} is {}, not {code}",
            self.code(name)
        );
    }

    async fn call(&self, function: &str) -> bool {
        let tool = self.runtime.tool(&version(), &tool()).unwrap();
        tool.call(Call::new(function, None), || Ok::<(), ()>(())).await.is_ok()
    }

    fn next(&self, entries: &[(&str, &str)]) {
        write(&self.folder.path().join("list.next"), entries);
    }

    fn asked(&self) -> usize {
        self.asked_for().len()
    }

    /// What the server wrote down, line by line.
    fn asked_for(&self) -> Vec<String> {
        let asked = self.folder.path().join("work/team@1.0.0/team/asked");
        std::fs::read_to_string(asked).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

fn write(path: &Path, entries: &[(&str, &str)]) {
    let entries: Vec<String> = entries.iter().map(|(name, text)| entry(name, text)).collect();
    std::fs::write(path, entries.join(",")).unwrap();
}

fn snapshot(entries: &[(&str, &str)]) -> Trust {
    let function = |(rank, (name, text)): (usize, &(&str, &str))| {
        (Arc::from(*name), FunctionTrust { hash: hash(text), rank: rank as u64 })
    };
    let functions = entries.iter().enumerate().map(function).collect();
    let tools = [(tool(), ToolTrust { snapshot_taken: true, functions, origin: None })].into();
    Trust { versions: [(version(), Arc::new(VersionTrust { tools, ..VersionTrust::default() }))].into() }
}

// R3.10, R3.11
#[tokio::test]
async fn a_function_that_changes_is_refused_from_the_notice_on_and_the_others_are_called() {
    let bench = Bench::start(&[("change", "one"), ("hello", "one")]);
    bench.until("team.hello", "permitted").await;
    bench.next(&[("change", "one"), ("hello", "two"), ("new", "one")]);
    assert!(bench.call("change").await);
    assert_ne!(bench.code("team.hello"), "permitted", "the notice came before the answer");
    bench.until("team.hello", "drifted").await;
    assert_eq!((bench.code("team.change"), bench.code("team.new")), ("permitted", "new_function"));
    let reports = bench.spool.waiting(0);
    let seen: Vec<&Seen> = reports[0].functions.iter().map(|function| &function.seen).collect();
    assert_eq!(seen, [&Seen::Hash(hash("one")), &Seen::Hash(hash("two")), &Seen::Hash(hash("one"))]);
    assert_eq!(bench.spool.texts(&[hash("two")]).len(), 1);
    bench.sup.stop_all(Duration::from_secs(10)).await;
    assert!(bench.runtime.tool(&version(), &tool()).is_none());
}

#[tokio::test]
async fn a_tool_that_crashes_is_started_again_and_listed_before_it_is_called() {
    let bench = Bench::start(&[("hello", "one")]);
    bench.until("team.hello", "permitted").await;
    assert!(!bench.call("crash").await);
    assert_ne!(bench.code("team.hello"), "permitted");
    bench.until("team.hello", "permitted").await;
    assert_eq!(bench.asked(), 2);
    bench.sup.stop_all(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn an_empty_list_is_asked_for_again_before_it_counts() {
    let bench = Bench::start(&[]);
    let mut changed = bench.spool.changed();
    changed.changed().await.unwrap();
    assert_eq!(bench.asked(), 2);
    let reports = bench.spool.waiting(0);
    assert!(reports[0].complete && reports[0].functions.is_empty());
    bench.sup.stop_all(Duration::from_secs(10)).await;
}

// C21
#[tokio::test]
async fn of_many_notices_the_last_is_listed_and_few_others() {
    let bench = Bench::start(&[("burst", "one"), ("hello", "one")]);
    bench.until("team.hello", "permitted").await;
    bench.next(&[("burst", "one"), ("hello", "two")]);
    assert!(bench.call("burst").await);
    bench.until("team.hello", "drifted").await;
    assert!((2..=3).contains(&bench.asked()), "{} lists", bench.asked());
    bench.sup.stop_all(Duration::from_secs(10)).await;
}

// C21
#[tokio::test]
async fn a_tool_that_announces_whenever_it_is_listed_is_called_and_not_listed_all_the_time() {
    let bench = Bench::start(&[("hello", "one")]);
    bench.until("team.hello", "permitted").await;
    std::fs::write(bench.folder.path().join("list.loop"), "").unwrap();
    bench.next(&[("hello", "one"), ("burst", "one")]);
    assert!(bench.call("change").await);
    let begun = std::time::Instant::now();
    for _ in 0..6 {
        bench.until("team.hello", "permitted").await;
        bench.until("team.hello", "relisting").await;
    }
    let most = 2 + begun.elapsed().as_millis() / 250;
    assert!((bench.asked() as u128) <= most + 1, "{} lists, at most {most}", bench.asked());
    bench.sup.stop_all(Duration::from_secs(10)).await;
}

#[tokio::test]
async fn a_relist_that_is_asked_for_is_waited_for_and_shared() {
    let bench = Bench::start(&[("hello", "one")]);
    bench.until("team.hello", "permitted").await;
    let (version, tool) = (version(), tool());
    let all = (0..8).map(|_| bench.runtime.relist(&version, &tool));
    futures::future::join_all(all).await;
    assert!((2..=4).contains(&bench.asked()), "{} lists", bench.asked());
    bench.sup.stop_all(Duration::from_secs(10)).await;
}

// C26
#[test]
fn a_server_that_says_when_to_come_back_is_not_asked_before() {
    let manifest = "name: team\nversion: 1.0.0\ntools:\n  team:\n    url: https://mcp.example.com/mcp\n";
    let bundle = Bundle {
        version: version(),
        folder: "/nowhere".into(),
        manifest: Arc::new(Manifest::read(manifest).unwrap()),
    };
    let bench = Bench::new(tempfile::tempdir().unwrap(), &[], bundle);
    let key = (version(), tool());
    let mut minding = Minding::new(Arc::clone(&bench.sup), bench.bundle.clone(), key);
    let answers = |seconds: Option<u64>| tools::Error::Status {
        url: "https://mcp.example.com/mcp".into(),
        status: 429,
        body: "".into(),
        retry_after: seconds.map(Duration::from_secs),
        rpc: None,
    };
    let lists = arc_swap::ArcSwap::default();
    for (seconds, least, most) in [
        (Some(90), 90_000, 90_000),
        (Some(0), 250, 30_000),
        (None, 250, 30_000),
        (Some(u64::MAX), 3_600_000, 3_600_000),
    ] {
        let range = Duration::from_millis(least)..=Duration::from_millis(most);
        let why = minding.start_error(&tools::StartError::Opening(answers(seconds)));
        let start = minding.not_started(why, 7);
        assert!(range.contains(&start), "{seconds:?}: {start:?}");
        let list = minding.answered(Err(answers(seconds)), ("", ""), &lists, 7);
        assert!(matches!(list, minding::AfterList::Wait(wait) if range.contains(&wait)), "{list:?}");
    }
}

#[test]
fn a_list_that_is_the_same_to_the_byte_is_not_judged_again() {
    let list = |entries: &[&str], complete| domain::listing::List {
        entries: entries.iter().map(|entry| Box::from(*entry)).collect(),
        complete,
        warnings: Vec::new(),
    };
    let (one, two) = (entry("a", "one"), entry("b", "two"));
    let (both, cut) = (format!("{one}{two}"), one.replace(':', ": "));
    let mut newest = judged::Newest::default();
    let mut last = newest.judge(&list(&[&one, &two], true), None, &[], ("", ""));
    assert!(Arc::ptr_eq(&last, &newest.judge(&list(&[&one, &two], true), None, &[], ("", ""))));
    let broken = || Some("page 2 timed out".into());
    for (entries, complete, broken, class) in [
        (vec![&*two, &one], true, None, ""),
        (vec![&one], true, None, ""),
        (vec![&both], true, None, ""),
        (vec![&cut, &two], true, None, ""),
        (vec![&one, &two], true, None, "public"),
        (vec![&one, &two], false, None, ""),
        (vec![&one, &two], false, broken(), ""),
        (vec![&one, &two], true, None, ""),
    ] {
        let next = newest.judge(&list(&entries, complete), broken.clone(), &[], (class, ""));
        assert!(!Arc::ptr_eq(&last, &next), "{entries:?} {complete} {broken:?} {class}");
        assert!(Arc::ptr_eq(&next, &newest.judge(&list(&entries, complete), broken, &[], (class, ""))));
        last = next;
    }
}

#[test]
fn a_function_whose_headers_are_against_the_protocol_is_not_shown_where_its_tool_is_reached_over_http() {
    let entry = r#"{"name":"x","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"a b"}}}}"#;
    let entries = [entry.to_owned()].map(Into::into).into();
    let list = domain::listing::List { entries, complete: true, warnings: Vec::new() };
    let why = |class| {
        let judged = Judged::new(&list, None, &[], (class, ""));
        judged.report(&version(), &tool(), &std::collections::BTreeMap::new()).functions[0].not_shown.clone()
    };
    assert_eq!(why(""), None, "over stdio the keyword may be passed over");
    assert!(why("public").unwrap().contains("x-mcp-header is no HTTP token"));
}

// R3.60
#[test]
fn a_reserved_id_of_an_older_bundle_is_left_out_on_the_node() {
    let entries = [entry("ask", "one")].map(Into::into).into();
    let list = domain::listing::List { entries, complete: true, warnings: Vec::new() };
    let judged = Judged::new(&list, None, &[], ("", ""));
    for id in ["pintle", "PINTLE", "pintle__x"] {
        let tool = ToolId::parse(id).unwrap();
        // Not even a snapshot lets it in.
        let trust = snapshot(&[("ask", "one")]);
        let tools = [(tool.clone(), trust.versions[&version()].tools[&self::tool()].clone())].into();
        let out = judged::left_out(
            [(&tool, Some(&judged))].into_iter(),
            Some(&VersionTrust { tools, ..VersionTrust::default() }),
        );
        let codes: Vec<Code> = out.values().map(|why| why.code).collect();
        assert_eq!(codes, [Code::Reserved], "{id}");
        let report = judged.report(&version(), &tool, &out);
        let told = &report.functions[0].seen;
        assert!(matches!(told, Seen::LeftOut { code, .. } if &**code == "reserved"), "{id}");
    }
}

#[test]
fn what_is_left_out_is_reported_with_its_reason_and_takes_nothing_else_with_it() {
    let list = domain::listing::List {
        entries: [
            entry("ok", "one"),
            entry("twice", "one"),
            entry("twice", "two"),
            "{\"name\":\"x\",\"a\":1,\"a\":2}".to_owned(),
            "7".to_owned(),
        ]
        .map(Into::into)
        .into(),
        complete: true,
        warnings: Vec::new(),
    };
    let judged = Judged::new(&list, None, &[], ("", ""));
    let (version, tool) = (version(), tool());
    let out = judged::left_out([(&tool, Some(&judged))].into_iter(), None);
    let codes: Vec<(String, Code)> = out.iter().map(|(id, why)| (id.to_string(), why.code)).collect();
    assert_eq!(codes, [("team.twice".to_owned(), Code::Twice), ("team.x".to_owned(), Code::Unreadable)]);
    let report = judged.report(&version, &tool, &out);
    let told: Vec<(&str, &str)> = report
        .functions
        .iter()
        .map(|function| {
            let seen = match &function.seen {
                Seen::Hash(_) => "hash",
                Seen::LeftOut { code, .. } => code,
            };
            (&*function.name, seen)
        })
        .collect();
    assert_eq!(told, [("ok", "hash"), ("twice", "twice"), ("x", "unreadable"), ("", "unreadable")]);
}
