// SPDX-License-Identifier: Apache-2.0
//! Checks a server by the messages and clients of the crate vllm-proto, as Rust routers in front of vLLM use it. Prints a
//! JSON line for each check: {"check": NAME, "error": null or what went wrong}.
//!
//! Usage: vllm-client BASE_URL MODEL, with the address of the gRPC port in INTEROP_GRPC

#[macro_use]
mod server;

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use server::{Outcome, Output, Server};
use tonic::transport::Channel;
use tonic::Code;
use vllm_proto::control_client::ControlClient;
use vllm_proto::inference_client::InferenceClient;
use vllm_proto::{self as pb, finish_info::FinishReason};

const CHECK_LIMIT: Duration = Duration::from_secs(30);

async fn describes_itself(server: Server) -> Outcome {
    let mut control = server.control.clone();
    let info = control
        .get_server_info(pb::GetServerInfoRequest {})
        .await?
        .into_inner();
    ensure!(
        info.api_version == "vllm",
        "api_version is {}",
        info.api_version
    );
    ensure!(
        info.kv_block_size > 0 && info.total_kv_blocks > 0 && info.max_model_len > 0,
        "{info:?}"
    );
    ensure!(
        info.parallelism
            .is_some_and(|p| p.world_size == 1 && p.data_parallel_size == 1),
        "parallelism"
    );
    let model = control
        .get_model_info(pb::GetModelInfoRequest {})
        .await?
        .into_inner();
    ensure!(model.served_model_name == server.model, "{model:?}");
    ensure!(
        model.supports_text_input && model.supports_token_ids_input && !model.supports_lora,
        "{model:?}"
    );
    let sources = control
        .get_kv_event_sources(pb::GetKvEventSourcesRequest {})
        .await?
        .into_inner()
        .sources;
    ensure!(
        sources.len() == 1 && sources[0].transport == "zmq",
        "{sources:?}"
    );
    ensure!(
        sources[0].endpoint.starts_with("tcp://127.0.0.1:"),
        "{sources:?}"
    );
    Ok(())
}

async fn streamed_and_whole_are_equal(server: Server) -> Outcome {
    let request = server.request("The dunlin is", 24);
    let streamed = server.stream(request.clone()).await?;
    let mut whole = Output::default();
    whole.add(
        server
            .inference
            .clone()
            .generate(request.clone())
            .await?
            .into_inner(),
    )?;
    ensure!(
        streamed.text == whole.text && streamed.token_ids == whole.token_ids,
        "they differ"
    );
    ensure!(
        whole.token_ids.len() == 24,
        "{} tokens",
        whole.token_ids.len()
    );
    ensure!(
        whole.reason()? == FinishReason::Length,
        "{:?}",
        whole.finish
    );
    Ok(())
}

async fn ranks_and_candidates(server: Server) -> Outcome {
    let mut request = server.request("The dunlin is", 8);
    request.response = Some(pb::ResponseOptions {
        prompt_token_ids: true,
        prompt_logprobs: true,
        output_token_ids: true,
        output_logprobs: true,
        output_candidates: Some(pb::CandidateTokens {
            select: Some(pb::candidate_tokens::Select::TopN(3)),
        }),
        ..Default::default()
    });
    let output = server.stream(request).await?;
    let prompt = output.prompt.ok_or("no prompt")?;
    let count = prompt.num_prompt_tokens as usize;
    ensure!(
        prompt.token_ids.len() == count && prompt.logprobs.len() == count,
        "{prompt:?}"
    );
    ensure!(
        prompt.ranks[0] == 0 && prompt.ranks[1..].iter().all(|rank| *rank >= 1),
        "{:?}",
        prompt.ranks
    );
    ensure!(
        output.logprobs.len() == 8 && output.candidates.len() == 8,
        "{:?}",
        output.logprobs
    );
    // A greedy token is the most likely one, and the candidates are those after it.
    ensure!(
        output.ranks.iter().all(|rank| *rank == 1),
        "{:?}",
        output.ranks
    );
    for (candidates, logprob) in output.candidates.iter().zip(&output.logprobs) {
        let ranks: Vec<u32> = candidates.tokens.iter().map(|token| token.rank).collect();
        ensure!(ranks == [2, 3], "{ranks:?}");
        ensure!(
            candidates
                .tokens
                .iter()
                .all(|token| token.logprob <= *logprob),
            "{candidates:?}"
        );
    }
    Ok(())
}

async fn structured_output(server: Server) -> Outcome {
    use pb::decoding_parameters::{StringChoices, StructuredOutput};
    let mut request = server.request("Colour:", 40);
    request.stopping = Some(pb::StoppingCriteria {
        max_new_tokens: 40,
        ..Default::default()
    });
    let choices = vec!["red".to_string(), "green".to_string()];
    for constraint in [
        StructuredOutput::Choice(StringChoices {
            choices: choices.clone(),
        }),
        StructuredOutput::Regex("red|green".into()),
    ] {
        request.decoding = Some(pb::DecodingParameters {
            structured_output: Some(constraint),
            ..Default::default()
        });
        let output = server.stream(request.clone()).await?;
        ensure!(choices.contains(&output.text), "{:?}", output.text);
        ensure!(
            output.reason()? == FinishReason::Stop,
            "{:?}",
            output.finish
        );
    }
    Ok(())
}

