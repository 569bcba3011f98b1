//! Quantiles, and the machine that they were measured on.

use std::time::Duration;

/// The value below which `share` of the sorted times lie.
pub(crate) fn quantile(sorted: &[Duration], share: f64) -> Duration {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "an index"
    )]
    let index = ((sorted.len().saturating_sub(1)) as f64 * share).round() as usize;
    sorted.get(index).copied().unwrap_or_default()
}

/// What the figures depend on: processor, cores, memory, kernel.
pub(crate) fn machine() -> serde_json::Value {
    let read = |path: &str, key: &str| -> Option<String> {
        let text = std::fs::read_to_string(path).ok()?;
        let line = text.lines().find(|line| line.starts_with(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    serde_json::json!({
        "processor": read("/proc/cpuinfo", "model name"),
        "cores": std::thread::available_parallelism().map(usize::from).ok(),
        "memory": read("/proc/meminfo", "MemTotal"),
        "kernel": std::fs::read_to_string("/proc/sys/kernel/osrelease").ok().map(|text| text.trim().to_owned()),
        "debug_build": cfg!(debug_assertions),
    })
}

/// For people and tables: a tenth of a millisecond is as fine as any of it means something.
pub(crate) fn millis(time: Duration) -> f64 {
    (time.as_secs_f64() * 10_000.0).round() / 10.0
}

/// KiB for each node, to a tenth.
pub(crate) fn per(bytes: u64, nodes: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    let each = bytes as f64 / nodes.max(1) as f64 / 1_024.0;
    (each * 10.0).round() / 10.0
}

/// Resident bytes of a process.
pub(crate) fn resident_bytes(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Resident bytes of a process and all its descendants.
pub(crate) fn resident_tree_bytes(pid: u32) -> u64 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let below: u64 =
        children.split_whitespace().filter_map(|pid| pid.parse().ok()).map(resident_tree_bytes).sum();
    resident_bytes(pid).unwrap_or_default() + below
}

/// Processor time that a process has used, user and system.
pub(crate) fn processor_time(pid: u32) -> Option<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat.rsplit_once(") ")?.1;
    let mut fields = after_name.split(' ');
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    // USER_HZ is 100 on every Linux that Rust targets.
    Some(Duration::from_millis((user + system) * 10))
}

/// Prints a line to standard output.
#[expect(clippy::print_stdout, reason = "it is what the command is for")]
pub(crate) fn print(text: &str) {
    println!("{text}");
}

/// Prints rows of JSON objects as an aligned table.
pub(crate) fn print_table(columns: &[&str], rows: &[serde_json::Value]) {
    let cell = |row: &serde_json::Value, column: &str| match row.get(column) {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    };
    let mut lines = vec![columns.iter().map(|column| (*column).to_owned()).collect::<Vec<_>>()];
    lines.extend(rows.iter().map(|row| columns.iter().map(|column| cell(row, column)).collect()));
    let widths: Vec<usize> = (0..columns.len())
        .map(|index| lines.iter().filter_map(|line| line.get(index)).map(String::len).max().unwrap_or(0))
        .collect();
    for line in lines {
        let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        print(cells.collect::<Vec<_>>().join("  ").trim_end());
    }
}
