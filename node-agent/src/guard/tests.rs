use std::collections::BTreeMap;
use std::sync::Arc;

use domain::guard::view::{SetState, View};
use domain::id::EdgeName;
use domain::plugin_set::{Policy, Trust};
use domain::refusal::Code;
use domain::time::Timestamp;

use super::*;

fn waiting() -> View {
    View {
        edge: EdgeName::parse("eu-1").unwrap(),
        set: SetState::Waiting { server: "cp.example:7401".into(), since: Timestamp::default() },
        trust: Arc::new(Trust::default()),
        policy: Policy::default(),
        plugins: BTreeMap::new(),
        texts: BTreeMap::new(),
    }
}

fn code(guard: &Guard) -> Code {
    guard.table().permit("team.hello", 0).unwrap_err().refusal.code
}

#[test]
fn a_change_is_published_before_update_returns_and_announced() {
    let guard = Guard::new(waiting());
    let changed = guard.changed();
    assert_eq!(code(&guard), Code::NoPluginSet);
    assert!(guard.update(|view| {
        view.set = SetState::Held;
        true
    }));
    assert_eq!(code(&guard), Code::UnknownFunction);
    assert!(changed.has_changed().unwrap());
}

#[test]
fn what_changed_nothing_neither_rebuilds_nor_announces() {
    let guard = Guard::new(waiting());
    let before = guard.table();
    assert!(!guard.update(|_| false));
    assert!(Arc::ptr_eq(&before, &guard.table()));
    assert!(!guard.changed().has_changed().unwrap());
}

#[tokio::test]
async fn a_relist_of_a_tool_that_is_not_up_returns_at_once() {
    let version = domain::id::PluginVersion::parse("team@1.0.0").unwrap();
    let tool = domain::id::ToolId::parse("team").unwrap();
    let runtime = Runtime::default();
    runtime.relist(&version, &tool).await;
    assert!(runtime.tool(&version, &tool).is_none());
}
