// SPDX-License-Identifier: Apache-2.0
// Generate, Embed and Rerank between their messages and the serving core. Owner: the call. Thread rule: one function at
// a time.
#pragma once

#include <string>

#include "dunlin/v1/embedding.pb.h"
#include "dunlin/v1/generation.pb.h"
#include "server/fronts/dunlin_v1/embed_messages.h"
#include "server/fronts/dunlin_v1/generate_messages.h"
#include "server/grpc_calls/call_translator.h"
#include "server/grpc_calls/embed_call_translator.h"
#include "server/transport/grpc/wire_buffer.h"

namespace dunlin::server {

class GenerateTranslator final : public CallTranslator {
 public:
  absl::Status Read(const grpc::ByteBuffer& message, ClientRequest* request) override {
    v1::GenerateRequest wire;
    if (absl::Status s = ParseWire(message, &wire); !s.ok()) return s;
    return GenerateRequestFromWire(&wire, request);
  }
  void OnChunk(const OutputChunk& chunk, WireMessages* out) override {
    ChunkToWire(chunk, &response_);
    out->Add(response_);
  }

 private:
  v1::GenerateResponse response_;  // memory is reused
};

class EmbedMessageTranslator final : public EmbedCallTranslator {
 public:
  absl::Status Read(const grpc::ByteBuffer& message, ClientEmbedRequest* request) override {
    v1::EmbedRequest wire;
    if (absl::Status s = ParseWire(message, &wire); !s.ok()) return s;
    return EmbedRequestFromWire(&wire, request);
  }
  grpc::ByteBuffer Render(const std::string& request_id, const EmbedResult& result) override {
    v1::EmbedResponse response = EmbedResultToWire(result);
    response.set_request_id(request_id);
    return SerializeWire(response);
  }
};

class RerankMessageTranslator final : public EmbedCallTranslator {
 public:
  absl::Status Read(const grpc::ByteBuffer& message, ClientEmbedRequest* request) override {
    v1::RerankRequest wire;
    if (absl::Status s = ParseWire(message, &wire); !s.ok()) return s;
    request_order_ = wire.request_order();
    return RerankRequestFromWire(&wire, request);
  }
  grpc::ByteBuffer Render(const std::string& request_id, const EmbedResult& result) override {
    v1::RerankResponse response = RerankResultToWire(result, request_order_);
    response.set_request_id(request_id);
    return SerializeWire(response);
  }

 private:
  bool request_order_ = false;
};

}  // namespace dunlin::server
