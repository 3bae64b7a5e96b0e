# SPDX-License-Identifier: Apache-2.0
"""Writes a checkpoint as an ONNX graph in FP32, as onnxruntime's own model builder lays decoders out:
GroupQueryAttention over caches that are input and output at once, logits of the last position alone.

Runs inside the peers' environment (onnx, numpy).
"""

import numpy as np
import onnx
from onnx import TensorProto, helper

import shapes
import weights

MICROSOFT = "com.microsoft"


class Graph:
    def __init__(self, checkpoint):
        self.checkpoint, self.nodes, self.initializers, self.count = checkpoint, [], [], 0

    def constant(self, array):
        name = f"w{len(self.initializers)}"
        self.initializers.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def weight(self, name, transpose=False):
        values = self.checkpoint.read(name)
        return self.constant(values.T if transpose else values)

    def add(self, op, inputs, outputs=1, domain="", **attributes):
        names = [f"v{self.count + i}" for i in range(outputs)]
        self.count += outputs
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, **attributes))
        return names[0]

    def attention(self, layer, q, k, v, heads, kv_heads, rotary=()):
        """rotary: names of the cos and sin tables, or nothing."""
        inputs = [q, k, v, f"past_key_{layer}", f"past_value_{layer}", "seqlens_k", "total", *rotary]
        names = [f"attended_{layer}", f"present_key_{layer}", f"present_value_{layer}"]
        self.nodes.append(helper.make_node("GroupQueryAttention", inputs, names, domain=MICROSOFT, num_heads=heads,
                                           kv_num_heads=kv_heads, do_rotary=int(bool(rotary)), rotary_interleaved=0))
        return names[0]

    def head(self, x, weight):
        """Logits of the positions that the input `last` names."""
        last = self.add("Gather", [x, "last"], axis=1)
        self.nodes.append(helper.make_node("MatMul", [last, weight], ["logits"]))


def gpt2(graph, config):
    hidden, heads = config["n_embd"], config["n_head"]

    def norm(x, name):
        return graph.add("LayerNormalization", [x, graph.weight(name + ".weight"), graph.weight(name + ".bias")], axis=-1,
                         epsilon=config["layer_norm_epsilon"])

    def linear(x, name):
        return graph.add("Add", [graph.add("MatMul", [x, graph.weight(name + ".weight")]), graph.weight(name + ".bias")])

    words, places = graph.weight("wte.weight"), graph.weight("wpe.weight")
    x = graph.add("Add", [graph.add("Gather", [words, "tokens"]), graph.add("Gather", [places, "positions"])])
    parts = graph.constant(np.array([hidden] * 3, dtype=np.int64))
    for i in range(config["n_layer"]):
        qkv = linear(norm(x, f"h.{i}.ln_1"), f"h.{i}.attn.c_attn")
        graph.add("Split", [qkv, parts], outputs=3, axis=-1)
        q, k, v = graph.nodes[-1].output
        x = graph.add("Add", [x, linear(graph.attention(i, q, k, v, heads, heads), f"h.{i}.attn.c_proj")])
        up = linear(norm(x, f"h.{i}.ln_2"), f"h.{i}.mlp.c_fc")
        x = graph.add("Add", [x, linear(graph.add("FastGelu", [up], domain=MICROSOFT), f"h.{i}.mlp.c_proj")])
    graph.head(norm(x, "ln_f"), graph.weight("wte.weight", transpose=True))
    return config["n_layer"], heads, hidden // heads


def rotary_tables(graph, config, tokens):
    dim = config["head_dim"]
    frequencies = config["rope_theta"] ** (-np.arange(0, dim, 2) / dim) / np.array(shapes.llama3_frequency_factors(config))
    angles = np.outer(np.arange(tokens), frequencies)
    return [graph.constant(table.astype(np.float32)) for table in (np.cos(angles), np.sin(angles))]


def llama(graph, config, tokens=2048):
    heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]

    def norm(x, name):
        return graph.add("SimplifiedLayerNormalization", [x, graph.weight(name + ".weight")], axis=-1,
                         epsilon=config["rms_norm_eps"], stash_type=1)

    def linear(x, name):
        return graph.add("MatMul", [x, graph.weight(name + ".weight", transpose=True)])

    x = graph.add("Gather", [graph.weight("model.embed_tokens.weight"), "tokens"])
    rotary = rotary_tables(graph, config, tokens)
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        read = norm(x, layer + "input_layernorm")
        q, k, v = (linear(read, f"{layer}self_attn.{part}_proj") for part in "qkv")
        x = graph.add("Add", [x, linear(graph.attention(i, q, k, v, heads, kv_heads, rotary), layer + "self_attn.o_proj")])
        read = norm(x, layer + "post_attention_layernorm")
        gate, up = linear(read, layer + "mlp.gate_proj"), linear(read, layer + "mlp.up_proj")
        silu = graph.add("Mul", [gate, graph.add("Sigmoid", [gate])])
        x = graph.add("Add", [x, linear(graph.add("Mul", [silu, up]), layer + "mlp.down_proj")])
    graph.head(norm(x, "model.norm"), graph.weight("model.embed_tokens.weight", transpose=True))
    return config["num_hidden_layers"], kv_heads, config["head_dim"]


def write(checkpoint_file, config, directory):
    """model.onnx and model.bin in the directory; the caches are [batch, kv_heads, tokens, head_dim]."""
    graph = Graph(weights.Checkpoint(checkpoint_file))
    layers, kv_heads, dim = {"gpt2": gpt2, "llama": llama}[config["model_type"]](graph, config)
    inputs = [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", "new"]),
              helper.make_tensor_value_info("positions", TensorProto.INT64, ["batch", "new"]),
              helper.make_tensor_value_info("last", TensorProto.INT64, [1]),
              helper.make_tensor_value_info("seqlens_k", TensorProto.INT32, ["batch"]),
              helper.make_tensor_value_info("total", TensorProto.INT32, [])]
    outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 1, config["vocab_size"]])]
    for i in range(layers):
        for what in ("key", "value"):
            shape = ["batch", kv_heads, "tokens", dim]
            inputs.append(helper.make_tensor_value_info(f"past_{what}_{i}", TensorProto.FLOAT, shape))
            outputs.append(helper.make_tensor_value_info(f"present_{what}_{i}", TensorProto.FLOAT, shape))
    model = helper.make_model(helper.make_graph(graph.nodes, config["model_type"], inputs, outputs, graph.initializers),
                              opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)], ir_version=8)
    temporary = directory.with_name("onnx.part")
    temporary.mkdir(exist_ok=True)
    onnx.save_model(model, str(temporary / "model.onnx"), save_as_external_data=True, location="model.bin")
    temporary.rename(directory)
