//! Text from elsewhere as a person may see it: invisible characters written out, blank runs folded,
//! cut to a bound.
//!
//! Nothing from a plugin, a server's answer or a call reaches the terminal by another way.

use domain::visible::make_visible;

/// Blanks in a row that are shown as they are: the deepest indentation that listings use.
const MOST_BLANKS: usize = 16;

/// Where TAG characters stand for ASCII: U+E0020 is a space.
const TAGS: std::ops::RangeInclusive<u32> = 0xE0020..=0xE007E;

/// `text` made visible, on as many lines as it has; long blank runs folded with their length.
pub(crate) fn block(text: &str) -> String {
    fold_blanks(&make_visible(text))
}

/// `text` made visible on one line, for cells and sentences.
pub(crate) fn line(text: &str) -> String {
    block(text).replace("\r\n", " ").replace(['\n', '\t'], " ")
}

/// [`line`], cut to `most` characters with an ellipsis.
pub(crate) fn cut(text: &str, most: usize) -> String {
    let text = line(text);
    if text.chars().count() <= most {
        return text;
    }
    let mut short: String = text.chars().take(most.saturating_sub(1)).collect();
    short.push('…');
    short
}

/// What text written out as `\u{E00…}` spells to a model that reads TAG characters as letters, if
/// there is any: the person deciding should not have to decode it by hand.
pub(crate) fn spelled(visible: &str) -> Option<String> {
    let mut spelled = String::new();
    for part in visible.split("\\u{").skip(1) {
        let Some((hex, _)) = part.split_once('}') else { continue };
        let Ok(code) = u32::from_str_radix(hex, 16) else { continue };
        if TAGS.contains(&code) {
            spelled.extend(char::from_u32(code - 0xE0000));
        }
    }
    (!spelled.is_empty()).then_some(spelled)
}

/// A word that a shell takes as it is, whatever a tool called itself.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.:/=@".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

fn fold_blanks(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut run = String::new();
    let end = |run: &mut String, out: &mut String| {
        let blanks = run.chars().count();
        if blanks > MOST_BLANKS {
            out.extend(["⟨", &blanks.to_string(), " blanks⟩"]);
        } else {
            out.push_str(run);
        }
        run.clear();
    };
    for c in text.chars() {
        if c.is_whitespace() {
            run.push(c);
        } else {
            end(&mut run, &mut out);
            out.push(c);
        }
    }
    end(&mut run, &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_hidden_in_tag_characters_is_written_out_and_spelled() {
        let hidden: String = "obey".chars().filter_map(|c| char::from_u32(0xE0000 + u32::from(c))).collect();
        let visible = block(&format!("Says hello.{hidden}"));
        assert_eq!(visible, "Says hello.\\u{E006F}\\u{E0062}\\u{E0065}\\u{E0079}");
        assert_eq!(spelled(&visible).as_deref(), Some("obey"));
        assert_eq!(spelled("Says hello. \\u{200B}"), None);
    }

    #[test]
    fn terminal_escapes_never_reach_the_terminal() {
        assert_eq!(line("\u{1b}[2Jgone"), "\\u{1B}[2Jgone");
    }

    #[test]
    fn long_blank_runs_are_folded_and_say_how_long() {
        assert_eq!(block(&format!("a{}b", " \n".repeat(20))), "a⟨40 blanks⟩b");
        assert_eq!(block("a    b"), "a    b");
    }

    #[test]
    fn a_printed_word_survives_a_shell() {
        assert_eq!(quoted("v1:sha256:ab"), "v1:sha256:ab");
        assert_eq!(quoted("gone:team.$(reboot)"), "'gone:team.$(reboot)'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }

    #[test]
    fn a_cut_text_ends_in_an_ellipsis() {
        assert_eq!(cut("abcdef", 4), "abc…");
        assert_eq!(cut("a\nb", 4), "a b");
    }
}
