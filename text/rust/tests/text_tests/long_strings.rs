// SPDX-License-Identifier: Apache-2.0
//! Strings of tens of thousands of characters that a schema counts: written to their end, in bounded memory.

use crate::grammar_model::{has, model, Model, PLAIN};
use dunlin_text::grammar::{GrammarSource, GrammarState};
use serde_json::{json, Value};

const LONGEST: usize = 65_536;
/// Characters as JSON writes them, and what they are.
const PLAIN_TEXT: [&str; 9] = ["t", "h", "e", " ", "d", "o", "g", ".", " "];
const MIXED: [&str; 12] = ["a", "é", "\\n", "東", "京", "😀", "\\u0001", "\\\"", "\\\\", " ", "/", "\\u007F"];

fn body(units: &[&str], count: usize) -> String {
    (0..count).map(|at| units[at % units.len()]).collect()
}

/// Takes a text that the grammar allows, token by token.
fn write(model: &Model, state: &mut GrammarState, text: &str) {
    for id in model.tokenizer.encode(text, PLAIN).unwrap() {
        assert!(has(&model.mask(state), id), "{id}");
        state.accept(id).unwrap();
    }
}

fn start(model: &Model, schema: &Value) -> GrammarState {
    let grammar = model.compiler.compile(&GrammarSource::JsonSchema(&schema.to_string()));
    grammar.unwrap_or_else(|error| panic!("{schema}: {error}")).start()
}

fn allows(model: &Model, state: &mut GrammarState, text: &str) -> bool {
    let ids = model.tokenizer.encode(text, PLAIN).unwrap();
    assert_eq!(ids.len(), 1, "{text:?}");
    has(&model.mask(state), ids[0])
}

fn document(name: &str, schema: Value) -> Value {
    json!({"type": "object", "properties": {name: schema}, "required": [name]})
}

#[test]
fn the_longest_string_is_written_to_its_end() {
    let model = model();
    let schema = document("content", json!({"type": "string", "maxLength": LONGEST}));
    for units in [&PLAIN_TEXT[..], &MIXED] {
        let mut state = start(&model, &schema);
        let text = format!("{{\"content\": \"{}", body(units, LONGEST));
        write(&model, &mut state, &text);
        assert!(!allows(&model, &mut state, "x") && !allows(&model, &mut state, "\\"), "one more");
        assert!(state.grown_bytes() <= 4 << 20, "{} bytes", state.grown_bytes());
        write(&model, &mut state, "\"}");
        assert!(state.is_accepting());
        let value: Value = serde_json::from_str(&(text + "\"}")).unwrap();
        assert_eq!(value["content"].as_str().unwrap().chars().count(), LONGEST);
    }
}

#[test]
fn eight_outputs_write_the_longest_string_at_once() {
    let model = model();
    let grammar = document("content", json!({"type": "string", "maxLength": LONGEST})).to_string();
    let grammar = model.compiler.compile(&GrammarSource::JsonSchema(&grammar)).unwrap();
    let mut states: Vec<GrammarState> = (0..8).map(|_| grammar.start()).collect();
    let tokens =
        model.tokenizer.encode(&format!("{{\"content\": \"{}\"}}", body(&PLAIN_TEXT, LONGEST)), PLAIN).unwrap();
    for id in tokens {
        for state in &mut states {
            assert!(has(&model.mask(state), id));
            state.accept(id).unwrap();
        }
    }
    assert!(states.iter().all(GrammarState::is_accepting));
    assert!(states.iter().map(GrammarState::grown_bytes).sum::<usize>() <= 32 << 20);
}

