// The attacker of a row of `npm run bench -- neighbours`: a thread of its own with the lowest priority. In real use the attacker's client runs
// on another machine, so it must not take processor time from the vault.
import os from 'node:os';
import { on } from 'node:events';
import { parentPort, Worker, workerData } from 'node:worker_threads';
import { createClient } from '@token-vault/test-support';
import { strikeOn } from '../neighbours/attack.ts';
import { attacks } from '../neighbours/index.ts';
import { startSink } from './sink.ts';

interface Target {
  readonly attack: string;
  readonly url: string;
  readonly managementKey: string;
}

/** The result of the strikes of one round. */
export interface Strikes {
  readonly count: number;
  /** The number of answers by status. */
  readonly answers: readonly (readonly [status: string, count: number])[];
}

export interface Attacker {
  begin(): void;
  /** Begins the same strikes on a server that is not the vault. Nothing begins for an attack without `sink`. */
  beginOnSink(): void;
  /** Waits for the running strikes to end. */
  stop(): Promise<Strikes>;
  end(): Promise<void>;
}

/** Prepares the attack in a thread of its own. On Linux a priority belongs to a thread, so the caller's stays. */
export async function startAttacker(target: Target): Promise<Attacker> {
  const worker = new Worker(new URL(import.meta.url), { workerData: target });
  const messages = on(worker, 'message');
  const next = async () => ((await messages.next()).value as [Strikes])[0];
  await next();
  return {
    begin: () => worker.postMessage('begin'),
    beginOnSink: () => worker.postMessage('begin on sink'),
    stop: () => {
      worker.postMessage('stop');
      return next();
    },
    async end() {
      await worker.terminate();
    },
  };
}

async function attack(port: NonNullable<typeof parentPort>, target: Target): Promise<void> {
  const chosen = attacks.find(({ name }) => name === target.attack);
  if (!chosen) throw new Error(`no attack has the name ${target.attack}`);
  os.setPriority(os.constants.priority.PRIORITY_LOW);
  const { url, managementKey } = target;
  const manager = createClient(url, managementKey);
  const strike = await chosen.prepare({ url, manager });
  const sink = chosen.sink === undefined ? undefined : await startSink(chosen.sink);
  const strikeOnSink = sink === undefined ? undefined : await chosen.prepare({ url: sink, manager });
  port.postMessage('ready');
  let onslaught = strikeOn(strike, 0);
  for await (const [order] of on(port, 'message') as AsyncIterable<[string]>) {
    if (order === 'begin') onslaught = strikeOn(strike, chosen.atOnce);
    else if (order === 'begin on sink')
      onslaught = strikeOn(strikeOnSink ?? strike, strikeOnSink ? chosen.atOnce : 0);
    else {
      await onslaught.stop();
      const answers = [...onslaught.answers].map(([status, count]) => [String(status), count] as const);
      port.postMessage({ count: onslaught.strikes, answers } satisfies Strikes);
    }
  }
}

if (parentPort) await attack(parentPort, workerData as Target);
