import type { Permission, Transform } from '@token-vault/contracts';
import fc from 'fast-check';
import type { Asked } from './entrances.ts';
import type { Rights } from './twins.ts';

/** Of each twin; both pass every check and look alike to the masks below. */
export interface Hidden {
  readonly pin: string;
  readonly number: string;
  readonly cvc: string;
  readonly salt: string;
}
export const hiddenOf: readonly [Hidden, Hidden] = [
  { pin: '1234', number: '4242424242424242', cvc: '123', salt: '5f3a-4b0c-91d7' },
  { pin: '9876', number: '4000000000024242', cvc: '987', salt: 'c2e8-77d1-0a46' },
];

const slot = fc.integer({ min: 0, max: 2 });
const idOf = (of: number): string => `token-${of}`;
/** Nobody but the author sees plaintext anywhere but in /open/, where the twins hold the same. */
const container = fc.constantFrom('/a/', '/a/b/', '/c/');
const anyContainer = fc.constantFrom('/a/', '/a/b/', '/c/', '/open/');
const maybe = <Value>(of: fc.Arbitrary<Value>) => fc.option(of, { nil: undefined });

/** What the author says of hidden data: nothing that tells the twins apart, or equality that nobody can guess. */
const authored = fc.record({
  mask: maybe(
    fc.constantFrom(
      '{{ data.name }}',
      { pin: '{{ data.pin | reveal_last: 0 }}' },
      {
        number: '{{ data.number | reveal_last: 4 }}',
      },
    ),
  ),
  fingerprint_expression: maybe(fc.constantFrom('{{ data.name }}', '{{ data.pin }}{{ data.salt }}')),
  search_indexes: maybe(fc.constantFrom(['{{ data.name }}'], ['{{ data.salt }}'])),
});

/** In what the author asks these stand for what is hidden. */
export const placeholders = { pin: '$pin', number: '$number', cvc: '$cvc', salt: '$salt' } as const;

export type AuthorStep = { readonly by: 'author'; readonly ask: Asked };
const authorOf = (slots: fc.Arbitrary<number>, isUpdate: fc.Arbitrary<boolean>): fc.Arbitrary<AuthorStep> =>
  fc
    .record({
      slot: slots,
      container,
      isCard: fc.boolean(),
      isUpdate,
      said: authored,
      name: fc.constantFrom('x', 'y'),
    })
    .map(({ slot: of, container: path, isCard, isUpdate: isPatch, said, name }) => {
      const { pin, number, cvc, salt } = placeholders;
      const data = isCard ? { number, expiration_month: 1, cvc } : { pin, number, salt, name };
      // The default mask of a card is tried, too.
      const body = { data, containers: [path], ...(isCard ? {} : said) };
      const ask: Asked = isPatch
        ? { operation: 'updateToken', params: { id: idOf(of) }, body }
        : { operation: 'createToken', body: { id: idOf(of), type: isCard ? 'card' : 'token', ...body } };
      return { by: 'author', ask };
    });

/** Guesses hold what is hidden in the first twin: whoever could test one would tell the twins apart. */
const [{ pin, number, cvc }] = hiddenOf;
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

const patch = fc.record(
  {
    data: guess,
    mask: fc.constantFrom('{{ data }}', null, '{{ data.pin | to_number }}'),
    metadata: fc.constantFrom({ k: 'pin' }, null),
    containers: fc.tuple(anyContainer),
    search_indexes: fc.array(expression, { maxLength: 1 }),
    fingerprint_expression: fc.option(expression),
    deduplicate_token: fc.boolean(),
  },
  { requiredKeys: [] },
);
const created = fc.record(
  {
    id: fc.constantFrom('mine', idOf(0), idOf(1)),
    type: fc.constantFrom('token', 'card'),
    data: guess,
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

export type CallerStep = { readonly by: 'caller'; readonly ask: Asked };
const caller: fc.Arbitrary<CallerStep> = fc
  .oneof<fc.WeightedArbitrary<Asked>[]>(
    {
      weight: 2,
      arbitrary: slot.map((of) => ({ operation: 'getToken' as const, params: { id: idOf(of) } })),
    },
    { weight: 1, arbitrary: fc.constant({ operation: 'listTokens' as const }) },
    {
      weight: 2,
      arbitrary: query.map((text) => ({ operation: 'searchTokens' as const, body: { query: text } })),
    },
    {
      weight: 5,
      arbitrary: fc
        .tuple(slot, patch)
        .map(([of, body]) => ({ operation: 'updateToken' as const, params: { id: idOf(of) }, body })),
    },
    { weight: 2, arbitrary: created.map((body) => ({ operation: 'createToken' as const, body })) },
    {
      weight: 1,
      arbitrary: fc.array(guess, { maxLength: 2 }).map((body) => ({
        operation: 'tokenize' as const,
        body: body.map((data) => ({ id: 'made-{{ data | stringify | size }}', type: 'token', data })),
      })),
    },
    {
      weight: 1,
      arbitrary: slot.map((of) => ({ operation: 'deleteToken' as const, params: { id: idOf(of) } })),
    },
  )
  .map((ask) => ({ by: 'caller', ask }));

export type Step = AuthorStep | CallerStep;
const first = (of: number) => authorOf(fc.constant(of), fc.constant(false));
const later = fc.oneof(
  { weight: 1, arbitrary: authorOf(slot, fc.boolean()) },
  { weight: 3, arbitrary: caller },
);
export const history: fc.Arbitrary<Step[]> = fc
  .tuple(first(0), first(1), first(2), fc.array(later, { maxLength: 9 }))
  .map(([one, two, three, others]) => [one, two, three, ...others]);

const permissions: readonly Permission[] = [
  'token:create',
  'token:read',
  'token:update',
  'token:delete',
  'token:search',
];
const grants = fc.record({
  permissions: fc.subarray([...permissions]),
  rules: fc
    .array(
      fc.record({
        container: fc.constantFrom('/', '/a/', '/a/b/', '/c/'),
        transform: fc.constantFrom<Transform>('redact', 'mask'),
        permissions: fc.subarray([...permissions], { minLength: 1 }),
        search_data: fc.constantFrom(undefined, false),
      }),
      { maxLength: 3 },
    )
    .map((rules) => [
      ...rules.map((rule, index) => ({
        ...rule,
        priority: index + 1,
        description: undefined,
        conditions: undefined,
      })),
      {
        container: '/open/',
        transform: 'reveal' as const,
        permissions: [...permissions],
        priority: 9,
        description: undefined,
        conditions: undefined,
      },
    ]),
});
/** Anything but plaintext outside /open/; sometimes as a session, bounded by its application. */
export const rights: fc.Arbitrary<Rights> = fc
  .tuple(grants, fc.option(grants, { nil: undefined }))
  .map(([own, authorizer]) => ({ ...own, ...(authorizer && { authorizer }) }));

export const authorRights: Rights = {
  permissions: [],
  rules: [
    {
      container: '/',
      transform: 'reveal',
      permissions: [...permissions],
      priority: 1,
      description: undefined,
      conditions: undefined,
    },
  ],
};
