//! Approves changes that mean the same, where the fleet's policy says so. Nothing else is approved by a rule.

use std::collections::BTreeSet;
use std::sync::Arc;

use domain::audit::{Event, FunctionDifference, Origin};
use domain::change::{grade, is_notation_only};
use domain::id::{PluginVersion, ToolId};

use super::reconcile_changes::View;
use super::record_listing::raise_trust;
use super::{By, Error, approve};
use crate::store::changes::Shown;
use crate::store::{WriteTx, listings, policies};

/// Approves them; answers which. Only where nodes agree: while one of them still shows the approved form, two
/// forms that mean the same would take turns.
pub(super) async fn approve(
    tx: &mut WriteTx,
    by: &By,
    (version, tool): (&PluginVersion, &ToolId),
    view: &View,
) -> Result<BTreeSet<Shown>, Error> {
    if !policies::of_fleet(tx.tx()).await?.approve_notation {
        return Ok(BTreeSet::new());
    }
    let mut functions = Vec::new();
    for one in view.settled() {
        let (Some(approved), Some(seen)) = (view.approved(one), one.seen) else { continue };
        let texts = (listings::text(tx.tx(), approved).await?, listings::text(tx.tx(), seen).await?);
        let (Some(before), Some(after)) = texts else { continue };
        if is_notation_only(&grade(Some(&before), Some(&after))) {
            functions.push(FunctionDifference {
                version: version.clone(),
                tool: tool.clone(),
                function: Arc::clone(&one.function),
                edge: one.edge.clone(),
                approved: Some(approved),
                seen: Some(seen),
            });
        }
    }
    if functions.is_empty() {
        return Ok(BTreeSet::new());
    }
    let rule = By { now: by.now, origin: Origin::system("policy approve_notation") };
    approve::write(tx, &rule, &version.plugin, &functions).await?;
    raise_trust(tx, version).await?;
    let approved = functions.iter().map(approve::shown).collect();
    let event = Event::ToolsApprove { plugin: version.plugin.clone(), functions, attended: false };
    tx.audit(&rule.origin, event);
    Ok(approved)
}
