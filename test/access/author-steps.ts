import fc from 'fast-check';
import type { Asked } from './entrances.ts';
import { placeholders } from './hidden.ts';

export const idOf = (of: number): string => `token-${of}`;
export const slot = fc.integer({ min: 0, max: 2 });
/** Only the author sees plaintext outside /open/. In /open/ both twins hold the same data. */
export const container = fc.constantFrom('/a/', '/a/b/', '/c/');

type AuthorStep = { readonly by: 'author'; readonly ask: Asked };
const maybe = <Value>(of: fc.Arbitrary<Value>) => fc.option(of, { nil: undefined });

/**
 * The fields that the author gives beside hidden data: they are equal in both twins, or equal data that no caller can
 * guess.
 */
const said = fc.record({
  mask: maybe(
    fc.constantFrom(
      '{{ data.name }}',
      { pin: '{{ data.pin | reveal_last: 0 }}' },
      { number: '{{ data.number | reveal_last: 4 }}' },
    ),
  ),
  fingerprint_expression: maybe(fc.constantFrom('{{ data.name }}', '{{ data.pin }}{{ data.salt }}')),
  search_indexes: maybe(fc.constantFrom(['{{ data.name }}'], ['{{ data.salt }}'])),
  deduplicate_token: fc.boolean(),
});

/**
 * A caller that sends data also sends these fields: a mask of another author would show the data (threat-model.md).
 */
const nothingSaid = {
  mask: null,
  fingerprint_expression: null,
  search_indexes: [],
  deduplicate_token: false,
};

const transactionId = fc.constantFrom(undefined, undefined, undefined, '$transaction of author');
const enlisted = (ask: Asked, id: string | undefined): Asked =>
  id === undefined ? ask : { ...ask, transactionId: id };

const write = (slots: fc.Arbitrary<number>, isUpdate: fc.Arbitrary<boolean>): fc.Arbitrary<Asked> =>
  fc
    .record({
      slot: slots,
      container,
      isCard: fc.boolean(),
      isUpdate,
      said,
      name: fc.constantFrom('x', 'y'),
      expires_at: fc.constantFrom(undefined, undefined, '$in 30 minutes'),
    })
    .map(({ slot: of, container: path, isCard, isUpdate: isPatch, name, ...other }) => {
      const { pin, number, cvc, salt } = placeholders;
      const data = isCard ? { number, expiration_month: 1, cvc } : { pin, number, salt, name };
      // The default mask of a card is tested too.
      const body = { data, containers: [path], expires_at: other.expires_at, ...(isCard ? {} : other.said) };
      return isPatch
        ? { operation: 'updateToken', params: { id: idOf(of) }, body: { ...nothingSaid, ...body } }
        : { operation: 'createToken', body: { id: idOf(of), type: isCard ? 'card' : 'token', ...body } };
    });

const transaction = fc.constantFrom<Asked[]>(
  { operation: 'createTransaction' },
  { operation: 'commitTransaction', params: { id: '$transaction of author' } },
  { operation: 'rollbackTransaction', params: { id: '$transaction of author' } },
);

const byAuthor = (asked: fc.Arbitrary<Asked>): fc.Arbitrary<AuthorStep> =>
  asked.map((ask) => ({ by: 'author', ask }));

export const firstStep = (of: number): fc.Arbitrary<AuthorStep> =>
  byAuthor(write(fc.constant(of), fc.constant(false)));

export const authorStep: fc.Arbitrary<AuthorStep> = byAuthor(
  fc.oneof<fc.WeightedArbitrary<Asked>[]>(
    {
      weight: 5,
      arbitrary: fc.tuple(write(slot, fc.boolean()), transactionId).map(([ask, id]) => enlisted(ask, id)),
    },
    {
      weight: 2,
      arbitrary: fc
        .tuple(slot, transactionId)
        .map(([of, id]) => enlisted({ operation: 'deleteToken', params: { id: idOf(of) } }, id)),
    },
    { weight: 3, arbitrary: transaction },
  ),
);

/** Writes of a transaction that stays open, so that callers read beside it. */
export const authorTransaction: fc.Arbitrary<AuthorStep[]> = fc
  .array(write(slot, fc.boolean()), { minLength: 1, maxLength: 2 })
  .map((writes) => {
    const asked = writes.map((ask) => enlisted(ask, '$transaction of author'));
    return [{ operation: 'createTransaction' as const }, ...asked].map((ask) => ({ by: 'author', ask }));
  });
