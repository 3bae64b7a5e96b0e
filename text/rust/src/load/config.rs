// SPDX-License-Identifier: Apache-2.0
//! The fields of tokenizer_config.json that the server needs: the BOS and EOS tokens, and whether to add them.

use serde::Deserialize;
use tokenizers::Tokenizer;

use crate::error::{Error, Result};
use crate::limits::MAX_TOKENIZER_CONFIG_BYTES;
use crate::python_json;

/// Absent flags leave the post-processor of tokenizer.json as it is.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct TokenizerConfig {
    #[serde(default)]
    pub add_bos_token: Option<bool>,
    #[serde(default)]
    pub add_eos_token: Option<bool>,
    #[serde(default)]
    bos_token: Option<TokenName>,
    #[serde(default)]
    eos_token: Option<TokenName>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum TokenName {
    Text(String),
    Described { content: String },
}

impl TokenizerConfig {
    /// An empty file is an empty config.
    pub fn parse(json: &[u8]) -> Result<Self> {
        if json.len() > MAX_TOKENIZER_CONFIG_BYTES {
            let size = json.len();
            return Err(Error::invalid(format!(
                "tokenizer_config.json has {size} bytes; limit is {MAX_TOKENIZER_CONFIG_BYTES}"
            )));
        }
        if json.is_empty() {
            return Ok(Self::default());
        }
        python_json::parse("tokenizer_config.json", json)
    }

    pub fn bos_id(&self, tokenizer: &Tokenizer) -> Option<u32> {
        tokenizer.token_to_id(self.bos_token.as_ref()?.text())
    }

    pub fn eos_id(&self, tokenizer: &Tokenizer) -> Option<u32> {
        tokenizer.token_to_id(self.eos_token.as_ref()?.text())
    }
}

impl TokenName {
    fn text(&self) -> &str {
        match self {
            Self::Text(content) | Self::Described { content } => content,
        }
    }
}
