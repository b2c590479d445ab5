import type { Client } from '@token-vault/test-support';
import { setTimeout as sleep } from 'node:timers/promises';

/** Of a client, after its requests. Without it eight clients take the processors from the processes that start meanwhile. */
const pauseMs = 200;

/** Writes and reads, and runs a reactor if one is given, until stopped, over keep-alive connections. Gives the unexpected answers. */
export function startTraffic(backend: Client, clients: number, reactorId?: string) {
  const end = new AbortController();
  const wrong: string[] = [];
  let done = 0;
  const ask = async (status: number, method: string, at: string, body?: object) => {
    const answer = await backend.request<{ id: string }>(method, at, body && { body }).catch(String);
    if (typeof answer === 'string') wrong.push(`${method} ${at}: ${answer}`);
    else if (answer.status !== status) wrong.push(`${method} ${at}: ${answer.status} ${answer.text}`);
    done += 1;
    return typeof answer === 'string' ? undefined : answer.body;
  };
  const life = async () => {
    while (!end.signal.aborted) {
      const made = await ask(201, 'POST', '/tokens', { type: 'token', data: 'load' });
      if (made?.id) await ask(200, 'GET', `/tokens/${made.id}`);
      if (reactorId) await ask(200, 'POST', `/reactors/${reactorId}/react`, { args: { ms: 0 } });
      await sleep(pauseMs);
    }
  };
  const lives = Promise.all(Array.from({ length: clients }, life));
  return {
    wrong,
    done: () => done,
    async stop() {
      end.abort();
      await lives;
    },
  };
}
