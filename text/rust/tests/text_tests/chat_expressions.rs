// SPDX-License-Identifier: Apache-2.0
//! Every expression of tests/golden/chat/expressions.txt is written as Jinja2 of Python writes it, and fails where it
//! fails.

use std::path::PathBuf;

use dunlin_text::chat::{self, ChatFiles, ChatRequest, ChatTemplate, RenderOptions};
use serde_json::Value;

/// The section of what minijinja has otherwise, in the order of the file; no published template asks for it. A member of
/// a mapping comes before a method of its name; a chain of comparisons is not rewritten; numbers have no attributes; 1.0 is
/// the place 1; Jinja2 takes slices of constants when it compiles, where a failure is an undefined value; 3.0 repeats a text
/// and a range can be repeated; a slice of a range is a list; fields of `str.format` have no conversions and no attributes with
/// underscores; a macro takes no more arguments than it names, and has no attributes.
const OTHERWISE: &str = "otherwise";

fn golden() -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/chat/expressions.json");
    serde_json::from_slice(&std::fs::read(path).expect("the golden file")).expect("JSON")
}

fn load(template: &str) -> dunlin_text::Result<ChatTemplate> {
    let files = ChatFiles { config: b"", chat_template: "", tool_use: "", processor_template: b"" };
    chat::load(&files, Some(template), None)
}

/// The text; none: the template fails, here or when it is loaded.
fn rendered(template: &str, variables: &str) -> dunlin_text::Result<String> {
    let request =
        ChatRequest { messages: r#"[{"role": "user", "content": "x"}]"#, options: variables, ..ChatRequest::default() };
    Ok(load(template)?.render(None, &request, RenderOptions::default())?.text)
}

#[test]
fn are_as_jinja2_of_python() {
    let golden = golden();
    let variables = golden["variables"].to_string();
    let mut differences = vec![];
    let mut count = 0;
    let mut now_equal = vec![];
    for (section, cases) in golden["sections"].as_object().expect("an object") {
        for case in cases.as_array().expect("a list") {
            count += 1;
            let template = case["template"].as_str().expect("a text");
            let found = rendered(template, &variables);
            let is_equal = found.as_deref().ok() == case["text"].as_str();
            if section == OTHERWISE {
                now_equal.extend(is_equal.then(|| template.to_string()));
            } else if !is_equal {
                differences.push(format!("{section}: {template:?}\n  gives {found:?}\n  not   {case}"));
            }
        }
    }
    assert!(now_equal.is_empty(), "these are no longer written otherwise: {now_equal:#?}");
    assert!(count >= 300, "{count} expressions");
    assert!(differences.is_empty(), "{} of {count} differ:\n{}", differences.len(), differences.join("\n"));
}
