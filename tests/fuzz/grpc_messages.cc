// SPDX-License-Identifier: Apache-2.0
// Messages of every gRPC service that takes work, from their bytes to the plan of a call.
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <string>
#include <vector>

#include "server/fronts/dunlin_v1/translators.h"
#include "server/fronts/kserve/infer_request.h"
#include "server/fronts/kserve/tensor_codec.h"
#include "server/fronts/smg_worker/embed_messages.h"
#include "server/fronts/smg_worker/generate_translator.h"
#include "server/fronts/vllm/generate_translator.h"
#include "tests/fuzz/input_bytes.h"
#include "tests/fuzz/planned_calls.h"

namespace dunlin::fuzz {
namespace {

// In two slices, as a message of several frames comes.
grpc::ByteBuffer MessageOf(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, bytes.size() / 2);
  const std::string_view tail = bytes.substr(head.size());
  const grpc::Slice slices[] = {grpc::Slice(head.data(), head.size()), grpc::Slice(tail.data(), tail.size())};
  return {slices, 2};
}

template <typename Translator>
void Generate(Translator&& translator, std::string_view bytes) {
  server::ClientRequest request;
  const absl::Status read = translator.Read(MessageOf(bytes), &request);
  (void)Plan(read, std::move(request));
}

template <typename Translator>
void Embed(Translator&& translator, std::string_view bytes) {
  server::ClientEmbedRequest request;
  const absl::Status read = translator.Read(MessageOf(bytes), &request);
  (void)Plan(read, std::move(request));
}

const server::EngineModel& TheEngineModel() {
  static const server::EngineModel model(&Core(), "");
  return model;
}

}  // namespace

int FuzzDunlinGenerate(const uint8_t* data, size_t size) {
  Generate(server::GenerateTranslator(), TextOf(data, size));
  return 0;
}

// Input: which call (1 byte), its message.
int FuzzDunlinEmbed(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  if (input.Below(2) == 0) {
    Embed(server::EmbedMessageTranslator(), input.rest());
  } else {
    Embed(server::RerankMessageTranslator(), input.rest());
  }
  return 0;
}

// Input: whether it streams (1 byte), the message.
int FuzzVllmGenerate(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  const bool streams = input.Below(2) == 1;
  Generate(server::VllmGenerateTranslator(&Core(), streams), input.rest());
  return 0;
}

// Input: which call (1 byte), its message.
int FuzzSmgWorker(const uint8_t* data, size_t size) {
  InputBytes input(data, size);
  if (input.Below(2) == 0) {
    Generate(server::EngineGenerateTranslator(&TheEngineModel()), input.rest());
  } else {
    Embed(server::EngineEmbedTranslator(&TheEngineModel()), input.rest());
  }
  return 0;
}

// Input: which call (1 byte), its message.
int FuzzKserveInfer(const uint8_t* data, size_t size) {
  namespace kserve = server::kserve;
  InputBytes input(data, size);
  const uint32_t call = input.Below(3);
  const grpc::ByteBuffer message = MessageOf(input.rest());
  (void)kserve::Peek(message);
  inference::ModelInferRequest wire;
  if (!server::ParseWire(message, &wire).ok()) return 0;
  kserve::ResponseForm form;
  absl::Status read = kserve::ReadIdentity(wire, &form);
  if (call == 2) {
    server::ClientEmbedRequest request;
    read.Update(kserve::EmbedRequestOf(wire, &request, &form));
    (void)Plan(read, std::move(request));
    return 0;
  }
  server::ClientRequest request;
  read.Update(kserve::GenerateRequestOf(wire, call == 0 ? kserve::Rpc::kInfer : kserve::Rpc::kStream, &request, &form));
  (void)Plan(read, std::move(request));
  return 0;
}

// Input: datatype, rank, the dimensions (4 bytes each, signed), raw contents.
int FuzzKserveTensor(const uint8_t* data, size_t size) {
  namespace kserve = server::kserve;
  InputBytes input(data, size);
  inference::ModelInferRequest::InferInputTensor tensor;
  tensor.set_name("text_input");
  const auto datatypes = kserve::Datatypes();
  const uint32_t datatype = input.Below(static_cast<uint32_t>(datatypes.size()) + 1);
  tensor.set_datatype(datatype < datatypes.size() ? datatypes[datatype].name : "FP16");
  for (uint32_t rank = input.Below(kserve::kMaxTensorRank + 2); rank > 0; --rank) {
    tensor.add_shape(static_cast<int32_t>(input.Word()) * (input.Byte() == 0 ? int64_t{1} : int64_t{1} << 32));
  }
  const std::string raw(input.rest());
  const auto elements = kserve::DecodeTensor(tensor, &raw);
  if (elements.ok()) DUNLIN_FUZZ_CHECK(elements->size() <= kserve::kMaxTensorElements, "more elements than the limit");
  return 0;
}

}  // namespace dunlin::fuzz
