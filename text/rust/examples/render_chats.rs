// SPDX-License-Identifier: Apache-2.0
//! Renders chats: one JSON object a line with `template`, `tokens` (bos_token and the like), `messages`, and what else
//! there is of `tools`, `options`, `add_generation_prompt`, `continue_final_message` and `unix_seconds`. Writes one a
//! line, with `text` or `error`. For tests/golden/chat/compare_templates.py.

use std::io::{stdin, stdout, BufRead, Write};

use dunlin_text::chat::{self, ChatFiles, ChatRequest, LocalTime, RenderOptions};
use serde_json::{json, Value};

fn rendered(job: &Value) -> dunlin_text::Result<String> {
    let json = |name: &str| job.get(name).filter(|value| !value.is_null()).map_or(String::new(), Value::to_string);
    let is_set = |name: &str| job.get(name) == Some(&Value::Bool(true));
    let config = json("tokens");
    let files = ChatFiles { config: config.as_bytes(), chat_template: "", tool_use: "", processor_template: b"" };
    let template = chat::load(&files, job["template"].as_str(), None)?;
    let (messages, tools, options) = (json("messages"), json("tools"), json("options"));
    let request = ChatRequest {
        messages: &messages,
        tools: &tools,
        options: &options,
        add_generation_prompt: is_set("add_generation_prompt"),
        continue_final_message: is_set("continue_final_message"),
    };
    let now = LocalTime { unix_seconds: job["unix_seconds"].as_i64().unwrap_or(0), utc_offset_seconds: 0 };
    Ok(template.render(None, &request, RenderOptions { now, parse_special: true })?.text)
}

fn main() {
    for line in stdin().lock().lines() {
        let job: Value = serde_json::from_str(&line.expect("UTF-8")).expect("JSON");
        let result = match rendered(&job) {
            Ok(text) => json!({ "text": text }),
            Err(error) => json!({ "error": error.message }),
        };
        writeln!(stdout(), "{result}").expect("standard output");
    }
}
