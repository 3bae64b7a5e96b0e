// SPDX-License-Identifier: Apache-2.0
// The models with their profiles and the reasons against those that are not supported; loading and unloading, where the
// server takes such calls.

import {getJson, post, respond} from './api.js';
import {announce, byId, el, number} from './dom.js';

const kProbe = 'dunlin-page-probe';  // a model that nobody serves

const repositoryPath = (name, action) => `/v2/repository/models/${encodeURIComponent(name)}/${action}`;

// Whether the server loads and unloads models, and lets this key ask for it: then it knows no model of the probe's
// name; else it says that it cannot, or that the key may not.
async function canManage() {
  const response = await respond(repositoryPath(kProbe, 'unload'), {});
  const isJson = (response.headers.get('Content-Type') ?? '').startsWith('application/json');
  return isJson && ![401, 403, 405, 501].includes(response.status);
}

const distinct = (values) => [...new Set(values)];

function profileTable({name, profiles, default_profile: chosen}) {
  const backends = distinct(profiles.map((profile) => profile.attention_backend));
  const precisions = distinct(profiles.map((profile) => profile.precision));
  const cell = (backend, precision) => {
    const profile = profiles.find((p) => p.attention_backend === backend && p.precision === precision);
    const own = chosen !== null && chosen.attention_backend === backend && chosen.precision === precision;
    if (!profile.supported) return el('td', {class: 'no'}, el('span', {title: profile.reasons.join('\n')}, 'no'));
    return el('td', {class: own ? 'yes chosen' : 'yes'}, own ? 'default' : 'yes');
  };
  return el('div', {class: 'scroll', role: 'region', tabindex: '0', 'aria-label': `Profiles of ${name}`},
    el('table', {class: 'grid'},
      el('thead', {}, el('tr', {}, el('th', {scope: 'col'}, 'Backend'),
        precisions.map((precision) => el('th', {scope: 'col'}, precision)))),
      el('tbody', {}, backends.map((backend) => el('tr', {}, el('th', {scope: 'row'}, backend),
        precisions.map((precision) => cell(backend, precision)))))));
}

// Every reason with the profiles that it is against.
function reasonList(profiles) {
  const refused = profiles.filter(({supported}) => !supported);
  if (refused.length === 0) return null;
  const against = new Map();
  for (const profile of refused) {
    for (const reason of profile.reasons) {
      if (!against.has(reason)) against.set(reason, []);
      against.get(reason).push(`${profile.attention_backend}/${profile.precision}`);
    }
  }
  return el('details', {class: 'reasons'},
    el('summary', {}, `${refused.length} of ${profiles.length} profiles are not available`),
    el('ul', {}, [...against].map(([reason, names]) =>
      el('li', {}, reason, el('span', {class: 'muted'}, ` ${names.join(', ')}`)))));
}

function factsOf(model) {
  const facts = [
    ['architecture', model.architecture],
    ['parameters', number(model.parameters)],
    ['context', `${number(model.max_context_tokens)} tokens`],
    ['vocabulary', number(model.vocab_size)],
    ['device', model.profiles[0]?.device],
    ['loaded', new Date(model.loaded * 1000).toLocaleString()],
  ];
  if (model.chat?.supported) {
    facts.push(['tool calls', model.chat.tool_parser], ['reasoning', model.chat.reasoning_parser]);
  }
  if (model.adapters?.length > 0) {
    facts.push(['LoRA adapters', model.adapters.map(({name, rank}) => `${name} (rank ${rank})`).join(', ')]);
  }
  return el('dl', {class: 'facts'}, facts.map(([name, value]) => el('div', {}, el('dt', {}, name), el('dd', {}, value))));
}

export class Models {
  constructor(askForKey) {
    this.askForKey = askForKey;
    this.manages = false;
    this.changing = false;  // a call that loads or unloads is under way
  }

  note(text) {
    byId('models-note').hidden = text === '';
    byId('models-note').textContent = text;
  }

  // Reads the list and shows it; null if the key does not allow it.
  async load() {
    let list;
    try {
      list = await getJson('/status/models');
      this.manages = await canManage();
      const others = this.manages ? await this.unloaded(list.models) : [];
      this.show(list.models, others);
      this.note('');
    } catch (error) {
      if (error.status === 0 || error.status === undefined) throw error;
      if (error.needsKey) this.askForKey('The server needs a key. One with the permission "infer" lists models and chats.');
      this.note(`No models: ${error.message}`);
      byId('models').replaceChildren();
      return null;
    }
    return list;
  }

  // Models that the server knows and does not serve: [{name, state, reason}].
  async unloaded(models) {
    const index = await post('/v2/repository/index', {});
    const known = new Set(models.flatMap((model) => [model.name, ...(model.adapters ?? []).map(({name}) => name)]));
    return index.filter(({name}) => !known.has(name));
  }

  show(models, others) {
    byId('models').replaceChildren(...models.map((model) => el('article', {class: 'model panel'},
      el('div', {class: 'head'}, el('h2', {}, model.name), el('span', {class: 'tag'}, model.kind),
        this.manages && this.buttons(model.name, [['Reload', 'load'], ['Unload', 'unload']])),
      factsOf(model),
      model.chat?.supported === false && el('p', {class: 'muted'}, `No chats: ${model.chat.reason}`),
      profileTable(model), reasonList(model.profiles))),
    ...others.map(({name, state, reason}) => el('article', {class: 'model panel'},
      el('div', {class: 'head'}, el('h2', {}, name), el('span', {class: 'tag'}, (state || 'not loaded').toLowerCase()),
        this.buttons(name, [['Load', 'load']])),
      reason && el('p', {class: 'muted'}, reason))));
    if (models.length + others.length === 0) byId('models').replaceChildren(el('p', {class: 'muted'}, 'No model is served.'));
  }

  // actions: [[label, action]].
  buttons(name, actions) {
    return el('div', {class: 'buttons right'}, actions.map(([label, action]) =>
      el('button', {type: 'button', disabled: this.changing, onclick: () => this.change(name, action)},
        label, el('span', {class: 'hidden-title'}, ` ${name}`))));
  }

  async change(name, action) {
    this.note(action === 'load' ? `Loading ${name}` : `Unloading ${name}`);
    this.changing = true;
    for (const button of byId('models').querySelectorAll('button')) button.disabled = true;
    let failure = '';
    try {
      await post(repositoryPath(name, action), {});
    } catch (error) {
      failure = `${name}: ${error.message}`;
    }
    this.changing = false;
    await this.load().catch(() => {});
    announce(failure === '' ? `${name}: done` : failure);
    this.note(failure);
  }
}
