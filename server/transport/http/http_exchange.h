// SPDX-License-Identifier: Apache-2.0
// One request and its response, between a connection of the HTTP port and the handler that a route opens for it.
//
//   HTTP thread    HttpRoute::open, Admit before the body is read, OnBodyBytes as it comes, Start with the body
//   any thread     Respond; or Begin, Write..., End; of these one call at a time, at most one Write outstanding
//   HTTP thread    OnWriteDone after Begin and each Write, OnCancel if the client goes away first, OnDone at the end
//
// Ownership: the connection holds the handler from open to OnDone, the handler the exchange from Start to OnDone. Both
// are released by then, so that neither outlives the server.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "server/transport/http/http_message.h"

namespace dunlin::server {

class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  // Valid until OnDone.
  virtual const HttpRequest& request() const = 0;

  // The whole response; the last call but Abort.
  virtual void Respond(HttpReply reply) = 0;

  // The first Write of a response whose body comes piece by piece: its head, and with it the first piece, if not empty.
  // idle_text: sent whenever the stream has had nothing to send for HttpTimeouts::stream_idle; "" sends nothing. The
  // handler watches for a client that does not read, and calls Abort.
  virtual void Begin(HttpReply head, std::string idle_text) = 0;
  // REQUIRES: Begin came before; bytes is not empty; no Write is outstanding.
  virtual void Write(std::string bytes) = 0;
  // The last bytes of the body, if any; the last call but Abort. A Write may be outstanding.
  virtual void End(std::string bytes) = 0;

  // Closes the connection without sending anything more. The handler still ends its response, which is then dropped.
  // Any thread, at any time; no effect after OnDone.
  virtual void Abort() = 0;
};

// Functions are called on the HTTP thread, one at a time; none may block.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;

  // The header of the request has been read, its body has not: takes the request, or refuses it with this reply.
  // body_bytes: the length of the body; 0 if the client does not tell. A handler whose client is gone before its body
  // has come in is destroyed without another call, as is one that refuses.
  virtual std::optional<HttpReply> Admit(const HttpRequest& request, size_t body_bytes) = 0;
  // So many more bytes of the body have come, and are held in memory: goes on, or refuses the request as above.
  virtual std::optional<HttpReply> OnBodyBytes(size_t /*bytes*/) { return std::nullopt; }

  // The request is complete.
  virtual void Start(std::shared_ptr<HttpExchange> exchange, std::string body) = 0;

  // Of every response, before its head is sent: headers that are known only then.
  virtual void AddHeaders(HttpReply* /*head*/) const {}

  // The outstanding Write is done; ok is false if the client is gone.
  virtual void OnWriteDone(bool ok) = 0;
  // The client has closed the connection, or the way to the server, before the response ended. At most once.
  virtual void OnCancel() = 0;
  // The response has been sent or dropped, after Respond or End. The last call, exactly once after Start.
  virtual void OnDone() = 0;
};

}  // namespace dunlin::server
