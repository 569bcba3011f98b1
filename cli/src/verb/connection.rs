//! `pintle connection`: what a plugin's remote tools are reached with.

use std::io::{IsTerminal as _, Read as _};
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};

use crate::client::escape;
use crate::context::Context;
use crate::exit::Exit;
use crate::failure::Failure;

use crate::output::{Table, good, shown};

/// Bytes of a secret in a file or on stdin.
const SECRET_MAX: u64 = 16 * 1024;

/// Verbs of `pintle connection`.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Sets parameters, secrets, headers or how a token is had; what is not named stays
    Set(Box<SetArgs>),
    /// Every connection, where its secrets are and how its token stands; never a secret
    List,
    /// Puts it together as for a node, and says what is in the way
    Test(Named),
    /// Opens the way to its authorization server for a person
    Authorize(Named),
    /// Takes it off the record, with its secrets and tokens
    Rm(Named),
}

/// Which connection.
#[derive(Debug, clap::Args)]
pub(crate) struct Named {
    /// The plugin and the connection's name in its manifest
    #[arg(value_name = "PLUGIN/NAME")]
    pub name: String,
    /// The one edge that it is for [default: every edge that has none of its own]
    #[arg(long, value_name = "EDGE")]
    pub edge: Option<String>,
}

/// Flags of `pintle connection set`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  pintle connection set team/crm --param host=acme --secret token --bearer token   (reads the token from stdin)\n  pintle connection set team/crm --secret-path token=/run/secrets/crm\n  pintle connection set team/crm --oauth client-credentials --client-id pintle --client-secret key --secret key"
)]
pub(crate) struct SetArgs {
    /// Which
    #[command(flatten)]
    pub named: Named,
    /// A parameter that is no secret; may be repeated
    #[arg(long, value_name = "NAME=VALUE")]
    pub param: Vec<String>,
    /// A secret that is read from the terminal or stdin, and sealed
    #[arg(long, value_name = "NAME")]
    pub secret: Option<String>,
    /// A secret that is read from a file here, and sealed; may be repeated
    #[arg(long, value_name = "NAME=FILE")]
    pub secret_file: Vec<String>,
    /// A secret that stays in a variable of the server's environment; may be repeated
    #[arg(long, value_name = "NAME=VARIABLE")]
    pub secret_env: Vec<String>,
    /// A secret that stays in a file of the server's machine; may be repeated
    #[arg(long, value_name = "NAME=PATH")]
    pub secret_path: Vec<String>,
    /// A header, with ${params.NAME} for a parameter or secret; may be repeated, and replaces all before
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,
    /// The secret that goes as `Authorization: Bearer`
    #[arg(long, value_name = "NAME", conflicts_with = "oauth")]
    pub bearer: Option<String>,
    /// Has tokens from an authorization server: by the client's credentials, or a code that a person gets
    #[arg(long, value_name = "client-credentials|code", value_parser = ["client-credentials", "code"], requires = "client_id")]
    pub oauth: Option<String>,
    /// The client's id at the authorization server
    #[arg(long, value_name = "ID", requires = "oauth")]
    pub client_id: Option<String>,
    /// The secret that the client shows there
    #[arg(long, value_name = "NAME", requires = "oauth")]
    pub client_secret: Option<String>,
    /// What is asked for there; may be repeated
    #[arg(long, value_name = "SCOPE", requires = "oauth")]
    pub scope: Vec<String>,
    /// The authorization server [default: the one that the tool's server names]
    #[arg(long, value_name = "URL", requires = "oauth")]
    pub issuer: Option<String>,
}

/// Carries out one of them.
///
/// # Errors
/// As the API's.
pub(crate) async fn run(command: Command, context: &Context) -> Result<Exit> {
    match command {
        Command::Set(args) => set(&args, context).await,
        Command::List => list(context).await,
        Command::Test(named) => test(&named, context).await,
        Command::Authorize(named) => authorize(&named, context).await,
        Command::Rm(named) => remove(&named, context).await,
    }
}

impl Named {
    fn path(&self) -> Result<String, Failure> {
        let (plugin, name) = self.name.split_once('/').ok_or_else(|| {
            Failure::usage(format!("`{}` names no connection", shown::line(&self.name))).remedy(
                "write PLUGIN/NAME, such as team/crm; pintle connection list shows those that are set",
            )
        })?;
        Ok(format!("/connections/{}/{}", escape(plugin), escape(name)))
    }

