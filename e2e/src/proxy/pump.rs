//! One connection through the proxy: two directions, and what the weather does to them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::{Counts, Weather};

/// Bytes that are read at once: small, so that a throttled link is slow evenly.
const PIECE: usize = 8 * 1024;

/// Pieces under way in one direction: what a long link holds, and loses when it is cut.
const PIECES: usize = 16;

/// Bytes, and when they are due at the other end.
type Piece = (Instant, Vec<u8>);

pub(super) struct Link {
    pub(super) number: u64,
    pub(super) weather: Arc<watch::Sender<Weather>>,
    pub(super) counts: Arc<Counts>,
}

impl Link {
    /// Carries bytes both ways until both ends have closed, or the connection is cut.
    pub(super) async fn carry(&self, client: TcpStream, upstream: TcpStream) {
        client.set_nodelay(true).ok();
        let (from_client, to_client) = client.into_split();
        let (from_upstream, to_upstream) = upstream.into_split();
        let mut weather = self.weather.subscribe();
        let both = async {
            tokio::join!(
                self.direction(from_client, to_upstream, false),
                self.direction(from_upstream, to_client, true),
            )
        };
        tokio::select! {
            _ = weather.wait_for(|now| self.number < now.cut_below) => {}
            _ = both => {}
        }
    }

    async fn direction(&self, from: OwnedReadHalf, to: OwnedWriteHalf, is_down: bool) {
        let (pieces, queue) = mpsc::channel(PIECES);
        let writing = self.write(queue, to, is_down);
        tokio::pin!(writing);
        tokio::select! {
            // The other end takes nothing more.
            () = &mut writing => return,
            () = self.read(from, pieces) => {}
        }
        writing.await;
    }

    async fn read(&self, mut from: OwnedReadHalf, pieces: mpsc::Sender<Piece>) {
        let mut buffer = vec![0; PIECE];
        while let Ok(count @ 1..) = from.read(&mut buffer).await {
            let Some(piece) = buffer.get(..count) else { break };
            let due = Instant::now() + self.weather.borrow().delay;
            if pieces.send((due, piece.to_vec())).await.is_err() {
                break;
            }
        }
    }

    /// Counts what came from upstream and was handed on, and cuts every connection if it was to be cut by now.
    fn count(&self, bytes: u64) {
        let sum = self.counts.down.fetch_add(bytes, Ordering::SeqCst) + bytes;
        let next = self.counts.connections.load(Ordering::SeqCst);
        self.weather.send_if_modified(|now| {
            let is_due = now.cut_at.is_some_and(|at| sum >= at);
            if is_due {
                (now.cut_at, now.cut_below) = (None, next);
            }
            is_due
        });
    }

    async fn write(&self, mut queue: mpsc::Receiver<Piece>, mut to: OwnedWriteHalf, is_down: bool) {
        let mut weather = self.weather.subscribe();
        while let Some((due, piece)) = queue.recv().await {
            tokio::time::sleep_until(due).await;
            let passes = weather.wait_for(|now| !now.stalled && self.number >= now.lost_below).await;
            let Ok(rate) = passes.map(|now| now.rate) else { return };
            if let Some(rate) = rate {
                let micros = (piece.len() as u64).saturating_mul(1_000_000) / rate.max(1);
                tokio::time::sleep(Duration::from_micros(micros)).await;
            }
            if to.write_all(&piece).await.is_err() {
                return;
            }
            if is_down {
                self.count(piece.len() as u64);
            }
        }
    }
}
