# SPDX-License-Identifier: Apache-2.0
"""A GGUF file of a published shape made of a small one, in which matrices have their first rows alone, and mixtures one
expert: these are repeated. What a step reads and computes depends on shapes and types alone, and quantising all of it takes
llama.cpp an hour, of the largest shapes in a BF16 file of its own. Routers are whole, or copies of one expert would take all
tokens.

Needs numpy and gguf.
"""

import gguf
import numpy as np

import vocabulary

ROWS = 64
ROUTER = "ffn_gate_inp.weight"


class Cut:
    """What make_family_gguf.write writes of a matrix; remembers its shape."""

    def __init__(self):
        self.shapes = {}

    def __call__(self, name, tensor):
        if tensor.dim() < 2:
            return tensor
        self.shapes[name] = tuple(tensor.shape)
        return tensor[:ROWS] if tensor.dim() == 2 else tensor[:1, :ROWS]


def repeat(source, target, config, whole_shapes, draw_router):
    """whole_shapes: {name: shape} of what is cut. draw_router(name, shape): FP32 rows."""
    reader = gguf.GGUFReader(source)
    architecture = reader.get_field("general.architecture").contents()
    writer = gguf.GGUFWriter(target, architecture)
    for name, field in reader.fields.items():
        if name.startswith(("GGUF.", "tokenizer.", "general.architecture", architecture + ".vocab_size")):
            continue
        value = config["num_experts"] if name == architecture + ".expert_count" else field.contents()
        writer.add_key_value(name, value, field.types[0], field.types[1] if len(field.types) > 1 else None)
    writer.add_vocab_size(config["vocab_size"])
    vocabulary.add_to_gguf(writer, config["vocab_size"])

    def shape_of(tensor):
        """Of the elements as they are stored: a block's bytes are in the last dimension."""
        if tensor.name.endswith(ROUTER):
            return (config["num_experts"], config["hidden_size"])
        whole = whole_shapes.get(tensor.name)
        return tensor.data.shape if whole is None else (*whole[:-1], tensor.data.shape[-1])

    def rows_of(tensor):
        if tensor.name.endswith(ROUTER):
            return draw_router(tensor.name, shape_of(tensor))
        whole = shape_of(tensor)
        part = tensor.data.reshape((1,) * (len(whole) - tensor.data.ndim) + tensor.data.shape)  # one expert is no dimension
        return np.tile(part, [count // of_part for count, of_part in zip(whole, part.shape)])

    for tensor in reader.tensors:
        shape = shape_of(tensor)
        size = int(np.prod(shape)) * tensor.data.itemsize
        writer.add_tensor_info(tensor.name, shape, tensor.data.dtype, size, tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for tensor in reader.tensors:  # one at a time: together they may not fit into memory
        writer.write_tensor_data(rows_of(tensor))
    writer.close()
