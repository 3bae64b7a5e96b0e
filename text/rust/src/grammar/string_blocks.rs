// SPDX-License-Identifier: Apache-2.0
//! A counted string of JSON as terminals of Lark: blocks of a fixed number of characters, then the rest with the closing
//! quote. A character is a code point or one escape, in the forms that llguidance's JSON compiler allows.

use std::collections::BTreeSet;

/// Characters of a block. The lexer makes some 14 states for each; shorter blocks make masks slower, since the parser
/// goes on at the end of each.
const BLOCK: u64 = 64;
/// The longest string that is one terminal.
const MAX_IN_LEXER: u64 = 4 * BLOCK;
/// Raw, or escaped: '/' and what is not a control character are never escaped.
const CHARACTER: &str = r#"(\\(["\\bfnrt]|u00([01][0-9a-fA-F]|7[fF]))|[^"\\\x00-\x1F\x7F])"#;

pub(super) fn is_long(length: u64) -> bool {
    length > MAX_IN_LEXER
}

/// Terminals that end strings, by their numbers of characters: least, and most where there is one.
#[derive(Default)]
pub(super) struct Ends(BTreeSet<(u64, Option<u64>)>);

impl Ends {
    /// The body of a rule for strings of `least` to `most` characters. None: there are no such strings.
    pub(super) fn string(&mut self, least: u64, most: Option<u64>) -> Option<String> {
        let (full, rest) = (least / BLOCK, least % BLOCK);
        let start = format!("\"\\\"\" {}", blocks(full, full));
        let Some(most) = most else {
            return Some(start + &self.end(rest, None));
        };
        if most < least {
            return None;
        }
        let (more, last) = (most / BLOCK - full, most % BLOCK);
        if more == 0 {
            return Some(start + &self.end(rest, Some(last)));
        }
        let in_block = Some(BLOCK - 1);
        let mut ends = vec![self.end(rest, in_block), blocks(more, more) + &self.end(0, Some(last))];
        if more > 1 {
            ends.push(format!("BLOCK {}{}", blocks(0, more - 2), self.end(0, in_block)));
        }
        Some(format!("{start}({})", ends.join(" | ")))
    }

    fn end(&mut self, least: u64, most: Option<u64>) -> String {
        self.0.insert((least, most));
        format!("END_{least}_{}", upper(most))
    }

    /// Definitions of the terminals that rules name. A property's name is a string of any length.
    pub(super) fn terminals(&self) -> String {
        let mut out = format!("BLOCK: /{CHARACTER}{{{BLOCK}}}/\nNAME: /\"{CHARACTER}*\"/\n");
        for (least, most) in &self.0 {
            let most = upper(*most);
            out.push_str(&format!("END_{least}_{most}: /{CHARACTER}{{{least},{most}}}\"/\n"));
        }
        out
    }
}

fn upper(most: Option<u64>) -> String {
    most.map_or_else(String::new, |most| most.to_string())
}

fn blocks(least: u64, most: u64) -> String {
    match (least, most) {
        (_, 0) => String::new(),
        _ if least == most => format!("BLOCK{{{least}}} "),
        _ => format!("BLOCK{{{least},{most}}} "),
    }
}
