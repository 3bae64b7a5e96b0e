// SPDX-License-Identifier: Apache-2.0
//! Requests and replies between the server and a text worker: numbers, texts and JSON values as bytes. Both ends are
//! the same build, so there is no version. A number has 8 bytes, little-endian; a text has its size before it.

use serde_json::{Map, Number, Value as Json};

use crate::error::{Code, Error, Result};

const NULL: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const INTEGER: u8 = 3;
const UNSIGNED: u8 = 4;
const FLOAT: u8 = 5;
const TEXT: u8 = 6;
const LIST: u8 = 7;
const OBJECT: u8 = 8;

/// A message as it is written.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn json(&mut self, value: &Json) {
        match value {
            Json::Null => self.byte(NULL),
            Json::Bool(value) => self.byte(if *value { TRUE } else { FALSE }),
            Json::Number(number) => self.json_number(number),
            Json::String(text) => {
                self.byte(TEXT);
                self.bytes(text.as_bytes());
            }
            Json::Array(items) => {
                self.byte(LIST);
                self.number(items.len() as u64);
                items.iter().for_each(|item| self.json(item));
            }
            Json::Object(fields) => {
                self.byte(OBJECT);
                self.fields(fields);
            }
        }
    }

    pub(crate) fn fields(&mut self, fields: &Map<String, Json>) {
        self.number(fields.len() as u64);
        for (name, value) in fields {
            self.bytes(name.as_bytes());
            self.json(value);
        }
    }

    fn json_number(&mut self, number: &Number) {
        let (kind, bits) = match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => (INTEGER, value as u64),
            (_, Some(value)) => (UNSIGNED, value),
            _ => (FLOAT, number.as_f64().unwrap_or_default().to_bits()),
        };
        self.byte(kind);
        self.number(bits);
    }
}

/// What is left of a message.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn byte(&mut self) -> Result<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn number(&mut self) -> Result<u64> {
        self.take(8).map(|bytes| bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8]> {
        let size = self.number()?;
        self.take(usize::try_from(size).map_err(|_| broken())?)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.bytes()?).map_err(|_| broken())
    }

    pub(crate) fn json(&mut self) -> Result<Json> {
        Ok(match self.byte()? {
            NULL => Json::Null,
            FALSE => Json::Bool(false),
            TRUE => Json::Bool(true),
            INTEGER => Json::from(self.number()? as i64),
            UNSIGNED => Json::from(self.number()?),
            FLOAT => Json::from(f64::from_bits(self.number()?)),
            TEXT => Json::String(self.text()?.to_owned()),
            LIST => {
                let size = self.number()?;
                (0..size).map(|_| self.json()).collect::<Result<Vec<Json>>>()?.into()
            }
            OBJECT => Json::Object(self.fields()?),
            _ => return Err(broken()),
        })
    }

    pub(crate) fn fields(&mut self) -> Result<Map<String, Json>> {
        let size = self.number()?;
        let mut fields = Map::new();
        for _ in 0..size {
            let name = self.text()?.to_owned();
            fields.insert(name, self.json()?);
        }
        Ok(fields)
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8]> {
        if size > self.0.len() {
            return Err(broken());
        }
        let (taken, rest) = self.0.split_at(size);
        self.0 = rest;
        Ok(taken)
    }
}

pub(super) fn broken() -> Error {
    Error::new(Code::Internal, "a message of the text worker is broken")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_value_is_the_same_on_the_other_side() {
        let value = json!({
            "z": [null, true, false, -1, u64::MAX, 0.1, 1e300], "a": {"text": "é\u{0}\"", "empty": [], "object": {}}
        });
        let mut writer = Writer::default();
        writer.json(&value);
        let mut reader = Reader(&writer.0);
        let read = reader.json().unwrap();
        assert_eq!(read, value);
        assert_eq!(read.to_string(), value.to_string(), "in the same order");
        assert!(reader.0.is_empty());
    }

    #[test]
    fn a_message_that_is_cut_short_is_an_error() {
        let mut writer = Writer::default();
        writer.json(&json!({"key": ["value", 1]}));
        for size in 0..writer.0.len() {
            assert!(Reader(&writer.0[..size]).json().is_err(), "{size}");
        }
    }
}
