// SPDX-License-Identifier: Apache-2.0
//! Where a text may be cut so that the tokens of its parts, one after the other, are the tokens of the whole.
//!
//! A cut lies between a letter or digit and one of a few characters that begin the next part. It is safe where
//!  - no added token reaches across it, and none absorbs white space across it;
//!  - the normalizer treats both sides alone;
//!  - the pre-tokenizer splits both sides as it splits the whole, and
//!  - either it always splits at the cut, or the model is a BPE without a token that has the next character after
//!    another one: then no merge crosses the cut, and merges on one side do not depend on the other.
//!
//! Components outside these lists give no rule; such texts are encoded whole. `tests/time_tests/cuts.rs` compares with whole texts.

use serde_json::Value;
use tokenizers::models::ModelWrapper;
use tokenizers::{Model, NormalizedString, Normalizer, Tokenizer};

use super::patterns;

/// Before these a letter or digit ends what the known patterns match. No apostrophe (contractions), no underscore.
const MARKS: [char; 18] =
    [' ', ',', '.', ';', ':', '!', '?', '(', ')', '"', '-', '，', '。', '、', '；', '：', '！', '？'];

/// Patterns of GPT-2, Llama 3, Qwen 2 and 3.5, Kimi K2 and gpt-oss. Each matches every character; a run of letters or digits ends a
/// match before every one of [`MARKS`], whatever follows.
const REGEXES: [&str; 6] =
    [patterns::GPT2, patterns::LLAMA3, patterns::QWEN2, patterns::QWEN35, patterns::KIMI, patterns::GPT4O];

/// A letter or digit that stays one under every normalizer here; not every one, but those that end most words.
pub fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric()
        || matches!(letter, 'α'..='ω' | 'А'..='И' | 'К'..='и' | 'к'..='я' | 'א'..='ת' | '\u{627}'..='\u{63A}'
            | '\u{641}'..='\u{64A}' | '\u{4E00}'..='\u{9FA5}' | '\u{AC00}'..='\u{D7A3}')
}

/// Where a text may be cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CutRule {
    before: Vec<char>,
    before_ideograph: bool,
    /// After any character, not only after letters and digits.
    after_any: bool,
    /// The space at the cut is in neither part, because the normalizer puts it back before the second one.
    drops_space: bool,
}

impl CutRule {
    /// The first cut at or after `from`: where the first part ends and the second begins.
    pub fn next(&self, text: &str, mut from: usize) -> Option<(usize, usize)> {
        while from < text.len() && !text.is_char_boundary(from) {
            from += 1;
        }
        let mut last = text.get(..from)?.chars().next_back();
        let mut letters = text[from..].char_indices().peekable();
        while let Some((at, letter)) = letters.next() {
            let following = letters.peek().map(|(_, letter)| *letter);
            if self.is_cut(last, letter, following) {
                let at = from + at;
                return Some((at, at + usize::from(self.drops_space)));
            }
            last = Some(letter);
        }
        None
    }

    fn is_cut(&self, last: Option<char>, letter: char, following: Option<char>) -> bool {
        let begins = self.before.contains(&letter) || (self.before_ideograph && is_ideograph(letter));
        begins
            && last.is_some_and(|last| self.after_any || is_word(last))
            && (!self.drops_space || following.is_some_and(is_word))
    }
}

fn is_ideograph(letter: char) -> bool {
    matches!(letter, '\u{4E00}'..='\u{9FA5}')
}

