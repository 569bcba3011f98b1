//! The demo: a control plane, three nodes and a real tool server that changes what it says.
//!
//! [`stage`] builds the fleet, [`props`] the plugin and its tools, [`story`] plays the chapters with
//! [`narrator`]; [`wait`] bounds every wait. Each step is observed from outside, through the API and the
//! nodes' MCP endpoints, as anyone could.

use anyhow::Result;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

mod narrator;
mod props;
mod remote;
mod stage;
mod story;
mod wait;

use narrator::Narrator;
use stage::Stage;

/// Plays the story; with `stay`, leaves everything running until Ctrl-C.
///
/// # Errors
/// The first step that was not observed, with the folder where the log is.
pub(crate) async fn play(stay: bool, out: &Output) -> Result<Exit> {
    let folder = stage::folder()?;
    crate::embed::log_to_file(&folder.join("demo.log"))?;
    let mut narrator = Narrator::new(out);
    let outcome = play_in(&folder, stay, &mut narrator).await;
    if let Err(error) = outcome {
        let mut failure = Failure::from_error(&error);
        failure.sentence = format!("the demo stopped at step {}: {}", narrator.step(), failure.sentence);
        failure.remedy = Some(format!("look at {}, which is kept", folder.join("demo.log").display()));
        return Err(failure.into());
    }
    // What cannot be removed is left to the system's own cleaning of its temporary folder.
    std::fs::remove_dir_all(&folder).ok();
    Ok(Exit::Done)
}

async fn play_in(folder: &std::path::Path, stay: bool, narrator: &mut Narrator<'_>) -> Result<()> {
    let mut stage = Stage::raise(folder, narrator).await?;
    let played = story::play(&mut stage, narrator).await;
    if played.is_ok() {
        narrator.end()?;
        if stay {
            story::invite(&stage, narrator)?;
            crate::embed::until_told_to_stop().await?;
        }
    }
    stage.stop().await;
    played
}
