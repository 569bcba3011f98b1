//! Opening a stdio tool: the modern probe, then the handshake, each told apart from a dead program.

use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;

use super::Connection;
use crate::envelope;
use crate::error::Error;
use crate::spec::{CommandSpec, Opening};
use crate::start::{StartError, spoken};
use crate::tool::{Events, Noise};
use crate::wire::{self, Ask, Peer, Probe};

/// Starts the program and finds out who is there.
///
/// Some servers of the handshake era end when anything but `initialize` comes first, so a program that
/// ends at the probe is started once more without it.
pub(super) async fn open(spec: &CommandSpec, events: &Events) -> Result<(Connection, Peer), StartError> {
    let end = Instant::now() + spec.limits.start;
    let connection = Connection::spawn(spec, events).await?;
    if spec.opening == Opening::Handshake {
        match handshake(&connection, spec, end).await {
            // It speaks the other era by now.
            Err(StartError::Opening(Error::Rpc(_))) => {}
            outcome => return outcome.map(|peer| (connection, peer)),
        }
    }
    if let Some(peer) = meet(&connection, spec, end).await? {
        return Ok((connection, peer));
    }
    drop(connection);
    let connection = Connection::spawn(spec, events).await?;
    let peer = handshake(&connection, spec, end).await?;
    Ok((connection, peer))
}

/// Probes, and shakes hands where the probe is declined or not answered soon. `None` if the program
/// ended at the probe.
///
/// A server that is only slow answers the probe first, keeps to the modern era and declines the
/// handshake; so a late answer to the probe counts before that.
async fn meet(connection: &Connection, spec: &CommandSpec, end: Instant) -> Result<Option<Peer>, StartError> {
    let probe = probe(connection, end);
    tokio::pin!(probe);
    if let Ok(answer) = tokio::time::timeout(spec.limits.probe, &mut probe).await {
        return match judge(answer)? {
            Met::Modern(peer) => Ok(Some(peer)),
            Met::Handshake => handshake(connection, spec, end).await.map(Some),
            Met::Dead => Ok(None),
        };
    }
    let handshake = handshake(connection, spec, end);
    tokio::pin!(handshake);
    let answer = tokio::select! {
        biased;
        answer = &mut probe => answer,
        outcome = &mut handshake => match outcome {
            Err(StartError::Opening(Error::Rpc(error))) if wire::is_modern(&error) => probe.await,
            outcome => return outcome.map(Some),
        }
    };
    match judge(answer)? {
        Met::Modern(peer) => Ok(Some(peer)),
        Met::Handshake => handshake.await.map(Some),
        Met::Dead => Ok(None),
    }
}

enum Met {
    Modern(Peer),
    Handshake,
    Dead,
}

fn judge(answer: Result<Box<RawValue>, Error>) -> Result<Met, StartError> {
    let probe = match answer {
        Ok(result) => wire::discovered(&result),
        Err(Error::Rpc(error)) => wire::not_discovered(&error),
        Err(Error::Gone { .. }) => return Ok(Met::Dead),
        Err(_) => Probe::Handshake,
    };
    match probe {
        Probe::Modern(peer) => Ok(Met::Modern(peer)),
        Probe::Handshake => Ok(Met::Handshake),
        Probe::Unknown(offered) => Err(StartError::Version { offered, spoken: spoken() }),
    }
}

async fn probe(connection: &Connection, end: Instant) -> Result<Box<RawValue>, Error> {
    let id = connection.shared.next_id();
    let mut ask = Ask::new(id, "server/discover", wire::discover_params(), Some(left(end)));
    ask.cancellable = false;
    connection.ask(ask).await.map_err(Error::from)
}

async fn handshake(connection: &Connection, spec: &CommandSpec, end: Instant) -> Result<Peer, StartError> {
    let mut ask = Ask::new(
        connection.shared.next_id(),
        "initialize",
        wire::initialize_params(spec.offers),
        Some(left(end)),
    );
    ask.cancellable = false;
    let result = match connection.ask(ask).await {
        Ok(result) => result,
        Err(unanswered) => return Err(failed(unanswered.into(), connection, spec).await),
    };
    let peer =
        wire::initialized(&result).map_err(|offered| StartError::Version { offered, spoken: spoken() })?;
    let message = envelope::notification("notifications/initialized", None);
    match connection.notify(&message).await {
        Ok(()) => Ok(peer),
        Err(error) => Err(failed(error, connection, spec).await),
    }
}

fn left(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}

/// The error of an opening, as a sentence about the program.
pub(super) async fn failed(error: Error, connection: &Connection, spec: &CommandSpec) -> StartError {
    let program = crate::show::line(&spec.command.join(" "), 200).into();
    match error {
        Error::Gone { status, stderr, .. } => StartError::Exited { program, status, stderr },
        Error::TimedOut { .. } => {
            // Ended first, so that a line it never ended is seen too.
            connection.kill().await;
            StartError::Silent {
                program,
                after: spec.limits.start,
                noise: noise_sentence(&connection.shared.noise()),
                stderr: connection.shared.tail().end(),
            }
        }
        error => StartError::Opening(error),
    }
}

fn noise_sentence(noise: &Noise) -> Box<str> {
    let first = &noise.first;
    let hint = if first.contains("\\u{0}") {
        ": it looks like UTF-16, messages are UTF-8"
    } else if matches!(first.trim(), "{" | "[") {
        ": one message must be one line"
    } else {
        ""
    };
    match noise.lines {
        0 => Box::default(),
        lines => format!("it wrote {lines} line(s) that are no messages, the first `{first}`{hint}").into(),
    }
}
