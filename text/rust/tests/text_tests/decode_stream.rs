// SPDX-License-Identifier: Apache-2.0
//! All deltas of a stream together are the decoded whole, for each kind of decoder and for any ids, however they are cut.

use std::sync::Arc;

use crate::golden_files::{load, read_json, Rng, STYLES};
use crate::grammar_model::PLAIN;
use dunlin_text::decode::DecodeStream;
use dunlin_text::TextTokenizer;
use serde_json::{json, Value};

fn with_decoder(style: &str, decoder: Value) -> Arc<TextTokenizer> {
    let mut file = read_json(style, "tokenizer.json");
    file["decoder"] = decoder;
    Arc::new(load(&file).unwrap())
}

fn stream_in_chunks(stream: &mut DecodeStream, ids: &[u32], rng: &mut Rng, max_chunk: usize) -> String {
    let mut text = String::new();
    let mut rest = ids;
    while !rest.is_empty() {
        let (chunk, tail) = rest.split_at((1 + rng.below(max_chunk)).min(rest.len()));
        text += &stream.push(chunk).unwrap();
        rest = tail;
    }
    text + &stream.finish().unwrap()
}

/// Random ids: from the whole vocabulary, or dense in byte tokens and special tokens, which stand first.
fn random_ids(rng: &mut Rng, vocab_size: usize) -> Vec<u32> {
    let limit = if rng.below(2) == 0 { vocab_size + 3 } else { 270 };
    (0..rng.below(24)).map(|_| rng.below(limit) as u32).collect()
}

fn check(tokenizer: &Arc<TextTokenizer>, name: &str, rounds: usize) {
    let mut rng = Rng(7);
    for _ in 0..rounds {
        let ids = random_ids(&mut rng, tokenizer.vocab_size() as usize);
        for skip_special in [true, false] {
            let whole = tokenizer.decode(&ids, skip_special).unwrap();
            for max_chunk in [1, 4] {
                let mut stream = DecodeStream::new(tokenizer.clone(), &[], skip_special).unwrap();
                let streamed = stream_in_chunks(&mut stream, &ids, &mut rng, max_chunk);
                assert_eq!(streamed, whole, "{name} {ids:?} skip_special {skip_special}");
            }
        }
    }
}

#[test]
fn goldens_stream_as_they_decode() {
    for style in STYLES {
        check(&Arc::new(load(&read_json(style, "tokenizer.json")).unwrap()), style, 4000);
    }
}

#[test]
fn other_decoders_stream_as_they_decode() {
    let replace = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
    let strip = |start: u32, stop: u32| json!({"type": "Strip", "content": " ", "start": start, "stop": stop});
    let fuse = json!({"type": "Fuse"});
    let bytes = json!({"type": "ByteFallback"});
    let metaspace = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false});
    let decoders = [
        Value::Null,
        metaspace.clone(),
        json!({"type": "Sequence", "decoders": [bytes.clone(), metaspace]}),
        json!({"type": "Sequence", "decoders": [replace.clone(), bytes.clone(), fuse.clone()]}),
        json!({"type": "Sequence", "decoders": [replace.clone(), bytes.clone(), fuse.clone(), strip(3, 0)]}),
        json!({"type": "Sequence", "decoders": [replace.clone(), strip(1, 0), bytes.clone()]}),
        json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
        // Not for a stage chain: the text waits for the end.
        json!({"type": "BPEDecoder", "suffix": "e"}),
        json!({"type": "CTC", "pad_token": "a", "word_delimiter_token": "b", "cleanup": false}),
        json!({"type": "Sequence", "decoders": [bytes, fuse, replace]}),
    ];
    for decoder in decoders {
        check(&with_decoder("sentencepiece_llama2", decoder.clone()), &decoder.to_string(), 1000);
    }
}

