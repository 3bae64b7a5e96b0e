# SPDX-License-Identifier: Apache-2.0
"""`tritonclient[http]` on the HTTP port's /v2: tensors as JSON and behind the JSON, both ways."""

import json

import numpy
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from checks import BASE_URL, ENCODER, MODEL, QUESTION, SERVED, Checks, holds, same, wait_until_idle

client = triton.InferenceServerClient(url=BASE_URL.removeprefix("http://"), concurrency=4, network_timeout=30)
checks = Checks()
SAMPLING = {"temperature": 0, "max_tokens": 24}


def tensor(name, values, datatype="BYTES", binary=True):
    array = numpy.array(values, dtype={"BYTES": object, "BOOL": bool}[datatype])
    made = triton.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def inputs(text, binary=True):
    return [tensor("text_input", [text.encode()], binary=binary), tensor("exclude_input_in_output", [True], "BOOL", binary),
            tensor("sampling_parameters", [json.dumps(SAMPLING).encode()], binary=binary)]


def infer(binary_in=True, binary_out=True, **more):
    outputs = [triton.InferRequestedOutput("text_output", binary_data=binary_out)]
    result = client.infer(MODEL, inputs(QUESTION, binary_in), outputs=outputs, **more)
    text = result.as_numpy("text_output")[0]
    return result.get_response(), text.decode() if isinstance(text, bytes) else text


def refusal(call):
    try:
        call()
    except InferenceServerException as error:
        return error.status(), error.message()
    raise AssertionError("the call was not refused")


@checks.add("http: health and metadata")
def health():
    holds(client.is_server_live() and client.is_server_ready() and client.is_model_ready(MODEL), "not ready")
    holds(not client.is_model_ready(MODEL, "9"), "version 9 is ready")
    holds("binary_tensor_data" in client.get_server_metadata()["extensions"], "no binary tensors")
    holds("text_input" in [one["name"] for one in client.get_model_metadata(MODEL)["inputs"]], "no text_input")
    same(client.get_model_config(MODEL)["max_batch_size"], 0)


@checks.add("http: infer, JSON and binary")
def forms():
    response, text = infer(request_id="7")
    same(response["id"], "7")
    holds(text and not text.startswith(QUESTION), f"text is {text!r}")
    for binary_in, binary_out in ((True, False), (False, True), (False, False)):
        same(infer(binary_in, binary_out)[1], text, f"text with {binary_in}, {binary_out}")


@checks.add("http: compressed bodies")
def compressed():
    """The server takes no compressed requests, and says so; responses may come as they are."""
    same(infer(response_compression_algorithm="gzip")[1], infer()[1])
    status, message = refusal(lambda: infer(request_compression_algorithm="gzip"))
    holds(status == "415" and "Content-Encoding" in message, f"{status}: {message}")


@checks.add("http: backend and precision")
def execution():
    chosen = infer(parameters={"attention_backend": "math", "precision": "bf16"})[0]["parameters"]
    same((chosen["attention_backend"], chosen["precision"]), ("math", "bf16"))


@checks.add("http: async_infer")
def parallel():
    waiting = [client.async_infer(MODEL, inputs(QUESTION)) for _ in range(8)]
    same({bytes(one.get_result(block=True).as_numpy("text_output")[0]).decode() for one in waiting}, {infer()[1]})


@checks.add("http: embeddings")
def embeddings():
    for binary in (True, False):
        asked = [triton.InferRequestedOutput("embedding", binary_data=binary)]
        result = client.infer(ENCODER, [tensor("text_input", [b"A dunlin.", b"A curlew."])], outputs=asked)
        vectors = result.as_numpy("embedding")
        same((vectors.dtype, vectors.shape[0]), (numpy.float32, 2))
        holds(numpy.isfinite(vectors).all() and not numpy.array_equal(vectors[0], vectors[1]), "vectors are the same")


@checks.add("http: statistics")
def statistics():
    def successes():
        return client.get_inference_statistics(MODEL)["model_stats"][0]["inference_stats"]["success"]["count"]
    before = successes()
    infer()
    wait_until_idle()
    same(successes(), before + 1)


@checks.add("http: repository")
def repository():
    same({model["name"]: model["state"] for model in client.get_model_repository_index()}, dict.fromkeys(SERVED, "READY"))
    client.load_model(MODEL)
    holds("models[]" in refusal(lambda: client.load_model("nobody"))[1], "the refusal does not name the key")
    refusal(lambda: client.unload_model(MODEL))
    holds(client.is_model_ready(MODEL), "it was unloaded")


@checks.add("http: wrong input")
def wrong():
    for given, word in [([tensor("text", [b"x"])], "text"), ([tensor("text_input", [b"x", b"y"])], "text_input")]:
        status, message = refusal(lambda: client.infer(MODEL, given))
        holds(status == "400" and word in message, f"{status}: {message}")
    same(refusal(lambda: client.infer("nobody", inputs(QUESTION)))[0], "404")
    refusal(client.get_system_shared_memory_status)


checks.run()
