// SPDX-License-Identifier: Apache-2.0
//! Encoding in pieces and with an early end: the ids are those of the whole text, no more is read than shows that a text
//! is too long, and the bound on bytes per token is one.

use crate::golden_files::{self, read_json, Rng, STYLES};
use dunlin_text::{load, EncodeOptions, TextTokenizer};
use serde_json::{json, Value};
use tokenizers::{
    NormalizedString, Normalizer, NormalizerWrapper, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
    PreTokenizerWrapper,
};

/// Source: tokenizer.json of Qwen 3.5; the tokenizer class that Kimi K2 brings with its weights.
const QWEN35: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}",
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
const KIMI: &str = concat!(
    r"[\p{Han}]+",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

const OPTIONS: [EncodeOptions; 2] = [
    EncodeOptions { add_special_tokens: true, parse_special: false },
    EncodeOptions { add_special_tokens: false, parse_special: true },
];

/// Where each goes wrong if a cut were wrong: spaces, contractions, digits, marks, special tokens, CJK, emoji, case.
const UNITS: [&str; 44] = [
    "a",
    "the",
    "THE",
    "don't",
    "'ll",
    "'",
    "x9",
    "1234",
    "0",
    " ",
    "  ",
    "   ",
    "\n",
    " \n",
    "\r\n",
    "\t",
    ",",
    ". ",
    "-",
    "--",
    "(",
    "!",
    "!?",
    "\"",
    "é",
    "e\u{301}",
    "\u{301}",
    "ﬁ",
    "漢字",
    "。",
    "，",
    "か\u{3099}",
    "한국",
    "Привет",
    "й",
    "αβ",
    "👩\u{200d}🚀",
    "<s>",
    "</s>",
    "<|endoftext|>",
    "<tool>",
    "<unk>",
    "\u{a0}",
    "▁",
];

fn tokenizers() -> Vec<(String, TextTokenizer)> {
    let mut files: Vec<(String, Value)> =
        STYLES.iter().map(|style| (style.to_string(), read_json(style, "tokenizer.json"))).collect();
    for style in ["../encoders/bert_tiny", "../encoders/roberta_tiny"] {
        files.push((style.to_string(), read_json(style, "tokenizer.json")));
    }
    let change = |name: &str, from: usize, path: &str, value: Value, files: &mut Vec<(String, Value)>| {
        let mut file = files[from].1.clone();
        *file.pointer_mut(path).unwrap() = value;
        files.push((name.to_string(), file));
    };
    change("prefix space", 0, "/pre_tokenizer/add_prefix_space", json!(true), &mut files);
    change("nfc", 0, "/normalizer", json!({"type": "NFC"}), &mut files);
    change(
        "nfkd and lowercase",
        1,
        "/normalizer",
        json!({"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "Lowercase"}]}),
        &mut files,
    );
    let digits = json!({"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
        {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true}]});
    change("digits", 0, "/pre_tokenizer", digits, &mut files);
    for scheme in ["first", "always", "never"] {
        for split in [true, false] {
            let mut file = files[2].1.clone();
            file["normalizer"] = Value::Null;
            file["pre_tokenizer"] =
                json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split});
            files.push((format!("metaspace {scheme} {split}"), file));
        }
    }
    let words = json!({"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
        {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true}]});
    change("words", 10, "/pre_tokenizer", words, &mut files);
    let gemma = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    change("replace", 2, "/normalizer", gemma, &mut files);
    let last = files.len() - 1;
    let split = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false});
    change("gemma", last, "/pre_tokenizer", split, &mut files);
    for pattern in [QWEN35, KIMI] {
        let split = json!({"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false},
            {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]});
        change(pattern, 0, "/pre_tokenizer", split, &mut files);
    }
    files.into_iter().map(|(name, file)| (name, golden_files::load(&file).unwrap())).collect()
}

fn is_matched_whole(pattern: &PreTokenizerWrapper, text: &str) -> bool {
    let mut pieces = PreTokenizedString::from(text);
    pattern.pre_tokenize(&mut pieces).unwrap();
    pieces.get_splits(OffsetReferential::Normalized, OffsetType::None).is_empty()
}

fn random_text(rng: &mut Rng) -> String {
    (0..rng.below(60)).map(|_| UNITS[rng.below(UNITS.len())]).collect()
}

#[test]
fn pieces_give_the_ids_of_the_whole_text() {
    for (name, mut tokenizer) in tokenizers() {
        assert!(tokenizer.has_cuts(), "{name}");
        let mut rng = Rng(7);
        let mut cut = 0;
        for _ in 0..250 {
            let text = random_text(&mut rng);
            for options in OPTIONS {
                tokenizer.set_piece_bytes(usize::MAX);
                let whole = tokenizer.encode(&text, options).unwrap();
                tokenizer.set_piece_bytes(1 + rng.below(24));
                cut += usize::from(tokenizer.widest_piece(&text) < text.len());
                assert_eq!(tokenizer.encode(&text, options).unwrap(), whole, "{name}: {text:?}");
            }
        }
        assert!(cut > 15, "{name}: only {cut} texts were cut");
    }
}

