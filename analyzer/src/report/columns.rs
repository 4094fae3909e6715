//! Text in columns of a terminal, where the text may come from a hostile trace.

use std::borrow::Cow;
use std::fmt::Write;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

const CUT: char = '…';

/// The text with everything escaped that could drive a terminal or reorder a line.
///
/// Names in a trace are whatever the traced program called itself and its files.
#[must_use]
pub fn escape(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => safe.push_str("\\n"),
            '\t' => safe.push_str("\\t"),
            '\r' => safe.push_str("\\r"),
            other if is_unsafe(other) => {
                let _ = write!(safe, "\\u{{{:x}}}", u32::from(other)); // a String takes all
            }
            other => safe.push(other),
        }
    }
    Cow::Owned(safe)
}

/// Control characters of both sets, line and paragraph separators, marks and overrides of direction.
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}'
        )
}

/// Columns that the text takes.
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// The text filled up to `width` columns on the right.
pub(crate) fn left(text: &str, width: usize) -> String {
    format!("{text}{}", blank(width, text))
}

/// The text filled up to `width` columns on the left.
pub(crate) fn right(text: &str, width: usize) -> String {
    format!("{}{text}", blank(width, text))
}

/// Rows of cells below each other, two columns apart; a column without text takes no room.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> Vec<String> {
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| columns(&row[column]));
        cells.max().unwrap_or(0)
    });
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).filter(|(_, width)| *width > 0);
        let cells = cells.map(|(cell, width)| left(cell, width));
        cells.collect::<Vec<_>>().join("  ")
    };
    rows.iter().map(line).collect()
}

fn blank(width: usize, text: &str) -> String {
    " ".repeat(width.saturating_sub(columns(text)))
}

/// The text in at most `width` columns; what is too long loses its end.
pub(crate) fn cut_end(text: &str, width: usize) -> Cow<'_, str> {
    if columns(text) <= width {
        return Cow::Borrowed(text);
    }
    let mut cut = head(text, width.saturating_sub(1)).to_owned();
    cut.push(CUT);
    Cow::Owned(cut)
}

/// The text in at most `width` columns; what is too long loses its start, as suits a path.
pub(crate) fn cut_start(text: &str, width: usize) -> Cow<'_, str> {
    if columns(text) <= width {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("{CUT}{}", tail(text, width.saturating_sub(1))))
}

/// The text in at most `width` columns; what is too long loses its middle, as suits a name with its scope.
pub(crate) fn cut_middle(text: &str, width: usize) -> Cow<'_, str> {
    if columns(text) <= width {
        return Cow::Borrowed(text);
    }
    let rest = width.saturating_sub(1);
    let front = head(text, rest / 3);
    let back = tail(text, rest - rest / 3);
    Cow::Owned(format!("{front}{CUT}{back}"))
}

/// As much of the start as fits.
fn head(text: &str, width: usize) -> &str {
    let mut taken = 0;
    let end = text.char_indices().find(|(_, character)| {
        taken += character.width().unwrap_or(0);
        taken > width
    });
    end.map_or(text, |(at, _)| &text[..at])
}

/// As much of the end as fits.
fn tail(text: &str, width: usize) -> &str {
    let mut taken = 0;
    let begin = text.char_indices().rev().find(|(_, character)| {
        taken += character.width().unwrap_or(0);
        taken > width
    });
    begin.map_or(text, |(at, character)| &text[at + character.len_utf8()..])
}

/// Words in lines of at most `width` columns; a longer word has a line of its own.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(word) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{aligned, columns, cut_end, cut_middle, cut_start, escape, left, right, wrap};

    #[test]
    fn nothing_that_drives_a_terminal_gets_through() {
        assert_eq!(escape("hash_insert größe 大"), "hash_insert größe 大");
        assert_eq!(escape("\x1b[2J\r\n"), "\\u{1b}[2J\\r\\n");
        assert_eq!(escape("\u{9b}31m\u{202e}x"), "\\u{9b}31m\\u{202e}x");
        for character in (0..=0x2_FFFF).filter_map(char::from_u32) {
            let text = character.to_string();
            assert!(
                !escape(&text).chars().any(char::is_control),
                "{character:?}"
            );
        }
    }

    #[test]
    fn wide_characters_stay_whole() {
        assert_eq!(columns("大小"), 4);
        assert_eq!(cut_end("大小大小", 6), "大小…");
        assert_eq!(cut_start("大小大小", 4), "…小");
        for width in 1..9 {
            for cut in [cut_end, cut_start, cut_middle] {
                assert!(columns(&cut("a大b小c大d", width)) <= width, "{width}");
            }
        }
    }

    #[test]
    fn short_texts_are_filled_and_long_ones_cut() {
        assert_eq!(left("ab", 4), "ab  ");
        assert_eq!(right("ab", 4), "  ab");
        assert_eq!(cut_middle("alloc::vec::Vec::push", 10), "all…::push");
        assert_eq!(cut_start("/src/hash.c:638", 11), "…hash.c:638");
        assert_eq!(cut_end("abc", 3), "abc");
    }

    #[test]
    fn cells_stand_below_each_other() {
        let rows = [["a", "", "大"], ["bcd", "", "e"]].map(|row| row.map(str::to_owned));
        assert_eq!(aligned(&rows), ["a    大", "bcd  e "]);
        assert!(aligned::<2>(&[]).is_empty());
    }

    #[test]
    fn lines_break_at_words() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("unbreakable", 3), ["unbreakable"]);
        assert!(wrap("", 3).is_empty());
    }
}
