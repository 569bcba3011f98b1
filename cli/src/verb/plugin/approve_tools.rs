//! `pintle plugin approve-tools`: looks at what changed and makes it what the fleet goes by.
//!
//! Exactly what was shown is approved, or nothing. Without a terminal nothing is approved unless each
//! item is named with `--yes`, which needs a token that may approve unattended.

use anyhow::Result;
use serde_json::{Value, json};

use super::in_force::in_force;
use super::open::{self, Filter, Item};
use super::take_back;
use crate::api::Approved;
use crate::client::{Client, escape};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::good;
use crate::output::shown::{self, quoted};

/// Times that what changed meanwhile is shown again: a tool that changes faster is not read anyway.
const MOST_ROUNDS: usize = 5;

/// Hashes on the printed command line; more are named by one word for exactly that set.
const MOST_WORDS: usize = 20;

/// Flags of `pintle plugin approve-tools`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pintle plugin approve-tools team\n  pintle plugin approve-tools team --function team.hello\n  pintle plugin approve-tools team --edge eu-1             (that edge alone goes by it)\n  pintle plugin approve-tools team --edge eu-1 --clear     (it goes by what the fleet does again)\n  pintle plugin approve-tools team --undo                  (takes the newest approval back)\n  pintle plugin approve-tools team --yes v1:sha256:5f0c…   (unattended; exactly what was shown)\n\nWithout a terminal and --yes it prints what waits, changes nothing and exits with 3."
)]
pub(crate) struct Args {
    /// The plugin
    pub name: String,
    /// What to look at
    #[command(flatten)]
    pub filter: Filter,
    /// Has the edge go by what the fleet does again
    #[arg(long, requires = "edge", conflicts_with = "hash")]
    pub clear: bool,
    /// Takes the newest approval of the plugin back
    #[arg(long, conflicts_with_all = ["clear", "edge", "function", "version", "hash"])]
    pub undo: bool,
    /// Shows each of many changes whole
    #[arg(long)]
    pub full: bool,
    /// Approves this without asking, as printed under each change; may be repeated
    #[arg(long, value_name = "HASH", num_args = 1..)]
    pub yes: Vec<String>,
}

/// Shows, asks, approves, and says where it is in force.
///
/// # Errors
/// As the API's; a hash that is not what waits.
pub(crate) async fn run(args: &Args, context: &Context) -> Result<Exit> {
    if args.undo {
        return take_back::undo(args, context).await;
    }
    if args.clear {
        return take_back::clear(args, context).await;
    }
    let (client, out) = (context.client()?, &context.out);
    for _ in 0..MOST_ROUNDS {
        let items = open::load(&client, &args.name, &args.filter, out.is_coloured()).await?;
        if items.is_empty() && args.yes.is_empty() {
            return nothing_waits(args, context);
        }
        let Some(picked) = choose(args, context, &items)? else { return Ok(Exit::Open) };
        let approved = approve(&client, args, &picked).await?;
        let exit = report(&client, context, &approved).await?;
        let stale = typed(&approved)?.stale;
        if stale.is_empty() {
            return Ok(exit);
        }
        for one in &stale {
            out.note(format_args!(
                "Not approved, since it is no longer as it was shown: {}",
                stale_line(one)
            ));
        }
        if !out.is_attended() || !args.yes.is_empty() {
            return Ok(Exit::Open);
        }
        out.note("Here is what waits now.\n");
    }
    Err(Failure::new(Exit::Open, "it changes faster than it can be looked at").into())
}

fn nothing_waits(args: &Args, context: &Context) -> Result<Exit> {
    if context.out.is_json() {
        context.out.json(&json!({"plugin": args.name, "open": []}))?;
    } else {
        context.out.line(good(format!("Nothing of {} waits for approval.", shown::line(&args.name))))?;
    }
    Ok(Exit::Done)
}

/// What is to be approved; `None` if nothing is.
fn choose(args: &Args, context: &Context, items: &[Item]) -> Result<Option<Vec<Item>>> {
    let out = &context.out;
    if !args.yes.is_empty() {
        return Ok(Some(open::pick(items, &args.yes)?));
    }
    let line = exact_line(context.program(), args, items);
    if out.is_json() {
        let open: Vec<Value> = items.iter().map(Item::as_json).collect();
        out.json(&json!({"plugin": args.name, "open": open, "approve_with": line}))?;
        return Ok(None);
    }
    open::show(out, items, args.full)?;
    if !out.is_attended() {
        out.tell("Nothing was changed. To approve all of it, with a token that may approve unattended:");
        out.tell(format_args!("  {}", shown::line(&line)));
        return Ok(None);
    }
    let picked = one_of_each(context, items)?;
    if picked.is_empty() {
        return Ok(None);
    }
    let count = picked.len();
    let who = args
        .filter
        .edge
        .as_ref()
        .map_or_else(|| "the fleet".to_owned(), |edge| format!("edge {} alone", shown::line(edge)));
    let answer = out.ask(&format!("Make {} what {who} goes by? [y/N]", plural(count)))?;
    let is_yes = answer.is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "y" | "yes"));
    if !is_yes {
        out.note("Nothing was changed.");
    }
    Ok(is_yes.then_some(picked))
}