#[test]
fn the_beginning_of_a_longer_text_is_the_beginning_of_its_ids() {
    for (name, mut tokenizer) in tokenizers() {
        let mut rng = Rng(11);
        for _ in 0..80 {
            let text = random_text(&mut rng);
            for options in OPTIONS {
                tokenizer.set_piece_bytes(usize::MAX);
                let whole = tokenizer.encode(&text, options).unwrap();
                let around = tokenizer.encode("", options).unwrap().len();
                tokenizer.set_piece_bytes(16);
                let limit = rng.below(40);
                let some = tokenizer.encode_at_most(&text, options, limit, false).unwrap();
                assert_eq!(some.is_longer, whole.len() > limit, "{name}: {text:?}");
                assert_eq!(some.ids, if some.is_longer { vec![] } else { whole.clone() });
                let cut = tokenizer.encode_at_most(&text, options, limit, true).unwrap();
                assert_eq!(cut.is_longer, some.is_longer);
                if !cut.is_longer || limit < around || limit == 0 {
                    assert_eq!(cut.ids, some.ids);
                    continue;
                }
                let bare = EncodeOptions { add_special_tokens: false, ..options };
                let text_ids = tokenizer.encode(&text, bare).unwrap();
                assert_eq!(cut.ids.len(), limit);
                assert!(
                    limit == around || cut.ids.windows(limit - around).any(|ids| ids == &text_ids[..limit - around]),
                    "{name}: {text:?}"
                );
            }
        }
    }
}

#[test]
fn a_token_never_stands_for_more_bytes_than_the_bound() {
    let mut bounded = 0;
    for (name, tokenizer) in tokenizers() {
        let Some(most) = tokenizer.bytes_per_token() else { continue };
        bounded += 1;
        let mut rng = Rng(13);
        for _ in 0..100 {
            let mut text = random_text(&mut rng);
            text.push_str(&UNITS[rng.below(UNITS.len())].repeat(200));
            for options in OPTIONS {
                let count = tokenizer.encode(&text, options).unwrap().len();
                assert!(count * most >= text.len(), "{name}: {count} ids, {} bytes, {most}", text.len());
            }
        }
    }
    assert!(bounded >= 6, "{bounded}");
}

#[test]
fn components_that_a_cut_could_change_give_no_rule() {
    let file = read_json("byte_level_gpt2", "tokenizer.json");
    let mut changes = vec![("/normalizer", json!({"type": "Strip", "strip_left": true, "strip_right": true}))];
    changes.push(("/normalizer", json!({"type": "Replace", "pattern": {"Regex": "a b"}, "content": "c"})));
    changes.push(("/normalizer", json!({"type": "Replace", "pattern": {"String": "a b"}, "content": "c"})));
    let split =
        |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
    changes.push(("/pre_tokenizer", split(r"\w+ \w+|.")));
    changes.push(("/pre_tokenizer/use_regex", json!(false)));
    for (path, value) in changes {
        let mut file = file.clone();
        *file.pointer_mut(path).unwrap() = value.clone();
        assert!(!golden_files::load(&file).unwrap().has_cuts(), "{value}");
    }
    let mut greedy = file.clone();
    greedy["added_tokens"].as_array_mut().unwrap().push(json!({"id": 902, "content": "day", "single_word": false,
        "lstrip": false, "rstrip": true, "normalized": false, "special": false}));
    let tokenizer = golden_files::load(&greedy).unwrap();
    assert!(!tokenizer.has_cuts());
    assert_eq!(tokenizer.bytes_per_token(), None); // the token absorbs any number of spaces
}

#[test]
fn a_model_that_merges_into_spaces_gives_no_rule() {
    let mut file = read_json("sentencepiece_llama2", "tokenizer.json");
    assert!(golden_files::load(&file).unwrap().has_cuts());
    let free = 1000;
    file["model"]["vocab"]["e▁"] = json!(free);
    file["model"]["merges"].as_array_mut().unwrap().push(json!(["e", "▁"]));
    assert!(!golden_files::load(&file).unwrap().has_cuts());
}

#[test]
fn texts_that_cannot_fit_are_not_read() {
    let tokenizer = golden_files::load(&read_json("byte_level_gpt2", "tokenizer.json")).unwrap();
    let most = tokenizer.bytes_per_token().unwrap();
    assert_eq!(most, 13); // "<|endoftext|>"
    let run = "a".repeat(4 << 20);
    // One word, which would take seconds to merge: its size says enough.
    let start = std::time::Instant::now();
    assert!(tokenizer.encode_at_most(&run, OPTIONS[0], 1000, false).unwrap().is_longer);
    assert!(start.elapsed().as_millis() < 500);
    let words = "word ".repeat(800 << 10);
    assert!(tokenizer.encode_at_most(&words, OPTIONS[0], 300_000, false).unwrap().is_longer);
    assert!(tokenizer.widest_piece(&words) < 40 << 10);
    assert_eq!(tokenizer.widest_piece(&run), run.len());
}

#[test]
fn normalizers_shrink_no_character_by_more_than_the_bound_says() {
    let normal = |kind: &str, text: &str| {
        let normalizer: NormalizerWrapper = serde_json::from_value(json!({"type": kind})).unwrap();
        let mut text = NormalizedString::from(text);
        normalizer.normalize(&mut text).unwrap();
        text.get().to_string()
    };
    // The engine of the patterns, not the standard library, says what they take for a letter.
    let pattern =
        json!({"type": "Split", "pattern": {"Regex": r"[\p{L}\p{N}]"}, "behavior": "Removed", "invert": false});
    let pattern: PreTokenizerWrapper = serde_json::from_value(pattern).unwrap();
    for letter in '\0'..=char::MAX {
        let text = letter.to_string();
        let [nfd, nfkd, lower] = ["NFD", "NFKD", "Lowercase"].map(|kind| normal(kind, &text));
        assert!(text.len() <= 3 * nfd.len() && nfd.len() <= 3 * text.len(), "{letter:?}");
        assert!(text.len() <= 4 * nfkd.len() && text.len() <= 3 * lower.len(), "{letter:?}");
        if !load::is_word(letter) {
            continue;
        }
        // Letters and digits before a cut stay what the patterns take them for.
        for changed in [&text, &nfd, &nfkd, &lower] {
            let last = changed.chars().next_back().unwrap();
            assert!(is_matched_whole(&pattern, &last.to_string()), "{letter:?}");
        }
    }
}
