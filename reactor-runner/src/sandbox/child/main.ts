/**
 * The program of a sandbox child: it runs isolates and does nothing else. It has no environment, no credentials, no
 * files and, where the host allows, no network. It speaks with the pool over the socket on descriptor 3.
 */
import { Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import type IsolatedVm from 'isolated-vm';
import { encodeFrame } from '../frames.ts';
import { createLineReader } from '../messages.ts';
import type { FromChild, ToChild } from '../messages.ts';
import type { SandboxLimits } from '../limits.ts';
import { Invocation } from './invocation.ts';
import { createIsolateFactory } from './isolate.ts';
import type { IsolateFactory, PreparedIsolate } from './isolate.ts';

// Only SIGKILL ends a process with a stuck guest thread: process.exit() would wait for the thread.
const die = (): void => {
  try {
    process.kill(process.pid, 'SIGKILL');
  } finally {
    // The first process of a PID namespace cannot kill itself, and the filter allows no `kill`.
    process.abort();
  }
};

process.on('uncaughtException', die);
process.on('unhandledRejection', die);

// Functions of the vault's scripts come compiled out of the code cache: a third less time for a trivial run. Set here
// and not on the command line, where Node's own modules would be compiled completely too: a fifth more time for a
// start.
setFlagsFromString('--no-lazy');

const addon = { exports: {} as { ivm: typeof IsolatedVm } };
process.dlopen(addon, process.argv[1] ?? '');
const { ivm } = addon.exports;

const socket = new Socket({ fd: 3, readable: true, writable: true });
const send = (message: FromChild): void => encodeFrame(message).forEach((part) => socket.write(part));

let factory: IsolateFactory | undefined;
let limits: SandboxLimits;
let next: PreparedIsolate | undefined;
let current: Invocation | undefined;

socket.on(
  'data',
  createLineReader(64 * 1_048_576, (line) => receive(JSON.parse(line) as ToChild)),
);
socket.on('close', die);
socket.on('error', die);

function receive(message: ToChild): void {
  switch (message.type) {
    case 'init':
      limits = message.limits;
      factory = createIsolateFactory(ivm, message.bundle, limits);
      next = factory.prepare();
      send({ type: 'ready' });
      return;
    case 'answer':
      if (current?.number === message.run) current.answer(message.call, message.ok, message.payload);
      return;
    case 'run': {
      if (factory === undefined) return die();
      const prepared = next ?? factory.prepare();
      next = undefined;
      current = new Invocation(message, { limits, factory, prepared }, send, (outcome) => {
        current = undefined;
        send({ type: 'outcome', run: message.run, outcome });
        setImmediate(() => replace(prepared));
      });
      current.start();
    }
  }
}

/** The used isolate is disposed and the next one is made after the answer, so that no caller waits for it. */
function replace({ isolate }: PreparedIsolate): void {
  if (!isolate.isDisposed) isolate.dispose();
  next ??= current === undefined ? factory?.prepare() : undefined;
}
