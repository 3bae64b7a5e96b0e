# SPDX-License-Identifier: Apache-2.0
"""`tritonclient[grpc]`, with the tensors of Triton's vLLM backend."""

import json
import os
import queue

import numpy
import tritonclient.grpc as triton

from checks import ENCODER, MODEL, QUESTION, SERVED, Checks, holds, same, wait_until_idle

client = triton.InferenceServerClient(url=os.environ["INTEROP_GRPC"])
checks = Checks()
WAIT_S = 30
SAMPLING = {"temperature": "0", "max_tokens": "24"}


def tensor(name, values, datatype="BYTES"):
    array = numpy.array(values, dtype={"BYTES": object, "BOOL": bool}[datatype])
    made = triton.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


def request(text, stream=False, sampling=SAMPLING, **flags):
    inputs = [tensor("text_input", [text.encode()]), tensor("stream", [stream], "BOOL"),
              tensor("sampling_parameters", [json.dumps(sampling).encode()]),
              tensor("exclude_input_in_output", [True], "BOOL")]
    return inputs + [tensor(name, [value], "BOOL") for name, value in flags.items()]


def refusal(call):
    try:
        call()
    except triton.InferenceServerException as error:
        return error.status(), error.message()
    raise AssertionError("the call was not refused")


class Stream:
    """Responses of a stream by request id; the text of each, once all have ended."""

    def __init__(self):
        self.responses = queue.Queue()
        client.start_stream(callback=lambda result, error: self.responses.put((result, error)))

    def ask(self, request_id, inputs, **more):
        client.async_stream_infer(MODEL, inputs, request_id=request_id, enable_empty_final_response=True, **more)

    def texts(self, count):
        texts = {}
        while count:
            result, error = self.responses.get(timeout=WAIT_S)
            if error is not None:
                raise error
            response = result.get_response()
            output = result.as_numpy("text_output")
            part = output[0].decode() if output is not None else ""
            texts.setdefault(response.id, []).append(part)
            count -= response.parameters["triton_final_response"].bool_param
        return texts

    def close(self):
        client.stop_stream()


@checks.add("health and metadata")
def health():
    holds(client.is_server_live() and client.is_server_ready() and client.is_model_ready(MODEL), "not ready")
    holds(not client.is_model_ready(MODEL, "9"), "version 9 is ready")
    extensions = client.get_server_metadata().extensions
    holds("statistics" in extensions, f"extensions are {extensions}")
    holds(not any("shared_memory" in name for name in extensions), f"extensions are {extensions}")
    metadata = client.get_model_metadata(MODEL)
    holds("text_input" in [one.name for one in metadata.inputs], "no text_input")
    config = client.get_model_config(MODEL).config
    same((config.max_batch_size, config.model_transaction_policy.decoupled), (0, True))


@checks.add("infer")
def infer():
    result = client.infer(MODEL, request(QUESTION, return_finish_reason=True, return_num_output_tokens=True),
                          request_id="7")
    same(result.get_response().id, "7")
    text = result.as_numpy("text_output")[0].decode()
    holds(text and not text.startswith(QUESTION), f"text is {text!r}")
    holds(result.as_numpy("finish_reason")[0] in (b"stop", b"length"), "no finish reason")
    holds(0 < result.as_numpy("num_output_tokens")[0] <= 24, "no count of tokens")
    whole = client.infer(MODEL, [tensor("text_input", [QUESTION.encode()])], parameters=dict(SAMPLING))
    same(whole.as_numpy("text_output")[0].decode(), QUESTION + text)


@checks.add("backend and precision")
def execution():
    result = client.infer(MODEL, request(QUESTION), parameters={"attention_backend": "math", "precision": "bf16"})
    chosen = result.get_response().parameters
    same((chosen["attention_backend"].string_param, chosen["precision"].string_param), ("math", "bf16"))


@checks.add("log-probabilities")
def logprobs():
    result = client.infer(MODEL, request(QUESTION, return_logprobs=True, return_cumulative_logprob=True))
    tokens = json.loads(result.as_numpy("logprobs")[0])
    total = sum(next(iter(token.values()))["logprob"] for token in tokens)
    holds(abs(total - result.as_numpy("cumulative_logprob")[0]) < 1e-3, "the sum is another one")


@checks.add("stream_infer, 4 requests")
def stream():
    # So many tokens that they come in several responses also where the machine is busy: those that wait are merged.
    sampling = {**SAMPLING, "max_tokens": "300"}
    whole = client.infer(MODEL, request(QUESTION, sampling=sampling)).as_numpy("text_output")[0].decode()
    streamed = Stream()
    try:
        for index in range(4):
            streamed.ask(str(index), request(QUESTION, stream=True, sampling=sampling), parameters=sampling)
        texts = streamed.texts(4)
    finally:
        streamed.close()
    same({name: "".join(parts) for name, parts in texts.items()}, {str(index): whole for index in range(4)})
    holds(max(len(parts) for parts in texts.values()) > 1, "one response each")


@checks.add("an error inside a stream")
def stream_error():
    streamed = Stream()
    try:
        streamed.ask("1", request(QUESTION, stream=True, sampling={"top_p": "7"}))
        _, error = streamed.responses.get(timeout=WAIT_S)
        holds("top_p" in str(error), f"the error is {error}")
        streamed.ask("2", request(QUESTION, stream=True))
        holds("".join(streamed.texts(1)["2"]), "no text after an error")
    finally:
        streamed.close()


@checks.add("a cancelled stream frees its pages")
def cancel():
    streamed = Stream()
    streamed.ask("1", request(QUESTION, stream=True, sampling={"max_tokens": 200, "ignore_eos": True}))
    streamed.responses.get(timeout=WAIT_S)
    client.stop_stream(cancel_requests=True)
    wait_until_idle()


@checks.add("embeddings")
def embeddings():
    result = client.infer(ENCODER, [tensor("text_input", [b"A dunlin.", b"A curlew."])])
    vectors = result.as_numpy("embedding")
    same((vectors.dtype, vectors.shape[0]), (numpy.float32, 2))
    holds(numpy.isfinite(vectors).all() and not numpy.array_equal(vectors[0], vectors[1]), "vectors are the same")


@checks.add("statistics")
def statistics():
    def successes():
        return client.get_inference_statistics(MODEL).model_stats[0].inference_stats.success.count
    before = successes()
    client.infer(MODEL, request(QUESTION))
    wait_until_idle()
    same(successes(), before + 1)


@checks.add("repository")
def repository():
    same({model.name: model.state for model in client.get_model_repository_index().models},
         dict.fromkeys(SERVED, "READY"))
    client.load_model(MODEL)
    status, message = refusal(lambda: client.load_model("nobody"))
    holds("PERMISSION_DENIED" in status and "models[]" in message, f"{status}: {message}")
    holds("PERMISSION_DENIED" in refusal(lambda: client.unload_model(MODEL))[0], "it was unloaded")


@checks.add("wrong input")
def wrong():
    for inputs, word in [([tensor("text", [b"x"])], "text"), ([tensor("text_input", [b"x", b"y"])], "text_input"),
                         (request(QUESTION, stream=True), "stream"), (request(QUESTION, sampling=[1]), "sampling")]:
        status, message = refusal(lambda: client.infer(MODEL, inputs))
        holds("INVALID_ARGUMENT" in status and word in message, f"{status}: {message}")
    holds("NOT_FOUND" in refusal(lambda: client.infer("nobody", request(QUESTION)))[0], "a model that is not there")
    holds("UNIMPLEMENTED" in refusal(client.get_system_shared_memory_status)[0], "shared memory")


checks.run()
