//! Settings of a node by their names: what refusals name, `pintle node run --set` takes and the
//! documentation lists. One table, so that none of the three can miss one.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use crate::Config;

/// The most of anything that is counted: far above what a machine bears.
const MOST: usize = 1_000_000;

/// One setting.
pub struct Setting {
    /// For example `gateway.calls_per_tool`.
    pub name: &'static str,
    /// What it is, as half a sentence.
    pub about: &'static str,
    place: fn(&mut Config) -> Place<'_>,
}

/// Where a setting's value is, and so of what kind it is.
enum Place<'c> {
    /// From the smallest number on.
    Count(&'c mut usize, usize),
    Small(&'c mut u32, usize),
    Bytes(&'c mut usize),
    Time(&'c mut Duration),
    Flag(&'c mut bool),
    /// May be given several times; each adds one.
    Words(&'c mut Vec<String>),
    Offers(&'c mut tools::Offers),
    /// `HOST=ADDRESS`; may be given several times.
    Hosts(&'c mut Vec<(String, IpAddr)>),
    /// A file of certificates; may be given several times.
    Certificates(&'c mut Vec<(PathBuf, Vec<u8>)>),
    Proxy(&'c mut Option<tools::EgressProxy>),
    /// A file with `USER:PASSWORD`.
    Credentials(&'c mut Option<(PathBuf, (String, String))>),
}

/// Why a setting cannot be set so.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not `NAME=VALUE`.
    #[error("read the setting `{0}`: it is no NAME=VALUE")]
    NoValue(String),
    /// No such setting.
    #[error("set `{0}`: there is no such setting; `pintle node run --help` lists them")]
    Unknown(String),
    /// A value of another kind.
    #[error("set `{name}` to `{value}`: {wanted} is expected")]
    Value {
        /// The setting.
        name: &'static str,
        /// As given.
        value: String,
        /// Such as `a time such as 30s`.
        wanted: String,
    },
}

const fn setting(name: &'static str, about: &'static str, place: fn(&mut Config) -> Place<'_>) -> Setting {
    Setting { name, about, place }
}

/// All that can be set by name.
pub const ALL: &[Setting] = &[
    setting("gateway.calls", "calls under way, those that wait included", |it| {
        Place::Count(&mut it.gateway.calls, 1)
    }),
    setting("gateway.calls_per_tool", "calls of one tool under way; its manifest may ask for fewer", |it| {
        Place::Count(&mut it.gateway.calls_per_tool, 1)
    }),
    setting("gateway.queue_per_tool", "calls of one tool that wait for another to end", |it| {
        Place::Count(&mut it.gateway.queue_per_tool, 0)
    }),
    setting("gateway.queue_wait", "how long they wait", |it| Place::Time(&mut it.gateway.queue_wait)),
    setting(
        "gateway.breaker_failures",
        "calls of one tool in a row that fail before others are held back; 0 holds none back",
        |it| Place::Small(&mut it.gateway.breaker_failures, 0),
    ),
    setting("gateway.breaker_wait", "how long they are held back at first, doubled up to a minute", |it| {
        Place::Time(&mut it.gateway.breaker_wait)
    }),
    setting("gateway.call_deadline", "for a whole call; a manifest may ask for less", |it| {
        Place::Time(&mut it.gateway.call_deadline)
    }),
    setting("gateway.body_bytes", "one request of an agent", |it| Place::Bytes(&mut it.gateway.body_bytes)),
    setting("gateway.read_wait", "for a request to arrive", |it| Place::Time(&mut it.gateway.read_wait)),
    setting("gateway.connections", "connections of agents at once", |it| {
        Place::Count(&mut it.gateway.connections, 1)
    }),
    setting("gateway.streams", "streams of announcements at once", |it| {
        Place::Count(&mut it.gateway.streams, 0)
    }),
    setting("gateway.sessions", "sessions of revisions that have them", |it| {
        Place::Count(&mut it.gateway.sessions, 1)
    }),
    setting("gateway.session_idle", "when an unused session ends", |it| {
        Place::Time(&mut it.gateway.session_idle)
    }),
    setting(
        "gateway.cancel_on_disconnect",
        "whether an agent of the older revisions that goes away cancels its calls",
        |it| Place::Flag(&mut it.gateway.cancel_on_disconnect),
    ),
    setting("gateway.set_wait", "for the plugin set, or a tool that starts", |it| {
        Place::Time(&mut it.gateway.set_wait)
    }),
    setting("gateway.relist_wait", "for a new listing of the call's tool", |it| {
        Place::Time(&mut it.gateway.relist_wait)
    }),
    setting("gateway.page_entries", "functions on one page of the list", |it| {
        Place::Count(&mut it.gateway.page_entries, 1)
    }),
    setting("gateway.page_bytes", "one page of the list", |it| Place::Bytes(&mut it.gateway.page_bytes)),
    setting("gateway.list_ttl", "how long agents of 2026-07-28 may keep a list", |it| {
        Place::Time(&mut it.gateway.list_ttl)
    }),
    setting("gateway.offers", "what tools are told that agents can be asked for", |it| {
        Place::Offers(&mut it.gateway.offers)
    }),
    setting("gateway.questions", "questions of tools that are open", |it| {
        Place::Count(&mut it.gateway.questions, 0)
    }),
    setting("gateway.questions_per_call", "questions of one call at once", |it| {
        Place::Count(&mut it.gateway.questions_per_call, 0)
    }),
    setting("gateway.question_bytes", "one question", |it| Place::Bytes(&mut it.gateway.question_bytes)),
    setting("gateway.answer_wait", "for an agent's answer", |it| Place::Time(&mut it.gateway.answer_wait)),
    setting("gateway.rounds", "how often a tool may ask in place of a result", |it| {
        Place::Small(&mut it.gateway.rounds, 1)
    }),
    setting("gateway.keep_alive", "between two signs of life on a silent stream", |it| {
        Place::Time(&mut it.gateway.keep_alive)
    }),
    setting("gateway.stop_wait", "for calls under way when the node stops", |it| {
        Place::Time(&mut it.gateway.stop_wait)
    }),
    setting("gateway.allowed_hosts", "a host that agents may name besides this machine's", |it| {
        Place::Words(&mut it.gateway.allowed_hosts)
    }),
    setting("gateway.allowed_origins", "an origin whose pages may use the endpoint", |it| {
        Place::Words(&mut it.gateway.allowed_origins)
    }),
    setting(
        "tools.probe_wait",
        "for a process to answer the probe for its revision, five times that for an endpoint; a manifest may say otherwise",
        |it| Place::Time(&mut it.tools_limits.probe),
    ),
    setting("tools.start_wait", "for a tool's whole start", |it| Place::Time(&mut it.tools_limits.start)),
    setting("tools.list_wait", "for a tool's whole list", |it| Place::Time(&mut it.tools_limits.list)),
    setting("tools.message_bytes", "one message of a tool", |it| {
        Place::Bytes(&mut it.tools_limits.message_bytes)
    }),
    setting("tools.resolve", "HOST=ADDRESS: where a remote tool's host is, instead of asking DNS", |it| {
        Place::Hosts(&mut it.tools_egress.resolve)
    }),
    setting(
        "tools.extra_ca",
        "a PEM file of certificates that remote tools may be signed by as well",
        |it| Place::Certificates(&mut it.tools_egress.extra_ca),
    ),
    setting(
        "tools.egress_proxy",
        "the HTTP proxy through which remote tools are reached, but those on this machine",
        |it| Place::Proxy(&mut it.tools_egress.proxy),
    ),
    setting("tools.egress_proxy_credentials", "a file with USER:PASSWORD for the proxy", |it| {
        Place::Credentials(&mut it.tools_egress.proxy_credentials)
    }),
];

/// Sets what `NAME=VALUE` says.
///
/// # Errors
/// There is no such setting, or its value is none.
pub fn set(config: &mut Config, text: &str) -> Result<(), Fault> {
    let (name, value) = text.split_once('=').ok_or_else(|| Fault::NoValue(shown(text)))?;
    let name = name.trim();
    let setting =
        ALL.iter().find(|setting| setting.name == name).ok_or_else(|| Fault::Unknown(shown(name)))?;
    (setting.place)(config).put(value.trim()).map_err(|wanted| Fault::Value {
        name: setting.name,
        value: shown(value.trim()),
        wanted,
    })
}

/// A line for each setting: its name, what it is unless set, and what it is for.
pub fn table() -> String {
    let mut config = Config::new("");
    let widest = ALL.iter().map(|setting| setting.name.len()).max().unwrap_or_default();
    let line = |setting: &Setting| {
        let value = (setting.place)(&mut config).to_string();
        format!("  {:widest$}  {value:>9}  {}\n", setting.name, setting.about)
    };
    ALL.iter().map(line).collect()
}

impl Place<'_> {
    /// # Errors
    /// What is expected.
    fn put(self, value: &str) -> Result<(), String> {
        let count = |least: usize| {
            let count = value.parse().ok().filter(|count| (least..=MOST).contains(count));
            count.ok_or_else(|| format!("a number of {least} to {MOST}"))
        };
        match self {
            Self::Count(place, least) => *place = count(least)?,
            Self::Small(place, least) => *place = u32::try_from(count(least)?).unwrap_or(u32::MAX),
            Self::Bytes(place) => *place = bytes(value).ok_or("a size of 1KiB to 1GiB, such as 16MiB")?,
            Self::Time(place) => *place = time(value).ok_or("a time of 1ms to 30d, such as 30s")?,
            Self::Flag(place) => {
                *place = value.parse().map_err(|_| "`true` or `false`".to_owned())?;
            }
            Self::Words(place) if !value.is_empty() => place.push(value.to_owned()),
            Self::Words(_) => return Err("a name".to_owned()),
            Self::Offers(place) => {
                let all: Vec<&str> = value.split('+').filter(|word| *word != "none").collect();
                let known = ["elicitation", "sampling", "roots"];
                if all.iter().any(|word| !known.contains(word)) {
                    return Err(format!("`none`, or some of {} with `+` between them", known.join(", ")));
                }
                let has = |word| all.contains(&word);
                *place = tools::Offers {
                    elicitation: has("elicitation"),
                    sampling: has("sampling"),
                    roots: has("roots"),
                };
            }
            Self::Hosts(place) => place.push(host(value)?),
            Self::Certificates(place) => place.push(certificates(value)?),
            Self::Proxy(place) => *place = Some(proxy(value)?),
            Self::Credentials(place) => *place = Some(credentials(value)?),
        }
        Ok(())
    }
}

fn host(value: &str) -> Result<(String, IpAddr), String> {
    let (host, address) = value.split_once('=').unwrap_or((value, ""));
    let is_name = !host.is_empty() && host.parse::<IpAddr>().is_err();
    let address = address.parse().ok().filter(|_| is_name);
    let address = address.ok_or("HOST=ADDRESS, such as mcp.example.com=192.0.2.7")?;
    Ok((host.to_ascii_lowercase(), address))
}

/// Blocks; settings are read before anything is started.
fn certificates(value: &str) -> Result<(PathBuf, Vec<u8>), String> {
    let wanted = "a PEM file with at least one certificate";
    let pem = read(value).map_err(|error| format!("{wanted} ({error})"))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok((value.into(), pem)),
        _ => Err(wanted.to_owned()),
    }
}

fn proxy(value: &str) -> Result<tools::EgressProxy, String> {
    let wanted = "an http URL without user name and password, such as http://proxy.example:3128";
    let url = url::Url::parse(value).map_err(|_| wanted.to_owned())?;
    let is_plain = url.scheme() == "http" && url.has_host() && url.path() == "/" && url.query().is_none();
    if !is_plain || !url.username().is_empty() || url.password().is_some() {
        return Err(wanted.to_owned());
    }
    Ok(tools::EgressProxy { url, credentials: None })
}

/// Blocks, like [`certificates`].
fn credentials(value: &str) -> Result<(PathBuf, (String, String)), String> {
    let wanted = "a file with one line USER:PASSWORD";
    let text = read(value).map_err(|error| format!("{wanted} ({error})"))?;
    let text = String::from_utf8(text).unwrap_or_default();
    let pair = text.trim_end_matches(['\r', '\n']).split_once(':');
    let (user, password) =
        pair.filter(|(user, rest)| !user.is_empty() && !rest.contains('\n')).ok_or(wanted)?;
    Ok((value.into(), (user.to_owned(), password.to_owned())))
}

fn read(path: &str) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    /// More than any such file has.
    const MOST: u64 = 1 << 20;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(MOST).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Count(count, _) => count.to_string(),
            Self::Small(count, _) => count.to_string(),
            Self::Bytes(bytes) => in_units(**bytes as u128, &SIZES),
            Self::Time(time) => in_units(time.as_millis(), &TIMES),
            Self::Flag(flag) => flag.to_string(),
            Self::Words(words) if words.is_empty() => "none".to_owned(),
            Self::Words(words) => words.join(","),
            Self::Offers(offers) => {
                let all = [
                    (offers.elicitation, "elicitation"),
                    (offers.sampling, "sampling"),
                    (offers.roots, "roots"),
                ];
                all.into_iter().filter(|(is, _)| *is).map(|(_, word)| word).collect::<Vec<_>>().join("+")
            }
            Self::Hosts(hosts) => {
                let hosts: Vec<String> =
                    hosts.iter().map(|(host, address)| format!("{host}={address}")).collect();
                if hosts.is_empty() { "none".to_owned() } else { hosts.join(",") }
            }
            Self::Certificates(files) => match files.len() {
                0 => "none".to_owned(),
                count => format!("{count} files"),
            },
            Self::Proxy(proxy) => {
                proxy.as_ref().map_or_else(|| "none".to_owned(), |proxy| proxy.url.to_string())
            }
            Self::Credentials(file) => file.as_ref().map_or("none", |_| "a file").to_owned(),
        };
        f.pad(&text)
    }
}

const SIZES: [(&str, u128); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
const TIMES: [(&str, u128); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

fn bytes(text: &str) -> Option<usize> {
    let bytes = amount(text, &SIZES)?;
    usize::try_from(bytes).ok().filter(|bytes| (1 << 10..=1 << 30).contains(bytes))
}

fn time(text: &str) -> Option<Duration> {
    const LONGEST: u128 = 30 * 86_400_000;
    let time = amount(text, &TIMES).filter(|time| (1..=LONGEST).contains(time))?;
    Some(Duration::from_millis(u64::try_from(time).ok()?))
}

fn amount(text: &str, units: &[(&str, u128)]) -> Option<u128> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (count, unit) = text.split_at_checked(digits)?;
    let (_, size) = units.iter().find(|(name, _)| *name == unit.trim())?;
    count.parse::<u64>().ok().map(|count| u128::from(count) * size)
}

/// The largest unit that leaves nothing over, but hours for a day.
fn in_units(amount: u128, units: &[(&str, u128)]) -> String {
    let unit = units.iter().find(|(_, size)| amount.is_multiple_of(*size));
    let (name, size) = unit.copied().unwrap_or(("", 1));
    format!("{}{name}", amount / size)
}

fn shown(text: &str) -> String {
    domain::visible::make_visible(&text.chars().take(100).collect::<String>()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_value_is_read_and_nothing_else_is() {
        let mut config = Config::new("");
        for text in [
            "gateway.calls_per_tool=4",
            "gateway.queue_per_tool = 0",
            "gateway.body_bytes=1MiB",
            "gateway.call_deadline=20m",
            "tools.probe_wait=250ms",
            "gateway.cancel_on_disconnect=true",
            "gateway.allowed_hosts=a.example",
            "gateway.allowed_hosts=b.example",
            "gateway.offers=sampling+roots",
            "gateway.rounds=3",
        ] {
            set(&mut config, text).unwrap();
        }
        let gateway = &config.gateway;
        assert_eq!((gateway.calls_per_tool, gateway.queue_per_tool, gateway.body_bytes), (4, 0, 1 << 20));
        assert_eq!((gateway.call_deadline, gateway.rounds), (Duration::from_mins(20), 3));
        assert_eq!(config.tools_limits.probe, Duration::from_millis(250));
        assert_eq!(gateway.allowed_hosts, ["a.example", "b.example"]);
        assert!(gateway.cancel_on_disconnect && gateway.offers.roots && !gateway.offers.elicitation);
        let before = format!("{config:?}");
        for (text, wanted) in [
            ("gateway.calls", "no NAME=VALUE"),
            ("gateway.cals=4", "no such setting"),
            ("gateway.calls=0", "a number of 1 to 1000000"),
            ("gateway.calls=many", "a number of 1"),
            ("gateway.body_bytes=16", "such as 16MiB"),
            ("gateway.body_bytes=99999999999999999999GiB", "such as 16MiB"),
            ("gateway.call_deadline=20", "such as 30s"),
            ("gateway.call_deadline=1y", "such as 30s"),
            ("gateway.cancel_on_disconnect=yes", "`true` or `false`"),
            ("gateway.offers=all", "`none`, or some of"),
            ("gateway.allowed_hosts=", "a name"),
        ] {
            let fault = set(&mut config, text).unwrap_err().to_string();
            assert!(fault.contains(wanted), "{text}: {fault}");
        }
        assert_eq!(format!("{config:?}"), before);
    }

    #[test]
    fn how_remote_tools_are_reached_is_checked_before_anything_starts() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_string_lossy().into_owned()
        };
        let key = rcgen::generate_simple_self_signed(["tool.example".to_owned()]).unwrap();
        let pem = file("ca.pem", &key.cert.pem());
        let login = file("login", "pintle:s3cret:with a colon\n");
        let mut config = Config::new("");
        for text in [
            "tools.resolve=Tool.Example=192.0.2.7".to_owned(),
            "tools.resolve=six.example=2001:db8::7".to_owned(),
            format!("tools.extra_ca={pem}"),
            "tools.egress_proxy=http://proxy.example:3128".to_owned(),
            format!("tools.egress_proxy_credentials={login}"),
        ] {
            set(&mut config, &text).unwrap();
        }
        let egress = &config.tools_egress;
        assert_eq!(egress.resolve[0], ("tool.example".to_owned(), "192.0.2.7".parse().unwrap()));
        assert_eq!(egress.proxy().unwrap().credentials.unwrap().1, "s3cret:with a colon");
        let said = format!("{config:?} {}", table());
        assert!(!said.contains("s3cret"), "{said}");
        let (junk, none) = (file("junk.pem", "no certificate"), folder.path().join("none"));
        for (text, wanted) in [
            ("tools.resolve=tool.example".to_owned(), "HOST=ADDRESS"),
            ("tools.resolve=192.0.2.7=192.0.2.8".to_owned(), "HOST=ADDRESS"),
            ("tools.resolve==192.0.2.8".to_owned(), "HOST=ADDRESS"),
            (format!("tools.extra_ca={junk}"), "at least one certificate"),
            (format!("tools.extra_ca={}", none.display()), "No such file"),
            ("tools.egress_proxy=https://proxy.example".to_owned(), "an http URL"),
            ("tools.egress_proxy=http://me:s3cret@proxy.example".to_owned(), "without user name"),
            ("tools.egress_proxy=proxy.example".to_owned(), "an http URL"),
            (format!("tools.egress_proxy_credentials={junk}"), "USER:PASSWORD"),
        ] {
            let fault = set(&mut config, &text).unwrap_err().to_string();
            assert!(fault.contains(wanted), "{text}: {fault}");
        }
    }

    /// Whoever reads the name of a setting in a refusal can set it, and finds it in the documentation.
    #[test]
    fn every_setting_that_a_sentence_names_can_be_set_and_is_documented() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
        let docs = std::fs::read_to_string(root.join("../docs/gateway.md")).unwrap();
        for setting in ALL {
            assert!(docs.contains(&format!("| `{}` |", setting.name)), "{} is in no row", setting.name);
        }
        let mut named = 0;
        for file in files(&root.join("src")) {
            let text = std::fs::read_to_string(&file).unwrap();
            for rest in text.split("setting `").skip(1) {
                let name = rest.split('`').next().unwrap_or_default();
                if name.starts_with("gateway.") || name.starts_with("tools.") {
                    named += 1;
                    assert!(ALL.iter().any(|setting| setting.name == name), "{name} in {}", file.display());
                }
            }
        }
        assert!(named > 10, "{named}");
    }

    fn files(folder: &std::path::Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
    }
}
