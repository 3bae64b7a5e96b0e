// SPDX-License-Identifier: Apache-2.0
//! Tokenizers built from a vocabulary against Hugging Face's on the same vocabulary, and vocabularies that are refused.

use crate::golden_files::{self, read_bytes, read_json};
use dunlin_text::load::{load_sentencepiece, load_tiktoken, load_vocabulary};
use dunlin_text::{Code, EncodeOptions, TextTokenizer};
use serde_json::{json, Value};

const SENTENCEPIECE: &str = "vocabularies/sentencepiece";
const WORDPIECE: &str = "vocabularies/wordpiece";
const MERGED_PIECES: &str = "vocabularies/merged_pieces";
const TIKTOKEN: &str = "vocabularies/tiktoken";

fn from_json(vocabulary: &Value) -> dunlin_text::Result<TextTokenizer> {
    load_vocabulary(vocabulary.to_string().as_bytes(), b"", 0)
}

fn refusal(vocabulary: &Value) -> String {
    let error = from_json(vocabulary).err().expect("a refusal");
    assert_eq!(error.code, Code::InvalidArgument, "{error}");
    error.message
}

fn ids_of(case: &Value) -> Vec<u32> {
    case["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn encode(tokenizer: &TextTokenizer, case: &Value) -> Vec<u32> {
    let flag = |name: &str| case[name] == true;
    let options =
        EncodeOptions { add_special_tokens: flag("add_special_tokens"), parse_special: flag("parse_special") };
    tokenizer.encode_at_most(case["text"].as_str().unwrap(), options, usize::MAX, false).expect("ids").ids
}

fn expect_cases(tokenizer: &TextTokenizer, style: &str) {
    let cases = read_json(style, "cases.json");
    for case in cases["encode"].as_array().unwrap() {
        assert_eq!(encode(tokenizer, case), ids_of(case), "{style}: {case}");
    }
    for case in cases["decode"].as_array().unwrap() {
        let text = tokenizer.decode(&ids_of(case), case["skip_special"] == true).unwrap();
        assert_eq!(text, case["text"].as_str().unwrap(), "{style}: {case}");
    }
}

/// The vocabulary of a byte-level tokenizer.json in the form of GGUF.
fn byte_level(style: &str, pre: &str) -> Value {
    let file = read_json(style, "tokenizer.json");
    let mut tokens: Vec<(u64, String, f64)> = Vec::new();
    for (token, id) in file["model"]["vocab"].as_object().unwrap() {
        tokens.push((id.as_u64().unwrap(), token.clone(), 1.0));
    }
    for added in file["added_tokens"].as_array().unwrap() {
        let id = added["id"].as_u64().unwrap();
        tokens.retain(|(other, _, _)| *other != id);
        let kind = if added["special"] == true { 3.0 } else { 4.0 };
        tokens.push((id, added["content"].as_str().unwrap().to_string(), kind));
    }
    tokens.sort_by_key(|(id, _, _)| *id);
    let merge = |merge: &Value| match merge.as_array() {
        Some(pair) => format!("{} {}", pair[0].as_str().unwrap(), pair[1].as_str().unwrap()),
        None => merge.as_str().unwrap().to_string(),
    };
    let merges: Vec<String> = file["model"]["merges"].as_array().unwrap().iter().map(merge).collect();
    let bos = tokens.iter().position(|(_, token, _)| token.starts_with("<|begin") || token == "<|endoftext|>");
    json!({"model": "gpt2", "pre": pre, "merges": merges, "bos_token": bos,
           "tokens": tokens.iter().map(|row| &row.1).collect::<Vec<_>>(),
           "types": tokens.iter().map(|row| row.2).collect::<Vec<_>>()})
}

#[test]
fn byte_level_vocabularies_give_the_published_ids() {
    for (style, pre) in [("byte_level_gpt2", "gpt-2"), ("byte_level_llama3", "llama-bpe")] {
        expect_cases(&from_json(&byte_level(style, pre)).unwrap(), style);
    }
}

#[test]
fn every_split_has_the_ids_of_the_published_pre_tokenizer() {
    let file = read_json("vocabularies", "splits.json");
    let texts = file["texts"].as_array().unwrap();
    let splits = file["ids"].as_object().unwrap();
    assert_eq!((splits.len(), texts.is_empty()), (21, false));
    for (pre, ids) in splits {
        let tokenizer = from_json(&byte_level("byte_level_gpt2", pre)).unwrap();
        assert_eq!(ids.as_array().unwrap().len(), texts.len());
        for (text, ids) in texts.iter().zip(ids.as_array().unwrap()) {
            let case = json!({"text": text, "ids": ids});
            assert_eq!(encode(&tokenizer, &case), ids_of(&case), "{pre}: {text}");
        }
    }
}

#[test]
fn sentencepiece_models_give_the_ids_of_transformers() {
    let model = read_bytes(SENTENCEPIECE, "tokenizer.model");
    expect_cases(&load_sentencepiece(&model, b"", 0).unwrap(), SENTENCEPIECE);
    expect_cases(&from_json(&read_json(SENTENCEPIECE, "vocabulary.json")).unwrap(), SENTENCEPIECE);
}

#[test]
fn pieces_with_merges_give_the_ids_of_the_library() {
    expect_cases(&from_json(&read_json(MERGED_PIECES, "vocabulary.json")).unwrap(), MERGED_PIECES);
}

fn tiktoken() -> (Vec<u8>, Vec<u8>) {
    (read_bytes(TIKTOKEN, "tiktoken.model"), read_bytes(TIKTOKEN, "tokenizer_config.json"))
}

#[test]
fn tiktoken_vocabularies_give_the_ids_of_tiktoken() {
    let (ranks, config) = tiktoken();
    let tokenizer = load_tiktoken(&ranks, &config, 0).unwrap();
    expect_cases(&tokenizer, TIKTOKEN);
    let first = ranks.split(|byte| *byte == b'\n').count() as u32 - 1;
    assert_eq!((tokenizer.bos_id(), tokenizer.eos_id()), (Some(first), Some(first + 1)));
    assert_eq!(tokenizer.vocab_size(), first + 258);
    // Reserved tokens are special, named ones as their entries say.
    assert_eq!(tokenizer.decode(&[first + 3, first + 9], true).unwrap(), "<|tool_call_begin|>");
    // Reserved tokens for which the model has no rows are none.
    assert_eq!(load_tiktoken(&ranks, &config, first + 256).unwrap().vocab_size(), first + 256);
}

#[test]
fn broken_tiktoken_vocabularies_are_refused() {
    let (ranks, config) = tiktoken();
    let text = String::from_utf8(ranks.clone()).unwrap();
    let refused = |ranks: &str| {
        let error = load_tiktoken(ranks.as_bytes(), &config, 0).err().expect("a refusal");
        assert_eq!(error.code, Code::InvalidArgument, "{error}");
        error.message
    };
    assert!(refused("").contains("has no token for the byte 0x00"));
    assert!(refused("IQ==\n").contains("line 1 is not a token in Base64 and its rank"));
    assert!(refused("I!== 0\n").contains("line 1 is not a token in Base64"));
    assert!(refused("IQ== 1\n").contains("has rank 1 in line 1; expected 0"));
    assert!(refused("= 0\n").contains("a token of 0 bytes in line 1"));
    assert!(refused("IQ== 0\nIQ== 1\n").contains("has \"!\" twice, with ranks 0 and 1"));
    let long = "AAAA".repeat(400) + " 0\n";
    assert!(refused(&long).contains("a token of 1200 bytes in line 1; limit is [1, 1024]"));
    assert!(refused(&text.lines().skip(1).collect::<Vec<_>>().join("\n")).contains("has rank 1 in line 1"));
    for (config, class) in [("", "\"\""), ("{\"tokenizer_class\": \"QWenTokenizer\"}", "\"QWenTokenizer\"")] {
        let message = load_tiktoken(&ranks, config.as_bytes(), 0).err().unwrap().message;
        assert!(message.contains(&format!("tokenizer_class is {class}; of those with a tiktoken.model")), "{message}");
    }
}

#[test]
fn wordpiece_vocabularies_give_the_ids_of_the_library() {
    expect_cases(&from_json(&read_json(WORDPIECE, "vocabulary.json")).unwrap(), WORDPIECE);
}

#[test]
fn flags_add_tokens_around_a_text() {
    let mut vocabulary = read_json(SENTENCEPIECE, "vocabulary.json");
    vocabulary["add_eos"] = json!(true);
    let case = json!({"text": "bird", "add_special_tokens": true});
    let ids = encode(&from_json(&vocabulary).unwrap(), &case);
    assert_eq!((ids.first(), ids.last()), (Some(&1), Some(&2)));
    vocabulary["add_bos"] = json!(false);
    assert_ne!(encode(&from_json(&vocabulary).unwrap(), &case)[0], 1);
    vocabulary["bos_token"] = Value::Null;
    vocabulary["add_bos"] = json!(true);
    assert!(refusal(&vocabulary).contains("names no BOS token"));
}

#[test]
fn rows_without_a_token_decode_to_nothing() {
    let mut vocabulary = byte_level("byte_level_gpt2", "");
    let id = vocabulary["tokens"].as_array().unwrap().len() as u32;
    vocabulary["tokens"].as_array_mut().unwrap().push(json!("[PAD902]"));
    vocabulary["types"].as_array_mut().unwrap().push(json!(5.0));
    assert_eq!(from_json(&vocabulary).unwrap().decode(&[id], false).unwrap(), "");
}

#[test]
fn broken_vocabularies_are_refused() {
    let gpt2 = byte_level("byte_level_gpt2", "");
    let edited = |edit: &dyn Fn(&mut Value)| {
        let mut vocabulary = gpt2.clone();
        edit(&mut vocabulary);
        refusal(&vocabulary)
    };
    assert!(
        edited(&|v| v["model"] = json!("rwkv")).contains("\"rwkv\" is not supported; known: gpt2, llama, gemma4, bert")
    );
    assert!(
        edited(&|v| v["pre"] = json!("viking")).contains("tokenizer.ggml.pre \"viking\" is not known; known: default")
    );
    assert!(edited(&|v| v["merges"][0] = json!("ab")).contains("merges[0]"));
    assert!(edited(&|v| v["merges"][0] = json!("q zzz")).contains("\"zzz\", which is not in model.vocab"));
    assert!(edited(&|v| v["tokens"][7] = v["tokens"][9].clone()).contains("twice, with ids 7 and 9"));
    assert!(edited(&|v| v["tokens"] = json!(7)).contains("the vocabulary"));
    let mut pieces = read_json(SENTENCEPIECE, "vocabulary.json");
    pieces["scores"].as_array_mut().unwrap().pop();
    assert!(refusal(&pieces).contains("899 scores for 900 pieces"));
}

#[test]
fn a_sentencepiece_model_that_is_cut_short_or_changed_never_crashes() {
    let model = read_bytes(SENTENCEPIECE, "tokenizer.model");
    for size in (0..model.len()).step_by(7) {
        let _ = load_sentencepiece(&model[..size], b"", 0);
    }
    assert!(load_sentencepiece(b"", b"", 0).err().unwrap().message.contains("has no pieces"));
    assert!(load_sentencepiece(&[0x0A, 0xFF, 0x7F], b"", 0).err().unwrap().message.contains("cut short or malformed"));
    let mut random = golden_files::Rng(5);
    for _ in 0..300 {
        let mut bytes = model.clone();
        let at = random.below(bytes.len());
        bytes[at] = random.below(256) as u8;
        if let Err(error) = load_sentencepiece(&bytes, b"", 0) {
            assert_eq!(error.code, Code::InvalidArgument, "{error}");
        }
    }
}
