// SPDX-License-Identifier: Apache-2.0
//! Lines of at most so many characters, as `textwrap.wrap` of Python makes them.

/// How a line is wrapped.
pub(super) struct Wrap {
    /// None: not at all.
    pub width: Option<usize>,
    /// Break words that are longer than a line.
    pub break_words: bool,
    /// Break compound words after their hyphens.
    pub at_hyphens: bool,
}

impl Wrap {
    pub fn lines(&self, text: &str) -> Vec<String> {
        let width = self.width.unwrap_or(usize::MAX);
        let mut chunks: Vec<Vec<char>> = self.chunks(text);
        chunks.reverse();
        let mut lines: Vec<String> = vec![];
        while !chunks.is_empty() {
            let mut line: Vec<Vec<char>> = vec![];
            let mut length = 0;
            if !lines.is_empty() && is_blank(chunks.last()) {
                chunks.pop();
            }
            while chunks.last().is_some_and(|chunk| length + chunk.len() <= width) {
                let chunk = chunks.pop().unwrap_or_default();
                length += chunk.len();
                line.push(chunk);
            }
            if chunks.last().is_some_and(|chunk| chunk.len() > width) {
                self.long_word(&mut chunks, &mut line, width - length);
            }
            if is_blank(line.last()) {
                line.pop();
            }
            if !line.is_empty() {
                lines.push(line.into_iter().flatten().collect());
            }
        }
        lines
    }

    /// A word that no line has room for: a part of it where words may be broken, else alone on its line.
    fn long_word(&self, chunks: &mut Vec<Vec<char>>, line: &mut Vec<Vec<char>>, room: usize) {
        let room = room.max(1);
        if !self.break_words {
            if line.is_empty() {
                line.extend(chunks.pop());
            }
            return;
        }
        let Some(word) = chunks.last_mut() else { return };
        let hyphen = word[..room].iter().rposition(|c| *c == '-').filter(|at| self.at_hyphens && *at > 0);
        let is_after_text = |at: &usize| word[..*at].iter().any(|c| *c != '-');
        let end = hyphen.filter(is_after_text).map_or(room, |at| at + 1);
        let rest = word.split_off(end);
        line.push(std::mem::replace(word, rest));
    }

    /// Words and the blanks between them.
    fn chunks(&self, text: &str) -> Vec<Vec<char>> {
        let chars: Vec<char> = text.chars().collect();
        let mut chunks: Vec<Vec<char>> = vec![];
        let mut start = 0;
        for at in 1..=chars.len() {
            let is_end = at == chars.len() || is_space(chars[at]) != is_space(chars[at - 1]);
            if is_end || (self.at_hyphens && breaks_after_hyphen(&chars, at)) {
                chunks.push(chars[start..at].to_vec());
                start = at;
            }
        }
        chunks
    }
}

/// textwrap's white space is that of ASCII.
fn is_space(c: char) -> bool {
    matches!(c, '\t'..='\r' | ' ')
}

fn is_blank(chunk: Option<&Vec<char>>) -> bool {
    chunk.is_some_and(|chunk| chunk.iter().all(|c| is_space(*c)))
}

/// Whether a compound word may be broken before chars[at]: after a hyphen that stands between letters.
fn breaks_after_hyphen(chars: &[char], at: usize) -> bool {
    let is_letter = |at: Option<usize>| at.and_then(|at| chars.get(at)).is_some_and(|c| c.is_alphabetic() || *c == '_');
    let is_hyphen = |at: Option<usize>| at.and_then(|at| chars.get(at)) == Some(&'-');
    let before = |by: usize| at.checked_sub(by);
    let follows = is_letter(before(2)) && (is_letter(before(3)) || (is_hyphen(before(3)) && is_letter(before(4))));
    let precedes =
        is_letter(Some(at)) && (is_letter(Some(at + 1)) || (is_hyphen(Some(at + 1)) && is_letter(Some(at + 2))));
    is_hyphen(before(1)) && follows && precedes
}
