// SPDX-License-Identifier: Apache-2.0
// The parsers of QuantizationFormats(), one per publisher. Errors are recorded in `fields`.
#pragma once

#include "engine/model/checkpoint/quantization.h"

namespace dunlin::engine {

// llm-compressor. Source: compressed-tensors 0.12, QuantizationConfig and QuantizationArgs.
void ParseCompressedTensors(JsonFields& fields, Quantization* quantization);
// NVIDIA Model Optimizer; its fields are under "quantization" in hf_quant_config.json. Source: ModelOpt 0.40, export.
void ParseModelOpt(JsonFields& fields, Quantization* quantization);
// Source: transformers 5.23, FbgemmFp8Config.
void ParseFbgemm(JsonFields& fields, Quantization* quantization);
// Source: transformers 5.23, GPTQConfig, AwqConfig and BitsAndBytesConfig.
void ParseGptq(JsonFields& fields, Quantization* quantization);
void ParseAwq(JsonFields& fields, Quantization* quantization);
void ParseBitsAndBytes(JsonFields& fields, Quantization* quantization);
// Int8WeightOnlyConfig alone. Source: torchao 0.18.
void ParseTorchao(JsonFields& fields, Quantization* quantization);
// GPT-OSS's experts. Source: transformers 5.23, Mxfp4Config.
void ParseMxfp4(JsonFields& fields, Quantization* quantization);
// DeepSeek's block-scaled weights and AutoFP8's per-tensor ones. Source: transformers 5.23, FineGrainedFP8Config.
void ParseFp8(JsonFields& fields, Quantization* quantization);

// Whether expert_dtype, which DeepSeek V4 has next to quantization_config or in it, is FP4: MXFP4 next to FP8 matrices.
bool HasFp4Experts(JsonFields& fields);

}  // namespace dunlin::engine
