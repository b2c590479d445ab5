import { inspect } from 'node:util';
import { describe, expect, it } from 'vitest';
import { operations, type BodyOf, type Operation, type OperationId, type Operations } from '../src/index.ts';
import { isSecret, type Secret } from '../src/secret.ts';

const canary = '4242424242424242';
const text = `data of a client: ${canary}`;
const configuration = { KEY: text };
const args = { card: { number: canary } };

/** Bodies with plaintext in every field that may hold some. */
const bodies: readonly (readonly [OperationId, unknown])[] = [
  ['createToken', { type: 'card', data: { number: canary } }],
  ['createToken', { type: 'token', data: text }],
  ['createToken', { type: 'token', data: Number(canary) }],
  ['createTokens', { tokens: [{ type: 'token', data: text }, text, [[text]]] }],
  ['updateToken', { data: { number: canary } }],
  ['tokenize', text],
  ['tokenize', { card: { type: 'card', data: { number: canary } }, [canary]: 1 }],
  ['detokenize', { held: text }],
  ['searchTokens', { query: `data:${canary}` }],
  ['createReactor', { name: 'R', code: 'module.exports = () => 1;', configuration }],
  ['updateReactor', { name: 'R', code: 'module.exports = () => 1;', configuration }],
  ['patchReactor', { configuration }],
  ['createProxy', { name: 'P', destination: 'https://a.example', configuration }],
  ['updateProxy', { name: 'P', destination: 'https://a.example', configuration }],
  ['patchProxy', { configuration }],
  [
    'react',
    { args, callback_url: `https://a.example/${canary}`, callbackUrl: `https://a.example/${canary}` },
  ],
];

const parse = (id: OperationId, body: unknown): unknown => {
  const operation: Operation = operations[id];
  return operation.body?.parse(body);
};

type Secrets = Secret<unknown> | readonly Secret<unknown>[];
type PlainFieldsOf<Body> = Body extends Secrets
  ? never
  : { [Name in keyof Body]-?: NonNullable<Body[Name]> extends Secrets ? never : Name }[keyof Body];
type PlainField = {
  [Id in OperationId]: Operations[Id] extends { readonly isRaw: true }
    ? never
    : PlainFieldsOf<BodyOf<Operations[Id]>>;
}[OperationId];

/** A new field of a body does not compile until it is a `Secret` (`secretOf`) or is named here, as one without plaintext. */
const withoutPlaintext: Readonly<Record<PlainField, true>> = {
  action: true,
  application: true,
  code: true,
  containers: true,
  deduplicate_token: true,
  destination: true,
  destinations: true,
  expires_at: true,
  fingerprint_expression: true,
  id: true,
  ids: true,
  mask: true,
  metadata: true,
  name: true,
  nonce: true,
  page: true,
  permissions: true,
  request: true,
  require_auth: true,
  response: true,
  rules: true,
  search_indexes: true,
  settings: true,
  size: true,
  timeout_ms: true,
  timeoutMs: true,
  type: true,
};

const isSecrets = (value: unknown): boolean =>
  Array.isArray(value) ? value.every(isSecret) : isSecret(value);

describe('a validated body', () => {
  it.each(bodies)('of %s shows no plaintext: %j', (id, body) => {
    const parsed = parse(id, body);
    const shown = inspect(parsed, { depth: null, showHidden: true, getters: true });
    expect(`${JSON.stringify(parsed)} ${String(parsed)} ${shown}`).not.toContain(canary);
  });

  it('has only secrets, and fields that are named as ones without plaintext', () => {
    const plain = bodies.flatMap(([id, body]) => {
      const parsed = parse(id, body);
      return isSecret(parsed)
        ? []
        : Object.entries(parsed as object).filter(([, value]) => !isSecrets(value));
    });
    const names = new Set(plain.map(([name]) => name));
    expect([...names].filter((name) => !Object.hasOwn(withoutPlaintext, name))).toEqual([]);
  });
});
