// SPDX-License-Identifier: Apache-2.0
//! Methods of Python's str and bytes between characters and their codes. UTF-8 is the only encoding.

use minijinja::value::{Value, ValueKind};
use minijinja::{Error, State};

use super::arguments::{bind, charge, refuse, required, text};

/// `str.encode(encoding='utf-8', errors='strict')`.
pub(super) fn encode(_: &State, s: &str, args: &[Value]) -> Result<Value, Error> {
    check_encoding(args)?;
    Ok(Value::from_bytes(s.as_bytes().to_vec()))
}

/// `bytes.decode(encoding='utf-8', errors='strict')`.
pub(super) fn decode(state: &State, bytes: &[u8], args: &[Value]) -> Result<Value, Error> {
    check_encoding(args)?;
    charge(state, bytes.len())?;
    let text = std::str::from_utf8(bytes).map_err(|_| refuse("the bytes are not UTF-8"))?;
    Ok(Value::from(text))
}

fn check_encoding(args: &[Value]) -> Result<(), Error> {
    let [encoding, errors] = bind(["encoding", "errors"], args)?;
    let name = text(&encoding, "utf-8")?.to_ascii_lowercase().replace('_', "-");
    if !["utf-8", "utf8"].contains(&name.as_str()) || text(&errors, "strict")? != "strict" {
        return Err(refuse("only UTF-8 is supported, and errors=\"strict\""));
    }
    Ok(())
}

/// `str.translate(table)`: by the codes of characters, to texts, codes or None.
pub(super) fn translate(state: &State, s: &str, args: &[Value]) -> Result<Value, Error> {
    let [table] = bind(["table"], args)?;
    let table = required(table)?;
    let mut out = String::with_capacity(s.len());
    for c in s.chars() {
        let to = table.get_item(&Value::from(u32::from(c)))?;
        match to.kind() {
            ValueKind::Undefined => out.push(c),
            ValueKind::None => {}
            ValueKind::String => {
                let to = to.as_str().unwrap_or_default();
                charge(state, to.len())?;
                out.push_str(to);
            }
            _ if to.is_integer() => {
                let code = u32::try_from(to).ok().and_then(char::from_u32);
                out.push(code.ok_or_else(|| refuse("character mapping must be in range(0x110000)"))?);
            }
            _ => return Err(refuse("character mapping must return integer, None or str")),
        }
    }
    Ok(Value::from(out))
}
