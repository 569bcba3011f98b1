//! A node with 10,000 functions, each approved and listed so.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::digest::ListingHash;
use domain::guard::view::{PluginState, RunState, SetState, Shown, ToolListing, ToolView, VersionView, View};
use domain::id::{EdgeName, PluginVersion, ToolId};
use domain::plugin_set::{FunctionTrust, Kind, Policy, ToolTrust, Trust};

/// When everything was listed, and when it is called.
pub(crate) const NOW_MS: u64 = 1_000_000;

/// Plugins, tools of each, functions of each tool.
const SHAPE: (usize, usize, usize) = (10, 10, 100);

fn names_of(plugin: usize, tool: usize) -> (ToolId, impl Iterator<Item = String>) {
    let id = ToolId::parse(&format!("tool-{plugin}-{tool}")).expect("an ID");
    (id, (0..SHAPE.2).map(|function| format!("look_something_up_{function}")))
}

/// Their model names.
pub(crate) fn names() -> Vec<String> {
    let mut all = Vec::new();
    for plugin in 0..SHAPE.0 {
        for tool in 0..SHAPE.1 {
            let (id, functions) = names_of(plugin, tool);
            all.extend(functions.map(|function| format!("{id}__{function}")));
        }
    }
    all
}

/// What such a node holds and observes.
pub(crate) fn of_ten_thousand_functions() -> View {
    let mut trust = Trust::default();
    let mut plugins = BTreeMap::new();
    let mut texts = BTreeMap::new();
    for plugin in 0..SHAPE.0 {
        let version = PluginVersion::parse(&format!("plugin-{plugin}@1.0.0")).expect("a version");
        let mut tools = BTreeMap::new();
        for tool in 0..SHAPE.1 {
            let (id, functions) = names_of(plugin, tool);
            let (mut approved, mut shown) = (BTreeMap::new(), BTreeMap::new());
            for (rank, function) in functions.enumerate() {
                let text = format!("{{\"description\":\"{id} {function}\"}}");
                let hash = ListingHash::of_canonical(&text);
                texts.insert(hash, text.into());
                approved.insert(function.as_str().into(), FunctionTrust { hash, rank: rank as u64 });
                shown.insert(function.as_str().into(), Shown { hash, not_shown: None });
            }
            let snapshot = ToolTrust { snapshot_taken: true, functions: approved, origin: None };
            let of_version = trust.versions.entry(version.clone()).or_default();
            Arc::make_mut(of_version).tools.insert(id.clone(), snapshot);
            let listing =
                ToolListing { asked_at_ms: NOW_MS, complete: true, incomplete: None, functions: shown };
            let view = ToolView {
                kind: Kind::Command,
                origin: None,
                run: RunState::Running,
                listing: Some(Arc::new(listing)),
                relisting: None,
                relist_failed: None,
            };
            tools.insert(id, view);
        }
        let serving = VersionView { version: version.clone(), tools, left_out: BTreeMap::new() };
        plugins.insert(version.plugin, PluginState::Serving(serving));
    }
    View {
        edge: EdgeName::parse("eu-1").expect("a name"),
        set: SetState::Held,
        trust: Arc::new(trust),
        policy: Policy::default(),
        plugins,
        texts,
    }
}
