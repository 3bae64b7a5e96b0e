// SPDX-License-Identifier: Apache-2.0
//! `str.ljust`, `str.rjust` and `str.center`: a text in a field of so many characters.

fn fills(text: &str, width: usize) -> usize {
    width.saturating_sub(text.chars().count())
}

fn of(fill: char, count: usize) -> String {
    std::iter::repeat_n(fill, count).collect()
}

/// At the left.
pub(super) fn left(text: &str, width: usize, fill: char) -> String {
    format!("{text}{}", of(fill, fills(text, width)))
}

/// At the right.
pub(super) fn right(text: &str, width: usize, fill: char) -> String {
    format!("{}{text}", of(fill, fills(text, width)))
}

/// In the middle; as Python, with the odd one on the left if the field's width is odd.
pub(super) fn center(text: &str, width: usize, fill: char) -> String {
    let fills = fills(text, width);
    let before = fills / 2 + (fills & width & 1);
    format!("{}{text}{}", of(fill, before), of(fill, fills - before))
}