/// None: no place of a text is known to be safe.
pub(super) fn find(tokenizer: &Tokenizer) -> Option<CutRule> {
    let mut facts = Facts {
        space: ' ',
        prepended: None,
        only_space: false,
        splits: false,
        words: None,
        spaces_ideographs: false,
        plain: true,
    };
    facts.read_normalizer(&serde_json::to_value(tokenizer.get_normalizer()).ok()?)?;
    facts.check_space(tokenizer)?;
    facts.read_pre_tokenizer(&serde_json::to_value(tokenizer.get_pre_tokenizer()).ok()?)?;
    if facts.prepended.as_ref().is_some_and(|text| *text != facts.space.to_string()) {
        return None;
    }
    let words = facts.words.filter(|_| facts.plain);
    let mut rule = CutRule {
        before: if facts.only_space || !facts.splits { vec![' '] } else { MARKS.to_vec() },
        before_ideograph: words == Some(Words::Bert) && facts.spaces_ideographs,
        after_any: words.is_some(),
        drops_space: facts.prepended.is_some(),
    };
    if words == Some(Words::Bert) {
        rule.before
            .extend((0x21..0x7F).map(char::from).filter(|letter| letter.is_ascii_punctuation() && *letter != '_'));
    }
    if !facts.splits && !never_merges_into(tokenizer.get_model(), facts.space) {
        return None;
    }
    respect_added_tokens(tokenizer, facts.space, &mut rule)?;
    (!rule.before.is_empty() && (rule.before.contains(&' ') || !rule.drops_space)).then_some(rule)
}

/// What the components before the model do around a cut.
struct Facts {
    /// What a space has become.
    space: char,
    prepended: Option<String>,
    /// Only a space may begin the second part.
    only_space: bool,
    /// A cut always lies between two words.
    splits: bool,
    /// A pre-tokenizer for which white space is always between two words.
    words: Option<Words>,
    /// The normalizer puts spaces around ideographs.
    spaces_ideographs: bool,
    /// No normalizer but BERT's own and Lowercase.
    plain: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    Spaces,
    /// ASCII punctuation is a word of its own.
    Bert,
}

impl Facts {
    /// Holds what was read of the normalizer against what it does.
    fn check_space(&self, tokenizer: &Tokenizer) -> Option<()> {
        let Some(normalizer) = tokenizer.get_normalizer() else { return Some(()) };
        let mut text = NormalizedString::from("a b");
        normalizer.normalize(&mut text).ok()?;
        (text.get() == format!("{}a{}b", self.prepended.as_deref().unwrap_or(""), self.space)).then_some(())
    }

    fn read_normalizer(&mut self, part: &Value) -> Option<()> {
        match part.get("type").and_then(Value::as_str) {
            None if part.is_null() => return Some(()),
            Some("Sequence") => {
                return part.get("normalizers")?.as_array()?.iter().try_for_each(|p| self.read_normalizer(p))
            }
            Some("Lowercase") => return Some(()),
            Some("BertNormalizer") => {
                self.spaces_ideographs |= part.get("handle_chinese_chars")? == true;
                return Some(());
            }
            Some("NFC" | "NFD" | "NFKC" | "NFKD" | "StripAccents") => {}
            // Works on grapheme clusters; what it makes of a space is in the file.
            Some("Precompiled") => self.only_space = true,
            Some("Prepend") if self.prepended.is_none() => {
                self.prepended = Some(part.get("prepend")?.as_str()?.to_string())
            }
            Some("Replace") => self.read_replace(part)?,
            _ => return None,
        }
        self.plain = false;
        Some(())
    }

    fn read_replace(&mut self, part: &Value) -> Option<()> {
        let content = part.get("content")?.as_str()?;
        let pattern = part.get("pattern")?;
        if pattern.get("Regex").is_some_and(|regex| regex == " {2,}") && content == " " {
            return Some(());
        }
        let pattern = pattern.get("String")?.as_str()?;
        if pattern == " " {
            let mut letters = content.chars();
            self.space = letters.next().filter(|_| letters.next().is_none() && self.space == ' ')?;
            self.only_space = true;
            return Some(());
        }
        let apart = pattern.chars().all(|c| !is_word(c)) && !pattern.starts_with(MARKS);
        (apart && content.chars().all(|c| !is_word(c))).then_some(())
    }