async fn stop_strings(server: Server) -> Outcome {
    let whole = server.stream(server.request("The dunlin is", 24)).await?;
    let stop: String = whole.text.chars().skip(4).take(4).collect();
    let mut request = server.request("The dunlin is", 24);
    request.stopping.as_mut().ok_or("no stopping")?.stop_strings = vec![stop.clone()];
    let output = server.stream(request).await?;
    ensure!(
        whole.text.starts_with(&output.text) && !output.text.contains(&stop),
        "{:?}",
        output.text
    );
    let reason = output.finish.and_then(|finish| finish.stop_reason);
    ensure!(
        reason == Some(pb::finish_info::StopReason::StopString(stop)),
        "{reason:?}"
    );
    Ok(())
}

async fn refuses_by_name(server: Server) -> Outcome {
    let mut request = server.request("x", 1);
    request.lora_name = "adapter".into();
    let refused = server
        .stream(request)
        .await
        .err()
        .ok_or("it was accepted")?;
    let status = refused.downcast::<tonic::Status>()?;
    ensure!(
        status.code() == Code::InvalidArgument && status.message().contains("lora_name"),
        "{status:?}"
    );
    let mut control = server.control.clone();
    let status = control
        .sleep(pb::SleepRequest::default())
        .await
        .err()
        .ok_or("it slept")?;
    ensure!(
        status.code() == Code::PermissionDenied && status.message().contains("models[]"),
        "{status:?}"
    );
    let loras = control
        .list_loras(pb::ListLorasRequest {})
        .await?
        .into_inner()
        .adapters;
    ensure!(loras.is_empty(), "{loras:?}");
    Ok(())
}

async fn abort_ends_a_stream(server: Server) -> Outcome {
    let mut request = server.request("The dunlin is", 400);
    request.request_id = "to-abort".into();
    let mut stream = server
        .inference
        .clone()
        .generate_stream(request)
        .await?
        .into_inner();
    let mut output = Output::default();
    while output.token_ids.is_empty() {
        output.add(stream.message().await?.ok_or("the stream ended early")?)?;
    }
    let ids = vec!["to-abort".to_string(), "unknown".to_string()];
    server
        .control
        .clone()
        .abort(pb::AbortRequest { request_ids: ids })
        .await?;
    while let Some(message) = stream.message().await? {
        output.add(message)?;
    }
    ensure!(
        output.reason()? == FinishReason::Aborted,
        "{:?}",
        output.finish
    );
    let count = output
        .finish
        .map_or(0, |finish| finish.num_output_tokens as usize);
    ensure!(
        count == output.token_ids.len() && count < 400,
        "{count} tokens"
    );
    Ok(())
}

async fn pause_keeps_streams(server: Server) -> Outcome {
    let whole = server.stream(server.request("The dunlin is", 60)).await?;
    let mut control = server.control.clone();
    let mut stream = server
        .inference
        .clone()
        .generate_stream(server.request("The dunlin is", 60))
        .await?
        .into_inner();
    let mut output = Output::default();
    output.add(stream.message().await?.ok_or("no message")?)?;
    let keep = pb::PauseGenerationRequest {
        mode: pb::PauseMode::Keep as i32,
        clear_cache: Some(false),
    };
    control.pause_generation(keep).await?;
    ensure!(
        control
            .is_paused(pb::IsPausedRequest {})
            .await?
            .into_inner()
            .paused,
        "it is not paused"
    );
    tokio::time::sleep(Duration::from_millis(200)).await;
    control
        .resume_generation(pb::ResumeGenerationRequest {})
        .await?;
    while let Some(message) = stream.message().await? {
        output.add(message)?;
    }
    ensure!(
        output.token_ids == whole.token_ids,
        "the pause changed the tokens"
    );
    ensure!(
        !control
            .is_paused(pb::IsPausedRequest {})
            .await?
            .into_inner()
            .paused,
        "it is still paused"
    );
    Ok(())
}

/// Prints the line of a check; false if it failed.
async fn report(name: &str, check: impl Future<Output = Outcome>) -> bool {
    let error = match tokio::time::timeout(CHECK_LIMIT, check).await {
        Err(_) => Some(format!("not done within {} s", CHECK_LIMIT.as_secs())),
        Ok(Err(error)) => Some(error.to_string()),
        Ok(Ok(())) => None,
    };
    println!("{}", serde_json::json!({"check": name, "error": error}));
    error.is_none()
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, _, model, ..] = arguments.as_slice() else {
        return Err("usage: vllm-client BASE_URL MODEL".into());
    };
    let address = std::env::var("INTEROP_GRPC")?;
    let channel = Channel::from_shared(format!("http://{address}"))?
        .connect()
        .await?;
    let server = Server {
        inference: InferenceClient::new(channel.clone()),
        control: ControlClient::new(channel),
        model: model.clone(),
    };
    let mut ok = true;
    ok &= report("describes itself", describes_itself(server.clone())).await;
    ok &= report(
        "streamed and whole are equal",
        streamed_and_whole_are_equal(server.clone()),
    )
    .await;
    ok &= report("ranks and candidates", ranks_and_candidates(server.clone())).await;
    ok &= report("structured output", structured_output(server.clone())).await;
    ok &= report("stop strings", stop_strings(server.clone())).await;
    ok &= report("refuses by name", refuses_by_name(server.clone())).await;
    ok &= report("abort ends a stream", abort_ends_a_stream(server.clone())).await;
    ok &= report("pause keeps streams", pause_keeps_streams(server)).await;
    std::process::exit(i32::from(!ok));
}
