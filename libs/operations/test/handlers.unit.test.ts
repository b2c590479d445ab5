import { expect, it } from 'vitest';
import type { Handler, HandlersOf } from '../src/index.ts';

// The compiler must refuse the marked lines: `npm run types` fails when one of them compiles.

it('a service has a handler for each of its operations, with the input of the operation', () => {
  const all = {} as HandlersOf<'query'>;
  const { getToken: _missing, ...incomplete } = all;
  // @ts-expect-error a missing handler
  const handlers: HandlersOf<'query'> = incomplete;
  const listTokens: Handler<'listTokens'> = async () => ({});
  // @ts-expect-error the handler of an operation with other input
  const mistaken: HandlersOf<'query'> = { ...all, getToken: listTokens };
  const getToken: Handler<'getToken'> = async ({ params }) => ({ body: params.id });
  const complete: HandlersOf<'query'> = { ...all, getToken };
  expect([handlers, mistaken, complete]).toHaveLength(3);
});
