//! The chapters after the fleet stands, in order; each fails unless what it tells was observed.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use domain::id::PluginVersion;
use futures::future::try_join_all;
use serde_json::{Value, json};

use super::narrator::Narrator;
use super::props::HIDDEN;
use super::remote::Remote;
use super::stage::{EDGE, Member, Stage};
use super::wait::{Look, until};
use crate::api::{Approved, Event, Plugin, Verified};
use crate::called::Called;
use crate::config;
use crate::output::shown;
use crate::verb::assign;
use crate::verb::plugin::notices::notices;
use crate::verb::plugin::open::{self, Filter, Item};
use crate::verb::plugin::push::push;

/// For a version to be downloaded, unpacked, started and listed on three nodes.
const SERVE: Duration = Duration::from_mins(1);

/// For a change to be noticed: the tool's own poll, its notification, a re-list.
const NOTICE: Duration = Duration::from_secs(20);

/// From an approval to the last node that calls again: the product's promise.
const PROMISE: Duration = Duration::from_secs(2);

/// Who is greeted.
const ADA: &str = r#"{"name":"Ada"}"#;

/// Plays every chapter.
///
/// # Errors
/// The first thing that was not observed.
pub(crate) async fn play(stage: &mut Stage, narrator: &mut Narrator<'_>) -> Result<()> {
    first_version(stage, narrator).await?;
    change(stage, narrator).await?;
    approve_change(stage, narrator).await?;
    audit(stage, narrator).await?;
    move_away(stage, narrator).await?;
    approve_move(stage, narrator).await
}

async fn first_version(stage: &mut Stage, narrator: &mut Narrator<'_>) -> Result<()> {
    narrator.chapter(
        "An author pushes the plugin greeter 1.0.0: a tool that is a process, one that is remote.",
    )?;
    let took = release(stage, narrator, "1.0.0").await?;
    narrator.observed("greeter 1.0.0 was packed and pushed", Some(took))?;

    narrator.chapter("An operator assigns it to the edge; what its tools say first becomes the snapshot.")?;
    let took = assign_and_wait(stage, "1.0.0").await?;
    narrator.observed("all three nodes serve it", Some(took))?;
    let functions = ["team.goodbye", "team.hello", "wx.today"];
    let ((), took) =
        until("the snapshot of three functions", SERVE, async || snapshot(stage, &functions).await).await?;
    narrator.observed(&format!("the snapshot holds {}", functions.join(", ")), Some(took))?;

    narrator.chapter("An agent calls through a node's MCP endpoint.")?;
    let first = first_member(stage)?;
    for (function, arguments) in [("team.hello", ADA), ("team.goodbye", ADA), ("wx.today", "{}")] {
        let (answer, took) =
            until(function, NOTICE, async || works(first, function, arguments).await).await?;
        narrator.observed(&format!("{function} answers \"{}\"", shown::line(&answer)), Some(took))?;
    }
    Ok(())
}

async fn change(stage: &Stage, narrator: &mut Narrator<'_>) -> Result<()> {
    narrator
        .chapter("Later the tool says something else about hello, and hides text that only models read.")?;
    stage.props.change_hello()?;
    let began = Instant::now();
    let waits = stage.members.iter().map(|member| async move {
        let what = format!("{} to refuse team.hello", member.name);
        until(&what, NOTICE, async || refuses(member, "team.hello", ADA, "drifted").await).await
    });
    let sentences: Vec<(String, Duration)> = try_join_all(waits).await?;
    narrator
        .observed("all three nodes refuse team.hello, and say to whoever calls it:", Some(began.elapsed()))?;
    narrator.quote(sentences.first().map(|(sentence, _)| shown::block(sentence)))?;
    everywhere_works(stage, "team.goodbye", ADA).await?;
    narrator.observed("team.goodbye, of the same process, goes on working on all three", None)?;
    Ok(())
}

async fn approve_change(stage: &Stage, narrator: &mut Narrator<'_>) -> Result<()> {
    narrator.chapter("An admin looks at the difference; what was hidden is written out.")?;
    let out = narrator.out();
    let filter = Filter::default();
    let (items, _) = until("the change with its text", NOTICE, async || {
        let items = open::load(&stage.client, "greeter", &filter, out.is_coloured()).await?;
        let has_text = items.iter().any(|item| item.lines().join("\n").contains("\\u{E0041}"));
        Ok(if has_text {
            Look::Seen(items)
        } else {
            Look::NotYet(format!("{} changes, without the text", items.len()))
        })
    })
    .await?;
    for item in &items {
        narrator.quote(item.lines())?;
    }
    ensure!(items.len() == 1, "see exactly one change: there are {}", items.len());
    let shown_hidden = items.iter().any(|item| item.lines().join("\n").contains(HIDDEN));
    ensure!(shown_hidden, "see the hidden text spelled out");
    narrator
        .observed("one change waits, of team.hello alone; its TAG characters are shown as \\u{…}", None)?;

    narrator.chapter("The admin approves exactly what was shown.")?;
    let began = Instant::now();
    approve(stage, &items).await?;
    everywhere_works(stage, "team.hello", ADA).await?;
    promise(narrator, "all three nodes call team.hello again", began.elapsed())
}

