// SPDX-License-Identifier: Apache-2.0
//! `{% generation %}` blocks, an extension of transformers. They mark what the assistant wrote and render their body in
//! a scope of its own, which is what `{% with %}` without assignments does.

/// Replaces the two words in block tags, outside comments, raw blocks and strings.
pub(super) fn replace_generation_tags(text: &str) -> String {
    if !text.contains("generation") {
        return text.to_string();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let size = match tag.as_bytes().get(1) {
            Some(b'#') => tag.find("#}").map_or(tag.len(), |end| end + 2),
            Some(b'{') => end_of_tag(tag, "}}"),
            Some(b'%') => end_of_tag(tag, "%}"),
            _ => 1,
        };
        let (tag, after) = tag.split_at(size);
        match word_of(tag) {
            "generation" => out.push_str(&tag.replacen("generation", "with", 1)),
            "endgeneration" => out.push_str(&tag.replacen("endgeneration", "endwith", 1)),
            _ => out.push_str(tag),
        }
        rest = after;
        if word_of(tag) == "raw" {
            let end = find_endraw(rest);
            out.push_str(&rest[..end]);
            rest = &rest[end..];
        }
    }
    out.push_str(rest);
    out
}

/// The first word of a block tag; empty for anything else.
fn word_of(tag: &str) -> &str {
    let Some(inner) = tag.strip_prefix("{%") else { return "" };
    let inner = inner.trim_start_matches(['-', '+']).trim_start();
    let end = inner.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(inner.len());
    &inner[..end]
}

/// Where the tag ends; `close` inside a string does not count.
fn end_of_tag(tag: &str, close: &str) -> usize {
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in tag.char_indices().skip(2) {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(q) if c == q => quote = None,
            Some(_) => {}
            None if c == '\'' || c == '"' => quote = Some(c),
            None if tag[at..].starts_with(close) => return at + close.len(),
            None => {}
        }
    }
    tag.len()
}

fn find_endraw(text: &str) -> usize {
    let mut at = 0;
    while let Some(next) = text[at..].find("{%") {
        at += next;
        if word_of(&text[at..]) == "endraw" {
            return at;
        }
        at += 2;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::replace_generation_tags;

    #[test]
    fn only_block_tags_are_replaced() {
        let text = "{%- generation -%}x{% endgeneration %}{# {% generation %} #}{{ '{% generation %}' }}\
                    {% raw %}{% generation %}{% endraw %}{% if generation %}generation{% endif %}";
        let expected = "{%- with -%}x{% endwith %}{# {% generation %} #}{{ '{% generation %}' }}\
                        {% raw %}{% generation %}{% endraw %}{% if generation %}generation{% endif %}";
        assert_eq!(replace_generation_tags(text), expected);
    }
}
