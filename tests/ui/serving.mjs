// SPDX-License-Identifier: Apache-2.0
// A server of the demo model on loopback, which can be stopped and started again on its port.

import {spawn} from 'node:child_process';
import {once} from 'node:events';
import {createInterface} from 'node:readline';

const kReadyMs = 60000;

export class Server {
  // root: of the tree. settings: "key=value" of --set.
  constructor(binary, root, settings = []) {
    this.binary = binary;
    this.root = root;
    this.settings = settings;
    this.address = '127.0.0.1:0';
  }

  get url() { return `http://${this.address}`; }

  async start() {
    const listen = [`listen.http=${this.address}`, 'listen.grpc=127.0.0.1:0', 'log.level=error'];
    const settings = [...listen, ...this.settings].flatMap((setting) => ['--set', setting]);
    this.process = spawn(this.binary, ['serve', '--config', `${this.root}/configs/demo.json`, ...settings],
      {stdio: ['ignore', 'pipe', 'inherit']});
    const ready = (async () => {
      for await (const line of createInterface({input: this.process.stdout})) {
        const found = /^READY grpc=\S+ http=(\S+)/.exec(line);
        if (found !== null) return found[1];
      }
      throw new Error('the server ended before it was ready');
    })();
    let timer;
    const late = new Promise((_, fail) => {
      timer = setTimeout(() => fail(new Error(`the server is not ready after ${kReadyMs} ms`)), kReadyMs);
    });
    this.address = await Promise.race([ready, late]).finally(() => clearTimeout(timer));
  }

  // Streams in progress end as when the machine fails.
  async kill() {
    if (this.process === undefined || this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = once(this.process, 'exit');
    this.process.kill('SIGKILL');
    await ended;
  }
}
