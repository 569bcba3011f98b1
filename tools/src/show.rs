//! Text of tools for people: made visible, on one line, shortened.

/// The text on one line of at most `most` characters.
pub(crate) fn line(text: &str, most: usize) -> String {
    let text = text.trim();
    let visible = domain::visible::make_visible(text);
    let mut out: String = visible.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((cut, _)) = out.char_indices().nth(most) {
        out.truncate(cut);
        out.push('…');
    }
    out
}