async fn audit(stage: &Stage, narrator: &mut Narrator<'_>) -> Result<()> {
    narrator.chapter("The audit log tells the story, and can prove that nobody rewrote it.")?;
    let events: Vec<Event> = stage.client.list("/audit?after=0&limit=1000").await?;
    let told = [
        "plugin.version.push",
        "edge.assignment.set",
        "plugin.tools.snapshot",
        "plugin.tools.changed",
        "plugin.tools.approve",
    ];
    for name in told {
        ensure!(events.iter().any(|event| event.name == name), "find `{name}` in the audit log");
    }
    let lines = events.iter().filter(|event| told.contains(&event.name.as_str()));
    narrator.quote(lines.map(|event| {
        shown::line(&format!(
            "{:>3}  {}  {}  {}  {}",
            event.seq, event.at, event.actor, event.name, event.subject
        ))
    }))?;
    let verified: Verified = stage.client.get("/audit/verify").await?;
    ensure!(verified.ok, "verify the audit log: event {:?} does not follow", verified.first_bad);
    narrator.observed(&format!("{} events, each follows from the one before", verified.events), None)?;
    Ok(())
}

async fn move_away(stage: &mut Stage, narrator: &mut Narrator<'_>) -> Result<()> {
    narrator.chapter("Version 1.1.0 names another place for its remote tool.")?;
    let took = release(stage, narrator, "1.1.0").await?;
    narrator.observed("greeter 1.1.0 was pushed", Some(took))?;
    let took = assign_and_wait(stage, "1.1.0").await?;
    narrator.observed("all three nodes serve 1.1.0", Some(took))?;
    let began = Instant::now();
    let waits = stage.members.iter().map(|member| async move {
        let what = format!("{} to refuse wx.today", member.name);
        until(&what, NOTICE, async || refuses(member, "wx.today", "{}", "origin_moved").await).await
    });
    let sentences: Vec<(String, Duration)> = try_join_all(waits).await?;
    narrator.observed("all three nodes refuse wx.today:", Some(began.elapsed()))?;
    narrator.quote(sentences.first().map(|(sentence, _)| shown::block(sentence)))?;
    everywhere_works(stage, "team.hello", ADA).await?;
    everywhere_works(stage, "team.goodbye", ADA).await?;
    narrator.observed("the functions of the tool that did not move work on all three", None)?;
    let plugin: Plugin = stage.client.get("/plugins/greeter").await?;
    let lines = notices(&plugin);
    ensure!(
        lines.iter().any(|line| line.starts_with("endpoint moved: wx: ")),
        "see the move in `pintle plugin list`"
    );
    narrator.quote(lines)?;
    Ok(())
}

async fn approve_move(stage: &Stage, narrator: &mut Narrator<'_>) -> Result<()> {
    narrator.chapter("The admin approves the new place, with what the tool lists there.")?;
    let (items, _) = until("the move with its functions", NOTICE, async || {
        let items =
            open::load(&stage.client, "greeter", &Filter::default(), narrator.out().is_coloured()).await?;
        let is_listed = items.iter().any(|item| item.origin.is_some() && !item.functions.is_empty());
        Ok(if is_listed {
            Look::Seen(items)
        } else {
            Look::NotYet(format!("{} items, not listed at the new place", items.len()))
        })
    })
    .await?;
    for item in &items {
        narrator.quote(item.lines())?;
    }
    let began = Instant::now();
    approve(stage, &items).await?;
    everywhere_works(stage, "wx.today", "{}").await?;
    promise(narrator, "all three nodes call wx.today at its new place", began.elapsed())
}

fn promise(narrator: &mut Narrator<'_>, what: &str, took: Duration) -> Result<()> {
    narrator.observed(what, Some(took))?;
    ensure!(
        took < PROMISE,
        "keep the promise of {} ms: it took {} ms",
        PROMISE.as_millis(),
        took.as_millis()
    );
    Ok(())
}

