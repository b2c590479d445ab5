import fc from 'fast-check';
import { container, idOf, slot } from './author-steps.ts';
import type { Asked } from './entrances.ts';
import { hiddenOf } from './hidden.ts';

type CallerStep = { readonly by: 'caller'; readonly key: number; readonly ask: Asked };

const anyContainer = fc.constantFrom('/a/', '/a/b/', '/c/', '/open/');

/** Guesses hold the hidden data of the first twin: a caller that can test a guess can distinguish the twins. */
export const [guessed] = hiddenOf;
const { pin, number, cvc } = guessed;
const guess = fc.constantFrom<object | string>(
  { pin, number, salt: 'other', name: 'x' },
  { pin },
  { salt: null },
  { pin: null },
  { number, expiration_month: null, expiration_year: null, cvc: null },
  { expiration_month: 3 },
  { cvc: null },
  pin,
  number,
);
const expression = fc.constantFrom(
  '{{ data.pin }}',
  '{{ data.number }}',
  '{{ data.cvc }}',
  '{{ data | stringify }}',
  '{{ data[metadata.k] }}',
);

const fields = {
  data: guess,
  mask: fc.constantFrom('{{ data }}', null, '{{ data.pin | to_number }}'),
  metadata: fc.constantFrom({ k: 'pin' }, null),
  containers: fc.tuple(anyContainer),
  search_indexes: fc.array(expression, { maxLength: 1 }),
  fingerprint_expression: fc.option(expression),
  deduplicate_token: fc.boolean(),
  expires_at: fc.constantFrom('$in 30 minutes', null),
};
const whole = fc.constantFrom<object | string>(pin, number, {
  number,
  expiration_month: null,
  expiration_year: null,
  cvc,
});
/** Most patches of many fields are refused for one of the fields. */
const patch: fc.Arbitrary<object> = fc.oneof(
  fc
    .constantFrom(...(Object.keys(fields) as (keyof typeof fields)[]))
    .chain((name) => fc.record({ [name]: fields[name] as fc.Arbitrary<unknown> })),
  fc.record({ ...fields, data: whole }, { requiredKeys: ['data'] }),
  fc.record(fields, { requiredKeys: [] }),
);
const created = fc.record(
  {
    id: fc.constantFrom('mine', idOf(0), idOf(1)),
    type: fc.constantFrom('token', 'token', 'card'),
    data: fc.oneof(guess, fc.constant({ number })),
    containers: fc.tuple(container),
    fingerprint_expression: fc.constantFrom('{{ data.pin }}', '{{ data | stringify }}'),
    deduplicate_token: fc.boolean(),
  },
  { requiredKeys: ['id', 'type', 'data', 'containers'] },
);
const query = fc.constantFrom(
  '',
  'type:card',
  'container:"/a/*"',
  ...[pin, number, cvc].flatMap((value) => [
    `data:${value}`,
    `NOT data:${value}`,
    `id:mine OR data:${value}`,
  ]),
);
const filters = fc.constantFrom<Record<string, string>[]>(
  {},
  { size: '0' },
  { type: 'card' },
  { id: idOf(1) },
  { 'metadata.k': 'pin' },
);

const transactionOf = fc.constantFrom(
  '$transaction of caller',
  '$transaction of caller',
  '$transaction of author',
);
const enlisting = fc.oneof(
  { weight: 4, arbitrary: fc.constant(undefined) },
  { weight: 1, arbitrary: transactionOf },
);

const idParams = slot.map((of) => ({ params: { id: idOf(of) } }));
const write: fc.Arbitrary<Asked> = fc.oneof<fc.WeightedArbitrary<Asked>[]>(
  {
    weight: 5,
    arbitrary: fc
      .tuple(idParams, patch)
      .map(([of, body]) => ({ operation: 'updateToken' as const, ...of, body })),
  },
  { weight: 2, arbitrary: created.map((body) => ({ operation: 'createToken' as const, body })) },
  {
    weight: 1,
    arbitrary: fc.array(guess, { maxLength: 2 }).map((body) => ({
      operation: 'tokenize' as const,
      body: body.map((data) => ({ id: 'made-{{ data | stringify | size }}', type: 'token', data })),
    })),
  },
  { weight: 1, arbitrary: idParams.map((of) => ({ operation: 'deleteToken' as const, ...of })) },
);

const transaction: fc.Arbitrary<Asked> = fc.oneof(
  fc.constant({ operation: 'createTransaction' as const }),
  fc
    .tuple(fc.constantFrom('commitTransaction' as const, 'rollbackTransaction' as const), transactionOf)
    .map(([operation, id]) => ({ operation, params: { id } })),
);

const read: fc.Arbitrary<Asked> = fc.oneof<fc.WeightedArbitrary<Asked>[]>(
  { weight: 4, arbitrary: idParams.map((of) => ({ operation: 'getToken' as const, ...of })) },
  { weight: 2, arbitrary: filters.map((each) => ({ operation: 'listTokens' as const, query: each })) },
  {
    weight: 4,
    arbitrary: query.map((text) => ({ operation: 'searchTokens' as const, body: { query: text } })),
  },
  { weight: 1, arbitrary: fc.constant({ operation: 'getApplicationByKey' as const }) },
);

const key = fc.constantFrom(0, 0, 0, 1, 1, 2);
const by = (ask: Asked, of = 0): CallerStep => ({ by: 'caller', key: of, ask });

/** Writes in a transaction of one key, and reads by that key and others, inside and outside the transaction. */
export const callerTransaction: fc.Arbitrary<CallerStep[]> = fc
  .tuple(fc.array(write, { minLength: 1, maxLength: 3 }), read)
  .map(([writes, asked]) => [
    by({ operation: 'createTransaction' }),
    ...writes.map((ask) => by({ ...ask, transactionId: '$transaction of caller' })),
    by(asked),
  ]);

export const callerStep: fc.Arbitrary<CallerStep> = fc
  .tuple(
    key,
    fc.oneof(
      { weight: 6, arbitrary: read },
      {
        weight: 9,
        arbitrary: fc
          .tuple(write, enlisting)
          .map(([ask, transactionId]) => (transactionId === undefined ? ask : { ...ask, transactionId })),
      },
      { weight: 2, arbitrary: transaction },
    ),
  )
  .map(([of, ask]) => by(ask, of));
