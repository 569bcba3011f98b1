//! What each event says beside its name and subject, as JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Event, FunctionDifference};
use crate::id::{EdgeName, NodeId, NodeName, PluginVersion, ToolId};
use crate::visible::make_visible;

impl Event {
    pub(super) fn fields_of_access(&self) -> Value {
        match self {
            Self::FleetCreate { fleet, name } => json!({ "fleet": fleet, "name": visible(name) }),
            Self::FleetAuthorityAdd { key_sha256 } | Self::FleetAuthoritySwitch { key_sha256 } => {
                json!({ "key_sha256": key_sha256 })
            }
            Self::TokenCreate { token, token_name, roles, scopes } => {
                json!({ "token": token, "token_name": visible(token_name), "roles": roles, "scopes": scopes })
            }
            Self::TokenRevoke { token, token_name } => {
                json!({ "token": token, "token_name": visible(token_name) })
            }
            Self::JoinTokenCreate { token, edge, uses, expires_at, labels } => json!({
                "token": token,
                "edge": edge.as_str(),
                "uses": uses,
                "expires_at": expires_at.to_string(),
                "labels": labels.to_texts(),
            }),
            Self::JoinTokenRevoke { token, edge } => json!({ "token": token, "edge": edge.as_str() }),
            Self::AccessDenied { action, missing } => json!({ "action": action, "missing": missing }),
            _ => Value::Null,
        }
    }

    pub(super) fn fields_of_fleet(&self) -> Value {
        match self {
            Self::NodeJoin { node, node_name, edge, token, agent_version } => json!({
                "node": node.as_str(),
                "node_name": node_name.as_str(),
                "edge": edge.as_str(),
                "token": token,
                "agent_version": visible(agent_version),
            }),
            Self::NodeVersionsSet { node, node_name, versions } => json!({
                "node": node.as_str(),
                "node_name": node_name.as_str(),
                "versions": versions.iter().map(ToString::to_string).collect::<Vec<_>>(),
            }),
            Self::EdgeCreate { edge } => json!({ "edge": edge.as_str() }),
            Self::EdgePolicySet { edge, changes } => {
                json!({ "edge": edge.as_str(), "changes": of_changes(changes) })
            }
            Self::PolicySet { changes } => json!({ "changes": of_changes(changes) }),
            Self::PluginVersionPush { version, content_digest, archive_sha256, archive_length, tools } => {
                json!({
                    "plugin": version.plugin.as_str(),
                    "version": version.version.to_string(),
                    "content_digest": content_digest.to_string(),
                    "archive_sha256": archive_sha256.to_string(),
                    "archive_length": archive_length,
                    "tools": tools.iter().map(ToolId::as_str).collect::<Vec<_>>(),
                })
            }
            Self::EdgeAssignmentSet { edge, version, earlier } => json!({
                "edge": edge.as_str(),
                "plugin": version.plugin.as_str(),
                "version": version.version.to_string(),
                "earlier": earlier.as_ref().map(ToString::to_string),
            }),
            Self::EdgeAssignmentUnset { edge, version } => json!({
                "edge": edge.as_str(),
                "plugin": version.plugin.as_str(),
                "version": version.version.to_string(),
            }),
            Self::EdgeCandidateSet { edge, version, installed, nodes, source } => json!({
                "edge": edge.as_str(),
                "plugin": version.plugin.as_str(),
                "version": version.version.to_string(),
                "installed": installed.as_ref().map(ToString::to_string),
                "nodes": nodes.iter().map(NodeName::as_str).collect::<Vec<_>>(),
                "source": source,
            }),
            Self::EdgeCandidateUnset { edge, version, source, promoted } => json!({
                "edge": edge.as_str(),
                "plugin": version.plugin.as_str(),
                "version": version.version.to_string(),
                "source": source,
                "promoted": promoted,
            }),
            Self::ListingFalse { node, hash, fault } => {
                json!({ "node": node.as_str(), "hash": hash.to_string(), "fault": visible(fault) })
            }
            _ => Value::Null,
        }
    }

