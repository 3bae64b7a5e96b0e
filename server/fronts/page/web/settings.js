// SPDX-License-Identifier: Apache-2.0
// The settings of the playground: the model, its profiles, how to draw tokens, tools.

import {el} from './dom.js';

const kTopLogprobs = 5;
const kSeeds = 2 ** 31;
const kExampleTools = [{type: 'function', function: {name: 'get_weather', description: 'Get the weather in a city',
  parameters: {type: 'object', properties: {city: {type: 'string'}}, required: ['city']}}}];

// Numbers that a request may leave out: [field, label, first value, step, what stands for none].
const kNumbers = [
  ['temperature', 'Temperature', '0', '0.1', 'model'],
  ['top_p', 'Top p', '', '0.05', 'model'],
  ['max_tokens', 'Max tokens', '256', '1', 'context'],
  ['seed', 'Seed', '', '1', 'random'],
];

const labelled = (label, input) => el('label', {}, el('span', {}, label), input);

function parsedTools(text) {
  const tools = JSON.parse(text);
  if (!Array.isArray(tools)) throw new SyntaxError('tools are a list');
  return tools;
}

export class Settings {
  // changed: called when the user has changed something.
  constructor(form, changed) {
    this.changed = changed;
    this.models = [];
    this.toolsError = '';
    this.make();
    form.replaceChildren(this.details());
    form.addEventListener('submit', (event) => event.preventDefault());
    form.addEventListener('input', () => this.update());
    this.refresh();
  }

  make() {
    this.model = el('select', {id: 'model', onchange: () => this.fillProfiles()});
    this.first = el('select', {id: 'profile'});
    this.second = el('select', {id: 'other-profile'});
    this.compare = el('input', {type: 'checkbox', id: 'compare'});
    this.parallel = el('input', {type: 'checkbox', id: 'together'});
    this.system = el('textarea', {id: 'system', rows: '2'});
    this.tools = el('textarea', {id: 'tools', rows: '3', spellcheck: 'false', placeholder: '[{"type": "function", ...}]'});
    this.error = el('p', {class: 'error', role: 'alert', hidden: true});
    this.numbers = kNumbers.map(([field, label, value, step, none]) => ({field, label,
      input: el('input', {type: 'number', id: field, step, value, placeholder: none})}));
  }

  details() {
    const wide = window.matchMedia('(min-width: 60rem)').matches;
    this.otherLabel = labelled('Second profile', this.second);
    this.togetherLabel = el('label', {class: 'check'}, this.parallel, 'both at the same time');
    return el('details', {open: wide}, el('summary', {}, 'Settings'),
      labelled('Model', this.model), labelled('Profile', this.first),
      el('label', {class: 'check'}, this.compare, 'Compare with a second profile'), this.otherLabel, this.togetherLabel,
      el('div', {class: 'numbers'}, this.numbers.map(({label, input}) => labelled(label, input))),
      labelled('System message', this.system), labelled('Tools, as JSON', this.tools), this.error,
      el('button', {type: 'button', id: 'example-tool', onclick: () => {
        this.tools.value = JSON.stringify(kExampleTools, null, 1);
        this.update();
      }}, 'Example tool'));
  }

  setModels(models) {
    const chosen = this.model.value;
    this.models = models.filter(({kind}) => kind === 'decoder');
    this.model.replaceChildren(...this.models.map(({name}) => el('option', {value: name}, name)));
    if (this.models.some(({name}) => name === chosen)) this.model.value = chosen;
    this.fillProfiles();
  }

  // Those that the model supports. The second one's first choice is another than the default.
  fillProfiles() {
    const model = this.chosen;
    const names = (model?.profiles ?? []).filter(({supported}) => supported)
      .map(({attention_backend: backend, precision}) => `${backend} ${precision}`);
    const own = model?.default_profile;
    const auto = own ? `auto (${own.attention_backend} ${own.precision})` : 'auto';
    for (const select of [this.first, this.second]) {
      const before = select.value;
      select.replaceChildren(el('option', {value: ''}, auto), ...names.map((name) => el('option', {value: name}, name)));
      if (names.includes(before)) select.value = before;
    }
    const other = names.find((name) => own && name === `${own.attention_backend} fp8`) ??
      names.find((name) => own && name !== `${own.attention_backend} ${own.precision}`);
    if (this.second.value === '' && other !== undefined) this.second.value = other;
    this.update();
  }

  get chosen() { return this.models.find(({name}) => name === this.model.value); }
  get compares() { return this.compare.checked; }
  get together() { return this.compares && this.parallel.checked; }

  // Why nothing can be sent, or ''.
  get refusal() {
    if (this.chosen === undefined) return 'No model that generates is served';
    if (!this.chosen.chat.supported) return `${this.chosen.name} takes no chats: ${this.chosen.chat.reason}`;
    return this.toolsError;
  }

  update() {
    this.refresh();
    this.changed();
  }

  refresh() {
    this.otherLabel.hidden = !this.compares;
    this.togetherLabel.hidden = !this.compares;
    this.toolsError = '';
    try {
      if (this.tools.value.trim() !== '') parsedTools(this.tools.value);
    } catch (error) {
      this.toolsError = `Tools are not valid: ${error.message}`;
    }
    this.error.hidden = this.toolsError === '';
    this.error.textContent = this.toolsError;
  }

  // What each answer is asked with: [{label, fields}].
  profiles() {
    return (this.compares ? [this.first, this.second] : [this.first]).map(({value}) => {
      if (value === '') return {label: 'auto', fields: {}};
      const [backend, precision] = value.split(' ');
      return {label: value, fields: {attention_backend: backend, precision}};
    });
  }

  // A request without its messages and its profile. Answers that are compared draw from one seed.
  request() {
    const request = {model: this.model.value, logprobs: true, top_logprobs: kTopLogprobs,
      stream_options: {include_usage: true}};
    for (const {field, input} of this.numbers) {
      if (input.value !== '') request[field] = Number(input.value);
    }
    if (request.seed === undefined) request.seed = Math.floor(Math.random() * kSeeds);
    if (this.tools.value.trim() !== '') request.tools = parsedTools(this.tools.value);
    return request;
  }

  systemMessages() {
    const text = this.system.value.trim();
    return text === '' ? [] : [{role: 'system', content: text}];
  }
}
