import { format, inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { isSecret, secret } from '../src/index.ts';

const canary = '4242424242424242';

describe('a secret', () => {
  const held = secret({ number: canary });

  it.each([
    ['a template', () => `${String(held)}`],
    ['concatenation', () => '' + (held as unknown as string)],
    ['JSON', () => JSON.stringify({ held, list: [held] })],
    [
      'inspect with everything shown',
      () => inspect({ held }, { showHidden: true, depth: null, getters: true }),
    ],
    ['console formatting', () => format('%s %o %O %j', held, held, held, held)],
    ['its own keys', () => JSON.stringify([Reflect.ownKeys(held), { ...held }, Object.entries(held)])],
  ])('does not show in %s', (_name, show) => {
    expect(show()).not.toContain(canary);
  });

  it('is [secret] when converted to text', () => {
    expect(`${String(held)} ${JSON.stringify(held)} ${inspect(held)}`).toBe('[secret] "[secret]" [secret]');
  });

  it('gives its value to expose only', () => {
    expect(held.expose()).toEqual({ number: canary });
  });

  it('is distinguished from similar objects', () => {
    expect(isSecret(held)).toBe(true);
    for (const other of [null, undefined, canary, { expose: () => canary }, Object.create(held)]) {
      expect(isSecret(other)).toBe(false);
    }
  });
});