    pub(super) fn fields_of_store(&self) -> Value {
        match self {
            Self::StoreRewound { node, node_name, epoch, earlier, proven } => {
                let proven = proven.iter().map(|head| {
                    json!({
                        "scope": head.scope.to_string(),
                        "part": head.part.as_str(),
                        "held": head.position.to_string(),
                        "database": head.base.to_string(),
                    })
                });
                json!({
                    "node": node.as_str(),
                    "node_name": node_name.as_str(),
                    "epoch": epoch,
                    "earlier": earlier,
                    "proven": proven.collect::<Vec<_>>(),
                })
            }
            Self::OrphansFound { node_name, edge, digest, count } => json!({
                "node_name": node_name.as_str(),
                "edge": edge.as_str(),
                "digest": digest.to_string(),
                "count": count,
            }),
            Self::OrphansDecided { held, .. } => {
                json!({ "held": held.iter().map(|text| visible(text)).collect::<Vec<_>>() })
            }
            _ => Value::Null,
        }
    }

    pub(super) fn fields_of_rollout(&self) -> Value {
        let of = |version: &PluginVersion| (version.plugin.as_str().to_owned(), version.version.to_string());
        match self {
            Self::RolloutStart { version, edges, reason, .. } => {
                let (plugin, version) = of(version);
                let edges: Vec<&str> = edges.iter().map(EdgeName::as_str).collect();
                json!({ "plugin": plugin, "version": version, "edges": edges, "reason": visible(reason) })
            }
            Self::RolloutMove { version, phase, reason, .. } => {
                let (plugin, version) = of(version);
                json!({ "plugin": plugin, "version": version, "phase": phase, "reason": visible(reason) })
            }
            _ => Value::Null,
        }
    }

    pub(super) fn fields_of_connection(&self) -> Value {
        let edge = |edge: &Option<EdgeName>| edge.as_ref().map(|edge| edge.as_str().to_owned());
        match self {
            Self::ConnectionSet { edge: of, params, secrets, headers, oauth, .. } => {
                json!({ "edge": edge(of), "params": params, "secrets": secrets, "headers": headers, "oauth": oauth })
            }
            Self::ConnectionRemove { edge: of, .. } => json!({ "edge": edge(of) }),
            Self::ConnectionAuthorize { edge: of, issuer, .. } => {
                json!({ "edge": edge(of), "issuer": visible(issuer) })
            }
            Self::ConnectionRefused { edge: of, reason, .. } => {
                json!({ "edge": edge(of), "reason": visible(reason) })
            }
            _ => Value::Null,
        }
    }

    pub(super) fn fields_of_node(&self) -> Value {
        match self {
            Self::NodeRenew { node, node_name, until, lapsed } => json!({
                "node": node.as_str(),
                "node_name": node_name.as_str(),
                "until": until.to_string(),
                "lapsed": lapsed,
            }),
            Self::NodeEvict { node, node_name, edge, reason }
            | Self::NodeBan { node, node_name, edge, reason } => {
                with(of_node(node, node_name, edge), json!({ "reason": visible(reason) }))
            }
            Self::NodeRemove { node, node_name, edge } => of_node(node, node_name, edge),
            Self::NodeClone { node, node_name, edge, sessions } => {
                with(of_node(node, node_name, edge), json!({ "sessions": sessions }))
            }
            Self::NodeKeep { node, node_name, edge, session } => {
                with(of_node(node, node_name, edge), json!({ "session": session }))
            }
            _ => Value::Null,
        }
    }

