//! How messages of a stream are read and written: what goes out was encoded before, so that a part
//! is encoded once for all streams.

use bytes::{BufMut as _, Bytes};
use prost::Message as _;
use proto::v1::NodeMessage;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Bytes that each direction of an idle stream keeps: a heartbeat fits, anything longer grows it for
/// as long as it takes. Tonic's own 8 KB would be half of what an idle node costs.
const IDLE_BUFFER: usize = 256;

/// Above this, what was buffered is handed on before more is added.
const YIELD_ABOVE: usize = 32 * 1024;

/// Reads `NodeMessage`, writes encoded `ServerMessage`s.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SessionCodec;

impl Codec for SessionCodec {
    type Encode = Bytes;
    type Decode = NodeMessage;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for SessionCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put(item);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(IDLE_BUFFER, YIELD_ABOVE)
    }
}

impl Decoder for SessionCodec {
    type Item = NodeMessage;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<NodeMessage>, Status> {
        NodeMessage::decode(from)
            .map(Some)
            .map_err(|error| Status::invalid_argument(format!("failed to decode NodeMessage: {error}")))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(IDLE_BUFFER, YIELD_ABOVE)
    }
}
