// SPDX-License-Identifier: Apache-2.0
// One answer, as it streams in: reasoning, text and tool calls, what executed it and how fast.

import {duration, el, number} from './dom.js';
import {TokenText} from './tokens.js';

const kEnds = {stop: 'complete', length: 'cut off by max tokens', tool_calls: 'calls tools'};

const kShortArguments = 60;  // characters that stand on one line

// The arguments of a call as they are read best: long ones are indented once they are whole.
function shownArguments(text) {
  try {
    const value = JSON.parse(text);
    return text.length <= kShortArguments ? text : JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}

export class Answer {
  constructor(label) {
    this.label = label;
    this.tokens = [];
    this.calls = [];      // {id, name, arguments, view}
    this.state = 'waiting';  // streaming, complete, stopped, failed
    this.execution = null;
    this.timings = null;
    this.usage = null;
    this.text = new TokenText(`Answer of ${label}; arrow keys move between tokens`, this.tokens);
    this.reasoning = null;
    this.title = el('span', {class: 'who'}, label);
    this.facts = el('p', {class: 'muted speed'}, 'waiting');
    this.body = el('div', {class: 'body'}, this.text.element);
    this.element = el('article', {class: 'answer panel', 'aria-busy': 'true'},
      el('header', {}, this.title), this.body, this.facts);
  }

  get speed() {
    const further = (this.usage?.completion_tokens ?? 0) - 1;
    const ms = this.timings === null ? 0 : this.timings.total_ms - this.timings.ttft_ms;
    return further > 0 && ms > 0 ? (further * 1000) / ms : NaN;
  }

  // The message that goes into the conversation.
  get message() {
    const message = {role: 'assistant', content: this.text.text};
    if (this.reasoning !== null) message.reasoning_content = this.reasoning.text;
    if (this.calls.length > 0) {
      message.tool_calls = this.calls.map(({id, name, arguments: text}) =>
        ({id, type: 'function', function: {name, arguments: text}}));
    }
    return message;
  }

  onChunk(chunk) {
    this.state = 'streaming';
    const {execution, timings} = chunk.dunlin ?? {};
    if (execution) this.setExecution(execution);
    if (timings) this.timings = timings;
    if (chunk.usage) this.usage = chunk.usage;
    for (const choice of chunk.choices ?? []) this.onChoice(choice);
    this.facts.textContent = this.tokens.length > 0 ? `${number(this.tokens.length)} tokens` : 'streaming';
  }

  setExecution(execution) {
    this.execution = execution;
    const {device, attention_backend: backend, precision, kv_dtype: kv} = execution;
    this.title.replaceChildren(`${backend} ${precision}`,
      el('span', {class: 'muted'}, ` ${device}, KV ${kv}${execution.recipe ? `, ${execution.recipe}` : ''}`));
  }

  onChoice({delta, logprobs, finish_reason: reason}) {
    const tokens = logprobs?.content ?? [];
    const offset = this.tokens.length;
    this.tokens.push(...tokens);
    const reasoning = delta.reasoning_content ?? delta.reasoning;
    if (reasoning) this.reasoningText().append(reasoning, tokens, offset);
    if (delta.content) this.text.append(delta.content, tokens, offset);
    for (const call of delta.tool_calls ?? []) this.onCall(call);
    if (reason) this.finishReason = reason;
  }

  reasoningText() {
    if (this.reasoning === null) {
      this.reasoning = new TokenText('Reasoning; arrow keys move between tokens', this.tokens);
      this.body.prepend(el('details', {class: 'reasoning', open: true}, el('summary', {}, 'Reasoning'),
        this.reasoning.element));
    }
    return this.reasoning;
  }

  onCall({index, id, function: part}) {
    let call = this.calls[index];
    if (call === undefined) {
      call = {id: '', name: '', arguments: '', view: el('pre', {tabindex: '0', 'aria-label': 'Arguments'}),
        title: el('code', {})};
      this.calls[index] = call;
      call.element = el('div', {class: 'call'}, el('p', {}, el('span', {class: 'tag'}, 'tool call'), ' ', call.title),
        call.view);
      this.body.append(call.element);
    }
    call.id += id ?? '';
    call.name += part?.name ?? '';
    call.arguments += part?.arguments ?? '';
    call.title.textContent = call.name;
    call.view.textContent = shownArguments(call.arguments);
  }

  end(state) {
    this.state = state;
    this.element.setAttribute('aria-busy', 'false');
    const parts = [];
    if (this.usage !== null) {
      parts.push(`${number(this.usage.prompt_tokens)} + ${number(this.usage.completion_tokens)} tokens`);
    }
    if (this.timings !== null) parts.push(`first after ${duration(this.timings.ttft_ms)}`);
    if (Number.isFinite(this.speed)) parts.push(`${number(this.speed)} tokens/s`);
    parts.push(state === 'complete' ? kEnds[this.finishReason] ?? this.finishReason : state);
    this.facts.replaceChildren(parts.join(' · '));
  }

  // error: CallError, or null where the user has stopped it.
  fail(error) {
    this.end(error === null ? 'stopped' : 'failed');
    if (error === null) return;
    const {code, param, refusals = []} = error.details;
    const more = [code, param].filter(Boolean).join(', ');
    this.body.append(el('div', {class: 'error', role: 'alert'}, el('p', {}, error.message),
      refusals.length > 0 && el('ul', {}, refusals.map((refusal) =>
        el('li', {}, typeof refusal === 'string' ? refusal : JSON.stringify(refusal)))),
      more !== '' && el('p', {class: 'muted'}, more)));
  }
}
