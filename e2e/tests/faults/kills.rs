//! `kill -9` of everything, at random points, under load: server, nodes, tools and their shims, `PostgreSQL`.
//!
//! `PINTLE_KILLS` says how many (ten unless given), `PINTLE_SEED` repeats the order and the pauses of a run.

#![expect(clippy::print_stderr, reason = "the seed and what was killed are for who repeats a run")]

mod acknowledged;
mod load;
mod target;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use e2e::fleet::{Fleet, Plan};
use e2e::mutable::Mutable;
use e2e::postgres::Postgres;
use e2e::process::Process;
use e2e::random::Random;
use serde_json::json;

use crate::stage::install_greeter;
use load::Load;

const NODES: usize = 2;

/// The longest pause between two kills, and between a kill and the start of what was killed.
const PAUSES: (Duration, Duration) = (Duration::from_millis(900), Duration::from_millis(400));

/// In how many cases of a hundred the next is killed while the last one is still down.
const TOGETHER: usize = 25;

/// After so many kills a change is to be approved from end to end before the next, if all that was killed is up:
/// else it would be one long outage.
const EACH: usize = 3;

/// Everything that may be killed.
struct Stage {
    fleet: Fleet,
    postgres: Postgres,
    /// A tool over stdio that changes what it says.
    team: Mutable,
    /// A tool over stdio whose plugin has ever newer versions.
    fill: Mutable,
    /// A tool over HTTP.
    weather: Mutable,
    remote: Option<Process>,
    remote_port: u16,
}

impl Stage {
    async fn set() -> Self {
        let postgres = Postgres::start().await.unwrap();
        let database = Some(postgres.url(&postgres.address()));
        let fleet = Fleet::start_as(Plan { database, nodes: NODES, ..Plan::default() }).await.unwrap();
        let weather = Mutable::new(fleet.folder(), "weather");
        weather.list(&[load::TODAY]).unwrap();
        let (remote, url) = weather.serve(None).await.unwrap();
        let remote_port = url.rsplit(':').next().unwrap().trim_end_matches("/mcp").parse().unwrap();
        fleet.install("weather", "1.0.0", &json!({"wx": {"url": url}})).await.unwrap();
        let fill = Mutable::new(fleet.folder(), "fill");
        fill.list(&[load::RUN]).unwrap();
        let team = install_greeter(&fleet).await;
        fleet.callable("wx.today", json!({})).await;
        Self { fleet, postgres, team, fill, weather, remote: Some(remote), remote_port }
    }

    /// Kills so many, and starts what was killed. Of each few, the load gets something done again.
    async fn kill(&mut self, kills: usize, random: &mut Random, load: &Load) {
        let begin = Instant::now();
        let mut down = Vec::new();
        for (number, target) in target::sequence(kills, random).into_iter().enumerate() {
            let target = self.strike(target, random).await;
            eprintln!("{:6} ms: kill {}: {target:?}", begin.elapsed().as_millis(), number + 1);
            down.push(target);
            if number + 1 < kills && random.below(100) < TOGETHER {
                continue;
            }
            tokio::time::sleep(random.up_to(PAUSES.1)).await;
            // The database first: a server does not start without it.
            down.sort_unstable();
            for target in down.drain(..) {
                self.raise(target).await;
            }
            if (number + 1) % EACH == 0 {
                load.gets_on().await;
            }
            tokio::time::sleep(random.up_to(PAUSES.0)).await;
        }
    }
}

fn from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, and not {text}")))
}

#[tokio::test]
async fn whatever_is_killed_nothing_acknowledged_is_lost_and_nothing_unapproved_is_called() {
    let kills = usize::try_from(from_env("PINTLE_KILLS").unwrap_or(10)).unwrap();
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let seed = from_env("PINTLE_SEED").unwrap_or_else(|| u64::try_from(now()).unwrap() % 1_000_000);
    eprintln!("PINTLE_KILLS={kills} PINTLE_SEED={seed}");
    let mut random = Random::new(seed);
    let mut stage = Stage::set().await;
    let load = Load::start(&stage).unwrap();
    stage.kill(kills, &mut random, &load).await;
    let told = load.end().await;
    eprintln!("acknowledged: {told}");
    acknowledged::verify(&mut stage, told).await;
}
