// The parsers behind the rows of QuantizationFormats(). Each reads the words of one publisher; faults go into `fields`.
#pragma once

#include "engine/model/quantization.h"

namespace dunlin::engine {

// llm-compressor. Source: compressed-tensors 0.12, QuantizationConfig and QuantizationArgs.
void ParseCompressedTensors(JsonFields& fields, Quantization* quantization);
// NVIDIA Model Optimizer; its words stand under "quantization" in hf_quant_config.json. Source: ModelOpt 0.40, export.
void ParseModelOpt(JsonFields& fields, Quantization* quantization);
// Source: transformers 5.23, FbgemmFp8Config.
void ParseFbgemm(JsonFields& fields, Quantization* quantization);
// DeepSeek's block-scaled weights and AutoFP8's per-tensor ones. Source: transformers 5.23, FineGrainedFP8Config.
void ParseFp8(JsonFields& fields, Quantization* quantization);

}  // namespace dunlin::engine
