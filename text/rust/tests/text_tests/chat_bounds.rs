// SPDX-License-Identifier: Apache-2.0
//! What a chat template may make: a text or a list that is larger ends the rendering with the limit.

use dunlin_text::chat::{self, ChatFiles, ChatRequest, ChatTemplate, RenderOptions};

fn rendered(template: &str) -> dunlin_text::Result<String> {
    let files = ChatFiles { config: b"", chat_template: "", tool_use: "", processor_template: b"" };
    let loaded: ChatTemplate = chat::load(&files, Some(template), None)?;
    let request =
        ChatRequest { messages: r#"[{"role": "user", "content": "x"}]"#, options: "{}", ..ChatRequest::default() };
    Ok(loaded.render(None, &request, RenderOptions::default())?.text)
}

#[test]
fn texts_and_lists_are_bounded_by_themselves() {
    let doubled = |start: &str, sum: &str| {
        format!(
            "{{% set ns = namespace(x={start}) %}}{{% for i in range(60) %}}{{% set ns.x = {sum} %}}{{% endfor %}}\
             {{{{ ns.x | length }}}}"
        )
    };
    let large = "{% set x = 'a' * 600000 %}{% set x = x ~ x %}";
    for (template, limit) in [
        (doubled("'aaaaaaaaaaaaaaaa'", "ns.x ~ ns.x"), "limit is 16777216"),
        (doubled("'aaaaaaaaaaaaaaaa'", "ns.x + ns.x"), "limit is 16777216"),
        (doubled("[1]", "ns.x + ns.x"), "limit is 1048576"),
        (doubled("[1]", "ns.x + ns.x") + "{{ 'a' | escape }}", "limit is 1048576"),
        ("{{ range(100000) | map('string') | list | join('x' * 1000) }}".to_string(), "limit is 16777216"),
        ("{{ '{:>100000000000000}'.format('a') }}".to_string(), "limit is 16777216"),
        ("{{ 'a'.zfill(20000000) }}".to_string(), "limit is 16777216"),
        ("{{ ('a' * 100000).replace('a', 'a' * 1000) }}".to_string(), "limit is 16777216"),
        ("{{ 'a'.ljust(20000000) }}".to_string(), "limit is 16777216"),
        (large.to_string() + "{{ x.split('a') | length }}", "limit is 1048576"),
        (large.to_string() + "{{ x | list | length }}", "limit is 1048576"),
    ] {
        let error = rendered(&template).expect_err(&template);
        assert!(error.message.contains(limit), "{template}: {}", error.message);
    }
}

#[test]
fn operators_keep_their_values_and_their_order() {
    for (template, text) in [
        ("{{ 'a' ~ (1 + 2) }}", "a3"),
        ("{{ 'a' ~ 1 ~ [2] ~ 'b' }}", "a1[2]b"),
        ("{{ 1 + 2 + 3 * 4 % 5 }}", "5"),
        ("{{ (1 + 2) * 3 ~ 'x' }}", "9x"),
        ("{{ 7%4%2~'x'~7%4 }}", "1x3"),
        ("{{ '%s' % ('a' ~ 'b') ~ 'c' }}", "abc"),
        ("{{ ([1] + [2])[1] + 1 }}", "3"),
        ("{% if 1 + 1 == 2 and 'a' ~ 'b' == 'ab' %}yes{% endif %}", "yes"),
        ("{{ ('a' + 'b') | upper ~ 'c' | upper }}", "ABC"),
        ("{% for c in 'a' ~ 'b' %}{{ c + '-' }}{% endfor %}", "a-b-"),
    ] {
        assert_eq!(rendered(template).expect(template), text, "{template}");
    }
    let chain = "'a'".to_string() + &" ~ 'a'".repeat(400);
    assert_eq!(rendered(&format!("{{{{ {chain} }}}}")).expect("a long chain"), "a".repeat(401));
}
