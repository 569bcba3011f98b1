//! Tables for people: plain borders, fitted to the terminal, cut cells end in `…`.

use std::io;

use comfy_table::{ContentArrangement, presets};

use super::{Output, shown};

/// A table under construction. Cells are made visible and put on one line.
#[derive(Debug)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings and no row.
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self { headings: headings.to_vec(), rows: Vec::new() }
    }

    /// Adds a row, one cell per heading.
    pub(crate) fn row<T: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(|cell| shown::line(cell.as_ref())).collect());
    }

    /// Prints it: fitted where stdout is a terminal, else whole and without borders, for `grep`.
    ///
    /// # Errors
    /// As writing to stdout does.
    pub(crate) fn print(&self, out: &Output) -> io::Result<()> {
        out.line(self.render(out.width()))
    }

    fn render(&self, width: Option<u16>) -> String {
        let mut table = comfy_table::Table::new();
        match width {
            Some(width) => table
                .load_style(presets::UTF8_HORIZONTAL_ONLY)
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(width),
            None => table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled),
        };
        table.set_truncation_indicator("…");
        table.set_header(&self.headings);
        for cells in &self.rows {
            let mut row = comfy_table::Row::from(cells);
            row.max_height(1);
            table.add_row(row);
        }
        let text = table.to_string();
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_keeps_to_the_width_and_cuts_with_an_ellipsis() {
        let mut table = Table::new(&["NAME", "DESCRIPTION"]);
        table.row(["team", &"long ".repeat(40)]);
        let text = table.render(Some(40));
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.contains('…'), "{text}");
    }

    #[test]
    fn without_a_terminal_nothing_is_cut() {
        let mut table = Table::new(&["NAME", "DESCRIPTION"]);
        table.row(["team", &"long ".repeat(40)]);
        assert!(table.render(None).contains("long ".repeat(40).trim_end()));
    }

    #[test]
    fn cells_from_elsewhere_are_made_visible() {
        let mut table = Table::new(&["NAME"]);
        table.row(["a\u{200B}b\nc"]);
        assert!(table.render(None).contains("a\\u{200B}b c"));
    }
}
