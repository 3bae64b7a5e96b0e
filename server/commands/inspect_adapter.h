// SPDX-License-Identifier: Apache-2.0
// `dunlin inspect --adapter PATH`: what a LoRA adapter holds; with a model's directory also whether it fits the model.
#pragma once

#include <string>

namespace dunlin::server {

// base: the model's directory or GGUF file; "": only the adapter's own files are read. Of the model all weights are
// loaded. Prints a table, or with `json` one object. Returns the exit status.
int InspectAdapter(const std::string& adapter, const std::string& base, bool json);

}  // namespace dunlin::server
