//! An edge's policy in words.

use std::time::Duration;

use crate::api::Policy;
use crate::output::shown;

/// Each setting with what it means now.
pub(super) fn lines(policy: &Policy) -> Vec<(&'static str, String)> {
    let lease = match policy.offline_lease_ms {
        0 => {
            "off: a node that was started again calls nothing before it reached the control plane".to_owned()
        }
        lease => {
            format!("{}: so long after its last contact a node goes by the set that it stored", span(lease))
        }
    };
    let stale = if policy.strict { "then it refuses calls (strict)" } else { "then it says so and goes on" };
    let kinds = match &policy.forbidden_kinds[..] {
        [] => "none".to_owned(),
        kinds => kinds.iter().map(|kind| shown::line(kind)).collect::<Vec<_>>().join(", "),
    };
    let tools = format!(
        "{} of memory and {} open files a process, {} processes",
        bytes(policy.tool_memory_bytes),
        policy.tool_files,
        policy.tool_processes
    );
    vec![
        ("offline lease", lease),
        ("fresh for", format!("{} without contact; {stale}", span(policy.fresh_for_ms))),
        ("kinds off", kinds),
        ("each tool", tools),
    ]
}

fn span(ms: u64) -> String {
    humantime::format_duration(Duration::from_millis(ms)).to_string()
}

fn bytes(count: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = UNITS.iter().find(|(size, _)| count >= *size && count.is_multiple_of(*size));
    unit.map_or_else(|| format!("{count} B"), |(size, name)| format!("{} {name}", count / size))
}
