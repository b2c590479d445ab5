import { setTimeout as delay } from 'node:timers/promises';
import { UnavailableError } from '@token-vault/contracts';
import type { Position } from '@token-vault/event-store';
import { afterEach, expect, it } from 'vitest';
import { goodKey, principalWith, startTinyApp, type TinyApp } from './tiny-app.ts';

let app: TinyApp;
afterEach(() => app.stop());

it.each([
  ['POST', 'was done: its outcome is unknown', 502, 'urn:token-vault:problem:outcome-unknown'],
  ['GET', 'has changed nothing: it is unavailable', 503, 'urn:token-vault:problem:unavailable'],
])(
  'a %s whose answer cannot be decided, because the rights cannot be read any more, %s',
  async (method, _what, status, type) => {
    let isDone = false;
    /** Takes longer than rights count. */
    const handled = async (position?: Position) => {
      isDone = true;
      await delay(150);
      const data = { body: { id: 'abc' }, tokens: [] };
      return position === undefined ? data : { ...data, status: 201, position };
    };
    app = await startTinyApp({
      handlers: { createToken: () => handled('1' as Position), getToken: () => handled() },
      dependencies: {
        authenticator: {
          authenticate: async () => {
            if (isDone) throw new UnavailableError('The rights cannot be read.');
            return { kind: 'authenticated', principal: principalWith(), keyHash: goodKey };
          },
          authenticateConsole: async () => ({ kind: 'unknown' }),
          forget: () => undefined,
        },
      },
    });
    const [path, body] = method === 'GET' ? ['/tokens/abc'] : ['/tokens', { type: 'token', data: 'x' }];
    const headers = { 'Content-Type': 'application/json' };
    const reply = await app.send(path, { method, ...(body ? { body, headers } : {}) });
    expect(reply).toMatchObject({ status, body: { type } });
  },
);
