//! `pintle plugin lint`: what would go wrong later, without running anything.

use std::path::PathBuf;

use anyhow::Result;
use plugin::lint::{Finding, Severity, lint};
use serde_json::json;

use crate::context::Context;
use crate::exit::Exit;
use crate::output::{good, shown};

/// Flags of `pintle plugin lint`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  pintle plugin lint ./greeter --strict")]
pub(crate) struct Args {
    /// The plugin's folder
    #[arg(default_value = ".")]
    pub dir: PathBuf,
    /// Fails on warnings too
    #[arg(long)]
    pub strict: bool,
}

/// Prints what was found; fails if any of it is an error.
///
/// # Errors
/// As writing to stdout does.
pub(crate) fn run(args: &Args, context: &Context) -> Result<Exit> {
    let findings = lint(&args.dir);
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    let out = &context.out;
    if out.is_json() {
        let items: Vec<_> = findings.iter().map(as_json).collect();
        out.json(&json!({"items": items, "errors": errors, "warnings": warnings}))?;
    } else {
        for finding in &findings {
            out.line(shown::block(&finding.to_string()))?;
        }
        if findings.is_empty() {
            out.line(good("Nothing to complain of."))?;
            out.hint(format_args!("pintle plugin push {}", args.dir.display()));
        } else {
            out.note(format_args!("{errors} error(s), {warnings} warning(s)"));
        }
    }
    let failed = errors > 0 || (args.strict && warnings > 0);
    Ok(if failed { Exit::Failed } else { Exit::Done })
}

fn as_json(finding: &Finding) -> serde_json::Value {
    json!({
        "severity": finding.severity.as_str(),
        "rule": finding.rule,
        "file": finding.file,
        "line": finding.line,
        "what": finding.what,
        "remedy": finding.remedy,
    })
}
