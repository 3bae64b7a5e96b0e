// SPDX-License-Identifier: Apache-2.0
//! Whether a template takes the content of a message as a list of parts. Most take texts only: they would write a list
//! as Python prints it, or fail. Their messages get the parts joined by line breaks, as vLLM does.

use super::{ChatRequest, ChatTemplate, RenderOptions};

/// How a template wants the parts of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentFormat {
    /// A list, as the client sent it.
    Parts,
    /// One text.
    Text,
}

const PROBE: &str = "probe5190";

impl ContentFormat {
    /// Renders a message in both forms. A template that refuses both gets lists, as in transformers.
    pub fn of(template: &ChatTemplate) -> Self {
        let shows = |content: &str| {
            let messages = format!(r#"[{{"role": "user", "content": {content}}}]"#);
            let request = ChatRequest { messages: &messages, add_generation_prompt: true, ..Default::default() };
            let prompt = template.render(None, &request, RenderOptions::default());
            prompt.is_ok_and(|prompt| prompt.text.contains(PROBE) && !prompt.text.contains("'type'"))
        };
        let as_parts = format!(r#"[{{"type": "text", "text": "{PROBE}"}}]"#);
        if !shows(&as_parts) && shows(&format!("\"{PROBE}\"")) {
            return Self::Text;
        }
        Self::Parts
    }
}
