// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/kserve/http_translators.h"

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"

namespace dunlin::server::kserve {
namespace {

// What the path says, and the fields of the body.
absl::Status ReadBody(std::string_view body, const HttpCallFacts& facts, inference::ModelInferRequest* wire,
                      BinaryOutputs* binary) {
  wire->set_model_name(facts.model);
  wire->set_model_version(facts.version);
  if (facts.action == HttpAction::kInfer) return ReadInferBody(body, facts.json_bytes, wire, binary);
  return ReadGenerateBody(body, facts.action == HttpAction::kGenerateStream, wire);
}

// The status of a body that could not be read comes before that of its fields, which are read for the record of the
// call all the same.
absl::Status First(const absl::Status& body, const absl::Status& fields) {
  return body.ok() ? fields : body;
}

std::string InferText(const inference::ModelInferResponse& response, const BinaryOutputs& binary,
                      HttpCallFacts* facts) {
  InferBody body = InferBodyOf(response, binary);
  facts->response_json_bytes = body.json_bytes;
  return std::move(body.bytes);
}

std::string ErrorOf(const absl::Status& status) {
  return ErrorDocument(engine::StdView(status.message()));
}

}  // namespace

absl::Status HttpGenerateTranslator::Read(std::string_view body, ClientRequest* request) {
  inference::ModelInferRequest wire;
  const absl::Status read = ReadBody(body, *facts_, &wire, &binary_);
  const Rpc rpc = streams() ? Rpc::kStream : Rpc::kInfer;
  return First(read, GenerateRequestOf(wire, rpc, request, responses_.form()));
}

void HttpGenerateTranslator::Append(const inference::ModelInferResponse& response, std::string* out) {
  switch (facts_->action) {
    case HttpAction::kInfer:
      out->append(InferText(response, binary_, facts_.get()));
      return;
    case HttpAction::kGenerateWhole:
      out->append(GenerateBodyOf(response));
      return;
    case HttpAction::kGenerateStream:
      absl::StrAppend(out, "data: ", GenerateBodyOf(response), "\n\n");
      return;
  }
}

void HttpGenerateTranslator::OnChunk(const OutputChunk& chunk, std::string* out) {
  responses_.OnChunk(chunk,
                     [this, out](inference::ModelInferResponse* response, bool /*last*/) { Append(*response, out); });
}

void HttpGenerateTranslator::OnEnd(const ResponseEnd& end, std::string* out) {
  if (end.status.ok()) {
    responses_.OnEnd([this, out](inference::ModelInferResponse* response, bool /*last*/) { Append(*response, out); });
  } else if (streams()) {
    absl::StrAppend(out, "data: ", ErrorOf(end.status), "\n\n");
  }
}

std::string HttpGenerateTranslator::ErrorBody(const absl::Status& status) {
  return ErrorOf(status);
}

absl::Status HttpEmbedTranslator::Read(std::string_view body, ClientEmbedRequest* request) {
  inference::ModelInferRequest wire;
  const absl::Status read = ReadBody(body, *facts_, &wire, &binary_);
  return First(read, EmbedRequestOf(wire, request, &form_));
}

std::string HttpEmbedTranslator::Document(const EmbedResult& result) const {
  inference::ModelInferResponse response;
  FillEmbedding(form_, result, &response);
  return InferText(response, binary_, facts_.get());
}

std::string HttpEmbedTranslator::ErrorBody(const absl::Status& status) const {
  return ErrorOf(status);
}

}  // namespace dunlin::server::kserve