    fn query(&self) -> String {
        self.edge.as_ref().map(|edge| format!("?edge={}", escape(edge))).unwrap_or_default()
    }

    fn words(&self) -> String {
        let scope = self.edge.as_ref().map_or_else(|| "every edge".to_owned(), |edge| format!("edge {edge}"));
        shown::line(&format!("{} for {scope}", self.name))
    }
}

async fn set(args: &SetArgs, context: &Context) -> Result<Exit> {
    let out = &context.out;
    let body = body(args, context)?;
    let answer: Value = context.client()?.put(&args.named.path()?, &body).await?;
    if out.is_json() {
        out.json(&answer)?;
        return Ok(Exit::Done);
    }
    out.line(good(format!("Set the connection {}.", args.named.words())))?;
    let names = |member: &str| -> Vec<String> {
        let list = answer.get(member).and_then(Value::as_array).into_iter().flatten();
        list.filter_map(Value::as_str).map(shown::line).collect()
    };
    let (dropped, missing) = (names("dropped"), names("missing"));
    if !dropped.is_empty() {
        out.note(format_args!(
            "Its host is another now, so these secrets were dropped: {}",
            dropped.join(", ")
        ));
    }
    if !missing.is_empty() {
        out.note(format_args!("It is of no use yet; these are missing: {}", missing.join(", ")));
        return Ok(Exit::Open);
    }
    if args.oauth.as_deref() == Some("code") {
        out.hint(format_args!("pintle connection authorize {}", args.named.name));
    }
    Ok(Exit::Done)
}

fn body(args: &SetArgs, context: &Context) -> Result<Map<String, Value>> {
    let mut body = Map::new();
    body.insert("edge".to_owned(), json!(args.named.edge));
    body.insert("params".to_owned(), Value::Object(pairs(&args.param, |value| json!(value))?));
    let mut secrets = pairs(&args.secret_env, |variable| json!({ "env": variable }))?;
    secrets.extend(pairs(&args.secret_path, |path| json!({ "file": path }))?);
    for text in &args.secret_file {
        let (name, path) = pair(text)?;
        secrets.insert(name.to_owned(), json!({ "value": read_file(Path::new(path))? }));
    }
    if let Some(name) = &args.secret {
        secrets.insert(name.clone(), json!({ "value": read_secret(name, context)? }));
    }
    body.insert("secrets".to_owned(), Value::Object(secrets));
    let mut headers = Vec::new();
    for text in &args.header {
        let (name, value) = text.split_once(':').ok_or_else(|| {
            Failure::usage(format!("`{}` is no header; write 'NAME: VALUE'", shown::line(text)))
        })?;
        headers.push(json!([name.trim(), value.trim()]));
    }
    if let Some(secret) = &args.bearer {
        headers.push(json!(["Authorization", format!("Bearer ${{params.{secret}}}")]));
    }
    if !headers.is_empty() {
        body.insert("headers".to_owned(), Value::Array(headers));
    }
    if let Some(grant) = &args.oauth {
        let oauth = json!({
            "grant": grant.replace('-', "_"),
            "client_id": args.client_id,
            "client_secret": args.client_secret,
            "scopes": args.scope,
            "issuer": args.issuer,
        });
        body.insert("oauth".to_owned(), oauth);
    }
    Ok(body)
}

fn pairs(texts: &[String], value: impl Fn(&str) -> Value) -> Result<Map<String, Value>, Failure> {
    texts.iter().map(|text| pair(text).map(|(name, given)| (name.to_owned(), value(given)))).collect()
}

fn pair(text: &str) -> Result<(&str, &str), Failure> {
    // The value may be a secret's place, never a secret.
    text.split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or_else(|| Failure::usage(format!("`{}` is no NAME=VALUE", shown::line(text))))
}