/// Starts the remote tool that the version names, packs and pushes it.
async fn release(stage: &mut Stage, narrator: &Narrator<'_>, version: &str) -> Result<Duration> {
    let props = &stage.props;
    let remote = Remote::start(&props.program, &props.wx(), &props.log()).await?;
    let began = Instant::now();
    let folder = props.plugin(version, &remote.url)?;
    push(&folder, &stage.client, narrator.out()).await?;
    stage.remotes.push(remote);
    Ok(began.elapsed())
}

async fn assign_and_wait(stage: &Stage, version: &str) -> Result<Duration> {
    let wanted = PluginVersion::parse(&format!("greeter@{version}"))?;
    let began = Instant::now();
    let path = format!("/edges/{EDGE}/assignments/greeter");
    stage.client.put::<Value>(&path, &json!({"version": version})).await?;
    until(&format!("three nodes to serve {wanted}"), SERVE, async || {
        let states = assign::look(&stage.client, &wanted, EDGE).await?;
        let serving = states.iter().filter(|state| state.state == "serving").count();
        if serving == stage.members.len() {
            return Ok(Look::Seen(()));
        }
        let stands = states
            .iter()
            .map(|one| format!("{} {} {}", one.node, one.state, one.reason.as_deref().unwrap_or_default()));
        Ok(Look::NotYet(stands.collect::<Vec<_>>().join(", ")))
    })
    .await?;
    Ok(began.elapsed())
}

async fn snapshot(stage: &Stage, functions: &[&str]) -> Result<Look<()>> {
    let entries: Vec<crate::api::CatalogEntry> = stage.client.list(&format!("/catalog?edge={EDGE}")).await?;
    let is_there = |id: &&str| entries.iter().any(|entry| entry.id == **id && entry.state == "callable");
    if functions.iter().all(is_there) {
        return Ok(Look::Seen(()));
    }
    let stands: Vec<String> = entries.iter().map(|entry| format!("{} {}", entry.id, entry.state)).collect();
    Ok(Look::NotYet(stands.join(", ")))
}

async fn call(member: &Member, function: &str, arguments: &str) -> Result<Called> {
    member.endpoint.call(function, arguments, &mut |_| {}).await
}

async fn works(member: &Member, function: &str, arguments: &str) -> Result<Look<String>> {
    let called = call(member, function, arguments).await?;
    if called.is_error { Ok(Look::NotYet(called.text())) } else { Ok(Look::Seen(called.text())) }
}

async fn refuses(member: &Member, function: &str, arguments: &str, code: &str) -> Result<Look<String>> {
    let called = call(member, function, arguments).await?;
    let text = called.text();
    if called.refusal.as_deref() == Some(code) { Ok(Look::Seen(text)) } else { Ok(Look::NotYet(text)) }
}

async fn everywhere_works(stage: &Stage, function: &str, arguments: &str) -> Result<()> {
    let waits = stage.members.iter().map(|member| async move {
        let what = format!("{} to call {function}", member.name);
        until(&what, NOTICE, async || works(member, function, arguments).await).await
    });
    try_join_all(waits).await?;
    Ok(())
}

async fn approve(stage: &Stage, items: &[Item]) -> Result<()> {
    let mut body = open::decision(items);
    if let Some(members) = body.as_object_mut() {
        members.insert("attended".to_owned(), json!(false));
    }
    let approved: Approved = stage.client.post("/plugins/greeter/approve", &body).await?;
    ensure!(approved.stale.is_empty(), "approve what was shown: {}", json!(approved.stale));
    Ok(())
}

fn first_member(stage: &Stage) -> Result<&Member> {
    stage.members.first().ok_or_else(|| anyhow::anyhow!("find the first node"))
}

/// Where everything is and what to try, while it stays.
///
/// # Errors
/// As writing to stdout does.
pub(crate) fn invite(stage: &Stage, narrator: &Narrator<'_>) -> Result<()> {
    let first = first_member(stage)?;
    let (program, data) = (stage.props.program.display(), stage.place.data().display());
    let pintle = format!("{program} --data {data}");
    narrator.say(&format!(
        "\nEverything goes on running until Ctrl-C. The MCP endpoint of node-1 is {}",
        first.url
    ))?;
    narrator.say("\nA client configuration (Claude Code, .mcp.json):")?;
    let text =
        config::configuration(config::Client::ClaudeCode, &stage.props.program, &first.data, &first.url);
    narrator.quote([text])?;
    narrator.say("\nTo try, in another terminal:")?;
    narrator.quote([
        format!("{pintle} plugin list"),
        format!("{pintle} catalog"),
        format!("{pintle} call team.hello '{ADA}' --node-data {}", first.data.display()),
        format!("$EDITOR {}   # change what the tool says, then call again", stage.props.team().display()),
        format!("{pintle} plugin approve-tools greeter"),
        format!("{pintle} audit list"),
    ])?;
    Ok(())
}
