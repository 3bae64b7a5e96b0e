// SPDX-License-Identifier: Apache-2.0
//! JSON files that Python's json module wrote: it spells three numbers as words, which JSON does not have.

use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

const WORDS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];

/// The file as `T`, where NaN, Infinity and -Infinity are null: no field that is read here is such a number.
pub(crate) fn parse<T: DeserializeOwned>(name: &str, json: &[u8]) -> Result<T> {
    serde_json::from_slice(&without_words(json)).map_err(|error| Error::invalid(format!("{name}: {error}")))
}

fn without_words(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    let mut in_string = false;
    let mut rest = json;
    while let Some(byte) = rest.first() {
        let word = WORDS.iter().find(|word| !in_string && rest.starts_with(word));
        let size = match word {
            Some(word) => {
                out.extend(b" null "); // blanks: it becomes no part of what stands next to it
                rest = &rest[word.len()..];
                continue;
            }
            None if in_string && *byte == b'\\' => rest.len().min(2),
            None => 1,
        };
        in_string ^= *byte == b'"';
        out.extend(&rest[..size]);
        rest = &rest[size..];
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::{json, Value};

    use super::parse;

    #[test]
    fn words_are_null_outside_of_strings() {
        let text = br#"{"a": NaN, "b": [-Infinity, Infinity], "NaN": "\\\"Infinity", "c": -1}"#;
        let expected = json!({"a": null, "b": [null, null], "NaN": "\\\"Infinity", "c": -1});
        assert_eq!(parse::<Value>("f.json", text).unwrap(), expected);
    }

    #[test]
    fn words_join_nothing() {
        for text in ["[1NaN]", "[NaN1]", "[xInfinity]", "[--Infinity]", "{NaN: 1}"] {
            let error = parse::<Value>("f.json", text.as_bytes()).unwrap_err();
            assert!(error.message.starts_with("f.json: "), "{text}: {error}");
        }
    }
}
