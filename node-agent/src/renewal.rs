//! Keeps the node's certificate in force: asks for another at half of its life, on a connection of its own, so
//! that the stream goes on as it is; its next connection shows the new one.
//!
//! A node whose certificate has ended (it was away, or its clock was wrong) asks at the door that takes no
//! certificate; its key proves who it is. How often is tried after a failure is decided in [`due`].

mod due;

use std::sync::Arc;
use std::time::Duration;

use domain::reconcile::jittered_ms;
use proto::v1::enroll_client::EnrollClient;
use proto::v1::identity_client::IdentityClient;
use proto::v1::{RenewRequest, RenewResponse};
use tokio_util::sync::CancellationToken;
use tonic::{Code, Status};

use crate::expulsion::{Expeller, Expulsion, rejoin};
use crate::identity::Identity;
use crate::link::connect;
use due::due;

/// The longest sleep: the wall's clock may jump, and a machine may sleep.
const SLEEP_MAX: Duration = Duration::from_mins(1);

/// The first and the longest delay after a failure. Half of a certificate's life is left for tries.
const RETRY_MS: (u64, u64) = (1_000, 300_000);

/// For one try.
const ANSWER: Duration = Duration::from_secs(20);

/// The metadata key of a refusal's code.
const CODE: &str = "pintle-code";

/// Renews one node's certificate.
pub(crate) struct Renewal {
    pub(crate) identity: Arc<Identity>,
    pub(crate) expeller: Arc<Expeller>,
}

/// Why there is no new certificate.
enum Fault {
    /// The node was expelled.
    Expelled(Expulsion),
    /// The certificate ended too long ago.
    Over(String),
    /// TLS took the certificate for one that has ended.
    Ended(String),
    /// It may work later.
    Passing(String),
}

impl Renewal {
    /// Runs until it is told to stop, or the node was expelled.
    pub(crate) async fn run(self, stop: CancellationToken) {
        let (mut failures, mut spread, mut wanted) = (0_u32, rand::random(), false);
        loop {
            let left = due(self.identity.valid(), spread).millis_since(crate::now());
            if left > 0 && !wanted {
                let left = Duration::from_millis(u64::try_from(left).unwrap_or_default());
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = self.identity.doubted.notified() => wanted = true,
                    () = tokio::time::sleep(left.min(SLEEP_MAX)) => {}
                }
                continue;
            }
            let renewed = tokio::select! {
                () = stop.cancelled() => return,
                renewed = self.renew() => renewed,
            };
            match renewed {
                Ok(()) => {
                    tracing::info!(until = %self.identity.valid().1, "the node's certificate was renewed");
                    (failures, spread, wanted) = (0, rand::random(), false);
                    continue;
                }
                Err(Fault::Expelled(expulsion)) => return self.expeller.expel(expulsion).await,
                Err(Fault::Over(reason)) => {
                    let rejoin = rejoin(&self.expeller.data);
                    tracing::error!(reason, rejoin, "the node's certificate ended too long ago: join again");
                    self.expeller.lapsed(&reason);
                }
                Err(Fault::Ended(reason) | Fault::Passing(reason)) => {
                    tracing::warn!(reason, until = %self.identity.valid().1, "the node's certificate was not renewed");
                }
            }
            failures = failures.saturating_add(1);
            let delay = jittered_ms(RETRY_MS.0, RETRY_MS.1, failures, rand::random());
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(Duration::from_millis(delay)) => {}
            }
        }
    }

    async fn renew(&self) -> Result<(), Fault> {
        let identity = Arc::clone(&self.identity);
        let request = tokio::task::spawn_blocking(move || identity.signing_request()).await;
        let signing_request = flat(request)?;
        let request = RenewRequest { signing_request };
        let lapsed = self.identity.valid().1 <= crate::now();
        let answer = if lapsed {
            self.ask(request, true).await?
        } else {
            match self.ask(request.clone(), false).await {
                Err(Fault::Ended(_)) => self.ask(request, true).await?,
                other => other?,
            }
        };
        let identity = Arc::clone(&self.identity);
        let kept = move || identity.renew(&answer.certificates, &answer.authorities);
        flat(tokio::task::spawn_blocking(kept).await)
    }

    async fn ask(&self, request: RenewRequest, lapsed: bool) -> Result<RenewResponse, Fault> {
        let asked = tokio::time::timeout(ANSWER, self.ask_at(request, lapsed)).await;
        asked.unwrap_or_else(|_| Err(Fault::Passing(format!("no answer within {} s", ANSWER.as_secs()))))
    }

    async fn ask_at(&self, request: RenewRequest, lapsed: bool) -> Result<RenewResponse, Fault> {
        let tls = if lapsed {
            self.identity.lapsed_tls().map_err(|error| Fault::Passing(crate::sentence(&error)))?
        } else {
            self.identity.stream_tls()
        };
        let channel = connect::open(&self.identity.address, tls).await;
        let channel = channel.map_err(|error| of_connection(crate::sentence(&error)))?;
        let answer = if lapsed {
            EnrollClient::new(channel).renew_lapsed(request).await
        } else {
            IdentityClient::new(channel).renew(request).await
        };
        answer.map(tonic::Response::into_inner).map_err(|status| of_status(&status))
    }
}

/// TLS 1.3 tells a client that its certificate was refused only when it reads for the first time, so that comes
/// in many wrappings; rustls names the alert in all of them.
pub(crate) fn is_ended(reason: &str) -> bool {
    reason.contains("CertificateExpired") || reason.contains("certificate expired")
}

fn of_connection(reason: String) -> Fault {
    if is_ended(&reason) { Fault::Ended(reason) } else { Fault::Passing(reason) }
}

fn of_status(status: &Status) -> Fault {
    let reason = status.message().to_owned();
    let code = status.metadata().get(CODE).and_then(|code| code.to_str().ok()).unwrap_or_default();
    let expelled = |code| Expulsion::of(code, &reason);
    let expelled = match code {
        "node_evicted" => expelled("evicted"),
        "node_banned" => expelled("banned"),
        "renewal_over" => return Fault::Over(reason),
        _ => None,
    };
    match expelled {
        Some(expulsion) => Fault::Expelled(expulsion),
        None if matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Internal) => {
            of_connection(crate::sentence(status))
        }
        None => Fault::Passing(reason),
    }
}

fn flat<T>(done: Result<Result<T, crate::identity::Error>, tokio::task::JoinError>) -> Result<T, Fault> {
    match done {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Fault::Passing(crate::sentence(&error))),
        Err(error) => Err(Fault::Passing(error.to_string())),
    }
}