    fn read_pre_tokenizer(&mut self, part: &Value) -> Option<()> {
        let text = |name: &str| part.get(name).and_then(Value::as_str);
        match text("type") {
            None if part.is_null() => self.only_space = true,
            Some("Sequence") => {
                let parts = part.get("pretokenizers")?.as_array()?;
                parts.iter().try_for_each(|part| self.read_pre_tokenizer(part))?;
            }
            Some("ByteLevel") => {
                self.only_space |= part.get("add_prefix_space")? == true;
                self.splits |= part.get("use_regex")? == true;
                return (self.splits && self.space == ' ').then_some(());
            }
            Some("Split") if is_known_regex(part) => {
                let isolates = text("behavior") == Some("Isolated") && part.get("invert")? == false;
                let keeps = text("behavior") == Some("Removed") && part.get("invert")? == true;
                self.splits = true;
                return ((isolates || keeps) && self.space == ' ').then_some(());
            }
            // After Replace no space is left to split at.
            Some("Split") => {
                self.only_space = true;
                let on_space = part.get("pattern")?.get("String")? == " " && text("behavior") != Some("Removed");
                return (on_space && self.space != ' ').then_some(());
            }
            Some("Metaspace") => {
                let replacement = text("replacement")?.chars().next()?;
                let fits = self.prepended.is_none() && (self.space == ' ' || self.space == replacement);
                self.only_space = true;
                self.splits |= part.get("split")? == true;
                self.space = replacement;
                return fits.then_some(());
            }
            Some("WhitespaceSplit" | "Whitespace") => self.read_words(Words::Spaces)?,
            Some("BertPreTokenizer") => self.read_words(Words::Bert)?,
            Some("Digits" | "Punctuation") if self.space == ' ' => {}
            _ => return None,
        }
        Some(())
    }

    fn read_words(&mut self, words: Words) -> Option<()> {
        self.only_space = true;
        self.splits = true;
        self.words = Some(words);
        (self.space == ' ' && self.prepended.is_none()).then_some(())
    }
}

/// Whether the pattern of a Split is one that is known here.
pub(super) fn is_known_regex(split: &Value) -> bool {
    let regex = split.get("pattern").and_then(|pattern| pattern.get("Regex")).and_then(Value::as_str);
    regex.is_some_and(|regex| REGEXES.contains(&regex))
}

/// Whether no token has `letter` after another character, so that a BPE never merges across such a place. The letter is
/// a token itself: it is never part of a run of unknown characters.
fn never_merges_into(model: &ModelWrapper, letter: char) -> bool {
    let ModelWrapper::BPE(bpe) = model else { return false };
    let has_affix = bpe.continuing_subword_prefix.is_some() || bpe.end_of_word_suffix.is_some();
    if has_affix || bpe.ignore_merges || bpe.token_to_id(&letter.to_string()).is_none() {
        return false;
    }
    let crosses = |token: &String| {
        let mut last = letter;
        token.chars().any(|next| std::mem::replace(&mut last, next) != letter && next == letter)
    };
    !bpe.get_vocab().keys().any(crosses)
}

/// Removes from the rule what an added token could reach across.
fn respect_added_tokens(tokenizer: &Tokenizer, space: char, rule: &mut CutRule) -> Option<()> {
    for token in tokenizer.get_added_vocabulary().get_added_tokens_decoder().values() {
        let mut normalized = NormalizedString::from(token.content.as_str());
        if let Some(normalizer) = tokenizer.get_normalizer() {
            normalizer.normalize(&mut normalized).ok()?;
        }
        for content in [token.content.as_str(), normalized.get()] {
            let inner = |letter: char| content.chars().skip(1).any(|c| c == letter || (letter == ' ' && c == space));
            rule.before.retain(|letter| !inner(*letter) && !(token.single_word && content.starts_with(*letter)));
            rule.before_ideograph &= !token.single_word && !content.chars().skip(1).any(is_ideograph);
            let at_word = content.starts_with(is_word) || content.ends_with(is_word);
            if token.rstrip && content.ends_with(is_word) || rule.drops_space && at_word {
                return None;
            }
        }
        rule.after_any &= !token.lstrip && !token.rstrip;
    }
    Some(())
}
