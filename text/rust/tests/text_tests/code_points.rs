// SPDX-License-Identifier: Apache-2.0
//! The regex engine under the pre-tokenizers splits as the one in the Python wheels: for every code point, up to the
//! size limit, and with an error where a pattern backtracks without end.

use crate::golden_files::read_json;
use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, PreTokenizerWrapper};

fn pre_tokenizer(style: &str) -> PreTokenizerWrapper {
    serde_json::from_value(read_json(style, "tokenizer.json")["pre_tokenizer"].take()).unwrap()
}

fn piece_sizes(pre_tokenizer: &PreTokenizerWrapper, text: &str) -> Vec<usize> {
    let mut pieces = PreTokenizedString::from(text);
    pre_tokenizer.pre_tokenize(&mut pieces).unwrap();
    let splits = pieces.get_splits(OffsetReferential::Normalized, OffsetType::None);
    splits.iter().map(|(piece, _, _)| piece.len()).collect()
}

#[test]
fn every_code_point_splits_as_in_python() {
    for style in ["byte_level_gpt2", "byte_level_llama3"] {
        let pre_tokenizer = pre_tokenizer(style);
        let mut digest: u64 = 0xCBF2_9CE4_8422_2325;
        for letter in '\0'..=char::MAX {
            for size in piece_sizes(&pre_tokenizer, &format!("a{letter}b {letter}1'{letter}")) {
                digest = (digest ^ size as u64).wrapping_mul(0x100_0000_01B3);
            }
        }
        assert_eq!(format!("{digest:016x}"), read_json(style, "cases.json")["code_points_digest"], "{style}");
    }
}

#[test]
fn runs_of_the_largest_text_are_split_to_their_end() {
    let limit = dunlin_text::limits::MAX_TEXT_BYTES;
    for style in ["byte_level_gpt2", "byte_level_llama3"] {
        let pre_tokenizer = pre_tokenizer(style);
        for unit in [" ", "\n", "A", "a", "!", "\u{301}", "\t "] {
            let run = unit.repeat((limit - 16) / unit.len());
            let sizes = piece_sizes(&pre_tokenizer, &format!("{run}x y 1"));
            // After the run, " y", " " and "1" stand alone (GPT-2 joins " 1"): the engine did not give up before.
            let end = if style == "byte_level_gpt2" { vec![3, 3] } else { vec![3, 2, 1] };
            assert!(sizes.len() > end.len(), "{style} {unit:?}");
            assert_eq!(sizes[sizes.len() - end.len()..], end, "{style} {unit:?}");
        }
    }
}

#[test]
fn capital_runs_are_split_under_the_pattern_of_o200k() {
    // Source: tokenizer.json of gpt-oss, pre_tokenizer. Its first branch backtracks over a whole run of capitals.
    let pattern = concat!(
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    );
    let split = serde_json::json!(
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false});
    let split: PreTokenizerWrapper = serde_json::from_value(split).unwrap();
    let run = "A".repeat(dunlin_text::limits::MAX_TEXT_BYTES - 8);
    assert_eq!(piece_sizes(&split, &format!("{run} b 1")), vec![run.len(), 2, 1, 1]);
}
