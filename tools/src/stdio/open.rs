//! Opening a stdio tool: the modern probe, then the handshake, each told apart from a dead program.

use std::time::Duration;

use tokio::time::Instant;

use super::Connection;
use crate::envelope;
use crate::error::Error;
use crate::spec::CommandSpec;
use crate::start::{StartError, spoken};
use crate::tool::{Events, Noise};
use crate::wire::{self, Ask, Peer, Probe, Unanswered};

/// Starts the program and finds out who is there.
///
/// Some servers of the handshake era end when anything but `initialize` comes first, so a program that
/// ends at the probe is started once more without it.
pub(super) async fn open(spec: &CommandSpec, events: &Events) -> Result<(Connection, Peer), StartError> {
    let end = Instant::now() + spec.limits.start;
    let connection = Connection::spawn(spec, events)?;
    let connection = match probe(&connection, spec, end).await {
        Ok(Probe::Modern(peer)) => return Ok((connection, peer)),
        Ok(Probe::Unknown(offered)) => return Err(StartError::Version { offered, spoken: spoken() }),
        Ok(Probe::Handshake) => connection,
        Err(()) => {
            drop(connection);
            Connection::spawn(spec, events)?
        }
    };
    let peer = handshake(&connection, spec, end).await?;
    Ok((connection, peer))
}

/// `Err` if the program ended.
async fn probe(connection: &Connection, spec: &CommandSpec, end: Instant) -> Result<Probe, ()> {
    let wait = spec.limits.probe.min(left(end));
    let mut ask =
        Ask::new(connection.shared.next_id(), "server/discover", wire::discover_params(), Some(wait));
    ask.cancellable = false;
    match connection.ask(ask).await {
        Ok(result) => Ok(wire::discovered(&result)),
        Err(Unanswered::Failed(Error::Rpc(error))) => Ok(wire::not_discovered(&error)),
        Err(Unanswered::Failed(Error::Gone { .. })) => Err(()),
        Err(_) => Ok(Probe::Handshake),
    }
}

async fn handshake(connection: &Connection, spec: &CommandSpec, end: Instant) -> Result<Peer, StartError> {
    let mut ask =
        Ask::new(connection.shared.next_id(), "initialize", wire::initialize_params(), Some(left(end)));
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
        Error::Gone { status, stderr } => StartError::Exited { program, status, stderr },
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
