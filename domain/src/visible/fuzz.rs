//! A target for a fuzzer: any text made visible. `scripts/fuzz` drives it; as a test it takes what is kept in
//! `__fuzz__` and a thousand inputs more.

use super::*;

#[test]
fn any_text_is_visible_once_it_was_made_so_and_stays_as_it_is() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        let visible = make_visible(&text);
        assert!(is_visible(&visible));
        assert_eq!(make_visible(&visible), visible, "once is enough");
        assert_eq!(is_visible(&text), visible == text);
        assert!(visible.len() <= 6 * text.len(), "an escape is six times as long at most");
        let mut chars = text.chars().peekable();
        let mut one_by_one = String::new();
        while let Some(c) = chars.next() {
            write_visible(&mut one_by_one, c.into(), chars.peek() == Some(&'\n'));
        }
        assert_eq!(one_by_one, visible);
        // What stayed is all of the text that may stay, in its order.
        let kept: String = text.chars().filter(|c| *c != '\r' && !v1::contains((*c).into())).collect();
        let mut rest = visible.chars();
        assert!(kept.chars().all(|c| rest.any(|other| other == c)), "nothing is lost");
    });
}
