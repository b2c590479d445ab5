import { expect, it } from 'vitest';
import { argumentsOf } from '../src/transforms.ts';

const proxy = { destination: 'https://api.test/v1/' };
const requestOf = (body: string, type = 'application/json', query = '') => ({
  url: `https://api.test/v1/pay${query}`,
  method: 'POST',
  headers: [['Content-Type', type]] as const,
  body: Buffer.from(body),
});
const tooLarge = expect.objectContaining({ code: 'payload_too_large' }) as Error;

it('code gets the request below the base path of its destination', () => {
  expect(argumentsOf(requestOf('{"a":1}', 'application/json', '?b=2'), proxy)).toEqual({
    args: {
      method: 'POST',
      path: '/pay',
      query: 'b=2',
      headers: { 'content-type': 'application/json' },
      body: null,
    },
    bodyText: '{"a":1}',
  });
});

it.each([
  ['text', 'a', 'text/plain', 'a'],
  ['bytes', 'a', 'application/octet-stream', null],
  ['nothing', '', 'application/json', null],
])('a body of %s has no text apart', (_what, body, type, expected) => {
  const { args, bodyText } = argumentsOf(requestOf(body, type), proxy);
  expect([args['body'], bodyText]).toEqual([expected, undefined]);
});

// Each size depends on the data that expressions have put into the request.
it.each([
  ['a body', requestOf(`"${'x'.repeat(1_048_576)}"`)],
  ['a text that is longer as JSON', requestOf('"'.repeat(600_000), 'text/plain')],
  ['a query', requestOf('{}', 'application/json', `?${'q'.repeat(1_048_576)}`)],
  [
    'a query beside a body',
    requestOf(`"${'x'.repeat(600_000)}"`, 'application/json', `?${'q'.repeat(600_000)}`),
  ],
])('a request that is too large for code is refused as such: %s', (_what, request) => {
  expect(() => argumentsOf(request, proxy)).toThrow(tooLarge);
});