/// By mask and by Accept alike, at lengths around those of blocks.
#[test]
fn bounds_are_exact() {
    let model = model();
    let bounds = [
        (0, Some(257)),
        (1, Some(300)),
        (257, Some(257)),
        (256, Some(320)),
        (320, Some(321)),
        (300, None),
        (63, Some(448)),
        (100, Some(383)),
        (256, None),
        (319, Some(575)),
        (0, Some(384)),
    ];
    for (least, most) in bounds {
        let mut schema = json!({"type": "string", "minLength": least});
        most.into_iter().for_each(|most| schema["maxLength"] = most.into());
        let above = most.unwrap_or(700);
        let near = |at: usize| at.saturating_sub(2)..=at + 2;
        let lengths = near(least).chain(near(above)).chain([0, 63, 64, 65, 127, 128, 129, 192, 256, 320]);
        for length in lengths {
            let is_within = length >= least && most.is_none_or(|most| length <= most);
            for units in [&PLAIN_TEXT[..], &MIXED] {
                let text = format!("\"{}\"", body(units, length));
                assert_eq!(model.schema_matches(&schema, &text), is_within, "{schema}: {length} of {units:?}");
            }
        }
    }
}

#[test]
fn a_least_length_of_tens_of_thousands_is_demanded() {
    let model = model();
    for most in [None, Some(40_001)] {
        let mut schema = json!({"type": "string", "minLength": 40_000});
        most.into_iter().for_each(|most| schema["maxLength"] = most.into());
        let mut state = start(&model, &schema);
        write(&model, &mut state, &format!("\"{}", body(&PLAIN_TEXT, 39_999)));
        assert!(!allows(&model, &mut state, "\"") && allows(&model, &mut state, "x"));
        write(&model, &mut state, "x");
        assert!(allows(&model, &mut state, "\""));
        write(&model, &mut state, "xx"[..if most.is_some() { 1 } else { 2 }].into());
        assert_eq!(allows(&model, &mut state, "x"), most.is_none());
        write(&model, &mut state, "\"");
        assert!(state.is_accepting());
    }
}

/// The lexer counts in a schema that allOf combines.
#[test]
fn masks_are_those_of_strings_that_the_lexer_counts() {
    let model = model();
    for (least, most) in [(0, 300), (130, 390), (300, 321)] {
        let string = json!({"type": "string", "minLength": least, "maxLength": most});
        let (mut state, mut counted) = (start(&model, &string), start(&model, &json!({ "allOf": [string] })));
        for units in [&PLAIN_TEXT[..], &MIXED] {
            for id in model.tokenizer.encode(&format!("\"{}\"", body(units, most)), PLAIN).unwrap() {
                assert_eq!(model.mask(&mut state), model.mask(&mut counted), "{least} to {most}");
                state.accept(id).unwrap();
                counted.accept(id).unwrap();
            }
            assert!(state.is_accepting() && counted.is_accepting());
            (state, counted) = (start(&model, &string), start(&model, &json!({ "allOf": [string] })));
        }
    }
}

/// What JSON escapes and what is no character of a string is as in strings that the lexer counts.
#[test]
fn characters_are_those_of_short_strings() {
    let model = model();
    for unit in [
        "\\u0000",
        "\\u001f",
        "\\u001F",
        "\\u0020",
        "\\u007f",
        "\\u0041",
        "\\ud83d",
        "\\/",
        "\\b",
        "\\x",
        "/",
        "\u{7F}",
        "\u{80}",
        "\u{1}",
        "\n",
        "\u{10FFFF}",
        "\\\"",
        "\"",
    ] {
        let text = format!("\"{unit}\"");
        let is_short = model.schema_matches(&json!({"type": "string", "maxLength": 1}), &text);
        assert_eq!(model.schema_matches(&json!({"type": "string", "maxLength": 300}), &text), is_short, "{unit:?}");
        let text = format!("\"{}\"", unit.repeat(257));
        assert_eq!(model.schema_matches(&json!({"type": "string", "maxLength": 257}), &text), is_short, "{unit:?}");
        assert!(!model.schema_matches(&json!({"type": "string", "maxLength": 256}), &text), "{unit:?}");
    }
}

type Case = (Value, Vec<&'static str>, Vec<&'static str>);

fn long() -> Value {
    json!({"type": "string", "maxLength": 300})
}

fn object(properties: Value, required: Value) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

fn either(other: Value) -> Value {
    json!({"anyOf": [long(), other]})
}

fn tagged(kind: &str, text: Value) -> Value {
    object(json!({"kind": {"const": kind}, "text": text}), json!(["kind", "text"]))
}

