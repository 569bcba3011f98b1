//! `pintle plugin approve-tools --undo` and `--clear`: takes approvals back.

use anyhow::Result;
use serde_json::{Value, json};

use super::approve_tools::{Args, plural, stale_line};
use super::in_force::in_force;
use crate::api::{Changes, LastApproval, Listing, OwnListing, Raised};
use crate::client::{Client, escape};
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{bold, diff, good, shown};

/// Shows the newest approval of the plugin, asks, and takes it back.
///
/// # Errors
/// As the API's; `--yes` with another number.
pub(super) async fn undo(args: &Args, context: &Context) -> Result<Exit> {
    let (client, out) = (context.client()?, &context.out);
    let path = format!("/plugins/{}/approval", escape(&args.name));
    let document: Value = client.get(&path).await?;
    let last: LastApproval = serde_json::from_value(document.clone())?;
    let Some(act) = last.approval else {
        if out.is_json() {
            out.json(&document)?;
        } else {
            let name = shown::line(&args.name);
            out.line(good(format!("No approval of {name} is left that could be taken back.")))?;
        }
        return Ok(Exit::Done);
    };
    let word = act.id.to_string();
    if !args.yes.is_empty() && args.yes != [word.clone()] {
        return Err(Failure::new(
            Exit::Open,
            format!("the newest approval is {word}, not {}", shown::line(&args.yes.join(" "))),
        )
        .remedy("look at it, and take that back: run the command without --yes")
        .into());
    }
    if args.yes.is_empty() {
        let line = format!("{} plugin approve-tools {} --undo --yes {word}", context.program(), args.name);
        if out.is_json() {
            out.json(&json!({"plugin": args.name, "approval": document.get("approval"), "undo_with": line}))?;
            return Ok(Exit::Open);
        }
        let by = format!("approval {word} by {} at {}", act.approved_by, act.approved_at);
        out.line(bold(shown::line(&by)))?;
        for one in &act.functions {
            let scope = one.edge.as_ref().map(|edge| format!(", edge {edge} alone")).unwrap_or_default();
            out.line(shown::line(&format!("{} ({}{scope})", one.id, one.version)))?;
            for line in between(one.now.as_ref(), one.earlier.as_ref(), out.is_coloured()) {
                out.line(line)?;
            }
        }
        let question = format!("Take {} back? [y/N]", plural(act.functions.len()));
        if !asked(context, &question, &line)? {
            return Ok(Exit::Open);
        }
    }
    let body = json!({"approval": act.id, "attended": args.yes.is_empty()});
    let done: Value = client.post(&format!("/plugins/{}/undo", escape(&args.name)), &body).await?;
    tell(&client, context, &done, "undone", "Took back").await
}