fn read_file(path: &Path) -> Result<String> {
    let file = std::fs::File::open(path).with_context(|| format!("read `{}`", path.display()))?;
    let mut text = String::new();
    file.take(SECRET_MAX).read_to_string(&mut text).with_context(|| format!("read `{}`", path.display()))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// From a pipe, or a file that stdin is; a terminal would show it.
fn read_secret(name: &str, context: &Context) -> Result<String> {
    if std::io::stdin().is_terminal() {
        return Err(Failure::usage("a secret that is typed here would stay on the screen")
            .remedy(format!(
                "{} connection set … --secret-file {name}=FILE, or pipe it: --secret {name} < FILE",
                context.program()
            ))
            .into());
    }
    let mut text = String::new();
    std::io::stdin().take(SECRET_MAX).read_to_string(&mut text).context("read the secret from stdin")?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

async fn list(context: &Context) -> Result<Exit> {
    let (out, document): (_, Value) = (&context.out, context.client()?.get("/connections").await?);
    if out.is_json() {
        out.json(&document)?;
        return Ok(Exit::Done);
    }
    let items = document.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    if items.is_empty() {
        out.line("No connection is set.")?;
        out.hint("pintle connection set --help");
        return Ok(Exit::Done);
    }
    let text = |item: &Value, pointer: &str| {
        item.pointer(pointer).and_then(Value::as_str).map(shown::line).unwrap_or_default()
    };
    let members = |item: &Value, member: &str| {
        let object = item.get(member).and_then(Value::as_object).into_iter().flatten();
        let words = object.map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
        shown::line(&words.collect::<Vec<_>>().join(" "))
    };
    let mut table = Table::new(&["connection", "edge", "parameters", "secrets", "token", "set by"]);
    for item in &items {
        let edge = text(item, "/edge");
        table.row([
            format!("{}/{}", text(item, "/plugin"), text(item, "/name")),
            if edge.is_empty() { "every".to_owned() } else { edge },
            members(item, "params"),
            members(item, "secrets"),
            text(item, "/token/state"),
            text(item, "/set_by"),
        ]);
    }
    table.print(out)?;
    for item in &items {
        let reason = text(item, "/token/reason");
        if !reason.is_empty() {
            out.note(format_args!("{}/{}: {reason}", text(item, "/plugin"), text(item, "/name")));
        }
    }
    Ok(Exit::Done)
}

async fn test(named: &Named, context: &Context) -> Result<Exit> {
    let out = &context.out;
    let path = format!("{}/test{}", named.path()?, named.query());
    let answer: Value = context.client()?.post(&path, &json!({})).await?;
    let is_ok = answer.get("ok") == Some(&Value::Bool(true));
    let exit = if is_ok { Exit::Done } else { Exit::Open };
    if out.is_json() {
        out.json(&answer)?;
        return Ok(exit);
    }
    let text = |member: &str| answer.get(member).and_then(Value::as_str).map(shown::line).unwrap_or_default();
    if is_ok {
        let headers = answer.get("headers").and_then(Value::as_array).into_iter().flatten();
        let headers: Vec<&str> = headers.filter_map(Value::as_str).collect();
        let headers = if headers.is_empty() { "no header".to_owned() } else { headers.join(", ") };
        out.line(good(format!("{} comes to {headers} at {}.", named.words(), text("origin"))))?;
    } else {
        out.note(format_args!("{} is of no use: {}", named.words(), text("reason")));
    }
    Ok(exit)
}

async fn authorize(named: &Named, context: &Context) -> Result<Exit> {
    let (client, out) = (context.client()?, &context.out);
    let body = json!({ "edge": named.edge, "base": client.base() });
    let answer: Value = client.post(&format!("{}/authorize", named.path()?), &body).await?;
    if out.is_json() {
        out.json(&answer)?;
        return Ok(Exit::Done);
    }
    out.line("Open this in a browser on this machine, within ten minutes:")?;
    out.line(answer.get("url").and_then(Value::as_str).map(shown::line).unwrap_or_default())?;
    out.hint("pintle connection list");
    Ok(Exit::Done)
}

async fn remove(named: &Named, context: &Context) -> Result<Exit> {
    let out = &context.out;
    let answer: Value = context.client()?.delete(&format!("{}{}", named.path()?, named.query())).await?;
    if out.is_json() {
        out.json(&answer)?;
    } else {
        out.line(good(format!("Removed the connection {}.", named.words())))?;
    }
    Ok(Exit::Done)
}
