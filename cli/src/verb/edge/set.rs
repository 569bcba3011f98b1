//! `pintle edge set`: what the nodes of an edge may do.

use std::time::Duration;

use anyhow::Result;
use serde_json::{Map, Value, json};

use super::policy;
use crate::api::Policy;
use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{good, shown};

/// Flags of `pintle edge set`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  pintle edge set eu-1 --offline-lease 24h --strict\n  pintle edge set eu-1 --offline-lease off --forbid-kinds bash,url"
)]
pub(crate) struct Args {
    /// The edge
    pub edge: String,
    /// How long after its last contact a node that was started again may go by the set it stored; off: not at all
    #[arg(long, value_name = "TIME|off", value_parser = lease)]
    pub offline_lease: Option<Duration>,
    /// How long without contact what a node was told counts as fresh
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub fresh_for: Option<Duration>,
    /// Nodes refuse calls once their set is stale
    #[arg(long, conflicts_with = "not_strict")]
    pub strict: bool,
    /// Nodes go on, and say that their set is stale
    #[arg(long)]
    pub not_strict: bool,
    /// Kinds of tools that are not run (command, url, bash, node, python), or none
    #[arg(long, value_name = "KINDS|none", value_delimiter = ',')]
    pub forbid_kinds: Vec<String>,
    /// The most memory of each tool process, such as 512MiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub tool_memory: Option<u64>,
    /// The most open files of each tool process
    #[arg(long, value_name = "N")]
    pub tool_files: Option<u64>,
    /// The most processes of each tool
    #[arg(long, value_name = "N")]
    pub tool_processes: Option<u64>,
}

/// Sets what was named and says how all of it stands.
///
/// # Errors
/// As the API's; nothing was named.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let body = args.body();
    if body.is_empty() {
        return Err(Failure::usage("nothing to set was named")
            .remedy(format!("pintle edge show {} shows what there is; pintle edge set --help", args.edge))
            .into());
    }
    let path = format!("/edges/{}/policy", escape(&args.edge));
    let answer: Value = context.client()?.put(&path, &body).await?;
    let out = &context.out;
    if out.is_json() {
        out.json(&answer)?;
        return Ok(Exit::Done);
    }
    let edge = shown::line(&args.edge);
    if answer.get("changed") == Some(&Value::Bool(true)) {
        out.line(good(format!("Set the policy of edge {edge}.")))?;
    } else {
        out.line(format_args!("The policy of edge {edge} was like that already."))?;
    }
    let policy: Policy = serde_json::from_value(answer.get("policy").cloned().unwrap_or_default())?;
    for (setting, value) in policy::lines(&policy) {
        out.line(format_args!("  {setting:<14} {value}"))?;
    }
    Ok(Exit::Done)
}

impl Args {
    fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        let mut put = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                body.insert(name.to_owned(), value);
            }
        };
        let millis = |span: Duration| json!(u64::try_from(span.as_millis()).unwrap_or(u64::MAX));
        put("offline_lease_ms", self.offline_lease.map(millis));
        put("fresh_for_ms", self.fresh_for.map(millis));
        put("strict", (self.strict || self.not_strict).then_some(json!(self.strict)));
        put("tool_memory_bytes", self.tool_memory.map(Value::from));
        put("tool_files", self.tool_files.map(Value::from));
        put("tool_processes", self.tool_processes.map(Value::from));
        let kinds: Vec<&String> = self.forbid_kinds.iter().filter(|kind| *kind != "none").collect();
        put("forbidden_kinds", (!self.forbid_kinds.is_empty()).then_some(json!(kinds)));
        body
    }
}

fn lease(text: &str) -> Result<Duration, String> {
    if text == "off" {
        return Ok(Duration::ZERO);
    }
    humantime::parse_duration(text).map_err(|fault| format!("{fault}; write a time such as 24h, or off"))
}

fn size(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];
    let unit = UNITS.iter().find_map(|(name, bytes)| Some((text.strip_suffix(name)?.trim_end(), bytes)));
    let count = unit.and_then(|(count, bytes)| count.parse::<u64>().ok()?.checked_mul(*bytes));
    count.ok_or_else(|| "write a size such as 512MiB or 4GiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_leases_are_read_as_they_are_written() {
        for (text, bytes) in [("512MiB", 512 << 20), ("4 GiB", 4 << 30), ("7", 7), ("1KiB", 1 << 10)] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "many", "-1MiB", "99999999999GiB", "4GB"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(lease("off"), Ok(Duration::ZERO));
        assert_eq!(lease("24h"), Ok(Duration::from_hours(24)));
        assert!(lease("never").is_err());
    }
}