/// Shows what the edge goes by for itself, asks, and has it go by what the fleet does.
///
/// # Errors
/// As the API's; `--yes` with what is not so.
pub(super) async fn clear(args: &Args, context: &Context) -> Result<Exit> {
    let (client, out) = (context.client()?, &context.out);
    let edge = args.filter.edge.clone().unwrap_or_default();
    let path = format!("/plugins/{}/changes?edge={}", escape(&args.name), escape(&edge));
    let changes: Changes = client.get(&path).await?;
    let own: Vec<OwnListing> = changes.own.into_iter().filter(|own| is_wanted(args, own)).collect();
    let named = |own: &&OwnListing| args.yes.is_empty() || args.yes.contains(&word(own));
    let picked: Vec<&OwnListing> = own.iter().filter(named).collect();
    if let Some(unknown) = args.yes.iter().find(|word| !own.iter().any(|own| self::word(own) == **word)) {
        return Err(Failure::new(
            Exit::Open,
            format!("edge {} goes by no `{}` of its own", shown::line(&edge), shown::line(unknown)),
        )
        .remedy("look at what it goes by: run the command without --yes")
        .into());
    }
    if picked.is_empty() {
        let (name, edge) = (shown::line(&args.name), shown::line(&edge));
        if out.is_json() {
            out.json(&json!({"plugin": args.name, "edge": edge, "own": []}))?;
        } else {
            out.line(good(format!("Edge {edge} goes by what the fleet does for {name}.")))?;
        }
        return Ok(Exit::Done);
    }
    if args.yes.is_empty() {
        let words: Vec<String> = picked.iter().map(|own| word(own)).collect();
        let line = format!(
            "{} plugin approve-tools {} --edge {edge} --clear --yes {}",
            context.program(),
            args.name,
            words.join(" ")
        );
        if out.is_json() {
            out.json(&json!({"plugin": args.name, "edge": edge, "own": words, "clear_with": line}))?;
            return Ok(Exit::Open);
        }
        for own in &picked {
            let id = format!("{}.{} ({})", own.tool, own.function, own.version);
            let by = format!("decided by {} at {}", own.approved_by, own.approved_at);
            out.line(bold(shown::line(&format!("{id} {by}"))))?;
            for line in between(own.own.as_ref(), own.fleet.as_ref(), out.is_coloured()) {
                out.line(line)?;
            }
        }
        let question = format!(
            "Have edge {} go by what the fleet does for {}? [y/N]",
            shown::line(&edge),
            plural(picked.len())
        );
        if !asked(context, &question, &line)? {
            return Ok(Exit::Open);
        }
    }
    let hash = |listing: &Option<Listing>| listing.as_ref().and_then(|listing| listing.hash.clone());
    let functions: Vec<Value> = picked
        .iter()
        .map(|own| {
            json!({"version": own.version, "tool": own.tool, "function": own.function,
                   "approved": hash(&own.own), "seen": hash(&own.fleet)})
        })
        .collect();
    let body = json!({"edge": edge, "functions": functions, "attended": args.yes.is_empty()});
    let done: Value = client.post(&format!("/plugins/{}/clear", escape(&args.name)), &body).await?;
    tell(&client, context, &done, "cleared", "Cleared").await
}

fn is_wanted(args: &Args, own: &OwnListing) -> bool {
    let id = format!("{}.{}", own.tool, own.function);
    let functions = &args.filter.function;
    (functions.is_empty() || functions.contains(&id) || functions.contains(&own.function))
        && args.filter.version.as_ref().is_none_or(|version| *version == own.version)
}

/// Names it after `--yes`.
fn word(own: &OwnListing) -> String {
    let hash = own.own.as_ref().and_then(|listing| listing.hash.clone());
    hash.unwrap_or_else(|| format!("gone:{}.{}", own.tool, own.function))
}

fn between(old: Option<&Listing>, new: Option<&Listing>, colour: bool) -> Vec<String> {
    let text = |listing: Option<&Listing>| listing.and_then(|listing| listing.listing.clone());
    diff::listings(text(old).as_deref(), text(new).as_deref(), colour)
}

fn asked(context: &Context, question: &str, line: &str) -> Result<bool> {
    let out = &context.out;
    if !out.is_attended() {
        out.tell("Nothing was changed. With a token that may approve unattended:");
        out.tell(format_args!("  {}", shown::line(line)));
        return Ok(false);
    }
    let is_yes =
        out.ask(question)?.is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "y" | "yes"));
    if !is_yes {
        out.note("Nothing was changed.");
    }
    Ok(is_yes)
}

async fn tell(client: &Client, context: &Context, done: &Value, member: &str, verb: &str) -> Result<Exit> {
    let out = &context.out;
    let list = |member: &str| done.get(member).and_then(Value::as_array).cloned().unwrap_or_default();
    let edges: Vec<Raised> = serde_json::from_value(Value::Array(list("edges")))?;
    let force = in_force(client, out, &edges).await?;
    if out.is_json() {
        let mut done = done.clone();
        if let Some(members) = done.as_object_mut() {
            members.insert("in_force".to_owned(), force.as_json());
        }
        out.json(&done)?;
    } else {
        out.line(good(format!("{verb} {}.", plural(list(member).len()))))?;
        for line in force.lines() {
            out.line(line)?;
        }
    }
    let stale = list("stale");
    for one in &stale {
        out.note(format_args!("Left as it is: {}", stale_line(one)));
    }
    Ok(if !stale.is_empty() {
        Exit::Open
    } else if force.is_whole() {
        Exit::Done
    } else {
        Exit::TimedOut
    })
}
