//! skeleton
use crate::spec::UrlSpec;
use crate::start::StartError;
use crate::tool::Events;
use crate::wire::{Ask, Peer, Unanswered};
use serde_json::value::RawValue;
use std::net::SocketAddr;
#[derive(Debug)]
pub(crate) struct Http;
impl Http {
    pub(crate) async fn start(_spec: UrlSpec, _events: Events) -> Result<Self, StartError> {
        Err(StartError::EmptyCommand)
    }
    pub(crate) fn peer(&self) -> Peer {
        unreachable!()
    }
    pub(crate) fn next_id(&self) -> u64 {
        0
    }
    pub(crate) async fn ask(&self, _ask: Ask) -> Result<Box<RawValue>, Unanswered> {
        Err(Unanswered::Refused)
    }
    pub(crate) async fn stop(&self) {}
    pub(crate) fn connected_to(&self) -> Option<SocketAddr> {
        None
    }
}
