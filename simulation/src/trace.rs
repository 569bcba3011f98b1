//! Messages in a few words.

use prost::Message as _;
use proto::v1;

/// What a server says.
pub(crate) fn server(message: &v1::ServerMessage) -> String {
    use v1::server_message::Message;
    match &message.message {
        Some(Message::Welcome(welcome)) => format!("Welcome, current {:?}", welcome.current),
        Some(Message::Part(update)) => {
            format!(
                "Part {} with {} bodies",
                update.head.as_ref().map(head).unwrap_or_default(),
                update.bodies.len()
            )
        }
        Some(Message::Bodies(bodies)) => format!("{} bodies", bodies.bodies.len()),
        Some(Message::WantListings(want)) => format!("WantListings, {}", want.hashes.len()),
        Some(Message::ReportAck(ack)) => format!("ReportAck {}", ack.sequence),
        Some(Message::HeartbeatAck(_)) => "HeartbeatAck".to_owned(),
        Some(Message::Goodbye(goodbye)) => format!("Goodbye {}: {}", goodbye.code, goodbye.reason),
        Some(Message::Ping(_)) => "Ping".to_owned(),
        other => format!("{other:?}").chars().take(60).collect(),
    }
}

/// What a node says.
pub(crate) fn node(message: &v1::NodeMessage) -> String {
    use v1::node_message::Message;
    match &message.message {
        Some(Message::Hello(hello)) => {
            let held: Vec<String> =
                hello.held.iter().filter_map(|held| held.head.as_ref()).map(head).collect();
            format!("Hello, holds {}; has {}", held.join(", "), hello.versions.join(", "))
        }
        Some(Message::Ack(ack)) => format!("Ack {} {}.{}", part(ack.part), ack.epoch, ack.generation),
        Some(Message::Nack(nack)) => format!(
            "Nack {} {}.{} {}: {}",
            part(nack.part),
            nack.epoch,
            nack.generation,
            nack.code,
            nack.reason
        ),
        Some(Message::Need(need)) => format!("Need, {}", need.digests.len()),
        Some(Message::Listing(report)) => format!(
            "report {} of {}@{} {}: {} functions{}",
            report.sequence,
            report.plugin,
            report.version,
            report.tool,
            report.functions.len(),
            if report.complete { "" } else { ", incomplete" }
        ),
        Some(Message::Listings(texts)) => format!("{} texts", texts.canonical.len()),
        Some(Message::Status(status)) => {
            let one = |one: &v1::VersionStatus| format!("{}@{} {}", one.plugin, one.version, one.state);
            format!("status: {}", status.versions.iter().map(one).collect::<Vec<_>>().join(", "))
        }
        Some(Message::Heartbeat(_)) => "Heartbeat".to_owned(),
        Some(Message::CounterKept(_)) => "CounterKept".to_owned(),
        other => format!("{other:?}").chars().take(60).collect(),
    }
}

fn head(head: &v1::SignedHead) -> String {
    let Ok(statement) = v1::HeadStatement::decode(head.statement.as_slice()) else { return "?".to_owned() };
    format!("{} {}.{}", part(statement.part), statement.epoch, statement.generation)
}

fn part(part: i32) -> &'static str {
    match part {
        1 => "trust",
        2 => "plan",
        3 => "policy",
        4 => "grants",
        _ => "?",
    }
}