fn objects_and_arrays() -> Vec<Case> {
    let next = json!({"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]});
    let node = object(json!({"v": long(), "next": next}), json!(["v"]));
    let prefix = json!([{"type": "integer"}, long()]);
    vec![
        (
            object(json!({"a": long(), "b": {"type": "integer"}, "c": long()}), json!(["b"])),
            vec!["{'b': 1}", "{'a': 'L', 'b': 1}", "{'b': 1, 'c': ''}", "{'a': 'L', 'b': 1, 'c': 'L'}"],
            vec!["{}", "{'a': 'L'}", "{'a': 'M', 'b': 1}", "{'b': 1, 'a': 'L'}", "{'b': 1, 'c': 'M'}", "{, 'b': 1}"],
        ),
        (
            object(json!({"a": long(), "b": long()}), json!([])),
            vec!["{}", "{'a': 'L'}", "{'b': 'L'}", "{'a': 'L', 'b': ''}"],
            vec!["{'a': 'L' }", "{'a': 'L', }", "{'c': 1}"],
        ),
        (
            object(json!({"say \"hi\"\n": long(), "END_1_2": true}), json!(["say \"hi\"\n"])),
            vec!["{'say \\'hi\\'\\n': 'L'}", "{'say \\'hi\\'\\n': 'L', 'END_1_2': ['x', {'y': 1.5}]}"],
            vec!["{}"],
        ),
        (
            json!({"type": "array", "items": long()}),
            vec!["[]", "['L']", "['L', 'L', '']"],
            vec!["['M']", "[1]", "['L','L']"],
        ),
        (
            json!({"type": "array", "items": long(), "minItems": 2, "maxItems": 3}),
            vec!["['L', '']", "['L', '', 'L']"],
            vec!["['L']", "[]", "['', '', '', '']"],
        ),
        (
            json!({"type": "array", "prefixItems": prefix, "items": long(), "minItems": 1, "maxItems": 3}),
            vec!["[1]", "[1, 'L']", "[1, 'L', 'L']"],
            vec!["[]", "['L']", "[1, 'M']", "[1, 'L', 'L', '']"],
        ),
        (json!({"type": "array", "prefixItems": prefix, "maxItems": 1}), vec!["[]", "[1]"], vec!["[1, 'L']"]),
        (json!({"type": "array", "items": long(), "maxItems": 0}), vec!["[]"], vec!["['L']"]),
        (
            json!({"type": "object", "additionalProperties": long()}),
            vec!["{}", "{'any\\n': 'L'}", "{'a': 'L', 'b': 'L'}"],
            vec!["{'a': 'M'}", "{'a': 1}"],
        ),
        (
            json!({"$ref": "#/$defs/n", "$defs": {"n": node}}),
            vec!["{'v': 'L'}", "{'v': 'L', 'next': {'v': '', 'next': null}}"],
            vec!["{'v': 'M'}", "{'v': '', 'next': {}}"],
        ),
    ]
}

fn alternatives() -> Vec<Case> {
    vec![
        (either(json!({"type": "null"})), vec!["'L'", "null"], vec!["'M'", "1"]),
        (
            json!({"anyOf": [{"type": "array", "items": long()}, long(), {"type": "integer"}]}),
            vec!["['L']", "'L'", "7"],
            vec!["[7]", "'M'"],
        ),
        (
            json!({"oneOf": [long(), {"type": "integer"}, {"type": "null"}]}),
            vec!["'L'", "7", "null"],
            vec!["'M'", "true"],
        ),
        (
            json!({"type": ["string", "null", "integer"], "maxLength": 300, "maximum": 9}),
            vec!["'L'", "null", "8"],
            vec!["'M'", "10", "8.5"],
        ),
        (json!({"maxLength": 300}), vec!["'L'", "[1, 'M']", "{'a': 'M'}", "1.5", "true", "null"], vec!["'M'"]),
        (either(json!({"type": "string", "minLength": 302, "maxLength": 400})), vec!["'L'"], vec!["'M'"]),
        (
            json!({"anyOf": [tagged("a", long()), tagged("b", json!({"type": "string"})), {"type": "null"}]}),
            vec!["{'kind': 'a', 'text': 'L'}", "{'kind': 'b', 'text': 'M'}", "{'kind': 'b', 'text': 'x'}", "null"],
            vec!["{'kind': 'a', 'text': 'M'}", "{'kind': 'c', 'text': 'x'}"],
        ),
        (
            json!({"oneOf": [tagged("a", long()), tagged("b", json!({"maxLength": 301}))]}),
            vec!["{'kind': 'a', 'text': 'L'}", "{'kind': 'b', 'text': 'M'}", "{'kind': 'b', 'text': [1]}"],
            vec!["{'kind': 'a', 'text': 'M'}", "{'kind': 'a', 'text': 1}"],
        ),
    ]
}

fn that_the_lexer_counts() -> Vec<Case> {
    let other = object(json!({"text": {"enum": ["x"]}, "n": {"type": "null"}}), json!(["n"]));
    let mut open = object(json!({"a": long()}), json!(["a"]));
    open["additionalProperties"] = json!({"type": "integer"});
    vec![
        (
            json!({"anyOf": [object(json!({"text": long()}), json!([])), other]}),
            vec!["{'text': 'L'}", "{'text': 'x'}", "{'text': 'x', 'n': null}"],
            vec!["{'text': 'M'}", "{'text': 'L', 'n': null}"],
        ),
        (either(json!({"enum": ["xy", "x"]})), vec!["'L'", "'x'", "'xyz'"], vec!["'M'"]),
        (json!({"type": "string", "maxLength": 300, "pattern": "^(a|b)*$"}), vec!["'L'", "'ab'"], vec!["'M'", "'c'"]),
        (open, vec!["{'a': 'L'}", "{'a': 'L', 'b': 1}"], vec!["{'a': 'M'}", "{'a': 'L', 'b': ''}"]),
    ]
}

/// Each schema with texts that it allows and texts that it does not; ' stands for ", L for 300 characters, M for 301.
#[test]
fn values_around_long_strings_are_as_the_schema_has_them() {
    let model = model();
    let text = |s: &str| s.replace('\'', "\"").replace('L', &"a".repeat(300)).replace('M', &"a".repeat(301));
    for (schema, valid, invalid) in
        objects_and_arrays().into_iter().chain(alternatives()).chain(that_the_lexer_counts())
    {
        for short in valid {
            assert!(model.schema_matches(&schema, &text(short)), "{schema}: {short}");
        }
        for short in invalid {
            assert!(!model.schema_matches(&schema, &text(short)), "{schema}: {short}");
        }
    }
}

/// As calls of tools are: each part has long strings of its own.
#[test]
fn parts_of_a_composed_grammar_have_long_strings() {
    let model = model();
    let part =
        |most: usize| object(json!({"text": {"type": "string", "maxLength": most}}), json!(["text"])).to_string();
    let (first, second) = (part(LONGEST), part(300));
    let lark = "start: \"<a>\" @part_0 \"</a>\" | \"<b>\" @part_1 \"</b>\"";
    let parts = || vec![GrammarSource::JsonSchema(&first), GrammarSource::JsonSchema(&second)];
    let text = |name: &str, count: usize| format!("<{name}>{{\"text\": \"{}\"}}</{name}>", body(&PLAIN_TEXT, count));
    for (name, count, is_valid) in
        [("a", LONGEST, true), ("b", 300, true), ("b", 301, false), ("a", LONGEST + 1, false)]
    {
        let source = GrammarSource::Composed(lark, parts());
        assert_eq!(model.matches(&source, &text(name, count)), is_valid, "{name}: {count}");
    }
}

#[test]
fn schemas_without_a_text_are_refused_as_without_long_strings() {
    let model = model();
    for schema in [
        json!({"type": "string", "minLength": 400, "maxLength": 300}),
        document("a", json!({"type": "string", "minLength": 400, "maxLength": 300})),
    ] {
        assert_eq!(model.schema_refusal(&schema).code, dunlin_text::Code::InvalidArgument, "{schema}");
    }
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 300}, "b": {"type": "integer", "minimum": 2, "maximum": 1}}});
    assert!(model.schema_matches(&schema, "{\"a\": \"x\"}") && !model.schema_matches(&schema, "{\"b\": 1}"));
}
