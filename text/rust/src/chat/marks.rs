// SPDX-License-Identifier: Apache-2.0
//! Which special tokens of a prompt the template wrote, and which stood in the client's strings.
//!
//! Every character of a special token in a client's string gets a private-use character behind it before the template
//! runs. Whatever the template then cuts, joins or escapes, no part of the token comes out unmarked. The mark is chosen so
//! that no string of the request has it; it is removed from the prompt, and where it stood no special token is
//! recognised. A request without special tokens has no marks, so its template sees its strings as they are.
//!
//! A template may also make a token of pieces: of two strings side by side, or of one from which it removes something. So
//! the chat is rendered once more with a mark behind every character that may begin a special token ([`Marks::fence`]).
//! (`sanitize_control_tokens` of transformers puts marks around a token: a slice of the text can take one of them away.)

use std::collections::HashSet;

use minijinja::State;
use serde_json::{Map, Value as Json};
use tokenizers::{OffsetReferential, OffsetType};

use crate::error::{Error, Result};
use crate::tokenizer::TextTokenizer;

/// Supplementary Private Use Area-A.
const FIRST_MARK: u32 = 0xF0000;
const NUM_MARKS: u32 = 0xFFFE;

/// The variable that tells filters the mark. No template can name it.
pub(super) const VARIABLE: &str = "(mark)";

/// The mark, inside a filter; none outside a request.
pub(super) fn of_state(state: &State) -> Option<char> {
    state.lookup(VARIABLE)?.as_str()?.chars().next()
}

/// The mark of one request.
pub(super) struct Marks {
    mark: char,
    is_used: bool,
}

impl Marks {
    /// A character that occurs in none of `inputs`.
    pub fn choose(inputs: &[&Json]) -> Result<Self> {
        let mut used = HashSet::new();
        for input in inputs {
            visit(input, &mut |text| used.extend(text.chars().filter(|c| *c as u32 >= FIRST_MARK)));
        }
        let free = (FIRST_MARK..FIRST_MARK + NUM_MARKS).filter_map(char::from_u32).find(|mark| !used.contains(mark));
        let mark = free.ok_or_else(|| Error::invalid("has every private-use character of Unicode in its strings"))?;
        Ok(Self { mark, is_used: false })
    }

    /// For the variable of this module's name.
    pub fn variable(&self) -> String {
        self.mark.to_string()
    }

    /// Marks the special tokens in all strings and keys of `value`.
    pub fn mark(&mut self, tokenizer: &TextTokenizer, value: &mut Json) {
        match value {
            Json::String(text) => {
                if let Some(marked) = self.mark_text(tokenizer, text) {
                    *text = marked;
                }
            }
            Json::Array(items) => items.iter_mut().for_each(|item| self.mark(tokenizer, item)),
            Json::Object(fields) => {
                let entries = std::mem::take(fields);
                *fields = self.mark_fields(tokenizer, entries);
            }
            _ => {}
        }
    }

    /// Puts a mark behind each of `letters` in all strings and keys of `value`, after [`Self::mark`].
    pub fn fence(&mut self, letters: &HashSet<char>, value: &mut Json) {
        match value {
            Json::String(text) => {
                if let Some(fenced) = self.fence_text(letters, text) {
                    *text = fenced;
                }
            }
            Json::Array(items) => items.iter_mut().for_each(|item| self.fence(letters, item)),
            Json::Object(fields) => {
                let mut fenced = Map::new();
                for (key, mut item) in std::mem::take(fields) {
                    self.fence(letters, &mut item);
                    fenced.insert(self.fence_text(letters, &key).unwrap_or(key), item);
                }
                *fields = fenced;
            }
            _ => {}
        }
    }

    fn fence_text(&mut self, letters: &HashSet<char>, text: &str) -> Option<String> {
        if !text.contains(|c| letters.contains(&c)) {
            return None;
        }
        let mut fenced = String::with_capacity(text.len() + 16);
        let mut rest = text.chars().peekable();
        while let Some(letter) = rest.next() {
            fenced.push(letter);
            if letters.contains(&letter) && rest.peek() != Some(&self.mark) {
                fenced.push(self.mark);
            }
        }
        self.is_used = true;
        Some(fenced)
    }

    fn mark_fields(&mut self, tokenizer: &TextTokenizer, fields: Map<String, Json>) -> Map<String, Json> {
        let mut marked = Map::new();
        for (key, mut item) in fields {
            self.mark(tokenizer, &mut item);
            marked.insert(self.mark_text(tokenizer, &key).unwrap_or(key), item);
        }
        marked
    }

    fn mark_text(&mut self, tokenizer: &TextTokenizer, text: &str) -> Option<String> {
        let added = tokenizer.inner.get_added_vocabulary();
        let pieces = added.extract_and_normalize(tokenizer.inner.get_normalizer(), text);
        let mut marked = String::new();
        let mut done = 0;
        for (_, (from, to), tokens) in pieces.get_splits(OffsetReferential::Original, OffsetType::Byte) {
            let is_special = |id: u32| tokenizer.special_ids().binary_search(&id).is_ok();
            if !tokens.as_ref().is_some_and(|tokens| tokens.iter().any(|token| is_special(token.id))) {
                continue;
            }
            // A token with lstrip or rstrip takes the white space beside it, which stays the template's to trim.
            let found = &text[from..to];
            let token = Some(found.trim()).filter(|token| !token.is_empty()).unwrap_or(found);
            let at = from + found.find(token).unwrap_or(0);
            marked.push_str(&text[done..at]);
            marked.extend(token.chars().flat_map(|c| [c, self.mark]));
            done = at + token.len();
        }
        if done == 0 {
            return None; // no special token
        }
        marked.push_str(&text[done..]);
        self.is_used = true;
        Some(marked)
    }

    /// The rendered text without marks, and the byte offsets in it at which they stood, ascending.
    pub fn remove(&self, rendered: String) -> (String, Vec<usize>) {
        if !self.is_used {
            return (rendered, Vec::new());
        }
        let mut text = String::with_capacity(rendered.len());
        let mut places = Vec::new();
        let mut pieces = rendered.split(self.mark);
        text.push_str(pieces.next().unwrap_or_default());
        for piece in pieces {
            places.push(text.len());
            text.push_str(piece);
        }
        (text, places)
    }
}

/// The characters that may begin a special token: of its first two, those that are neither letters nor digits.
pub(super) fn beginnings(tokenizer: &TextTokenizer) -> HashSet<char> {
    let tokens = tokenizer.special_ids().iter().filter_map(|id| tokenizer.inner.id_to_token(*id));
    tokens.flat_map(|token| token.chars().take(2).filter(|c| !c.is_alphanumeric()).collect::<Vec<_>>()).collect()
}

/// Whether a string or key of `value` has one of `letters`.
pub(super) fn has_any(letters: &HashSet<char>, value: &Json) -> bool {
    let mut found = false;
    visit(value, &mut |text| found = found || text.contains(|c| letters.contains(&c)));
    found
}

fn visit(value: &Json, each: &mut impl FnMut(&str)) {
    match value {
        Json::String(text) => each(text),
        Json::Array(items) => items.iter().for_each(|item| visit(item, each)),
        Json::Object(fields) => {
            for (key, item) in fields {
                each(key);
                visit(item, each);
            }
        }
        _ => {}
    }
}
