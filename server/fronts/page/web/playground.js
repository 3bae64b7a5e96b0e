// SPDX-License-Identifier: Apache-2.0
// Chats with a model through one profile, or through two side by side: where their tokens differ first, and how fast
// each was.

import {Answer} from './answer.js';
import {announce, byId, el, number, percent} from './dom.js';
import {Settings} from './settings.js';
import {streamChat} from './stream.js';
import {hideCard, probability, quoted, sameToken} from './tokens.js';

// The index of the first token that differs, or that one answer has and the other, which is over, has not; -1: none.
export function firstDifference(a, b, over) {
  const common = Math.min(a.length, b.length);
  for (let i = 0; i < common; ++i) {
    if (!sameToken(a[i], b[i])) return i;
  }
  return over && a.length !== b.length ? common : -1;
}

function described(answer, index) {
  const token = answer.tokens[index];
  return token === undefined ? 'the end' : `${quoted(token.token)} (${percent(probability(token))})`;
}

function speeds([a, b]) {
  const [x, y] = [a.speed, b.speed];
  if (!Number.isFinite(x) || !Number.isFinite(y)) return '';
  const [fast, ratio] = x >= y ? [a, x / y] : [b, y / x];
  return ` ${a.label} ${number(x)}, ${b.label} ${number(y)} tokens/s: ${fast.label} was ${number(ratio)} times as fast.`;
}

export class Playground {
  constructor(askForKey) {
    this.askForKey = askForKey;
    this.messages = [];
    this.running = null;  // the AbortController of what streams
    this.settings = new Settings(byId('settings'), () => this.update());
    byId('composer').addEventListener('submit', (event) => {
      event.preventDefault();
      this.ask(byId('prompt').value);
    });
    byId('prompt').addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      byId('composer').requestSubmit();
    });
    byId('stop').addEventListener('click', () => this.running?.abort());
    byId('clear').addEventListener('click', () => {
      this.clear();
      byId('prompt').focus();
    });
    byId('view-playground').addEventListener('keydown', (event) => {
      if (event.key === 'Escape') this.running?.abort();
    });
    this.clear();
  }

  setModels(models) {
    this.settings.setModels(models);
    this.update();
  }

  update() {
    const busy = this.running !== null;
    const {refusal} = this.settings;
    byId('stop').hidden = !busy;
    byId('send').hidden = busy;
    byId('send').disabled = refusal !== '';
    byId('send').textContent = this.settings.compares ? 'Compare' : 'Send';
    byId('prompt').placeholder = refusal || 'Ask something';
  }

  clear() {
    this.running?.abort();
    this.messages = [];
    byId('turns').replaceChildren(el('p', {class: 'muted empty'},
      'Point at a token, or move with the arrow keys, to see what else was likely. ',
      'Compare runs one prompt through two profiles.'));
    hideCard();
    this.update();
  }

  ask(text) {
    if (text.trim() === '' || this.running !== null || this.settings.refusal !== '') return;
    byId('prompt').value = '';
    this.messages.push({role: 'user', content: text});
    this.run(el('p', {class: 'user'}, text));
  }

  // Streams an answer of each profile to the conversation so far. shown: what is new in it.
  async run(shown) {
    const request = this.settings.request();  // of both: they share a seed
    const answers = this.settings.profiles().map(({label, fields}) => Object.assign(new Answer(label), {fields}));
    const verdict = el('p', {class: 'verdict', role: 'status'});
    const turn = el('div', {class: 'turn'}, shown,
      el('div', {class: answers.length > 1 ? 'answers two' : 'answers'}, answers.map(({element}) => element)), verdict);
    const turns = byId('turns');
    if (this.messages.length === 1) turns.replaceChildren();
    turns.append(turn);
    this.running = new AbortController();
    const {signal} = this.running;
    this.update();
    const start = this.messages.length;
    const stream = (answer) => this.stream(answer, request, signal, () => {
      verdict.textContent = answers.length > 1 ? this.verdict(answers) : '';
      turns.scrollTop = turns.scrollHeight;
    });
    if (this.settings.together) await Promise.all(answers.map(stream));
    else for (const answer of answers) await stream(answer);
    this.running = null;
    if (this.messages.length === start && turn.isConnected) this.conclude(turn, answers);
    this.update();
  }

  async stream(answer, request, signal, changed) {
    try {
      signal.throwIfAborted();
      const messages = [...this.settings.systemMessages(), ...this.messages];
      for await (const chunk of streamChat({...request, ...answer.fields, messages}, signal)) {
        answer.onChunk(chunk);
        changed();
      }
      answer.end('complete');
    } catch (error) {
      answer.fail(signal.aborted ? null : error);
      if (error.needsKey) this.askForKey('Chats need a key with the permission "infer".');
    }
    changed();
  }

  // Marks the first token that differs, once there is one, and says so.
  verdict(answers) {
    const [a, b] = answers;
    const over = answers.every(({state}) => state === 'complete');
    const index = firstDifference(a.tokens, b.tokens, over);
    if (index >= 0) {
      if (a.marked !== index) answers.forEach((answer) => answer.text.mark(index));
      a.marked = index;
      const text = `First difference at token ${index + 1}: ${described(a, index)} against ${described(b, index)}.`;
      return text + (over ? speeds(answers) : '');
    }
    if (!over) return '';
    return `All ${number(a.tokens.length)} tokens are the same.${speeds(answers)}`;
  }

  // The conversation goes on with the first answer, if it is whole; else the turn may be tried again.
  conclude(turn, answers) {
    const [answer] = answers;
    if (answer.state === 'complete') {
      this.messages.push(answer.message);
      if (answer.calls.length > 0) turn.append(this.resultForm(answer.calls));
      if (answers.length === 1) announce(answer.text.text || 'The answer calls tools');
    }
    if (answers.every(({state}) => state === 'complete')) return;
    turn.append(el('button', {type: 'button', class: 'again', onclick: (event) => {
      if (this.running !== null) return;
      if (answer.state === 'complete') this.messages.pop();
      event.target.remove();
      const [shown] = turn.children;
      turn.remove();
      this.run(shown);
    }}, 'Try again'));
  }

  // What the tools have returned goes back to the model.
  resultForm(calls) {
    const fields = calls.map(({name}) => el('textarea', {rows: '1', 'aria-label': `Result of ${name}`,
      placeholder: `Result of ${name}, as JSON`, spellcheck: 'false'}));
    const form = el('form', {class: 'results', onsubmit: (event) => {
      event.preventDefault();
      if (this.running !== null || this.settings.refusal !== '') return;
      const results = fields.map(({value}) => value);
      form.remove();
      calls.forEach(({id}, i) => this.messages.push({role: 'tool', tool_call_id: id, content: results[i]}));
      this.run(el('div', {class: 'user'}, results.map((result, i) => el('p', {},
        el('span', {class: 'tag'}, `result of ${calls[i].name}`), ' ', el('code', {}, result)))));
    }}, fields, el('button', {}, calls.length > 1 ? 'Send results' : 'Send result'));
    return form;
  }
}