    pub(super) fn fields_of_tools(&self) -> Value {
        match self {
            Self::ToolsSnapshot { version, tool, node, functions } => {
                let functions: serde_json::Map<String, Value> =
                    functions.iter().map(|(name, hash)| (visible(name), json!(hash.to_string()))).collect();
                with(of_tool(version, tool), json!({ "node": node.as_str(), "functions": functions }))
            }
            Self::ToolsChanged { node, difference } => {
                with(of_difference(difference), json!({ "node": node.as_str() }))
            }
            Self::ToolsRestored { difference } => of_difference(difference),
            Self::ToolsApprove { functions, attended, .. } | Self::ToolsClear { functions, attended, .. } => {
                json!({
                    "functions": functions.iter().map(of_difference).collect::<Vec<_>>(),
                    "attended": attended,
                })
            }
            Self::ToolsUndo { approval, functions, attended, .. } => json!({
                "approval": approval,
                "functions": functions.iter().map(of_difference).collect::<Vec<_>>(),
                "attended": attended,
            }),
            Self::ToolsReview { edge, version, tool, functions } => with(
                of_tool(version, tool),
                json!({
                    "edge": edge.as_str(),
                    "functions": functions.iter().map(|name| visible(name)).collect::<Vec<_>>(),
                }),
            ),
            Self::ToolsVolatile { version, tool, function, forms, parts } => with(
                of_tool(version, tool),
                json!({
                    "function": visible(function),
                    "forms": forms,
                    "parts": parts.iter().map(|part| visible(part)).collect::<Vec<_>>(),
                }),
            ),
            Self::ToolsReject { functions, .. } => {
                json!({ "functions": functions.iter().map(of_difference).collect::<Vec<_>>() })
            }
            Self::EndpointPinned { edge, version, tool, origin, address_class } => with(
                of_tool(version, tool),
                json!({ "edge": edge.as_str(), "origin": visible(origin), "address_class": address_class }),
            ),
            Self::EndpointMoved { edge, version, tool, earlier, origin } => {
                with(of_move(version, tool, earlier, origin), json!({ "edge": edge.as_str() }))
            }
            Self::BlockSet { block, edge, target, reason } => {
                with(of_block(block, edge.as_ref(), target), json!({ "reason": visible(reason) }))
            }
            Self::BlockLift { block, edge, target } => of_block(block, edge.as_ref(), target),
            Self::EndpointApprove { edge, version, tool, earlier, origin, attended } => with(
                of_move(version, tool, earlier, origin),
                json!({ "edge": edge.as_ref().map(EdgeName::as_str), "attended": attended }),
            ),
            _ => Value::Null,
        }
    }
}

/// An object with the members of another.
fn with(mut object: Value, more: Value) -> Value {
    if let (Value::Object(object), Value::Object(more)) = (&mut object, more) {
        object.extend(more);
    }
    object
}

fn of_changes(changes: &BTreeMap<&'static str, (String, String)>) -> Value {
    let change = |(setting, (earlier, now)): (&&str, &(String, String))| {
        ((*setting).to_owned(), json!({ "earlier": earlier, "now": now }))
    };
    Value::Object(changes.iter().map(change).collect())
}

fn of_node(node: &NodeId, name: &NodeName, edge: &EdgeName) -> Value {
    json!({ "node": node.as_str(), "node_name": name.as_str(), "edge": edge.as_str() })
}

fn of_block(block: &str, edge: Option<&EdgeName>, target: &str) -> Value {
    json!({ "block": block, "edge": edge.map(EdgeName::as_str), "target": visible(target) })
}

fn of_tool(version: &PluginVersion, tool: &ToolId) -> Value {
    json!({
        "plugin": version.plugin.as_str(),
        "version": version.version.to_string(),
        "tool": visible(tool.as_str()),
    })
}

fn of_difference(difference: &FunctionDifference) -> Value {
    let more = json!({
        "function": visible(&difference.function),
        "edge": difference.edge.as_ref().map(EdgeName::as_str),
        "approved": difference.approved.map(|hash| hash.to_string()),
        "seen": difference.seen.map(|hash| hash.to_string()),
    });
    with(of_tool(&difference.version, &difference.tool), more)
}

fn of_move(version: &PluginVersion, tool: &ToolId, earlier: &[String], origin: &str) -> Value {
    let earlier: Vec<String> = earlier.iter().map(|origin| visible(origin)).collect();
    with(of_tool(version, tool), json!({ "earlier": earlier, "origin": visible(origin) }))
}

fn visible(text: &str) -> String {
    make_visible(text).into_owned()
}
