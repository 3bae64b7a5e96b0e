// SPDX-License-Identifier: Apache-2.0
// Server-sent events of a streamed completion.

import {CallError, open} from './api.js';

// The events of the text, without their "data: "; `pieces` come as the network has them.
export async function* eventsOf(pieces) {
  let rest = '';
  for await (const piece of pieces) {
    rest += piece;
    const events = rest.split('\n\n');
    rest = events.pop();
    for (const event of events) {
      const data = event.split('\n').filter((line) => line.startsWith('data:'));
      if (data.length > 0) yield data.map((line) => line.slice(5).trimStart()).join('\n');
    }
  }
}

async function* textOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    yield value;
  }
}

// Yields the chunks of POST /v1/chat/completions. Throws CallError for an error of the server, before or in the
// stream, and for a stream that ends too early.
export async function* streamChat(request, signal) {
  const response = await open('/v1/chat/completions', {...request, stream: true}, signal);
  try {
    for await (const event of eventsOf(textOf(response.body))) {
      if (event === '[DONE]') return;
      const chunk = JSON.parse(event);
      if (chunk.error) throw new CallError(response.status, chunk.error.message, chunk.error);
      yield chunk;
    }
  } catch (error) {
    if (error instanceof CallError || signal.aborted) throw error;
  }
  throw new CallError(0, 'The connection ended before the answer was complete.');
}
