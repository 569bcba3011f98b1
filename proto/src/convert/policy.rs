//! `PolicyEntry`, the one resource of `policy`. Zero and absent mean the default, which allows.

use domain::plugin_set::{Kind, Policy, ToolLimits};

use super::fields::at_most;
use super::{Error, LIST_MAX};
use crate::v1;

impl From<&Policy> for v1::PolicyEntry {
    /// Spans above 49 days (what 32 bits of milliseconds hold) are sent as that.
    fn from(policy: &Policy) -> Self {
        let default = Policy::default();
        let interval = |own: u64, default: u64| if own == default { 0 } else { millis(own) };
        let (limits, usual) = (policy.tool_limits, default.tool_limits);
        let forbidden = policy.forbidden_kinds.iter().map(|kind| kind.as_str().to_owned());
        Self {
            command_listing_interval_ms: interval(
                policy.command_listing_interval_ms,
                default.command_listing_interval_ms,
            ),
            url_listing_interval_ms: interval(
                policy.url_listing_interval_ms,
                default.url_listing_interval_ms,
            ),
            listing_age_max_ms: policy.listing_age_max_ms.map_or(0, millis),
            forbidden_kinds: forbidden.collect(),
            forbid_private_addresses: !policy.allow_private_addresses,
            fresh_for_ms: unless(policy.fresh_for_ms, default.fresh_for_ms),
            strict: policy.strict,
            offline_lease_ms: policy.offline_lease_ms.unwrap_or_default(),
            tool_memory_bytes: unless(limits.memory, usual.memory),
            tool_files: unless(limits.files, usual.files),
            tool_processes: unless(limits.processes, usual.processes),
        }
    }
}

impl TryFrom<v1::PolicyEntry> for Policy {
    type Error = Error;

    /// A forbidden kind that this version does not know is passed over: it cannot run it anyway.
    fn try_from(entry: v1::PolicyEntry) -> Result<Self, Error> {
        at_most("PolicyEntry.forbidden_kinds", entry.forbidden_kinds.len(), LIST_MAX, "kinds")?;
        let default = Self::default();
        let interval = |own: u32, default: u64| if own == 0 { default } else { u64::from(own) };
        Ok(Self {
            command_listing_interval_ms: interval(
                entry.command_listing_interval_ms,
                default.command_listing_interval_ms,
            ),
            url_listing_interval_ms: interval(entry.url_listing_interval_ms, default.url_listing_interval_ms),
            listing_age_max_ms: (entry.listing_age_max_ms != 0)
                .then_some(u64::from(entry.listing_age_max_ms)),
            forbidden_kinds: entry.forbidden_kinds.iter().filter_map(|kind| Kind::parse(kind)).collect(),
            allow_private_addresses: !entry.forbid_private_addresses,
            fresh_for_ms: given(entry.fresh_for_ms, default.fresh_for_ms),
            strict: entry.strict,
            offline_lease_ms: (entry.offline_lease_ms != 0).then_some(entry.offline_lease_ms),
            tool_limits: ToolLimits {
                memory: given(entry.tool_memory_bytes, default.tool_limits.memory),
                files: given(entry.tool_files, default.tool_limits.files),
                processes: given(entry.tool_processes, default.tool_limits.processes),
            },
        })
    }
}

/// Zero on the wire means the default.
const fn unless(own: u64, default: u64) -> u64 {
    if own == default { 0 } else { own }
}

const fn given(own: u64, default: u64) -> u64 {
    if own == 0 { default } else { own }
}

/// At least 1: zero on the wire means the default.
fn millis(span: u64) -> u32 {
    u32::try_from(span.max(1)).unwrap_or(u32::MAX)
}
