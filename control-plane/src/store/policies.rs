//! What the nodes of an edge may do, and what the whole fleet holds to, where it was set.

use domain::id::EdgeName;
use domain::plugin_set::{Kind, Policy, ToolLimits};
use domain::review::{FleetPolicy, Review};

use super::sql::{Row, Transaction, args, statements};
use super::{By, Error, meta};

statements! {
    GET = "select strict, fresh_for_ms, offline_lease_ms, forbidden_kinds, tool_memory_bytes, tool_files, \
           tool_processes from edge_policies where edge = $1";
    PUT = "insert into edge_policies (edge, strict, fresh_for_ms, offline_lease_ms, forbidden_kinds, \
           tool_memory_bytes, tool_files, tool_processes, changed_at, changed_by) \
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict (edge) do update set \
           strict = excluded.strict, fresh_for_ms = excluded.fresh_for_ms, \
           offline_lease_ms = excluded.offline_lease_ms, forbidden_kinds = excluded.forbidden_kinds, \
           tool_memory_bytes = excluded.tool_memory_bytes, tool_files = excluded.tool_files, \
           tool_processes = excluded.tool_processes, changed_at = excluded.changed_at, changed_by = excluded.changed_by";
}

/// The edge's policy; the default if none was set.
pub(crate) async fn get(tx: &mut Transaction, edge: &EdgeName) -> Result<Policy, Error> {
    tx.row(GET, args![edge]).await?.as_ref().map_or_else(|| Ok(Policy::default()), read)
}

/// Sets all of it that is stored here.
pub(crate) async fn put(
    tx: &mut Transaction,
    edge: &EdgeName,
    policy: &Policy,
    by: By<'_>,
) -> Result<(), Error> {
    let limits = policy.tool_limits;
    let args = args![
        edge,
        u64::from(policy.strict),
        policy.fresh_for_ms,
        policy.offline_lease_ms.unwrap_or_default(),
        &*kinds_text(&policy.forbidden_kinds),
        limits.memory,
        limits.files,
        limits.processes,
        by.at,
        by.who,
    ];
    tx.execute(PUT, args).await.map(|_| ())
}

/// What the whole fleet holds to; the default of what was never set.
pub(crate) async fn of_fleet(tx: &mut Transaction) -> Result<FleetPolicy, Error> {
    let review = match meta::get(tx, meta::REVIEW_NEW_VERSIONS).await? {
        None => Review::default(),
        Some(word) => Review::parse(&word)
            .ok_or_else(|| Error::inconsistent("a review of new versions", &word, "there is no such"))?,
    };
    Ok(FleetPolicy {
        review_new_versions: review,
        approve_notation: meta::get(tx, meta::APPROVE_NOTATION).await?.is_some_and(|word| word == "true"),
        four_eyes: meta::get(tx, meta::FOUR_EYES).await?.is_some_and(|word| word == "true"),
    })
}

/// Sets what the whole fleet holds to.
pub(crate) async fn put_of_fleet(tx: &mut Transaction, policy: FleetPolicy) -> Result<(), Error> {
    meta::put(tx, meta::REVIEW_NEW_VERSIONS, policy.review_new_versions.as_str()).await?;
    meta::put(tx, meta::APPROVE_NOTATION, &policy.approve_notation.to_string()).await?;
    meta::put(tx, meta::FOUR_EYES, &policy.four_eyes.to_string()).await
}

/// The kinds' words, separated by spaces.
pub(crate) fn kinds_text(kinds: &[Kind]) -> String {
    kinds.iter().map(|kind| kind.as_str()).collect::<Vec<_>>().join(" ")
}

fn read(row: &Row) -> Result<Policy, Error> {
    let forbidden = row.text(3)?;
    let kind = |word| {
        Kind::parse(word).ok_or_else(|| Error::inconsistent("a kind of tool", word, "there is no such"))
    };
    let lease = row.count(2)?;
    Ok(Policy {
        strict: row.integer(0)? != 0,
        fresh_for_ms: row.count(1)?,
        offline_lease_ms: (lease != 0).then_some(lease),
        forbidden_kinds: forbidden.split_whitespace().map(kind).collect::<Result<_, _>>()?,
        tool_limits: ToolLimits { memory: row.count(4)?, files: row.count(5)?, processes: row.count(6)? },
        ..Policy::default()
    })
}
