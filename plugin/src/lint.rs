//! Looks at a plugin's folder before it is packed and says what would go wrong later.
//!
//! Nothing is started and nothing is fetched. What a running tool would list is not known here.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use domain::id::ToolId;

use crate::bundle::{self, Limits, Started, read_manifest, tree};
use crate::manifest::{Manifest, ToolSpec};
use crate::script;

mod launch;

/// One thing that an author should look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// A stable word for the rule, to filter by.
    pub rule: &'static str,
    /// The file in the plugin.
    pub file: String,
    /// The line in that file, counted from 1, where it is known.
    pub line: Option<usize>,
    /// What is wrong, as a fragment.
    pub what: String,
    /// What to do about it, as a fragment.
    pub remedy: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It cannot be packed, or could not run.
    Error,
    /// It works today.
    Warning,
}

impl Severity {
    /// As messages write it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

/// `FILE:LINE: SEVERITY: WHAT; REMEDY [RULE]`.
impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}: {}; {} [{}]", self.severity.as_str(), self.what, self.remedy, self.rule)
    }
}

/// Variables that a node sets for every tool, so that one version lists the same everywhere.
const SET_BY_NODES: [&str; 6] = ["PATH", "HOME", "TMPDIR", "LANG", "TZ", "PYTHONHASHSEED"];

/// Everything that was found, errors first. An unreadable plugin is a finding too.
pub fn lint(dir: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    match read_manifest(dir) {
        Ok(manifest) => {
            tools(&manifest, &mut findings);
            names(&manifest, &mut findings);
            files(dir, &manifest, &mut findings);
        }
        Err(bundle::Error::Manifest(faults)) => findings.extend(faults.into_iter().map(|fault| Finding {
            severity: Severity::Error,
            rule: "manifest",
            file: fault.file.to_owned(),
            line: fault.line,
            what: if fault.path.is_empty() { fault.what } else { format!("{}: {}", fault.path, fault.what) },
            remedy: fault.remedy,
        })),
        Err(error) => findings.push(unreadable(&error)),
    }
    findings.sort_by_key(|finding| finding.severity);
    findings
}

fn unreadable(error: &bundle::Error) -> Finding {
    let mut what = format!("failed to {error}");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        what = format!("{what}: {cause}");
        source = cause.source();
    }
    let remedy = "mend this, then lint again".to_owned();
    Finding { severity: Severity::Error, rule: "bundle", file: ".".into(), line: None, what, remedy }
}

fn in_manifest(severity: Severity, rule: &'static str, what: String, remedy: impl Into<String>) -> Finding {
    let file = crate::manifest::FILE_NAME.to_owned();
    Finding { severity, rule, file, line: None, what, remedy: remedy.into() }
}

fn tools(manifest: &Manifest, findings: &mut Vec<Finding>) {
    for (id, spec) in &manifest.tools {
        let ToolSpec::Command { command, env } = spec else { continue };
        if let Some(unpinned) = launch::unpinned(command) {
            let what =
                format!("tool `{id}` starts `{}`, whatever version that is on the day", unpinned.package);
            findings.push(in_manifest(Severity::Warning, "unpinned_launch", what, unpinned.remedy));
        }
        for name in env.keys().filter(|name| SET_BY_NODES.contains(&name.as_str())) {
            let what = format!("tool `{id}` sets {name}, which the node sets for every tool");
            findings.push(in_manifest(Severity::Warning, "node_env", what, "take it out of `env`"));
        }
    }
}

/// Tool IDs that people take for one another.
fn names(manifest: &Manifest, findings: &mut Vec<Finding>) {
    let folded = |id: &ToolId| id.as_str().to_lowercase().replace('-', "_");
    let ids: Vec<&ToolId> = manifest.tools.keys().collect();
    for (index, first) in ids.iter().enumerate() {
        for second in ids.iter().skip(index + 1).filter(|second| folded(first) == folded(second)) {
            let what = format!("tools `{first}` and `{second}` differ only in letter case or `-` and `_`");
            findings.push(in_manifest(Severity::Warning, "alike_names", what, "rename one of them"));
        }
    }
}

fn files(dir: &Path, manifest: &Manifest, findings: &mut Vec<Finding>) {
    let found = match tree::list(dir, &Limits::default()) {
        Ok(found) => found,
        Err(error) => return findings.push(unreadable(&error)),
    };
    let holds = |path: &str| {
        let inside = format!("{path}/");
        found.iter().any(|file| file.path == path || file.path.starts_with(&inside))
    };
    for (severity, tool, path) in named_files(manifest) {
        if !holds(path) {
            let what = format!("{tool} names `{path}`, which is not among the packed files");
            let remedy = "write or build it, or check .pintleignore";
            findings.push(in_manifest(severity, "missing_file", what, remedy));
        }
    }
    let started = Started::of(manifest);
    for file in &found {
        let mut head = Vec::new();
        let read = File::open(&file.source)
            .and_then(|open| open.take(script::HEAD_BYTES as u64).read_to_end(&mut head));
        if let Err(source) = read {
            findings.push(unreadable(&bundle::Error::Io { verb: "read", path: file.source.clone(), source }));
            continue;
        }
        let Some(fault) = script::fault(&head, started.starts(&file.path)) else { continue };
        let refused = started.fault(&file.path, &head).is_some();
        findings.push(Finding {
            severity: if refused { Severity::Error } else { Severity::Warning },
            rule: "script",
            file: file.path.clone(),
            line: Some(1),
            what: fault.what().to_owned(),
            remedy: fault.remedy().to_owned(),
        });
    }
}

/// Files and folders that the manifest names, with what a missing one means.
fn named_files(manifest: &Manifest) -> Vec<(Severity, String, &str)> {
    let mut named = Vec::new();
    for (id, spec) in &manifest.tools {
        let tool = format!("tool `{id}`");
        match spec {
            ToolSpec::Command { command, .. } => {
                for (index, text) in command.iter().enumerate() {
                    let severity = if index == 0 { Severity::Error } else { Severity::Warning };
                    if let Some(path) = text.strip_prefix("${plugin}/").filter(|path| !path.contains("${")) {
                        named.push((severity, tool.clone(), path));
                    }
                }
            }
            ToolSpec::Bash { path, .. } | ToolSpec::Node { path } | ToolSpec::Python { path } => {
                named.push((Severity::Error, tool, path));
            }
            ToolSpec::Url { .. } => {}
        }
    }
    named.extend(manifest.evals.iter().map(|path| (Severity::Warning, "`evals`".to_owned(), path.as_str())));
    named
}

#[cfg(test)]
mod tests;
