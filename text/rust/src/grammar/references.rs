// SPDX-License-Identifier: Apache-2.0
//! `$ref`: what they name, and references that lead back to themselves without a value in between.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::values::unsupported;
use crate::error::{Error, Result};

/// The schemas that references name, numbered in the order of discovery; 0 is the whole schema.
pub(super) struct References<'a> {
    root: &'a Value,
    ids: HashMap<String, usize>,
    targets: Vec<(String, &'a Value)>,
    /// By schema: those that it equals or combines in place.
    in_place: Vec<Vec<usize>>,
}

impl<'a> References<'a> {
    pub(super) fn new(root: &'a Value) -> Self {
        let ids = HashMap::from([("#".to_string(), 0)]);
        Self { root, ids, targets: vec![("#".into(), root)], in_place: vec![vec![]] }
    }

    pub(super) fn target(&self, id: usize) -> Option<(String, &'a Value)> {
        self.targets.get(id).cloned()
    }

    /// The schema's number. Errors: INVALID_ARGUMENT (names nothing), UNIMPLEMENTED (another document).
    pub(super) fn resolve(&mut self, reference: &str, path: &str) -> Result<usize> {
        if let Some(id) = self.ids.get(reference) {
            return Ok(*id);
        }
        let target = self.find(reference, path)?;
        let id = self.targets.len();
        self.ids.insert(reference.into(), id);
        self.targets.push((reference.into(), target));
        self.in_place.push(vec![]);
        Ok(id)
    }

    fn find(&self, reference: &str, path: &str) -> Result<&'a Value> {
        let Some(pointer) = reference.strip_prefix('#').filter(|rest| rest.is_empty() || rest.starts_with('/')) else {
            return Err(unsupported("$ref", path, "which is not of the form #/..."));
        };
        let decoded = percent_decoded(pointer);
        for (end, _) in decoded.match_indices('/').skip(1) {
            if let Some(Value::Object(map)) = self.root.pointer(&decoded[..end]) {
                check_base(map, path)?;
            }
        }
        let target = self.root.pointer(&decoded);
        target.ok_or_else(|| Error::invalid(format!("has \"$ref\" at {path}, which names nothing")))
    }

    pub(super) fn note_in_place(&mut self, from: usize, to: usize) {
        self.in_place[from].push(to);
    }

    /// Refuses a schema that is defined by itself.
    pub(super) fn check_progress(&self) -> Result<()> {
        // 0: not visited, 1: on the way, 2: done.
        let mut marks = vec![0u8; self.targets.len()];
        for start in 0..self.targets.len() {
            let mut stack = vec![(start, 0)];
            while let Some((id, next)) = stack.pop() {
                if next == 0 && marks[id] == 2 {
                    continue;
                }
                marks[id] = 1;
                let Some(to) = self.in_place[id].get(next) else {
                    marks[id] = 2;
                    continue;
                };
                if marks[*to] == 1 {
                    let name = super::quoted(&self.targets[*to].0);
                    return Err(Error::invalid(format!("has a \"$ref\" to {name} that leads back to itself")));
                }
                stack.push((id, next + 1));
                stack.push((*to, 0));
            }
        }
        Ok(())
    }
}

/// A schema below the root with a name of its own may have no references: they would be read from there. Errors:
/// UNIMPLEMENTED.
pub(super) fn check_base(map: &Map<String, Value>, path: &str) -> Result<()> {
    let is_named = map.get("$id").is_some_and(Value::is_string);
    match is_named && has_reference(map) {
        true => Err(unsupported("$id", path, "which changes what the references in it name")),
        false => Ok(()),
    }
}

fn has_reference(map: &Map<String, Value>) -> bool {
    fn inside(value: &Value) -> bool {
        match value {
            Value::Object(map) => has_reference(map),
            Value::Array(list) => list.iter().any(inside),
            _ => false,
        }
    }
    map.contains_key("$ref") || map.values().any(inside)
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some(byte) = rest.first() {
        let code = (*byte == b'%').then(|| rest.get(1..3)).flatten();
        let code = code.and_then(|hex| std::str::from_utf8(hex).ok()).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(code.unwrap_or(*byte));
        rest = &rest[if code.is_some() { 3 } else { 1 }..];
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
