import { threadShares, type Holder, type Turn } from '@token-vault/batching';
import { DomainError, ValidationError, type JsonObject, type RawRequest } from '@token-vault/contracts';
import type { DetokenizedToken, RequestExpressions, TokenReferences } from '@token-vault/expressions';
import { piecesOfBody } from './body.ts';
import { onlyOne, piecesOfHeaders, requireHeaderValue } from './headers.ts';
import { inQuery, piecesOfPairs } from './pairs.ts';
import { Template } from './template.ts';

/** rules.md §4. */
const maxTokens = 100;

/** interface.md, before and after data is put in. */
const mostBytes = 16 * 1024 * 1024;

/** Reading smaller bodies takes less than a millisecond. */
const largeBytes = 16 * 1024;
const ofSmallBody: Turn = { isOver: false, next: async () => undefined, end: () => undefined };

/** A request as it leaves. */
export interface Outgoing {
  readonly url: string;
  readonly method: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
}

/** The arguments of code. A body of JSON stays text, because its values may take twenty times as much memory. */
export interface CodeArguments {
  readonly args: JsonObject;
  /** The text of `body` as JSON, which the process of the code parses; null when it is no JSON. Unset for other bodies. */
  readonly bodyText?: string | undefined;
}

/** A request with the data of its tokens. `args`: the same as the code of a configured proxy gets it. */
export interface Filled {
  readonly outgoing: Outgoing;
  readonly args?: CodeArguments;
}

/** A GET with a body of no bytes would be sent with a length. */
export const withoutEmptyBody = ({ body, ...rest }: Outgoing) =>
  body.length === 0 ? rest : { ...rest, body };

/** A request whose expressions have no values yet. */
export interface OutgoingTemplate {
  readonly references: TokenReferences;
  /** @throws ValidationError, DomainError `value_unfit`, both naming the place, unless it would reveal which expression failed; DomainError `payload_too_large` */
  fill(expressions: RequestExpressions, tokens: ReadonlyMap<string, DetokenizedToken>): Promise<Outgoing>;
}

/**
 * Finds the expressions of a request, within the tenant's share of the thread: a body may have 16 MiB.
 * @throws ValidationError naming the place of one that is wrong; the reason of `raw.signal`, when the client goes away meanwhile
 */
export async function readOutgoing(
  raw: RawRequest,
  destination: URL,
  holder: Holder,
): Promise<OutgoingTemplate> {
  const turn =
    raw.body.expose().length < largeBytes ? ofSmallBody : await threadShares.begin(holder, raw.signal);
  try {
    return await readInTurn(raw, destination, turn);
  } finally {
    turn.end();
  }
}

async function readInTurn(raw: RawRequest, destination: URL, turn: Turn): Promise<OutgoingTemplate> {
  if (onlyOne(raw, 'svc-idempotency-key') !== '')
    throw ValidationError.of(
      'SVC-IDEMPOTENCY-KEY',
      'cannot be used here: the vault does not keep answers of other servers; send the key that the destination knows',
    );
  const template = new Template();
  const query = await piecesOfPairs(template, { place: 'query', text: raw.query }, inQuery, turn);
  const headers = piecesOfHeaders(template, raw);
  const mediaType = onlyOne(raw, 'content-type');
  const isEncoded = !/^(identity)?$/i.test(onlyOne(raw, 'content-encoding'));
  const body = await piecesOfBody(template, raw.body.expose(), { mediaType, isEncoded }, turn);
  const references = template.references();
  if (references.tokens.size > maxTokens)
    throw ValidationError.of('request', `must not name more than ${maxTokens} tokens`);
  return {
    references,
    async fill(expressions, tokens) {
      const write = await template.filledBy(expressions, tokens);
      const url = new URL(destination);
      const filled = body === undefined ? raw.body.expose() : Buffer.from(write(body), 'utf8');
      if (filled.length > mostBytes)
        throw new DomainError(
          'payload_too_large',
          'The request body is larger than 16 MiB with the data of its tokens.',
        );
      url.search = [url.search.slice(1), write(query)].filter((part) => part !== '').join('&');
      return {
        url: url.href,
        method: raw.method,
        headers: headers.map(({ name, field, value }) => {
          const text = write(value);
          // With filters, the name of the header would reveal which of many questions about the data is true.
          requireHeaderValue(text, references.hasFilters ? 'headers' : field);
          return [name, text] as const;
        }),
        body: filled,
      };
    },
  };
}
