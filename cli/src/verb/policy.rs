//! `pintle policy`: what the whole fleet holds to when listings change.

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::api::FleetPolicy;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::good;

/// Verbs of `pintle policy`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// How all of it stands
    Show,
    /// Sets some of it
    Set(SetArgs),
}

/// Flags of `pintle policy set`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  pintle policy set --review-new-versions changed --four-eyes on\n\nIt counts for what is pushed, assigned or listed from then on."
)]
pub(crate) struct SetArgs {
    /// Which functions of a new version wait for approval on an edge that had another: those that changed, or all
    #[arg(long, value_name = "off|changed|all", value_parser = ["off", "changed", "all"])]
    pub review_new_versions: Option<String>,
    /// Whether a change that means the same (order of `required`, null for absent) is approved by this rule
    #[arg(long, value_name = "on|off", value_parser = on_off)]
    pub approve_notation: Option<bool>,
    /// Whether nobody approves for a version that they pushed or assigned
    #[arg(long, value_name = "on|off", value_parser = on_off)]
    pub four_eyes: Option<bool>,
}

/// Shows or sets.
///
/// # Errors
/// As the API's; nothing was named.
pub(crate) async fn run(command: Command, context: &Context) -> Result<Exit> {
    let client = context.client()?;
    match command {
        Command::Show => {
            let policy: Value = client.get("/policy").await?;
            print(context, &policy, &policy)
        }
        Command::Set(args) => {
            let body = args.body();
            if body.is_empty() {
                return Err(Failure::usage("nothing to set was named")
                    .remedy("pintle policy show shows what there is; pintle policy set --help")
                    .into());
            }
            let answer: Value = client.put("/policy", &body).await?;
            if !context.out.is_json() {
                if answer.get("changed") == Some(&Value::Bool(true)) {
                    context.out.line(good("Set the fleet's policy."))?;
                } else {
                    context.out.line("The fleet's policy was like that already.")?;
                }
            }
            print(context, &answer, answer.get("policy").unwrap_or(&Value::Null))
        }
    }
}

fn print(context: &Context, document: &Value, policy: &Value) -> Result<Exit> {
    let out = &context.out;
    if out.is_json() {
        out.json(document)?;
        return Ok(Exit::Done);
    }
    for (setting, meaning) in lines(&serde_json::from_value(policy.clone())?) {
        out.line(format_args!("  {setting:<20} {meaning}"))?;
    }
    Ok(Exit::Done)
}

fn lines(policy: &FleetPolicy) -> [(&'static str, &'static str); 3] {
    let review = match policy.review_new_versions.as_str() {
        "changed" => "changed: what differs from the version that an edge had waits for approval",
        "all" => "all: every function of a new version waits for approval",
        _ => "off: a new version is called as its first listing says",
    };
    let notation = if policy.approve_notation {
        "on: a change that means the same is approved by this rule"
    } else {
        "off: a change that means the same waits like any other"
    };
    let eyes = if policy.four_eyes {
        "on: nobody approves for a version that they pushed or assigned"
    } else {
        "off: who pushed or assigned a version may approve for it"
    };
    [("review new versions", review), ("approve notation", notation), ("four eyes", eyes)]
}

impl SetArgs {
    fn body(&self) -> Map<String, Value> {
        let mut body = Map::new();
        if let Some(review) = &self.review_new_versions {
            body.insert("review_new_versions".to_owned(), json!(review));
        }
        for (name, value) in [("approve_notation", self.approve_notation), ("four_eyes", self.four_eyes)] {
            if let Some(value) = value {
                body.insert(name.to_owned(), json!(value));
            }
        }
        body
    }
}

fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("write on or off".to_owned()),
    }
}
