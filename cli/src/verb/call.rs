//! `pintle call`: one call through a node's MCP endpoint, guarded like any agent's.

use anyhow::Result;
use serde_json::Value;

use crate::context::Context;
use crate::embed::{self, Endpoint};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::progress::Progress;
use crate::output::shown;

/// Flags of `pintle call`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pintle call team.hello '{\"name\":\"Ada\"}'\n  pintle call team.hello --json | jq .content\n\nA refusal exits with 4 and says on stderr what to do; an error of the tool itself exits with 1."
)]
pub(crate) struct Args {
    /// The Function ID
    pub function: String,
    /// The arguments, a JSON object
    #[arg(value_name = "JSON")]
    pub arguments: Option<String>,
    /// Which node
    #[command(flatten)]
    pub node: embed::NodeFlags,
}

/// Calls and prints the content: as sent with `--json`, else made visible.
///
/// # Errors
/// The arguments are no JSON object, no node answers, or the node or tool answers with an error.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    let arguments = args.arguments.as_deref().unwrap_or("{}");
    let is_object = serde_json::from_str::<Value>(arguments).map(|value| value.is_object());
    if !matches!(is_object, Ok(true)) {
        let why = is_object.err().map_or_else(|| "it is no object".to_owned(), |error| error.to_string());
        return Err(Failure::usage(format!("the arguments are no JSON object: {why}"))
            .remedy(format!("pintle call {} '{{\"name\":\"Ada\"}}'", shown::line(&args.function)))
            .into());
    }
    let endpoint = Endpoint::find(&args.node, &context.place)?;
    let out = &context.out;
    let spinner = Progress::wait(out, &format!("Calling {}", shown::line(&args.function)));
    let called =
        endpoint.call(&args.function, arguments, &mut |message| spinner.say(&shown::line(message))).await?;
    spinner.end();
    if out.is_json() {
        out.line(&called.raw)?;
    } else if called.refusal.is_none() {
        for text in &called.texts {
            out.line(shown::block(text))?;
        }
    }
    if let Some(code) = called.refusal {
        let mut failure = Failure::new(Exit::Refused, called.texts.join(" "));
        failure.code = Some(code);
        return Err(failure.into());
    }
    Ok(if called.is_error { Exit::Failed } else { Exit::Done })
}
