// SPDX-License-Identifier: Apache-2.0
//! WordPiece. GGUF marks the beginning of a word with "▁" where tokenizer.json marks its continuation with "##".
//!
//! Source: llama.cpp, convert_hf_to_gguf.py (BertModel); transformers 5.23, convert_slow_tokenizer.py (BertConverter).

use serde_json::json;

use super::{types, ModelJson, TokenizerJson, Vocabulary};
use crate::error::Result;

/// The longest word that is not unknown as a whole: the library's default.
const MAX_WORD_CHARS: usize = 100;

pub(super) fn write<'a>(vocabulary: &'a Vocabulary) -> Result<TokenizerJson<'a>> {
    vocabulary.ids()?;
    // Files name these tokens in part: later ones give CLS as BOS, some give neither.
    let named = |text: &str| vocabulary.tokens.iter().position(|token| token == text);
    let cls = vocabulary.cls_token.or(vocabulary.bos_token).or_else(|| named("[CLS]"));
    let cls = vocabulary.token(cls, "CLS token");
    let sep = vocabulary.sep_token.or(vocabulary.eos_token).or_else(|| named("[SEP]"));
    let sep = vocabulary.token(sep, "SEP token");
    let before = vocabulary.add_bos.unwrap_or(true).then_some(cls).transpose()?;
    let after = vocabulary.add_sep.or(vocabulary.add_eos).unwrap_or(true).then_some(sep).transpose()?;
    let unknown = vocabulary.token(vocabulary.unk_token.or_else(|| named("[UNK]")), "unknown token")?.1;
    // The file does not say whether text is lowercased; a vocabulary for cased text has capitals.
    let is_word = |id: usize| vocabulary.tokens[id].starts_with('▁');
    let cased = (0..vocabulary.tokens.len())
        .any(|id| is_word(id) && vocabulary.tokens[id].chars().any(|letter| letter.is_ascii_uppercase()));
    let spell = |id: usize, token: &'a str| match token.strip_prefix('▁') {
        Some(word) => word.into(),
        None if is_whole(vocabulary, id) => token.into(),
        None => format!("##{token}").into(),
    };
    Ok(TokenizerJson {
        added_tokens: vocabulary.added(),
        normalizer: json!({"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
               "lowercase": !cased}),
        pre_tokenizer: json!({"type": "BertPreTokenizer"}),
        post_processor: vocabulary.around(before, after),
        decoder: json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        ..TokenizerJson::of(ModelJson {
            rules: json!({"type": "WordPiece", "unk_token": unknown, "continuing_subword_prefix": "##",
                          "max_input_chars_per_word": MAX_WORD_CHARS}),
            vocab: vocabulary.vocab(|_| true, spell),
            merges: None,
        })
    })
}

/// Special tokens, and "[unused7]", stand for themselves.
fn is_whole(vocabulary: &Vocabulary, id: usize) -> bool {
    let token = &vocabulary.tokens[id];
    let special = [types::UNKNOWN, types::CONTROL, types::USER_DEFINED].contains(&vocabulary.type_of(id));
    special || (token.starts_with('[') && token.ends_with(']'))
}
