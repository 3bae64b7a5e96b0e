// SPDX-License-Identifier: Apache-2.0
// The bytes of a connection's responses: heads, and bodies in the framing that the request's version allows. Knows no
// socket. Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "server/transport/http/http_message.h"

namespace dunlin::server {

class HttpOutput {
 public:
  struct Framing {
    bool http10 = false;     // no chunks: a stream ends with the connection
    bool head_only = false;  // the answer to HEAD
    bool keep_alive = false;
  };

  // The next response begins; what is still pending of earlier ones stays.
  void Start(const Framing& framing);

  void AppendContinue() { pending_.append("HTTP/1.1 100 Continue\r\n\r\n"); }
  void AppendWhole(const HttpReply& reply);
  void AppendHead(const HttpReply& head);
  void AppendPiece(std::string_view bytes);  // REQUIRES: not empty
  void AppendEnd();
  // What is pending is not sent.
  void Clear() { pending_.clear(); }
  // Nor is the rest of the response, which has ended.
  void Drop();

  // The connection ends with this response. REQUIRES, to have an effect: before its head.
  void DenyKeepAlive() { framing_.keep_alive = false; }
  bool keep_alive() const { return framing_.keep_alive; }
  bool head_only() const { return framing_.head_only; }

  // The response is whole, in what was taken and what is pending.
  bool ended() const { return ended_; }
  // A stream has begun and not ended.
  bool streaming() const { return streaming_; }
  bool empty() const { return pending_.empty(); }
  std::string Take() { return std::exchange(pending_, std::string()); }

 private:
  enum class Length : uint8_t { kKnown, kChunked, kToTheEnd };
  void AppendFields(const HttpReply& reply, Length length);

  Framing framing_;
  bool streaming_ = false;
  bool ended_ = false;
  std::string pending_;
};

}  // namespace dunlin::server