/// Where nodes see a function differently, a person chooses one variant, or none of them.
fn one_of_each(context: &Context, items: &[Item]) -> Result<Vec<Item>> {
    let mut picked: Vec<Item> = Vec::new();
    let mut keys: Vec<&String> = items.iter().map(|item| &item.key).collect();
    keys.dedup();
    for key in keys {
        let variants: Vec<&Item> = items.iter().filter(|item| item.key == *key).collect();
        if picked.iter().any(|item| item.key == *key) {
            continue;
        }
        if let [only] = variants.as_slice() {
            picked.push((*only).clone());
            continue;
        }
        for (number, variant) in variants.iter().enumerate() {
            context.out.note(format_args!("  {}: {}", number + 1, shown::line(&variant.word)));
        }
        let question = format!(
            "Nodes see {} differently. Which is it? [1-{}, Enter: none]",
            shown::line(key),
            variants.len()
        );
        let answer = context.out.ask(&question)?;
        let number = answer.and_then(|answer| answer.parse::<usize>().ok()).and_then(|n| n.checked_sub(1));
        picked.extend(number.and_then(|number| variants.get(number)).map(|item| (*item).clone()));
    }
    Ok(picked)
}

async fn approve(client: &Client, args: &Args, items: &[Item]) -> Result<Value, Failure> {
    let mut body = open::decision(items);
    if let Some(members) = body.as_object_mut() {
        members.insert("edge".to_owned(), json!(args.filter.edge));
        members.insert("attended".to_owned(), json!(args.yes.is_empty()));
    }
    client.post(&format!("/plugins/{}/approve", escape(&args.name)), &body).await
}

/// Prints what was approved and how far it has come.
pub(super) async fn report(client: &Client, context: &Context, document: &Value) -> Result<Exit> {
    let (out, approved) = (&context.out, typed(document)?);
    let force = in_force(client, out, &approved.edges).await?;
    if out.is_json() {
        let mut document = document.clone();
        if let Some(members) = document.as_object_mut() {
            members.insert("in_force".to_owned(), force.as_json());
        }
        out.json(&document)?;
    } else if !approved.approved.is_empty() || !approved.edges.is_empty() {
        out.line(good(format!("Approved {}.", plural(approved.approved.len()))))?;
        for line in approved.own.iter().map(own_line).chain(force.lines()) {
            out.line(line)?;
        }
    }
    Ok(if force.is_whole() { Exit::Done } else { Exit::TimedOut })
}

pub(super) fn typed(document: &Value) -> Result<Approved> {
    Ok(serde_json::from_value(document.clone())?)
}

fn own_line(own: &Value) -> String {
    let text = |member: &str| own.get(member).and_then(Value::as_str).unwrap_or_default();
    let goes_by = own.get("hash").and_then(Value::as_str).unwrap_or("no listing");
    shown::line(&format!(
        "Edge {} goes by its own for {}.{} ({}): {goes_by}",
        text("edge"),
        text("tool"),
        text("function"),
        text("version")
    ))
}

pub(super) fn stale_line(stale: &Value) -> String {
    let text = |member: &str| stale.get(member).and_then(Value::as_str).unwrap_or_default();
    let function = text("function");
    let id =
        if function.is_empty() { text("tool").to_owned() } else { format!("{}.{function}", text("tool")) };
    shown::line(&format!("{id} ({}): {}", text("version"), text("reason")))
}

pub(super) fn plural(count: usize) -> String {
    if count == 1 { "1 change".to_owned() } else { format!("{count} changes") }
}

/// The command that approves exactly `items`; of variants, one has to be chosen first.
fn exact_line(program: &str, args: &Args, items: &[Item]) -> String {
    let mut line = format!("{program} plugin approve-tools {}", quoted(&args.name));
    let filter = &args.filter;
    for function in &filter.function {
        line = format!("{line} --function {}", quoted(function));
    }
    for (flag, value) in [("--version", &filter.version), ("--edge", &filter.edge)] {
        if let Some(value) = value {
            line = format!("{line} {flag} {}", quoted(value));
        }
    }
    let mut words: Vec<String> = items
        .iter()
        .filter(|item| items.iter().filter(|other| other.key == item.key).count() == 1)
        .map(|item| quoted(&item.word))
        .collect();
    if open::ambiguous(items).is_some() {
        words.push("HASH-OF-ONE-VARIANT-EACH".to_owned());
    } else if items.len() > MOST_WORDS {
        words = vec![open::set_word(items)];
    }
    format!("{line} --yes {}", words.join(" "))
}
