// SPDX-License-Identifier: Apache-2.0
//! The server under test, and what its streams give.

use std::error::Error;

use tonic::transport::Channel;
use vllm_proto::control_client::ControlClient;
use vllm_proto::inference_client::InferenceClient;
use vllm_proto::{self as pb, finish_info::FinishReason, generate_request::Prompt};

pub type Outcome = Result<(), Box<dyn Error>>;

macro_rules! ensure {
    ($condition:expr, $($what:tt)+) => {
        if !$condition {
            return Err(format!($($what)+).into());
        }
    };
}

#[derive(Clone)]
pub struct Server {
    pub inference: InferenceClient<Channel>,
    pub control: ControlClient<Channel>,
    pub model: String,
}

/// One stream, put together.
#[derive(Default)]
pub struct Output {
    pub prompt: Option<pb::PromptInfo>,
    pub text: String,
    pub token_ids: Vec<u32>,
    pub logprobs: Vec<f32>,
    pub ranks: Vec<u32>,
    pub candidates: Vec<pb::CandidateTokenInfo>,
    pub finish: Option<pb::FinishInfo>,
}

impl Output {
    pub fn add(&mut self, message: pb::GenerateResponse) -> Outcome {
        if let Some(prompt) = message.prompt_info {
            ensure!(
                self.prompt.replace(prompt).is_none(),
                "the prompt was described twice"
            );
        }
        let Some(output) = message.outputs else {
            return Ok(());
        };
        ensure!(
            self.prompt.is_some(),
            "an output came before the prompt's description"
        );
        ensure!(self.finish.is_none(), "a message came after the last one");
        self.text += &output.text;
        self.token_ids.extend(output.token_ids);
        self.logprobs.extend(output.logprobs);
        self.ranks.extend(output.ranks);
        self.candidates.extend(output.candidate_tokens);
        self.finish = output.finish_info;
        Ok(())
    }

    pub fn reason(&self) -> Result<FinishReason, Box<dyn Error>> {
        Ok(self
            .finish
            .as_ref()
            .ok_or("the stream had no end")?
            .finish_reason())
    }
}

impl Server {
    pub fn request(&self, text: &str, max_new_tokens: u32) -> pb::GenerateRequest {
        pb::GenerateRequest {
            model: self.model.clone(),
            prompt: Some(Prompt::Text(text.into())),
            temperature: Some(0.0),
            stopping: Some(pb::StoppingCriteria {
                max_new_tokens,
                ignore_eos: true,
                ..Default::default()
            }),
            response: Some(pb::ResponseOptions {
                output_token_ids: true,
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    pub async fn stream(&self, request: pb::GenerateRequest) -> Result<Output, Box<dyn Error>> {
        let mut stream = self
            .inference
            .clone()
            .generate_stream(request)
            .await?
            .into_inner();
        let mut output = Output::default();
        while let Some(message) = stream.message().await? {
            output.add(message)?;
        }
        Ok(output)
    }
}
