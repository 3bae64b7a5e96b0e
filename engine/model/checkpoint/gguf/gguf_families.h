// SPDX-License-Identifier: Apache-2.0
// What single families have in config.json beside the fields that rows of gguf_architecture.cc copy; each is a
// GgufArchitecture::write_fields. Source: github.com/ggml-org/llama.cpp, convert_hf_to_gguf.py (what is written),
// src/models (what is implied).
#pragma once

#include "engine/model/checkpoint/gguf/gguf_config.h"

namespace dunlin::engine {

void WriteGgufLlama(GgufConfigWriter* config);
void WriteGgufMixtral(GgufConfigWriter* config);
void WriteGgufGptNeoX(GgufConfigWriter* config);
void WriteGgufGemma2(GgufConfigWriter* config);
void WriteGgufGemma3(GgufConfigWriter* config);
void WriteGgufWindow(GgufConfigWriter* config);  // one window for all layers, where the file has it
void WriteGgufQwen2Moe(GgufConfigWriter* config);
void WriteGgufQwen3Moe(GgufConfigWriter* config);
void WriteGgufGptOss(GgufConfigWriter* config);
void WriteGgufGranite(GgufConfigWriter* config);
void WriteGgufGraniteMoe(GgufConfigWriter* config);
void WriteGgufOlmo2(GgufConfigWriter* config);
void WriteGgufGlm4Moe(GgufConfigWriter* config);
void WriteGgufDeepseek2(GgufConfigWriter* config);
void WriteGgufCohere(GgufConfigWriter* config);
void WriteGgufCohere2(GgufConfigWriter* config);
void WriteGgufStablelm(GgufConfigWriter* config);
void WriteGgufExaone4(GgufConfigWriter* config);
void WriteGgufFalcon(GgufConfigWriter* config);
void WriteGgufBert(GgufConfigWriter* config);
void WriteGgufModernBert(GgufConfigWriter* config);

}  // namespace dunlin::engine
