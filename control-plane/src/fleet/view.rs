//! What the people's port reads of the streams.

use domain::id::NodeId;
use domain::plugin_set::{Part, Position};
use domain::time::Timestamp;

use super::Fleet;
use crate::api::{FleetView, Presence};
use crate::store::NodeRecord;

impl FleetView for Fleet {
    fn presence(&self, node: &NodeId) -> Option<Presence> {
        let presence = Self::presence(self, node)?;
        Some(Presence {
            since: presence.since,
            address: presence.address.to_string(),
            clock_offset_ms: presence.clock_offset_ms,
        })
    }

    fn connected(&self) -> u64 {
        u64::try_from(self.connected_count()).unwrap_or(u64::MAX)
    }

    fn is_elsewhere(&self, node: &NodeRecord) -> bool {
        self.is_at_another_server(node)
    }

    fn others(&self) -> Option<(&str, Timestamp)> {
        Self::others(self)
    }

    fn missed(&self) -> u64 {
        Self::missed(self)
    }

    fn acknowledged(&self, node: &NodeId, part: Part) -> Option<Position> {
        self.acknowledged_by(node, part)
    }
}
