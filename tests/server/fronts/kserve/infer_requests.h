// SPDX-License-Identifier: Apache-2.0
// Requests of the Open Inference Protocol as clients build them, and what comes back.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "kserve/grpc_service.pb.h"

namespace dunlin::server::kserve {

inline void AddRaw(const std::string& name, const std::string& datatype, int64_t elements, const std::string& raw,
                   inference::ModelInferRequest* request) {
  auto* input = request->add_inputs();
  input->set_name(name);
  input->set_datatype(datatype);
  input->add_shape(elements);
  request->add_raw_input_contents(raw);
}

inline void AddTexts(const std::string& name, const std::vector<std::string>& texts,
                     inference::ModelInferRequest* request) {
  std::string raw;
  for (const std::string& text : texts) {
    const auto length = static_cast<uint32_t>(text.size());
    raw.append(reinterpret_cast<const char*>(&length), sizeof(length));
    raw += text;
  }
  AddRaw(name, "BYTES", static_cast<int64_t>(texts.size()), raw, request);
}

inline void AddFlag(const std::string& name, bool value, inference::ModelInferRequest* request) {
  AddRaw(name, "BOOL", 1, std::string(1, value ? '\1' : '\0'), request);
}

// Of "tiny": the text without the prompt, greedy, so many tokens.
inline inference::ModelInferRequest TextRequest(const std::string& id, const std::string& text, int max_tokens) {
  inference::ModelInferRequest request;
  request.set_model_name("tiny");
  request.set_id(id);
  AddTexts("text_input", {text}, &request);
  AddFlag("exclude_input_in_output", true, &request);
  AddTexts("sampling_parameters", {R"({"temperature": "0", "max_tokens": ")" + std::to_string(max_tokens) + "\"}"},
           &request);
  return request;
}

// The raw contents of an output; "" if the response has none of that name.
inline std::string RawOf(const inference::ModelInferResponse& response, const std::string& name) {
  for (int i = 0; i < response.outputs_size(); ++i) {
    if (response.outputs(i).name() == name) return response.raw_output_contents(i);
  }
  return {};
}

inline std::vector<std::string> TextsOf(const inference::ModelInferResponse& response, const std::string& name) {
  std::string raw = RawOf(response, name);
  std::vector<std::string> texts;
  while (raw.size() >= sizeof(uint32_t)) {
    uint32_t length = 0;
    std::memcpy(&length, raw.data(), sizeof(length));
    texts.push_back(raw.substr(sizeof(length), length));
    raw.erase(0, sizeof(length) + length);
  }
  return texts;
}

template <class Value>
std::vector<Value> NumbersOf(const inference::ModelInferResponse& response, const std::string& name) {
  const std::string raw = RawOf(response, name);
  std::vector<Value> numbers(raw.size() / sizeof(Value));
  std::memcpy(numbers.data(), raw.data(), numbers.size() * sizeof(Value));
  return numbers;
}

}  // namespace dunlin::server::kserve