/// The text waits for the end, because its last space goes.
#[test]
fn a_decoder_that_strips_the_end_streams_as_it_decodes() {
    let tokenizer = with_decoder(
        "sentencepiece_llama2",
        json!({"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 1}]}),
    );
    let ids = tokenizer.encode("the bird flies ", PLAIN).unwrap();
    for (ids, skip_special) in [(&ids[..], true), (&ids[..], false), (&[][..], true), (&[0, 1][..], true)] {
        let whole = tokenizer.decode(ids, skip_special).unwrap();
        let mut stream = DecodeStream::new(tokenizer.clone(), &[], skip_special).unwrap();
        let mut streamed = stream.push(ids).unwrap();
        streamed += &stream.finish().unwrap();
        assert_eq!(streamed, whole);
        assert_eq!(whole.is_empty(), ids.len() < 3);
    }
}

/// The library's Strip panics at a token that has fewer characters than it takes.
#[test]
fn a_decoder_that_strips_the_end_of_each_token_takes_what_there_is() {
    // Of the tokens "||", "||a" and "a".
    for (start, stop, expected) in
        [(0, 1, "|||aa"), (1, 1, "|aa"), (0, 3, "||aa"), (2, 5000, "aa"), (0, 0, "||||aa"), (0, usize::MAX, "||aa")]
    {
        let tokenizer = with_decoder(
            "sentencepiece_llama2",
            json!({"type": "Sequence", "decoders": [
                {"type": "Replace", "pattern": {"String": "▁"}, "content": "||"},
                {"type": "Strip", "content": "|", "start": start, "stop": stop}]}),
        );
        let ids = ["▁", "▁a", "a"].map(|token| tokenizer.token_to_id(token).unwrap());
        assert_eq!(tokenizer.decode(&ids, false).unwrap(), expected);
        let mut stream = DecodeStream::new(tokenizer.clone(), &[], false).unwrap();
        let mut streamed = stream.push(&ids).unwrap();
        streamed += &stream.finish().unwrap();
        assert_eq!(streamed, expected);
    }
}

#[test]
fn a_context_is_continued_and_not_repeated() {
    for style in STYLES {
        let tokenizer = Arc::new(load(&read_json(style, "tokenizer.json")).unwrap());
        let mut rng = Rng(11);
        let mut continued = 0;
        for _ in 0..4000 {
            let size = tokenizer.vocab_size() as usize;
            let (context, ids) = (random_ids(&mut rng, size), random_ids(&mut rng, size));
            let before = tokenizer.decode(&context, true).unwrap();
            let whole = tokenizer.decode(&[context.clone(), ids.clone()].concat(), true).unwrap();
            let mut stream = DecodeStream::new(tokenizer.clone(), &context, true).unwrap();
            let streamed = stream_in_chunks(&mut stream, &ids, &mut rng, 3);
            if before.ends_with(char::REPLACEMENT_CHARACTER) || !whole.starts_with(&before) {
                continue; // a character spans the border: see the next test
            }
            assert_eq!(before + &streamed, whole, "{style} {context:?} {ids:?}");
            continued += 1;
        }
        assert!(continued > 1000, "{style}: only {continued} contexts end with a whole character");
    }
}

#[test]
fn a_character_across_the_border_belongs_to_the_output() {
    for style in STYLES {
        let tokenizer = Arc::new(load(&read_json(style, "tokenizer.json")).unwrap());
        let bytes: Vec<u32> = "😀".bytes().map(|byte| byte_token(&tokenizer, byte)).collect();
        for cut in 1..4 {
            let mut stream = DecodeStream::new(tokenizer.clone(), &bytes[..cut], true).unwrap();
            let text = stream.push(&bytes[cut..]).unwrap() + &stream.finish().unwrap();
            assert_eq!(text, "😀", "{style} cut at {cut}");
        }
    }
}

fn byte_token(tokenizer: &TextTokenizer, byte: u8) -> u32 {
    let is_it = |id: &u32| tokenizer.token_bytes(*id).is_ok_and(|bytes| bytes == [byte]);
    (0..tokenizer.vocab_size()).find(is_it).expect("a token of one byte")
}

#[test]
fn a_word_after_a_context_keeps_its_space() {
    let tokenizer = Arc::new(load(&read_json("sentencepiece_llama2", "tokenizer.json")).unwrap());
    let the = tokenizer.token_to_id("▁the").unwrap();
    let text = |context: &[u32]| {
        let mut stream = DecodeStream::new(tokenizer.clone(), context, true).unwrap();
        stream.push(&[the]).unwrap() + &stream.finish().unwrap()
    };
    assert_eq!(text(&[]), "the");
    assert_eq!(text(&[1]), "the"); // <s> is out of sight
    assert_eq!(text(&[1, the]), " the");
}

#[test]
fn a_finished_stream_refuses_more() {
    let tokenizer = Arc::new(load(&read_json("byte_level_gpt2", "tokenizer.json")).unwrap());
    let mut stream = DecodeStream::new(tokenizer, &[], true).unwrap();
    stream.finish().unwrap();
    assert!(stream.finish().is_err() && stream.push(&[]).is_err());
}
