//! `simulate`: runs seeds of the simulated fleet and prints the first that fails, with its last events.

use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use simulation::{Batch, Options, Outcome, Plant, Progress, Scene, Summary, run, run_all};

/// Lines of the trace that are shown of a seed that failed; all with `--trace`.
const LAST: usize = 60;

/// Runs servers, nodes and tools in simulated time, with faults drawn from a seed, and checks S1-S5, L1 and L2.
///
/// A seed is the same run on every machine: a seed that fails is printed with its last events and replayed with
/// `--seed N --trace`. Exit code 1: something was violated; 2: the simulation itself could not run.
#[derive(Debug, Parser)]
#[command(name = "simulate", version, about, long_about, after_help = EXAMPLES)]
struct Arguments {
    /// How many seeds to run.
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0, value_name = "N")]
    from: u64,
    /// Run this seed alone.
    #[arg(long, value_name = "N", conflicts_with_all = ["seeds", "from", "minutes", "jobs"])]
    seed: Option<u64>,
    /// Print everything that happens; with --seed.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Print every message of the wire and every ledger file, in hexadecimal; with --seed.
    #[arg(long, requires = "seed", conflicts_with_all = ["trace", "json"])]
    frames: bool,
    /// Seeds at once; all cores by default.
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Stop after so long, however many seeds are left.
    #[arg(long, value_name = "M")]
    minutes: Option<u64>,
    /// Plant a bug, which must be found: early-ack, older-generation, old-after-restart, skipped-head, no-relist.
    #[arg(long, value_name = "BUG")]
    plant: Option<Plant>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// Shown at the end of the help.
const EXAMPLES: &str = "Examples:\n  simulate --seeds 10000\n  simulate --minutes 60 --from 1000000\n  \
                        simulate --seed 4711 --trace\n  simulate --plant early-ack";

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match simulate(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("failed to simulate: {error:#}"));
            ExitCode::from(2)
        }
    }
}

fn simulate(arguments: &Arguments) -> anyhow::Result<bool> {
    // In memory where there is such a folder: the databases of simulated fleets need no disk.
    let memory = std::path::Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let folder = tempfile::Builder::new().prefix("pintle-simulate-").tempdir_in(place)?;
    let scene = Arc::new(Scene::new(folder.path())?);
    let begin = std::time::Instant::now();
    let summary = match arguments.seed {
        Some(seed) => one(&scene, seed, arguments)?,
        None => many(&scene, arguments)?,
    };
    if arguments.json {
        print(&as_json(&summary, begin.elapsed()));
    } else {
        let (held, hours) = (summary.held, summary.simulated_ms / 3_600_000);
        let (calls, seconds) = (summary.calls, begin.elapsed().as_secs());
        say(&format!("{held} seeds held: {calls} calls judged in {hours} simulated hours, {seconds} s"));
    }
    let Some(failed) = &summary.failed else { return Ok(true) };
    tell(&scene, failed, arguments)?;
    Ok(false)
}

fn one(scene: &Scene, seed: u64, arguments: &Arguments) -> anyhow::Result<Summary> {
    let options = Options { seed, plant: arguments.plant, trace: arguments.trace, frames: arguments.frames };
    let outcome = run(scene, options)?;
    outcome.frames.iter().for_each(|line| print(line));
    if arguments.trace {
        outcome.trace.iter().for_each(|line| print(line));
    }
    Ok(Summary {
        held: u64::from(outcome.failure.is_none()),
        calls: outcome.calls,
        events: outcome.events,
        simulated_ms: outcome.simulated_ms,
        failed: outcome.failure.is_some().then_some(outcome),
    })
}

fn many(scene: &Arc<Scene>, arguments: &Arguments) -> anyhow::Result<Summary> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let batch = Batch {
        from: arguments.from,
        seeds: arguments.seeds,
        jobs: arguments.jobs.unwrap_or(cores),
        within: arguments.minutes.map(|minutes| Duration::from_secs(60 * minutes)),
        plant: arguments.plant,
    };
    // Many lines only where they replace each other.
    let every = if std::io::stderr().is_terminal() { 20 } else { 1_000 };
    let end = if std::io::stderr().is_terminal() { "\r" } else { "\n" };
    run_all(scene, batch, |Progress { done, elapsed }| {
        if done.is_multiple_of(every) {
            let mut stderr = std::io::stderr().lock();
            let _ = write!(stderr, "{done} of {} seeds, {} s{end}", batch.seeds, elapsed.as_secs());
        }
    })
}

/// Prints a seed that failed, and what happened last in it.
fn tell(scene: &Scene, failed: &Outcome, arguments: &Arguments) -> anyhow::Result<()> {
    let Some((at, what)) = &failed.failure else { return Ok(()) };
    let again =
        run(scene, Options { seed: failed.seed, plant: arguments.plant, trace: true, frames: false })?;
    if !arguments.trace {
        let skipped = again.trace.len().saturating_sub(LAST);
        again.trace.iter().skip(skipped).for_each(|line| say(line));
    }
    say(&format!("seed {} failed at {at} ms: {what}", failed.seed));
    if again.failure != failed.failure {
        say("it did not fail in the same way again: the simulation is at fault");
    }
    let plant = arguments.plant.map(|plant| format!(" --plant {plant}")).unwrap_or_default();
    say(&format!("replay it with: simulate --seed {}{plant} --trace", failed.seed));
    Ok(())
}

fn as_json(summary: &Summary, elapsed: Duration) -> String {
    let failed = summary.failed.as_ref().map(|failed| {
        let (at_ms, what) = failed.failure.clone().unwrap_or_default();
        serde_json::json!({ "seed": failed.seed, "at_ms": at_ms, "what": what })
    });
    serde_json::json!({
        "held": summary.held,
        "failed": failed,
        "calls": summary.calls,
        "events": summary.events,
        "simulated_ms": summary.simulated_ms,
        "elapsed_ms": u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
    })
    .to_string()
}

fn print(line: &str) {
    // A reader that has gone away wants no more.
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
